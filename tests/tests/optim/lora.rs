//! Adapters of chosen parameters.

use gradloom::optim::{Adam, Lora};
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;

#[derive(Clone, Debug, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Debug, Tree)]
struct Model {
    layers: Vec<Layer>,
    heads: Tensor,
    #[nodiff]
    table: Tensor,
}

fn model() -> Model {
    let double = |shape: &[usize], seed| noise(shape, seed).cast(DType::F64);
    Model {
        layers: (0..2)
            .map(|i| Layer {
                w: double(&[4, 5], i),
                b: double(&[5], i + 2),
            })
            .collect(),
        heads: double(&[2, 5, 3], 7),
        table: Tensor::from([1i64, 0]),
    }
}

fn loss(model: &Model) -> Tensor {
    let x = noise(&[6, 4], 9).cast(DType::F64);
    let [one, two] = [0, 1].map(|i| (x.matmul(&model.layers[i].w) + &model.layers[i].b).tanh());
    let y = one.matmul(model.heads.i(0)) + two.matmul(model.heads.i(1));
    (y - 1.0).square().mean(..)
}

#[test]
fn only_adapters_of_the_chosen_parameters_are_trained() {
    let model = model();
    let lora = Lora::new(2, 4.0, ["layers[*].w", "heads"]);
    let mut adapters = lora.init(&model, Key::new(3));
    let paths: Vec<&String> = adapters.keys().collect();
    assert_eq!(paths, ["heads", "layers[0].w", "layers[1].w"]);
    assert_eq!(adapters["heads"].a.shape(), [2, 5, 2]);
    assert_eq!(adapters["heads"].b.shape(), [2, 2, 3]);
    assert_eq!(adapters["heads"].a.dtype(), DType::F64);
    tree::assert_close(&lora.merge(&model, &adapters), &model, 0.0);

    let adam = Adam {
        lr: 0.02,
        ..Adam::default()
    };
    let mut state = adam.init(&adapters);
    let before = loss(&model).item::<f64>();
    for _ in 0..50 {
        let ct = grad(|adapters: &_| loss(&lora.merge(&model, adapters)))(&adapters);
        (adapters, state) = adam.step(&adapters, &ct, &state);
    }
    let merged = lora.merge(&model, &adapters);
    assert!(loss(&merged).item::<f64>() < 0.5 * before);
    for (old, new) in model.layers.iter().zip(&merged.layers) {
        tree::assert_close(&new.b, &old.b, 0.0);
        let change = &new.w - &old.w;
        assert!(!tree::is_close(&new.w, &old.w, 0.01));
        // The change has rank 2.
        let singular = change.svd().1.to_vec::<f64>();
        assert!(singular[2..].iter().all(|s| *s < 1e-12), "{singular:?}");
    }
    let adapter = &adapters["layers[0].w"];
    let expected = &model.layers[0].w + adapter.a.matmul(&adapter.b) * 2.0;
    tree::assert_close(&merged.layers[0].w, &expected, 1e-14);
}

#[test]
#[should_panic(expected = "the pattern `layers[*].weight` matches no parameter")]
fn a_pattern_that_matches_nothing_is_refused() {
    Lora::new(2, 4.0, ["layers[*].weight"]).init(&model(), Key::new(0));
}

#[test]
#[should_panic(expected = "`layers[0].b` is f64[5], expected floats with at least two axes")]
fn a_vector_has_no_adapter() {
    Lora::new(2, 4.0, ["*.b"]).init(&model(), Key::new(0));
}

#[test]
#[should_panic(expected = "the adapter of `heads` is f64[2, 5, 3], expected f64[2, 5, 4]")]
fn adapters_of_another_model_are_refused() {
    let lora = Lora::new(2, 4.0, ["heads"]);
    let adapters = lora.init(&model(), Key::new(0));
    let other = Model {
        heads: Tensor::zeros([2, 5, 4], DType::F64),
        ..model()
    };
    lora.merge(&other, &adapters);
}
