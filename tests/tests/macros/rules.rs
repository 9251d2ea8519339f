//! `#[traced(vjp = ..)]` and `#[traced(jvp = ..)]`: every transform sees the derivative of the user.

use gradloom::prelude::*;
use gradloom::{Vmap, hvp, jvp, scan};

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

/// Row S1.38 of the requirements.
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
    insta::assert_snapshot!(error, @"the cotangent of `x` is f64[], expected f64[2]");
}

fn endless_tangent(x: &Tensor, _y: &Tensor, dx: &Tensor) -> Tensor {
    endless(x).expect("an error") * dx
}

#[traced(jvp = endless_tangent)]
fn endless(x: &Tensor) -> Result<Tensor> {
    Ok(x.exp())
}

#[test]
#[should_panic(
    expected = "`endless`: a rule calls its own function: it gets the result as an argument"
)]
fn a_rule_that_calls_its_function_is_an_error() {
    let _ = endless(&Tensor::from(1.0f32));
}

/// Rebinds a parameter, takes a list and an optional tensor by reference, and consumes a host value.
#[traced(vjp = weighted_back)]
fn weighted(
    mut x: Tensor,
    others: &[Tensor],
    bias: Option<&Tensor>,
    #[fixed] names: Vec<String>,
) -> Tensor {
    RUNS.with(|runs| runs.set(runs.get() + 1));
    for (other, _) in others.iter().zip(names) {
        x = x * other;
    }
    match bias {
        Some(bias) => x + bias,
        None => x,
    }
}

thread_local! {
    static RUNS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn weighted_back(
    x: &Tensor,
    others: &[Tensor],
    bias: Option<&Tensor>,
    names: Vec<String>,
    _y: &Tensor,
    ct: &Tensor,
) -> (Tensor, Vec<Tensor>, Option<Tensor>) {
    let others = others.iter().map(|other| x + other).collect();
    let n = names.len() as f64;
    (ct * n, others, bias.map(|b| b * 10.0))
}

#[test]
fn a_rule_takes_borrowed_lists_and_options() {
    let x = Tensor::from([1.0f64, 2.0]);
    let others = [Tensor::from([3.0f64, 4.0]), Tensor::from([5.0f64, 6.0])];
    let names = || vec!["a".to_owned(), "b".to_owned()];
    RUNS.with(|runs| runs.set(0));
    let y = weighted(x.clone(), &others, Some(&x), names());
    assert_eq!(y.to_vec::<f64>(), [16.0, 50.0]);
    assert_eq!(RUNS.with(std::cell::Cell::get), 1, "the body runs once");
    let (_, pullback) = weighted::vjp(x.clone(), &others, Some(&x), names());
    let (of_x, of_others, of_bias) = pullback(&x.ones_like());
    assert_eq!(of_x.to_vec::<f64>(), [2.0, 2.0]);
    assert_eq!(of_others[1].to_vec::<f64>(), [6.0, 8.0]);
    assert_eq!(of_bias.unwrap().to_vec::<f64>(), [10.0, 20.0]);
    let y = weighted(x.clone(), &others, None, names());
    assert_eq!(y.to_vec::<f64>(), [15.0, 48.0]);
}

/// Draws from a key.
#[traced(jvp = noisy_tangent)]
fn noisy(x: &Tensor, key: Key) -> Tensor {
    x * key.uniform(x.shape(), x.dtype())
}

fn noisy_tangent(x: &Tensor, key: Key, y: &Tensor, dx: &Tensor) -> Tensor {
    // The same numbers as in the function.
    let draws = key.uniform(x.shape(), x.dtype());
    dx * draws + y.zeros_like()
}

#[test]
fn a_rule_takes_a_key() {
    let x = Tensor::from([1.0f64, 2.0]);
    let y = noisy(&x, Key::new(7)).to_vec::<f64>();
    let (_, dy) = noisy::jvp((&x, Key::new(7)), &x);
    assert_eq!(dy.to_vec::<f64>(), y);
    let gradient = grad(|x: &Tensor| noisy(x, Key::new(7)).sum(..))(&x);
    assert_eq!(gradient.to_vec::<f64>(), [y[0], y[1] / 2.0]);
}

#[traced(jvp = cubed_tangent)]
fn cubed(x: &Tensor) -> Tensor {
    x.pow(3)
}

fn cubed_tangent(x: &Tensor, _y: &Tensor, dx: &Tensor) -> Tensor {
    x.square() * dx * 3.0
}

#[traced(order = 2)]
fn sum_of_cubes(x: &Tensor) -> Tensor {
    let zero = x.sum(..) * 0.0;
    let (last, _) = scan(|h: &Tensor, x: &Tensor| (h + cubed(x), h * 1.0), &zero, x);
    last
}

#[test]
fn a_rule_holds_in_loops_second_derivatives_and_lanes() {
    let x = Tensor::from([1.0f64, 2.0]);
    assert_eq!(sum_of_cubes(&x).item::<f64>(), 9.0);
    assert_eq!(sum_of_cubes::grad(&x).x.to_vec::<f64>(), [3.0, 12.0]);
    let second = hvp(sum_of_cubes, &x, &x.ones_like());
    assert_eq!(second.to_vec::<f64>(), [6.0, 12.0]);
    let second = sum_of_cubes::hvp(&x, &x.ones_like());
    assert_eq!(second.1.x.to_vec::<f64>(), [6.0, 12.0]);
    let lanes = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let each = cubed::vmap(0, &lanes);
    assert_eq!(each.to_vec::<f64>(), [1.0, 8.0, 27.0, 64.0]);
}

/// A power for any number and any type of name.
#[traced(vjp = power_back::<N, S>)]
fn power<const N: i64, S: AsRef<str> + Clone>(x: &Tensor, #[fixed] name: S) -> Tensor {
    drop(name);
    x.pow(N as f64)
}

fn power_back<const N: i64, S: AsRef<str>>(
    x: &Tensor,
    name: S,
    _y: &Tensor,
    ct: &Tensor,
) -> Tensor {
    x * ct * N as f64 * name.as_ref().len() as f64
}

#[test]
fn a_generic_function_may_have_a_rule() {
    let x = Tensor::from([1.0f64, 2.0]);
    let gradient = grad(|x: &Tensor| power::<2, &str>(x, "abc").sum(..))(&x);
    assert_eq!(gradient.to_vec::<f64>(), [6.0, 12.0]);
}

#[test]
#[should_panic(
    expected = "it has a rule for reverse mode only: use `grad` or `vjp`, or give a rule for forward mode by `custom_jvp` or `#[traced(jvp = ..)]`"
)]
fn a_function_with_a_vjp_rule_has_no_forward_mode() {
    let x = Tensor::from([1.0f64]);
    let _ = clipped::jvp(&x, &x);
}
