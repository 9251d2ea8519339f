//! Parameters and backward passes, as in PyTorch.

use crate::functions::HostSin;
use gradloom::prelude::*;
use gradloom::{Backward, Param, custom_call, no_grad, while_loop, with_grad_hook};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

fn param(values: &[f64]) -> Param {
    Param::new(Tensor::from_vec(values.to_vec(), [values.len()])).unwrap()
}

fn grads(w: &Param) -> Vec<f64> {
    w.grad().expect("a gradient").to_vec()
}

/// S4.12, S4.13, S4.14, S4.21: `backward` fills the slots, and a second loss adds to them.
#[test]
fn backward_fills_the_slots_of_all_parameters() {
    let (w, b) = (param(&[1.0, 2.0]), param(&[0.5, 0.5]));
    assert!(w.grad().is_none());
    let loss = || ((w.tensor() * 3.0 + b.tensor()).square()).sum(..);
    assert!(loss().requires_grad());
    loss().backward().unwrap();
    assert_eq!(grads(&w), [21.0, 39.0]);
    assert_eq!(grads(&b), [7.0, 13.0]);
    loss().backward().unwrap();
    assert_eq!(grads(&w), [42.0, 78.0]);
    w.zero_grad();
    assert!(w.grad().is_none());
    assert_eq!(grads(&b), [14.0, 26.0]);
    // The gradients lead to no parameter.
    assert!(!b.grad().unwrap().requires_grad());
}

/// S4.20: a tensor that a short and a long path reach is visited after both.
#[test]
fn a_short_and_a_long_path_to_a_tensor_are_both_counted() {
    let w = param(&[0.5]);
    let x = w.tensor();
    let long = x.sin().cos().exp().tanh();
    (&long * &x + &x).sum(..).backward().unwrap();
    let expected = grad(|x: &Tensor| (x.sin().cos().exp().tanh() * x + x).sum(..));
    assert_eq!(grads(&w), expected(&Tensor::from([0.5f64])).to_vec::<f64>());
}

/// S4.20, S4.40: the gradients are those of the same closure, for a mixed graph.
#[test]
fn gradients_are_those_of_the_closure() {
    let f = Arc::new(HostSin::default());
    let model = |w: &Tensor, x: &Tensor| {
        let (a, b) = (x.matmul(w), custom_call(&f, &x.matmul(w)));
        let [left, right] = (&a + &b).split(1);
        (left.softmax(-1) * custom_call(&f, &right)).sum(..)
    };
    let w = Tensor::from([[0.1f64, 0.2, -0.3, 0.4], [0.5, -0.6, 0.7, 0.8]]);
    let x = Tensor::from([[1.0f64, -1.0], [0.5, 2.0], [0.0, 1.5]]);
    let expected = grad(|w: &Tensor| model(w, &x))(&w).to_vec::<f64>();
    let before = f.forward.load(Ordering::Relaxed);
    let param = Param::new(w.clone()).unwrap();
    let y = model(&param.tensor(), &x);
    let value = y.item::<f64>();
    y.backward().unwrap();
    assert_eq!(grads(&param), expected);
    assert_eq!(value, model(&w, &x).item::<f64>());
    // The pass reuses the values of the forward pass.
    assert_eq!(f.forward.load(Ordering::Relaxed), before + 4);
}

/// S4.17, S4.21: a graph that is retained can be followed again.
#[test]
fn a_retained_graph_can_be_followed_again() {
    let w = param(&[1.0, 2.0]);
    let y = w.tensor().square().sum(..);
    for _ in 0..3 {
        Backward::of(&y).retain_graph().run().unwrap();
    }
    assert_eq!(grads(&w), [6.0, 12.0]);
    y.backward().unwrap();
    assert!(y.backward().is_err());
    assert_eq!(grads(&w), [8.0, 16.0]);
}

/// S4.14: a result that is not a number has a cotangent.
#[test]
fn a_cotangent_starts_the_pass_from_any_shape() {
    let w = param(&[1.0, 2.0]);
    w.tensor()
        .square()
        .backward_with(&Tensor::from([1.0f64, 10.0]))
        .unwrap();
    assert_eq!(grads(&w), [2.0, 40.0]);
    let scalar = Param::new(Tensor::from(2.0f64)).unwrap();
    scalar.tensor().backward().unwrap();
    assert_eq!(scalar.grad().unwrap().item::<f64>(), 1.0);
}

/// S4.15: the first gradient is not shared with the tensor that was passed.
#[test]
fn an_accumulated_gradient_is_a_value_of_its_own() {
    let w = param(&[1.0, 2.0]);
    let mut ct = Tensor::from([1.0f64, 1.0]);
    w.accumulate_grad(&ct).unwrap();
    ct += 5.0;
    w.accumulate_grad(&Tensor::from([1.0f64, 2.0])).unwrap();
    assert_eq!(grads(&w), [2.0, 3.0]);
    assert_eq!(ct.to_vec::<f64>(), [6.0, 6.0]);
}

