//! Numbers that change are leaves of plans: a schedule does not plan at each step.

use gradloom::events::{self, Event};
use gradloom::{DType, Key, Tensor, evaluate, grad, traced, value_and_grad};

/// Returns the number of plans that `run` makes.
fn plans(run: impl FnOnce()) -> usize {
    let ((), log) = events::record(run);
    log.iter()
        .filter(|e| matches!(e, Event::Planned { .. }))
        .count()
}

fn weights() -> Tensor {
    Tensor::from([0.5f32, -1.25, 3.0])
}

#[test]
fn a_schedule_in_a_closure_has_two_plans() {
    let rates = (0..20).map(|step| 0.1 * 0.9f64.powi(step));
    let (mut w, mut by_hand) = (weights(), weights().to_vec::<f32>());
    let n = plans(|| {
        for rate in rates {
            let g = grad(|w: &Tensor| w.square().sum(..))(&w);
            w = &w - &g * rate;
            by_hand
                .iter_mut()
                .for_each(|w| *w -= 2.0 * *w * rate as f32);
            assert_eq!(w.to_vec::<f32>(), by_hand);
        }
    });
    assert_eq!(n, 2);
}

#[traced]
fn step(w: &Tensor, rate: f64, count: usize) -> Tensor {
    let scale = 1.0 / (count as f64 + 1.0);
    w - w.square() * (rate * scale)
}

#[test]
fn numbers_of_a_traced_function_share_plans() {
    let forward = |w: &Tensor, rate: f64, count: usize| {
        let scale = rate / (count as f64 + 1.0);
        let scale = (rate * (1.0 / (count as f64 + 1.0)), scale).0 as f32;
        let new = w.to_vec::<f32>().into_iter().map(|w| w - w * w * scale);
        new.collect::<Vec<f32>>()
    };
    let w = weights();
    let run = |from: usize| {
        for count in from..from + 20 {
            let rate = 0.1 / (count as f64 + 2.0);
            let y = step(&w, rate, count);
            assert_eq!(y.to_vec::<f32>(), forward(&w, rate, count));
            let (_, pullback) = step::vjp(&w, rate, count);
            let expected = w.to_vec::<f32>().into_iter().map(|w| {
                let scale = (rate * (1.0 / (count as f64 + 1.0))) as f32;
                1.0 - 2.0 * w * scale
            });
            let found = pullback(&w.ones_like()).to_vec::<f32>();
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6);
            }
        }
    };
    // The value, the value with what the pullback needs, and the pullback.
    let first = plans(|| run(0));
    assert!(first <= 6, "{first}");
    assert_eq!(plans(|| run(100)), 0);
}

#[test]
fn each_number_that_changes_becomes_a_leaf() {
    let f = |a: f64, b: f64, x: &Tensor| (x * a + b).tanh() * 2.0;
    let x = weights();
    let exact = |a: f64, b: f64| {
        let each = x
            .to_vec::<f32>()
            .into_iter()
            .map(|x| x * a as f32 + b as f32);
        each.collect::<Vec<f32>>()
    };
    let check = |a: f64, b: f64| {
        let y = f(a, b, &x).to_vec::<f32>();
        for (y, sum) in y.iter().zip(exact(a, b)) {
            assert!((y - 2.0 * sum.tanh()).abs() < 1e-6);
        }
    };
    let pairs = |as_: &[f64], bs: &[f64]| {
        as_.iter()
            .for_each(|a| bs.iter().for_each(|b| check(*a, *b)))
    };
    assert_eq!(plans(|| pairs(&[1.0, 2.0, 3.0], &[0.5])), 2);
    assert_eq!(plans(|| pairs(&[1.0, 4.0, 5.0], &[0.5, 0.25, 0.125])), 1);
}

#[test]
fn a_number_has_the_bits_of_a_constant() {
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        f64::NAN,
        f64::INFINITY,
        1e300,
        5e-324,
    ];
    for dtype in [DType::F32, DType::F64] {
        let x = Tensor::from([0.0f64, -0.0, 1.5, -2.5, f64::INFINITY, f64::NAN]).cast(dtype);
        let all = |number: f64| {
            let y = (
                &x * number,
                &x + number,
                number - &x,
                &x / number,
                x.pow(number),
                x.maximum(number),
            );
            let y = [y.0, y.1, y.2, y.3, y.4, y.5];
            let together = Tensor::stack(&y, 0);
            evaluate(&together).unwrap();
            let apart = y.map(|y| y.cast(DType::F64).to_vec::<f64>()).concat();
            (together.cast(DType::F64).to_vec::<f64>(), apart)
        };
        for number in numbers {
            let (together, apart) = all(number);
            let bits = |all: Vec<f64>| {
                let bits = all
                    .into_iter()
                    .map(|x| if x.is_nan() { 1 } else { x.to_bits() });
                bits.collect::<Vec<u64>>()
            };
            assert_eq!(bits(together), bits(apart), "{number} {dtype}");
        }
    }
}

#[test]
fn integers_and_results_that_are_numbers() {
    let n = Tensor::from([1i64, i64::MAX - 9]);
    for by in 0..8i64 {
        assert_eq!((&n + by).to_vec::<i64>(), [1 + by, i64::MAX - 9 + by]);
        let loss = |x: &Tensor| (x * by as f64).sum(..);
        let (_, g) = value_and_grad(loss)(&weights());
        assert_eq!(g.to_vec::<f32>(), [by as f32; 3]);
    }
}

#[test]
fn a_number_that_stays_gets_its_own_plan_in_the_end() {
    let x = weights();
    let n = plans(|| {
        for number in [2.0, 3.0] {
            for _ in 0..400 {
                evaluate(&(&x * number).sqrt()).unwrap();
            }
        }
    });
    assert_eq!(n, 3);
}

#[traced]
fn noisy(x: &Tensor, key: Key, step: u32) -> Tensor {
    x + key.fold_in(step).normal(x.shape(), x.dtype())
}

#[test]
fn a_number_folded_into_a_key_shares_a_plan() {
    let x = weights();
    let run = || {
        for step in 0..20 {
            let drawn = Key::new(1).fold_in(step).normal([3], DType::F32);
            assert_eq!(
                noisy(&x, Key::new(1), step).to_vec::<f32>(),
                (&x + drawn).to_vec::<f32>()
            );
        }
    };
    // One plan for the sum, and two for the function.
    assert_eq!(plans(run), 3);
}
