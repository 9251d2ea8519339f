//! Optimisers of parameters of 16 bits, whose states have 32.

use gradloom::optim::{
    Adafactor, Adagrad, Adam, AdamW, Average, Lamb, Lion, Optimiser, RmsProp, Sgd,
};
use gradloom::{DType, Tensor};

/// Steps of all optimisers on 16 bits are those on 32 bits, up to the rounding of the parameters.
#[test]
fn weights_of_16_bits_are_trained_as_those_of_32() {
    fn train<O: Optimiser>(optimiser: O, dtype: DType) -> Vec<f64> {
        let mut x = Tensor::from([[1.0f32, -2.0], [0.5, 3.0]]).cast(dtype);
        let mut state = optimiser.init(&x);
        for turn in 1..=20 {
            // The squares of the smallest are no `f16` but 0, and the square of the largest is infinite.
            let g = Tensor::from([[1e-4f32, -2e-3], [300.0, 0.5]]) / turn as f32;
            (x, state) = optimiser.step(&x, &g.cast(dtype), &state);
        }
        x.cast(DType::F64).to_vec()
    }
    fn check<O: Optimiser + Clone>(what: &str, optimiser: O) {
        let expected = train(optimiser.clone(), DType::F32);
        for (dtype, tolerance) in [(DType::BF16, 0.05), (DType::F16, 0.006)] {
            let found = train(optimiser.clone(), dtype);
            for (found, expected) in found.iter().zip(&expected) {
                let allowed = tolerance * expected.abs().max(1.0);
                let gap = (found - expected).abs();
                assert!(gap <= allowed, "{what} on {dtype}: {found} and {expected}");
            }
        }
    }
    check(
        "sgd",
        Sgd {
            lr: 1e-3,
            momentum: 0.9,
            ..Sgd::default()
        },
    );
    check(
        "adam",
        Adam {
            lr: 0.02,
            ..Adam::default()
        },
    );
    check(
        "adamw",
        AdamW {
            lr: 0.02,
            ..AdamW::default()
        },
    );
    check(
        "lion",
        Lion {
            lr: 0.02,
            ..Lion::default()
        },
    );
    check(
        "lamb",
        Lamb {
            lr: 0.02,
            ..Lamb::default()
        },
    );
    check(
        "adafactor",
        Adafactor {
            lr: 0.02,
            ..Adafactor::default()
        },
    );
    check(
        "rmsprop",
        RmsProp {
            lr: 0.02,
            momentum: 0.5,
            ..RmsProp::default()
        },
    );
    check(
        "adagrad",
        Adagrad {
            lr: 0.02,
            ..Adagrad::default()
        },
    );
    check(
        "clipped",
        Adam {
            lr: 0.02,
            ..Adam::default()
        }
        .clipped_by_norm(1.0),
    );
    check(
        "accumulated",
        Adam {
            lr: 0.02,
            ..Adam::default()
        }
        .accumulated(4),
    );
}

#[test]
fn an_average_of_16_bits_has_32() {
    let average = Average { decay: 0.999 };
    let x = Tensor::from([1.0f32, 2.0]).cast(DType::F16);
    let mut state = average.init(&x);
    for _ in 0..5 {
        state = average.update(&x, &state);
    }
    let value = average.value(&state);
    assert_eq!(value.dtype(), DType::F32);
    let near = |x: f32, y: f32| (x - y).abs() < 1e-4;
    let value = value.to_vec::<f32>();
    assert!(near(value[0], 1.0) && near(value[1], 2.0), "{value:?}");
}
