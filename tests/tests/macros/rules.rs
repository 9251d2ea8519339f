//! `#[traced(vjp = ..)]` and `#[traced(jvp = ..)]`: every transform sees the derivative of the user.

use gradloom::prelude::*;
use gradloom::{Vmap, hvp, jvp};

/// The square, whose cotangent is bounded.
#[traced(vjp = clipped_back)]
fn clipped(x: &Tensor) -> Tensor {
    x.square()
}

fn clipped_back(x: &Tensor, _y: &Tensor, ct: &Tensor) -> Tensor {
    (x * ct * 2.0).clamp(-1.0, 1.0)
}

#[traced]
fn loss(x: &Tensor) -> Tensor {
    (clipped(&(x * 3.0)) + 1.0).sum(..)
}

#[test]
fn a_vjp_rule_is_seen_by_companions_closures_and_callers() {
    let x = Tensor::from([0.25f64, 5.0]);
    assert_eq!(clipped(&x).to_vec::<f64>(), [0.0625, 25.0]);
    let (y, pullback) = clipped::vjp(&x);
    assert_eq!(y.to_vec::<f64>(), [0.0625, 25.0]);
    assert_eq!(pullback(&x.ones_like()).to_vec::<f64>(), [0.5, 1.0]);
    let closure = grad(|x: &Tensor| clipped(x).sum(..))(&x);
    assert_eq!(closure.to_vec::<f64>(), [0.5, 1.0]);
    // The caller is compiled.
    assert_eq!(loss::grad(&x).x.to_vec::<f64>(), [3.0, 3.0]);
    let closure = grad(|x: &Tensor| loss(x))(&x);
    assert_eq!(closure.to_vec::<f64>(), [3.0, 3.0]);
    let lanes = Tensor::from([[0.25f64, 5.0], [-0.125, -9.0]]);
    let each = vmap(|x: &Tensor| loss::grad(x).x)(&lanes);
    assert_eq!(each.to_vec::<f64>(), [3.0, 3.0, -2.25, -3.0]);
    // The rule has a derivative, too: 2 where it is not bounded.
    let small = Tensor::from([0.25f64, 0.125]);
    let second = hvp(
        |x: &Tensor| clipped(x).sum(..),
        &small,
        &Tensor::from([1.0f64, 10.0]),
    );
    assert_eq!(second.to_vec::<f64>(), [2.0, 20.0]);
}

/// log(1 + exp x), whose tangent does not overflow.
#[traced(jvp = log1pexp_tangent)]
fn log1pexp(x: &Tensor) -> Tensor {
    (x.exp() + 1.0).log()
}

fn log1pexp_tangent(x: &Tensor, _y: &Tensor, dx: &Tensor) -> Tensor {
    x.sigmoid() * dx
}

#[test]
fn a_jvp_rule_is_transposed_for_reverse_mode() {
    let x = Tensor::from(100.0f32);
    let one = x.ones_like();
    assert_eq!(log1pexp::jvp(&x, &one).1.item::<f32>(), 1.0);
    assert_eq!(jvp(log1pexp, &x, &one).1.item::<f32>(), 1.0);
    assert_eq!(log1pexp::grad(&x).x.item::<f32>(), 1.0);
    assert_eq!(grad(log1pexp)(&x).item::<f32>(), 1.0);
}

#[derive(Clone, Tree)]
struct Scale {
    by: Tensor,
}

/// Labels, a tree, a number, and a parameter by value.
#[traced(vjp = mixed_back)]
fn mixed(x: Tensor, scale: &Scale, #[nodiff] labels: &Tensor, power: i32) -> Tensor {
    if power < 0 {
        return x;
    }
    let weights = labels.cast(x.dtype());
    x.pow(f64::from(power)) * &scale.by * weights
}

fn mixed_back(
    x: &Tensor,
    scale: &Scale,
    labels: &Tensor,
    power: i32,
    y: &Tensor,
    ct: &Tensor,
) -> (Tensor, Scale) {
    let ct = ct * f64::from(power) * 100.0;
    let weights = labels.cast(x.dtype());
    let by = (y * &ct).sum(..);
    (&ct * &scale.by * weights, Scale { by })
}

#[test]
fn a_rule_takes_all_arguments_and_gives_the_cotangents_of_the_differentiated_ones() {
    let x = Tensor::from([1.0f64, 2.0]);
    let scale = Scale {
        by: Tensor::from(3.0f64),
    };
    let labels = Tensor::from([1i64, 2]);
    let (y, pullback) = mixed::vjp(x.clone(), &scale, &labels, 2);
    assert_eq!(y.to_vec::<f64>(), [3.0, 24.0]);
    let (of_x, of_scale) = pullback(&y.ones_like());
    assert_eq!(of_x.to_vec::<f64>(), [600.0, 1200.0]);
    assert_eq!(of_scale.by.item::<f64>(), 5400.0);
    let sum = |x: &Tensor| mixed(x.clone(), &scale, &labels, 2).sum(..);
    assert_eq!(grad(sum)(&x).to_vec::<f64>(), [600.0, 1200.0]);
    // Labels differ between lanes.
    let lanes = (
        Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]),
        Tensor::from([[1i64, 2], [0, 1]]),
    );
    let each = Vmap::new(|(x, labels): &(Tensor, Tensor)| {
        grad(|x: &Tensor| mixed(x.clone(), &scale, labels, 2).sum(..))(x)
    });
    assert_eq!(
        each.call(&lanes).to_vec::<f64>(),
        [600.0, 1200.0, 0.0, 600.0]
    );
}

#[traced(vjp = checked_back)]
fn checked(x: &Tensor, #[nodiff] y: &Tensor) -> Result<Tensor> {
    let product = x.matmul(y);
    Ok(product.square())
}

fn checked_back(x: &Tensor, _y: &Tensor, _z: &Tensor, _ct: &Tensor) -> Tensor {
    x.ones_like()
}

#[test]
fn a_function_with_a_rule_may_return_a_result() {
    let x = Tensor::from([[1.0f64, 2.0]]);
    let good = Tensor::from([[1.0f64], [1.0]]);
    let (y, pullback) = checked::vjp(&x, &good).unwrap();
    assert_eq!(y.to_vec::<f64>(), [9.0]);
    let ct = pullback(&y.ones_like());
    assert_eq!(ct.to_vec::<f64>(), [1.0, 1.0]);
    let error = checked(&x, &x).unwrap_err().to_string();
    assert!(error.contains("matmul"), "{error}");
}

fn wrong_shape(x: &Tensor, _y: &Tensor, _ct: &Tensor) -> Tensor {
    x.sum(..)
}

#[traced(vjp = wrong_shape)]
fn wrong(x: &Tensor) -> Result<Tensor> {
    Ok(x.sin())
}

#[test]
fn a_rule_with_another_shape_is_an_error() {
    let error = wrong(&Tensor::from([1.0f64, 2.0])).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the cotangent of `argument.0` is f64[], expected f64[2]");
}

fn endless_tangent(x: &Tensor, _y: &Tensor, dx: &Tensor) -> Tensor {
    endless(x).expect("an error") * dx
}

#[traced(jvp = endless_tangent)]
fn endless(x: &Tensor) -> Result<Tensor> {
    Ok(x.exp())
}

#[test]
#[should_panic(expected = "a rule calls its own function: it gets the result as an argument")]
fn a_rule_that_calls_its_function_is_an_error() {
    let _ = endless(&Tensor::from(1.0f32));
}
