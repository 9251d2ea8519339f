//! Gradients of functions that return further results beside a loss.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;

fn tensors() -> [Tensor; 2] {
    [1, 2].map(|seed| noise(&[3, 3], seed).cast(DType::F64))
}

#[derive(Clone, Debug, Tree)]
struct Running {
    mean: Tensor,
    count: Tensor,
}

#[traced]
fn loss_and_prediction(w: &Tensor, #[nodiff] x: &Tensor) -> (Tensor, Tensor) {
    let y = x.matmul(w).tanh();
    (y.square().mean(..), y)
}

#[traced]
fn loss_and_label(w: &Tensor, x: &Tensor) -> gradloom::Result<(Tensor, (Tensor, Tensor))> {
    let y = x.matmul(w);
    Ok((y.sin().sum(..), (y.argmax(1), y.sum(0))))
}

#[traced]
fn loss_and_state(w: &Tensor, x: &Tensor, #[nodiff] state: Running) -> (Tensor, Running) {
    let y = (x - &state.mean).matmul(w);
    let mean = &state.mean * 0.9 + x.mean(0) * 0.1;
    let count = &state.count + 1;
    (y.square().sum(..), Running { mean, count })
}

fn running() -> Running {
    let mean = Tensor::zeros([3], DType::F64);
    Running {
        mean,
        count: Tensor::from(0i64),
    }
}

#[test]
fn the_first_result_is_the_loss_and_the_others_are_returned() {
    let [w, x] = tensors();
    let ((loss, y), grads) = loss_and_prediction::value_and_grad(&w, &x);
    let (expected, prediction) = loss_and_prediction(&w, &x);
    tree::assert_close(&(loss, y), &(expected, prediction), 0.0);
    let reference = grad(|w: &Tensor| loss_and_prediction(w, &x).0)(&w);
    tree::assert_close(&grads.w, &reference, 1e-12);
    let gradient = loss_and_prediction::grad(&w, &x).w;
    tree::assert_close(&gradient, &reference, 1e-12);
    finds(|| loss_and_prediction::grad(&w, &x));

    let ((_, (label, _)), grads) = loss_and_label::value_and_grad(&w, &x).unwrap();
    assert_eq!(label.dtype(), DType::I64);
    let reference = grad(|w: &Tensor| loss_and_label(w, &x).map(|y| y.0))(&w).unwrap();
    tree::assert_close(&grads.w, &reference, 1e-12);
}

#[test]
fn a_state_of_tensors_and_integers_goes_in_and_out() {
    let [w, x] = tensors();
    let mut state = running();
    for step in 1..4 {
        let ((loss, next), grads) = loss_and_state::value_and_grad(&w, &x, state.clone());
        let f = |w: &Tensor, x: &Tensor| loss_and_state(w, x, state.clone()).0;
        assert_eq!(loss.item::<f64>(), f(&w, &x).item::<f64>());
        tree::assert_close(&grads.w, &grad(|w: &Tensor| f(w, &x))(&w), 1e-12);
        tree::assert_close(&grads.x, &grad(|x: &Tensor| f(&w, x))(&x), 1e-12);
        state = next;
        assert_eq!(state.count.item::<i64>(), step);
    }
    finds(|| {
        let (y, grads) = loss_and_state::value_and_grad(&w, &x, state.clone());
        (y, grads)
    });
    assert_eq!(loss_and_state::RECORDED, None);
}

#[test]
fn a_closure_may_return_results_beside_its_loss() {
    let [w, x] = tensors();
    let f = |w: &Tensor| {
        let y = x.matmul(w);
        (y.square().sum(..), y.argmax(1), vec![y.sum(0)])
    };
    let ((loss, label, sums), gradient) = value_and_grad(f)(&w);
    assert_eq!(loss.item::<f64>(), f(&w).0.item::<f64>());
    assert_eq!(label.to_vec::<i64>(), f(&w).1.to_vec::<i64>());
    assert_eq!(sums.len(), 1);
    let expected = grad(|w: &Tensor| f(w).0)(&w);
    tree::assert_close(&gradient, &expected, 1e-12);
    tree::assert_close(&grad(f)(&w), &expected, 1e-12);
    let direction = w.cos();
    let change = hvp(f, &w, &direction);
    tree::assert_close(&change, &hvp(|w: &Tensor| f(w).0, &w, &direction), 1e-12);
}

#[test]
fn an_error_in_a_closure_with_several_results_is_returned() {
    let [w, x] = tensors();
    let f = |w: &Tensor| -> gradloom::Result<(Tensor, Tensor)> {
        let y = w.matmul(&x);
        Ok((y.sum(..), y))
    };
    assert!(value_and_grad(f)(&w).is_ok());
    assert!(value_and_grad(f)(&Tensor::zeros([2, 2], DType::F64)).is_err());
}
