//! Ops on several tangents of different shapes, of which some are zero when the function runs.

use gradloom::prelude::*;

/// Returns `x` or, for some `n`, a value without a tangent.
#[traced]
fn given(x: &Tensor, is_given: bool) -> Tensor {
    let mut y = x.ones_like();
    if is_given {
        y = x * 2.0;
    }
    y
}

#[traced]
fn written(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.ones_like();
    if n % 2 == 1 {
        h = x.sin();
    }
    let mut u = y.ones_like();
    if n > 1 {
        u = y.cos();
    }
    let m = Tensor::stack(&[&h, &h, &h], 0);
    let row = u.unsqueeze(0);
    let start = Tensor::scalar(1i64);
    let a = m.set_slice([1], [2], [1], &row);
    let b = a.tanh().dynamic_update_slice(&start, &row);
    let c = (b * 2.0).scatter_set(&start, &u, 0);
    let d = c.exp().scatter_add(&start, &u, 0);
    d.sin()
}

#[traced]
fn normed(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (h, u) = (given(x, n % 2 == 1), given(y, n > 1));
    let m = Tensor::stack(&[&h, &(&h * &h), &h.exp()], 0);
    let normed = m.layer_norm(&u, u.sin(), 1e-3);
    let rms = normed.rms_norm(u.exp(), 1e-3);
    Tensor::concat(&[&rms, &u.unsqueeze(0)], 0)
}

#[traced]
fn attended(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (h, u) = (given(x, n % 2 == 1), given(y, n > 1));
    let q = Tensor::stack(&[&h, &(&h * &h)], 0);
    let k = Tensor::stack(&[&u, &u.sin(), &u.cos(), &(&u * &u)], 0);
    let v = k.slice([0, 0], [4, 2], [1, 1]).exp();
    q.attention(&k, &v)
}

#[test]
fn zeros_have_the_avals_of_their_primals() {
    check_two!(written, 0..4);
    check_two!(normed, 0..4);
    check_two!(attended, 0..4);
}
