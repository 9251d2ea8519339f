//! Function forms that `#[traced]` accepts, checked by their derivatives.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom_tests::noise;

fn leaves(tree: &impl Tree) -> Vec<Vec<f64>> {
    let mut out = Vec::new();
    tree.visit(&mut |t| out.push(t.to_vec::<f64>()));
    out
}

/// Checks that two trees are bitwise equal.
#[track_caller]
fn same(a: &impl Tree, b: &impl Tree) {
    assert_eq!(leaves(a), leaves(b));
}

#[derive(Tree)]
struct Linear {
    w: Tensor,
    b: Option<Tensor>,
}

#[traced]
impl Linear {
    /// Returns `x w`; the bias is not used.
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w)
    }

    fn scaled(&self, x: &Tensor, by: f64) -> Tensor {
        self.forward(x) * by
    }

    fn host(&self, x: &Tensor) -> Tensor {
        match &self.b {
            Some(b) => self.forward(x) + b,
            None => self.forward(x),
        }
    }
}

#[derive(Tree)]
struct Mlp {
    layers: Vec<Linear>,
    gain: (Tensor, Tensor),
    #[tree(skip)]
    name: String,
}

fn mlp() -> Mlp {
    let layer = |n: usize, m: usize, s: u64| Linear {
        w: noise(&[n, m], s),
        b: Some(noise(&[m], s + 1)),
    };
    Mlp {
        layers: vec![layer(3, 4, 1), layer(4, 2, 3)],
        gain: (noise(&[2], 8), noise(&[], 9)),
        name: "mlp".into(),
    }
}

#[traced]
fn fields(model: &Mlp, x: &Tensor) -> Tensor {
    let first = &model.layers[0];
    let h = x.matmul(&first.w).tanh();
    let h = model.layers[1].forward(&h);
    h * &model.gain.0 + &model.gain.1
}

#[traced]
fn calls(model: &Mlp, x: &Tensor) -> Tensor {
    let y = fields(model, x);
    let z = fields(model, &(x * 2.0));
    (y * z).sum(..)
}

#[traced]
fn looped(model: &Mlp, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        h = layer.host(&h);
        if i + 1 < model.layers.len() {
            h = h.relu();
        }
    }
    h.square().mean(..)
}

#[test]
fn the_cotangent_of_a_tree_is_a_tree() {
    let (model, x) = (mlp(), noise(&[5, 3], 20));
    let (y, pullback) = fields::vjp(&model, &x);
    let ct = noise(y.shape(), 30);
    let (ct_model, ct_x) = pullback(&ct);
    assert_eq!(ct_model.name, "mlp");
    let args = (model.map(&mut Tensor::clone), x.clone());
    let (_, reference) = vjp(|(m, x): &(Mlp, Tensor)| fields(m, x), &args);
    let (rm, rx) = reference.call(&ct);
    same(&ct_model, &rm);
    same(&ct_x, &rx);
    assert_eq!(
        ct_model.layers[1].b.as_ref().unwrap().to_vec::<f64>(),
        [0.0, 0.0],
        "an unused leaf has a zero"
    );
    let tangents = (
        model.map(&mut |t| noise(t.shape(), 50)),
        noise(x.shape(), 51),
    );
    let (_, dy) = fields::jvp((&model, &x), (&tangents.0, &tangents.1));
    let (_, rdy) = jvp(|(m, x): &(Mlp, Tensor)| fields(m, x), &args, &tangents);
    same(&dy, &rdy);
}

#[test]
fn calls_of_traced_functions_and_methods_are_differentiated_by_their_companions() {
    assert!(calls::PROGRAM.contains("call"), "{}", calls::PROGRAM);
    let (model, x) = (mlp(), noise(&[5, 3], 20));
    let (l, grads) = calls::value_and_grad(&model, &x);
    let args = (model.map(&mut Tensor::clone), x.clone());
    let f = |(m, x): &(Mlp, Tensor)| calls(m, x);
    let (rl, (rm, rx)) = value_and_grad(f)(&args);
    same(&l, &rl);
    close(&grads.model, &rm);
    close(&grads.x, &rx);
    let tangents = (
        model.map(&mut |t| noise(t.shape(), 50)),
        noise(x.shape(), 51),
    );
    let (_, dy) = calls::jvp((&model, &x), (&tangents.0, &tangents.1));
    close(&dy, &jvp(f, &args, &tangents).1);
    // A gradient has the type of the model.
    let _: Mlp = calls::grad(&model, &x).model;
}

/// Checks equality up to rounding. A call adds its own cotangents first, so sums may be in another
/// order.
#[track_caller]
fn close(a: &impl Tree, b: &impl Tree) {
    for (a, b) in leaves(a).iter().flatten().zip(leaves(b).iter().flatten()) {
        assert!((a - b).abs() <= 1e-13 * b.abs().max(1.0), "{a} and {b}");
    }
}