/// S4.11, S4.30: the op behind a tensor prints, and leads to its operands.
#[test]
fn the_graph_behind_a_tensor_can_be_printed() {
    let f = Arc::new(HostSin::default());
    let w = param(&[1.0, 2.0]);
    let y = (custom_call(&f, &w.tensor()) * 2.0).sum(..);
    let sum = y.grad_fn().unwrap();
    assert_eq!(sum.name(), "sum");
    let mul = sum.operands()[0].grad_fn().unwrap();
    assert_eq!(mul.name(), "mul");
    let sin = mul.operands()[0].grad_fn().unwrap();
    assert!(sin.name().starts_with("HostSin#"));
    let (text, dot) = (sum.to_string(), sum.to_dot());
    let names = [sin.name(), format!("param#{}", w.id())];
    for name in ["sum", "mul"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
    {
        assert!(
            text.contains(name) && dot.contains(name),
            "{name}\n{text}\n{dot}"
        );
    }
    // What is printed can be parsed.
    let program: gradloom_ir::Program = text.parse().unwrap();
    assert_eq!(program.to_string(), text);
    y.backward().unwrap();
    evaluate(&y).unwrap();
    assert!(y.requires_grad() && y.grad_fn().is_none());
}

/// S4.31: hooks see the cotangents of parameters and of intermediate values, and may replace them.
#[test]
fn hooks_see_and_replace_gradients() {
    let w = param(&[1.0, 2.0]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let hook = w.on_grad(move |ct| {
        log.lock().unwrap().push(ct.to_vec::<f64>());
        None
    });
    let h = with_grad_hook(&w.tensor().square(), |ct| Some(ct * 10.0));
    h.sum(..).backward().unwrap();
    assert_eq!(grads(&w), [20.0, 40.0]);
    w.tensor().sum(..).backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![20.0, 40.0], vec![1.0, 1.0]]);
    hook.remove();
    w.tensor().sum(..).backward().unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
    // A gradient of another shape is refused, and no slot changes.
    w.zero_grad();
    let hook = w.on_grad(|ct| Some(ct.sum(..)));
    assert!(w.tensor().sum(..).backward().is_err());
    assert!(w.grad().is_none());
    hook.remove();
    // A hook acts in transforms of closures as well.
    let g =
        grad(|x: &Tensor| with_grad_hook(x, |ct| Some(ct * 3.0)).sum(..))(&Tensor::from([1.0f64]));
    assert_eq!(g.item::<f64>(), 3.0);
}

/// S4.13: within `no_grad` nothing leads to a parameter; the mode ends with the guard, also by a panic.
#[test]
fn no_grad_ends_with_its_guard() {
    let w = param(&[1.0]);
    let x = w.tensor();
    assert!(!no_grad(|| &x * 2.0).requires_grad());
    assert!((&x * 2.0).requires_grad());
    let panics = std::panic::catch_unwind(|| no_grad(|| panic!("user code")));
    assert!(panics.is_err());
    assert!((&x * 2.0).requires_grad());
    // A constant part of a loss.
    let target = no_grad(|| &x * 5.0);
    ((&x - target).square()).sum(..).backward().unwrap();
    assert_eq!(grads(&w), [-8.0]);
    // Transforms of closures do not depend on the mode.
    let g = no_grad(|| grad(|x: &Tensor| x.square().sum(..))(&Tensor::from([3.0f64])));
    assert_eq!(g.item::<f64>(), 6.0);
}

/// S4.20: transforms of closures and backward passes nest.
#[test]
fn closures_and_parameters_nest() {
    let w = param(&[2.0]);
    // d/dw of d/dx (w x²) at x = 3.
    let x = Tensor::from([3.0f64]);
    let slope = grad(|x: &Tensor| (w.tensor() * x.square()).sum(..))(&x);
    assert!(slope.requires_grad());
    slope.sum(..).backward().unwrap();
    assert_eq!(grads(&w), [6.0]);
    // A parameter that holds the argument of a closure.
    let g = grad(|x: &Tensor| Param::new(x.clone()).unwrap().tensor().square().sum(..))(&x);
    assert_eq!(g.item::<f64>(), 6.0);
    w.zero_grad();
    let doubled = while_loop(
        |y: &Tensor| y.sum(..).lt(Tensor::from(20.0f64)),
        |y: &Tensor| y * 2.0,
        &w.tensor(),
    );
    doubled.sum(..).backward().unwrap();
    assert_eq!(grads(&w), [16.0]);
}

/// S4.36: passes over parts of a graph that share only parameters do not disturb each other.
#[test]
fn losses_that_share_only_parameters_have_passes_of_their_own() {
    let w = param(&[1.0, 2.0]);
    let x = w.tensor();
    let (a, b) = (x.square().sum(..), (&x * 3.0).sum(..));
    a.backward().unwrap();
    b.backward().unwrap();
    assert_eq!(grads(&w), [5.0, 7.0]);
    // A value that is replaced still leads to its parameter.
    let y = x.square().sum(..);
    w.set(Tensor::from([100.0f64, 100.0])).unwrap();
    w.zero_grad();
    y.backward().unwrap();
    assert_eq!(grads(&w), [2.0, 4.0]);
    // A parameter without a handle is skipped.
    let z = (w.tensor() * param(&[2.0, 2.0]).tensor()).sum(..);
    z.backward().unwrap();
    assert_eq!(grads(&w), [4.0, 6.0]);
}
