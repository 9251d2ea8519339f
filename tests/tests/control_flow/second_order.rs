//! Second derivatives of functions with loops.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{entries, moved, near};
use gradloom_tests::noise;

/// Returns the sum of the `n`-th powers.
#[traced]
pub(crate) fn powers(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.ones_like();
    for _ in 0..n {
        y = y * x;
    }
    y.sum(..)
}

#[test]
fn the_hessian_of_a_loop_is_that_of_the_power() {
    let (x, v) = (noise(&[4], 1), noise(&[4], 2));
    let expected = x.square() * &v * 12.0;
    let forward_over_reverse = hvp(|x: &Tensor| powers(x, 4), &x, &v);
    near(
        "hvp",
        &entries(&forward_over_reverse),
        &entries(&expected),
        1e-14,
    )
    .unwrap();
    let of_grad = |x: &Tensor| powers::grad(x, 4).x;
    let (_, forward_over_companion) = jvp(of_grad, &x, &v);
    near(
        "jvp of grad",
        &entries(&forward_over_companion),
        &entries(&expected),
        1e-14,
    )
    .unwrap();
    let inner = |x: &Tensor| (powers::grad(x, 4).x * &v).sum(..);
    near(
        "grad of grad",
        &entries(&grad(inner)(&x)),
        &entries(&expected),
        1e-14,
    )
    .unwrap();
    let of_jvp = |x: &Tensor| powers::jvp((x, 4), &v).1;
    near(
        "grad of jvp",
        &entries(&grad(of_jvp)(&x)),
        &entries(&expected),
        1e-14,
    )
    .unwrap();
    let third = |x: &Tensor| (grad(inner)(x) * &v).sum(..);
    let expected = &x * v.square() * 24.0;
    near(
        "third order",
        &entries(&grad(third)(&x)),
        &entries(&expected),
        1e-14,
    )
    .unwrap();
}

/// A loss with a loop and a branch.
#[traced]
fn loss(w: &Tensor, x: &Tensor, deep: bool) -> Tensor {
    let mut h = x.clone();
    for i in 0..3 {
        h = h.matmul(w).tanh();
        if deep && i == 1 {
            h = h.sin() + x;
        }
    }
    h.square().mean(..)
}

#[test]
fn training_inside_a_function_is_differentiated() {
    for deep in [false, true] {
        let x = noise(&[2, 3], 5);
        // The loss after some training steps, as a function of the initial weights.
        let trained = |start: &Tensor| {
            let mut w = start.clone();
            for _ in 0..3 {
                w = &w - loss::grad(&w, &x, deep).w * 0.3;
            }
            loss(&w, &x, deep)
        };
        let plain = |start: &Tensor| {
            let mut w = start.clone();
            for _ in 0..3 {
                w = &w - grad(|w: &Tensor| loss(w, &x, deep))(&w) * 0.3;
            }
            loss(&w, &x, deep)
        };
        let (w, dw) = (noise(&[3, 3], 6), noise(&[3, 3], 7));
        let gradient = grad(trained)(&w);
        near(
            "grad",
            &entries(&gradient),
            &entries(&grad(plain)(&w)),
            1e-12,
        )
        .unwrap();
        let h = 1e-4;
        let at = |by: f64| trained(&moved(&w, &dw, by * h)).item::<f64>();
        let slope = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * h);
        let along = (gradient * &dw).sum(..).item::<f64>();
        near("differences", &[along], &[slope], 1e-8).unwrap();
    }
}