#[test]
fn host_control_flow_is_differentiated() {
    assert!(
        looped::PROGRAM.contains("for (i, layer) in"),
        "{}",
        looped::PROGRAM
    );
    let (model, x) = (mlp(), noise(&[5, 3], 20));
    let args = (model.map(&mut Tensor::clone), x.clone());
    let f = |(m, x): &(Mlp, Tensor)| looped(m, x);
    let (l, grads) = looped::value_and_grad(&model, &x);
    let (rl, (rm, rx)) = value_and_grad(f)(&args);
    same(&l, &rl);
    same(&grads.model, &rm);
    same(&grads.x, &rx);
    let tangents = (
        model.map(&mut |t| noise(t.shape(), 50)),
        noise(x.shape(), 51),
    );
    same(
        &looped::jvp((&model, &x), (&tangents.0, &tangents.1)).1,
        &jvp(f, &args, &tangents).1,
    );
}

#[test]
fn companions_of_methods_are_methods() {
    let (layer, x) = (&mlp().layers[0], noise(&[5, 3], 20));
    let (y, pullback) = layer.scaled_vjp(&x, 3.0);
    let ct = noise(y.shape(), 5);
    let (ct_layer, ct_x) = pullback(&ct);
    close(&ct_x, &(ct.matmul(layer.w.transpose()) * 3.0));
    close(&ct_layer.w, &(x.transpose().matmul(&ct) * 3.0));
    let (_, dy) = layer.forward_jvp(&x, (&layer.map(&mut |t| t.zeros_like()), &x));
    close(&dy, &layer.forward(&x));
    assert!(Linear::FORWARD_PROGRAM.contains("matmul"));
    let _ = Linear::FORWARD_HASH;
    let g: LinearForwardSaved = layer.forward_saved(&x).1;
    assert!(g.bytes() > 0);
}

#[traced]
fn loss(#[nodiff] labels: &Tensor, x: &Tensor, axis: usize, scale: f64) -> Tensor {
    let n = x.dim(0);
    let weight = 1.0 / n as f64;
    let h = x * scale;
    let axis = axis + 1;
    let s = h.log_softmax(axis);
    -(s * labels.one_hot(h.dim(1), DType::F64)).sum(..) * weight
}

#[test]
fn static_and_nodiff_arguments_have_no_cotangent() {
    let x = noise(&[4, 3], 1);
    let labels = Tensor::from([0i64, 2, 1, 1]);
    let (l, pullback) = loss::vjp(&labels, &x, 0, 2.0);
    let ct: Tensor = pullback(&Tensor::scalar(1.0));
    let f = |x: &Tensor| (x * 2.0).cross_entropy(&labels);
    close(&l, &f(&x));
    close(&ct, &grad(f)(&x));
    let (_, dl) = loss::jvp((&labels, &x, 0, 2.0), &x);
    close(&dl, &jvp(f, &x, &x).1);
    let grads = loss::grad(&labels, &x, 0, 2.0);
    close(&grads.x, &ct);
}

#[traced]
fn several(x: &Tensor, y: Tensor) -> (Tensor, Tensor) {
    let a = x.sin() * &y;
    let (b, _c) = (a.exp(), a.cos());
    (b, y)
}

#[traced]
fn uses_several(x: &Tensor, y: &Tensor) -> Tensor {
    let (p, q) = several(x, y.clone());
    p * 2.0 + q
}

#[test]
fn several_results_are_a_tuple() {
    let (x, y) = (noise(&[3], 1), noise(&[3], 2));
    let ((a, b), pullback) = several::vjp(&x, y.clone());
    let cts = (noise(&[3], 3), noise(&[3], 4));
    let (ct_x, ct_y) = pullback(&cts);
    let f = |(x, y): &(Tensor, Tensor)| several(x, y.clone());
    let args = (x.clone(), y.clone());
    let ((ra, rb), reference) = vjp(f, &args);
    same(&(a, b), &(ra, rb));
    same(&(ct_x, ct_y), &reference.call(&cts));
    let (_, pullback) = uses_several::vjp(&x, &y);
    let (_, reference) = vjp(|(x, y): &(Tensor, Tensor)| uses_several(x, y), &args);
    let (a, b) = pullback(&cts.0);
    close(&(a, b), &reference.call(&cts.0));
}

#[traced]
fn fallible(x: &Tensor, w: &Tensor) -> gradloom::Result<Tensor> {
    let h = x.matmul(w);
    Ok(h.tanh())
}

#[traced]
fn calls_fallible(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let h = fallible(x, w)?;
    Ok(h * 2.0)
}

