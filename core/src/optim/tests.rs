//! Reference values from optax 0.2.8 on JAX 0.10.2 with `jax_enable_x64`.
//!
//! The loss is the sum of `[1, 2, 3] * x^2 + sin(x)`. It starts from `[1, -2, 0.5]`; values are
//! after one step and after five.

use super::{Adam, AdamW, Optimiser, Sgd, SgdState};
use crate::{Tensor, Tree};

/// Gradient of the loss: `2 * [1, 2, 3] * x + cos(x)`.
fn slope(x: &Tensor) -> Tensor {
    x * Tensor::from([2.0, 4.0, 6.0]) + x.cos()
}

fn check<S: Tree>(
    init: impl Fn(&Tensor) -> S,
    step: impl Fn(&Tensor, &Tensor, &S) -> (Tensor, S),
    want: [[f64; 3]; 2],
) {
    let mut x = Tensor::from([1.0, -2.0, 0.5]);
    let mut state = init(&x);
    for n in 1..=5 {
        (x, state) = step(&x, &slope(&x), &state);
        let want = match n {
            1 => want[0],
            5 => want[1],
            _ => continue,
        };
        for (x, want) in x.to_vec::<f64>().into_iter().zip(want) {
            assert!((x - want).abs() < 1e-14, "step {n}: {x} is not {want}");
        }
    }
}

#[test]
fn steps_of_gradient_descent_agree_with_optax() {
    let sgd = |momentum, nesterov, want| {
        let sgd = Sgd {
            lr: 0.1,
            momentum,
            nesterov,
        };
        check(|x| sgd.init(x), |x, g, s| sgd.step(x, g, s), want);
    };
    let first = [0.7459697694131859, -1.1583853163452857, 0.11224174381096269];
    sgd(
        0.0,
        false,
        [
            first,
            [
                0.03834242739059926,
                -0.3299528101210686,
                -0.15807505098837357,
            ],
        ],
    );
    sgd(
        0.9,
        false,
        [
            first,
            [
                -1.2130393632176948,
                1.1853315338352506,
                -0.27262919093514754,
            ],
        ],
    );
    sgd(
        0.9,
        true,
        [
            [
                0.5173425618850533,
                -0.40093210105604293,
                -0.23674068675917082,
            ],
            [
                -0.9880185825258107,
                0.0104678799786046,
                -0.12525405482052773,
            ],
        ],
    );
}

#[test]
fn steps_of_adam_agree_with_optax() {
    let adam = Adam {
        lr: 0.1,
        ..Adam::default()
    };
    check(
        |x| adam.init(x),
        |x, g, s| adam.step(x, g, s),
        [
            [0.9000000003936539, -1.9000000001188193, 0.4000000002578926],
            [0.5029238121505941, -1.503676652522219, 0.015155292623893285],
        ],
    );
    let adam = Adam {
        lr: 0.05,
        beta1: 0.8,
        beta2: 0.95,
        eps: 1e-3,
    };
    check(
        |x| adam.init(x),
        |x, g, s| adam.step(x, g, s),
        [
            [0.9500196749516516, -1.9500059402551686, 0.450012891307379],
            [0.751029341756674, -1.7512082408842797, 0.2536018576157618],
        ],
    );
}

#[test]
fn steps_of_adamw_agree_with_optax() {
    let adamw = AdamW {
        lr: 0.1,
        weight_decay: 0.01,
        ..AdamW::default()
    };
    check(
        |x| adamw.init(x),
        |x, g, s| adamw.step(x, g, s),
        [
            [0.8990000003936539, -1.8980000001188193, 0.3995000002578926],
            [
                0.49896755098966056,
                -1.494788256508701,
                0.013760518971682068,
            ],
        ],
    );
}

#[test]
fn the_first_step_of_adam_in_f32_has_the_length_of_the_learning_rate() {
    let x = Tensor::from([1.0f32]);
    let adam = Adam::default();
    for g in [1e-3f32, 1.0, 1e3] {
        let (y, _) = adam.step(&x, &Tensor::from([g]), &adam.init(&x));
        let change = (&x - y).item::<f32>();
        assert!((change - 1e-3).abs() < 2e-7, "{change} for {g}");
    }
}

#[test]
fn leaves_of_a_state_have_paths() {
    let params = vec![Tensor::from([1.0f32])];
    let mut paths = Vec::new();
    Adam::default().init(&params).paths("state", &mut paths);
    assert_eq!(paths, ["state.step", "state.mean[0]", "state.square[0]"]);
    let momentum = Sgd {
        momentum: 0.5,
        ..Sgd::default()
    };
    paths.clear();
    momentum.init(&params).paths("state", &mut paths);
    assert_eq!(paths, ["state.velocity[0]"]);
    paths.clear();
    Sgd::default().init(&params).paths("state", &mut paths);
    assert_eq!(paths, [""; 0]);
}

#[test]
#[should_panic(expected = "the gradient has 2 leaves, expected 1")]
fn gradients_of_another_structure_are_refused() {
    let x = Tensor::from([1.0f32]);
    let sgd = Sgd::default();
    sgd.step(
        &vec![x.clone()],
        &vec![x.clone(), x.clone()],
        &sgd.init(&vec![x]),
    );
}

#[test]
fn a_missing_velocity_counts_as_zero() {
    let x = Tensor::from([1.0f64, -2.0]);
    let g = Tensor::from([0.5f64, 0.25]);
    let with = Sgd {
        momentum: 0.9,
        ..Sgd::default()
    };
    let bare = Sgd::default().init(&x);
    let ((x0, from_bare), (x1, from_zero)) =
        (with.step(&x, &g, &bare), with.step(&x, &g, &with.init(&x)));
    let velocity = |state: SgdState<Tensor>| state.velocity.unwrap().to_vec::<f64>();
    assert_eq!(x0.to_vec::<f64>(), x1.to_vec::<f64>());
    assert_eq!(velocity(from_bare), velocity(from_zero));
}