#[test]
fn a_function_that_returns_result_returns_its_shape_errors() {
    let (x, w) = (noise(&[2, 3], 1), noise(&[3, 2], 2));
    assert!(fallible(&x, &w).is_ok());
    let message = fallible(&x, &x).unwrap_err().to_string();
    assert!(
        message.contains("matmul") && message.contains("[2, 3]"),
        "{message}"
    );
    assert_eq!(fallible::vjp(&x, &x).err().unwrap().to_string(), message);
    assert_eq!(calls_fallible(&x, &x).unwrap_err().to_string(), message);
    assert_eq!(
        calls_fallible::vjp(&x, &x).err().unwrap().to_string(),
        message
    );
    let (y, pullback) = calls_fallible::vjp(&x, &w).unwrap();
    let ct = noise(y.shape(), 5);
    let cts = pullback(&ct);
    let f = |(x, w): &(Tensor, Tensor)| calls_fallible(x, w);
    let (_, reference) = vjp(f, &(x, w)).unwrap();
    close(&cts, &reference.call(&ct));
}

#[traced]
fn generic<T: Into<f64>, M>(x: &Tensor, #[fixed] by: T, _unused: Option<M>) -> Tensor
where
    M: Tree,
{
    let by: f64 = by.into();
    x * by
}

mod inner {
    use super::*;

    #[traced]
    pub(crate) fn dense(x: &Tensor) -> Tensor {
        x.tanh()
    }
}

mod other {
    use super::*;

    #[traced]
    pub(crate) fn dense(x: &Tensor) -> Tensor {
        inner::dense(x) * 2.0
    }
}

#[test]
fn traced_functions_are_found_by_path() {
    let x = noise(&[3], 1);
    let (y, dy) = other::dense::jvp(&x, &x.ones_like());
    close(&y, &(x.tanh() * 2.0));
    close(&dy, &((x.tanh().square() * -1.0 + 1.0) * 2.0));
    assert_ne!(inner::dense::HASH, other::dense::HASH);

    #[traced]
    fn dense(x: &Tensor) -> Tensor {
        x * 5.0
    }
    close(&dense::grad(&Tensor::scalar(2.0)).x, &Tensor::scalar(5.0));
}

#[traced]
fn recursive(x: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        x.clone()
    } else {
        recursive(&x.sin(), n - 1)
    }
}

#[traced]
fn until_small(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.item::<f64>() > 0.1 {
        y = &y * &y;
    }
    y
}

#[test]
fn recursion_and_conditions_on_values_are_differentiated() {
    for program in [recursive::PROGRAM, until_small::PROGRAM] {
        assert!(!program.contains("recorded"), "{program}");
    }
    let x = Tensor::scalar(0.9);
    let (_, pullback) = recursive::vjp(&x, 3);
    let f = |x: &Tensor| x.sin().sin().sin();
    same(&pullback(&Tensor::scalar(1.0)), &grad(f)(&x));
    // 0.9 is squared five times, which gives 0.9^32.
    let g = until_small::grad(&x).x.item::<f64>();
    assert!((g - 32.0 * 0.9f64.powi(31)).abs() < 1e-14, "{g}");
}

#[test]
fn a_pullback_may_be_called_again() {
    let x = noise(&[3], 1);
    let (_, pullback) = inner::dense::vjp(&x);
    same(&pullback(&x), &pullback(&x));
}

#[test]
fn an_argument_that_is_not_a_float_is_named() {
    let result = std::panic::catch_unwind(|| inner::dense::vjp(&Tensor::from([1i64, 2])));
    let message = *result.err().unwrap().downcast::<String>().unwrap();
    assert!(message.contains("`x` is i64[2]"), "{message}");
}

#[test]
fn generic_functions_have_generic_companions() {
    let (x, layer) = (
        noise(&[3], 1),
        Linear {
            w: noise(&[2, 2], 2),
            b: None,
        },
    );
    let d_layer = Some(layer.map(&mut |t| t.ones_like()));
    let (y, dy) = generic::jvp((&x, 3.0f32, Some(layer)), (&x, &d_layer));
    close(&y, &(&x * 3.0));
    close(&dy, &y);
}

#[test]
fn companions_nest_in_transforms() {
    let x = noise(&[3], 1);
    let second = |x: &Tensor| {
        let (_, pullback) = inner::dense::vjp(x);
        pullback(&x.ones_like()).sum(..)
    };
    let expected = grad(|x: &Tensor| grad(|x: &Tensor| x.tanh().sum(..))(x).sum(..))(&x);
    close(&grad(second)(&x), &expected);
}

/// Defines functions from an expression passed to a `macro_rules!` macro.
macro_rules! of_an_expression {
    ($x:ident, $e:expr) => {
        #[traced]
        fn product($x: &Tensor) -> Tensor {
            $x * $e
        }

        #[traced]
        fn sum($x: &Tensor) -> Tensor {
            let y = $e;
            -$e * 2.0 + y + $x
        }
    };
}

#[test]
#[deny(warnings)]
fn an_expression_passed_to_a_macro_keeps_its_precedence() {
    of_an_expression!(x, x + 1.0);
    let x = Tensor::scalar(3.0f64);
    assert_eq!(product(&x).item::<f64>(), 12.0);
    assert_eq!(product::grad(&x).x.item::<f64>(), 7.0);
    assert_eq!(sum(&x).item::<f64>(), -1.0);
    assert_eq!(sum::grad(&x).x.item::<f64>(), 0.0);
}
