//! `#[nodiff]` removes parameters from the public companions of a function. Gradients of callers
//! still flow through the call.
#![allow(clippy::assign_op_pattern)] // bodies are written as by users
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::{grad, jvp, vjp};
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;

#[derive(Clone, Debug, Tree)]
struct Lin {
    w: Tensor,
}

#[derive(Clone, Debug, Tree)]
struct Mlp {
    a: Lin,
    b: Lin,
}

#[traced]
impl Lin {
    fn forward(&self, #[nodiff] x: &Tensor) -> Tensor {
        x.matmul(&self.w).tanh()
    }
}

#[traced]
impl Mlp {
    fn forward(&self, #[nodiff] x: &Tensor) -> Tensor {
        self.b.forward(&self.a.forward(x))
    }
}

#[traced(order = 2)]
fn loss(m: &Mlp, #[nodiff] x: &Tensor) -> Tensor {
    m.forward(x).square().mean(..)
}

#[traced(record)]
fn recorded_loss(m: &Mlp, #[nodiff] x: &Tensor) -> Tensor {
    m.forward(x).square().mean(..)
}

fn mlp() -> Mlp {
    let lin = |seed| Lin {
        w: noise(&[3, 3], seed),
    };
    Mlp {
        a: lin(1),
        b: lin(2),
    }
}

/// Checks that two trees have the same elements, none of which is zero.
#[track_caller]
fn same(what: &str, got: &impl Tree, expected: &impl Tree) {
    let (got, expected) = (entries(got), entries(expected));
    assert!(expected.iter().all(|x| *x != 0.0), "{what}: {expected:?}");
    if let Err(message) = near(what, &got, &expected, 1e-12) {
        panic!("{message}");
    }
}

#[test]
fn the_first_layer_of_a_model_gets_a_gradient_through_nodiff_parameters() {
    let (m, x) = (mlp(), noise(&[2, 3], 3));
    let expected = grad(|m: &Mlp| loss(m, &x))(&m);
    same("grad", &loss::grad(&m, &x).m, &expected);
    same("recorded", &recorded_loss::grad(&m, &x).m, &expected);
    let (_, pullback) = loss::vjp(&m, &x);
    same("vjp", &pullback(&Tensor::scalar(1.0)), &expected);
    let dm = Mlp {
        a: Lin {
            w: noise(&[3, 3], 4),
        },
        b: Lin {
            w: Tensor::zeros([3, 3], DType::F64),
        },
    };
    let (_, expected) = jvp(|m: &Mlp| loss(m, &x), &m, &dm);
    same("jvp", &loss::jvp((&m, &x), &dm).1, &expected);
    same(
        "recorded jvp",
        &recorded_loss::jvp((&m, &x), &dm).1,
        &expected,
    );
    let (_, expected) = jvp(|m: &Mlp| grad(|m: &Mlp| loss(m, &x))(m), &m, &dm);
    same("hvp", &loss::hvp((&m, &x), &dm).1.m, &expected);
}

#[test]
fn public_companions_have_the_parameters_that_are_not_nodiff() {
    let (m, x) = (mlp(), noise(&[2, 3], 3));
    let (y, pullback) = m.a.forward_vjp(&x);
    let ct: Lin = pullback(&y.ones_like());
    same(
        "self",
        &ct,
        &vjp(|l: &Lin| l.forward(&x), &m.a).1.call(&y.ones_like()),
    );
}

#[derive(Clone, Debug, Tree)]
struct Batch {
    x: Tensor,
    more: Option<Tensor>,
}

/// Callees with each kind of body and parameter.
#[traced]
fn straight(#[nodiff] x: &Tensor, w: &Tensor) -> Tensor {
    (x * w).sin() + x
}

#[traced]
fn by_value(w: Tensor, #[nodiff] x: Tensor) -> (Tensor, Tensor) {
    let y = x.exp() * &w;
    (&y * &x, y)
}

#[traced]
fn flowing(#[nodiff] x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..n {
        h = if i % 2 == 0 { (&h * w).sin() } else { h + x };
    }
    h
}

#[traced]
fn remade(#[nodiff] x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    let mut h = x.tanh();
    #[checkpoint(every = 2)]
    for _ in 0..n {
        h = (&h * w).sin() + x;
    }
    h
}

#[traced(record)]
fn recorded(#[nodiff] x: &Tensor, w: &Tensor) -> Tensor {
    (x * w).sin() + x
}

#[traced]
fn of_tree(w: &Tensor, #[nodiff] batch: &Batch) -> Tensor {
    let mut h = batch.x.sin() * w;
    if let Some(more) = &batch.more {
        h = h * more.cos();
    }
    h
}

#[traced]
fn of_option(#[nodiff] bias: &Option<Tensor>, w: &Tensor) -> Tensor {
    match bias {
        Some(bias) => bias.tanh() * w,
        None => w.sin(),
    }
}

#[traced]
fn checked(#[nodiff] x: &Tensor, w: &Tensor) -> Result<Tensor> {
    Ok((x * w).sin())
}

#[traced]
fn annotated(
    #[nodiff]
    #[shape(f64; N)]
    x: &Tensor,
    #[shape(N)] w: &Tensor,
) -> Tensor {
    (x * w).sin()
}

#[traced]
fn three_deep(#[nodiff] x: &Tensor, w: &Tensor) -> Tensor {
    two_deep(&straight(x, w), w)
}

#[traced]
fn two_deep(#[nodiff] x: &Tensor, w: &Tensor) -> Tensor {
    straight(&(x * 2.0), w)
}

/// Calls itself with a `#[nodiff]` argument that depends on the differentiable parameter.
#[traced]
fn recursive(#[nodiff] x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        return x.sin();
    }
    recursive(&(x * w), w, n - 1)
}

/// A tree without tensors: only the `#[nodiff]` parameter of its method can be differentiated.
#[derive(Clone, Debug, Tree)]
struct Wave {
    #[tree(skip)]
    by: f64,
}

#[traced]
impl Wave {
    fn apply(&self, #[nodiff] x: &Tensor) -> Tensor {
        x.sin() * self.by
    }
}

/// Defines callers with straight-line code, with control flow, and recorded at run time. `y`
/// reaches only `#[nodiff]` parameters, `w` others, and `c` is not passed.
macro_rules! callers {
    ($($name:ident $n:literal |$y:ident, $w:ident| $call:expr;)*) => {$(
        mod $name {
            use super::*;

            #[traced]
            pub(super) fn straight_line($y: &Tensor, $w: &Tensor, c: &Tensor) -> Result<Tensor> {
                let h = $call;
                Ok(h * c)
            }

            #[traced]
            pub(super) fn control_flow(y: &Tensor, $w: &Tensor, c: &Tensor) -> Result<Tensor> {
                let mut h = y.clone();
                for _ in 0..2 {
                    let $y = &h * c;
                    let $y = &$y;
                    h = $call;
                }
                Ok(h)
            }

            #[traced(record)]
            pub(super) fn recorded($y: &Tensor, $w: &Tensor, c: &Tensor) -> Result<Tensor> {
                let h = $call;
                Ok(h * c)
            }
        }
    )*

        #[test]
        fn gradients_go_through_nodiff_parameters() {
            $(
                both_modes!($name::straight_line, $n);
                both_modes!($name::control_flow, $n);
                both_modes!($name::recorded, $n);
            )*
        }
    };
}

/// Checks the companions of a function of three tensors against transforms and differences. Also
/// checks forward mode with a single non-zero tangent.
macro_rules! both_modes {
    ($f:path, $n:literal) => {{
        use $f as f;
        let x = ((noise(&[3], 1), noise(&[3], 2)), noise(&[3], 3));
        let call = |((y, w), c): &((Tensor, Tensor), Tensor)| f(y, w, c).unwrap();
        let companions = Companions {
            call: &call,
            vjp: &|((y, w), c), ct| {
                let (z, pullback) = f::vjp(y, w, c).unwrap();
                let (y, w, c) = pullback(ct);
                (z, ((y, w), c))
            },
            jvp: &|((y, w), c), ((dy, dw), dc)| f::jvp((y, w, c), (dy, dw, dc)).unwrap(),
        };
        companions.check(&x);
        let zero = noise(&[3], 4).zeros_like();
        let dx = ((noise(&[3], 4), zero.clone()), zero.clone());
        let (_, expected) = jvp(call, &x, &dx);
        let (_, dz) = (companions.jvp)(&x, &dx);
        same(concat!(stringify!($f), " jvp"), &dz, &expected);
        let (_, pullback) = vjp(call, &x);
        let ct = noise(&[3], 5);
        let (_, found) = (companions.vjp)(&x, &ct);
        same(
            concat!(stringify!($f), " vjp"),
            &found.0.0,
            &pullback.call(&ct).0.0,
        );
    }};
}

callers! {
    of_straight 1 |y, w| straight(y, w);
    of_by_value 1 |y, w| { let (a, b) = by_value(w.clone(), y.clone()); a + b };
    of_flowing 1 |y, w| flowing(y, w, 3);
    of_remade 1 |y, w| remade(y, w, 5);
    of_recorded 1 |y, w| super::recorded(y, w);
    of_checked 1 |y, w| checked(y, w)?;
    of_annotated 1 |y, w| annotated(y, w);
    of_three_deep 1 |y, w| three_deep(y, w);
    of_recursive 1 |y, w| recursive(y, w, 3);
    of_both_parameters 1 |y, w| straight(&(y * w), &straight(w, y));
}

/// Checks the companions of a function of a tree of all arguments against transforms and
/// differences.
macro_rules! agrees {
    ($f:ident, $x:expr, |$pattern:pat_param| ($($arg:expr),*), ($($tangent:expr),*), $dpattern:pat_param) => {{
        let x = $x;
        Companions {
            call: &|$pattern| $f($($arg),*),
            vjp: &|$pattern, ct| {
                let (y, pullback) = $f::vjp($($arg),*);
                (y, pullback(ct))
            },
            jvp: &|$pattern, $dpattern| $f::jvp(($($arg),*), ($($tangent),*)),
        }
        .check(&x);
    }};
}

#[traced]
fn calls_of_trees(w: &Tensor, batch: &Batch) -> Tensor {
    of_tree(w, batch) + of_option(&batch.more, w)
}

#[traced]
fn calls_of_trees_in_a_loop(w: &Tensor, batch: &Batch) -> Tensor {
    let mut h = w.clone();
    for _ in 0..2 {
        h = of_tree(&h, batch) + of_option(&batch.more, &h);
    }
    h
}

#[traced]
fn call_of_a_method(wave: &Wave, y: &Tensor) -> Tensor {
    wave.apply(&(y * 2.0))
}

#[test]
fn gradients_go_through_nodiff_trees() {
    for more in [None, Some(noise(&[3], 7))] {
        let x = noise(&[3], 6);
        let batch = Batch { x, more };
        let x = (noise(&[3], 5), batch);
        agrees!(
            calls_of_trees,
            x.clone(),
            |(w, batch)| (w, batch),
            (dw, dbatch),
            (dw, dbatch)
        );
        agrees!(
            calls_of_trees_in_a_loop,
            x,
            |(w, batch)| (w, batch),
            (dw, dbatch),
            (dw, dbatch)
        );
    }
}

#[test]
fn a_method_of_a_tree_without_tensors_has_a_gradient() {
    let x = (Wave { by: 1.5 }, noise(&[3], 5));
    agrees!(
        call_of_a_method,
        x,
        |(wave, y)| (wave, y),
        (dwave, dy),
        (dwave, dy)
    );
}

#[traced]
fn masked(x: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
    x.sin() * mask.cast(DType::F64)
}

#[traced]
fn masked_by_any(x: &Tensor, mask: &Tensor) -> Tensor {
    x.sin() * mask.cast(DType::F64)
}

#[traced(record)]
fn masked_by_any_recorded(x: &Tensor, mask: &Tensor) -> Tensor {
    x.sin() * mask.cast(DType::F64)
}

/// The derivative of `maximum` contains 0.5, which integers cannot represent.
#[traced]
fn counted(#[nodiff] x: &Tensor, w: &Tensor, #[nodiff] n: &Tensor) -> Tensor {
    let least = n.ones_like();
    (x * w).sin() * n.maximum(&least).cast(DType::F64)
}

#[traced]
fn counted_by_another(#[nodiff] x: &Tensor, w: &Tensor, #[nodiff] n: &Tensor) -> Tensor {
    counted(&x.cos(), w, n)
}

#[traced]
fn classified(#[nodiff] x: &Tensor, w: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    let scores = x * w;
    entropy(&scores, labels)
}

#[traced]
fn entropy(scores: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    scores.cross_entropy(labels)
}

#[derive(Clone, Debug, Tree)]
struct Data {
    x: Tensor,
    labels: Tensor,
}

#[traced]
fn classified_data(w: &Tensor, #[nodiff] data: &Data) -> Tensor {
    entropy(&(&data.x * w), &data.labels)
}

/// Makes calls with a bool mask, counts and labels.
#[traced]
fn of_integers(
    x: &Tensor,
    w: &Tensor,
    #[nodiff] mask: &Tensor,
    #[nodiff] n: &Tensor,
    #[nodiff] labels: &Tensor,
    #[nodiff] data: &Data,
) -> Tensor {
    let a = masked(x, mask) + masked_by_any(w, mask) + masked_by_any_recorded(x, mask);
    let b = counted(&x.sin(), w, n) * counted_by_another(x, &w.sin(), n);
    let a = a + b;
    classified(&a.sin(), w, labels) + classified_data(&a, data)
}

#[traced(record)]
fn of_integers_recorded(
    x: &Tensor,
    w: &Tensor,
    #[nodiff] mask: &Tensor,
    #[nodiff] n: &Tensor,
    #[nodiff] labels: &Tensor,
    #[nodiff] data: &Data,
) -> Tensor {
    of_integers(x, w, mask, n, labels, data)
}

#[traced]
fn of_integers_by_another(
    x: &Tensor,
    w: &Tensor,
    #[nodiff] mask: &Tensor,
    #[nodiff] n: &Tensor,
    #[nodiff] labels: &Tensor,
    #[nodiff] data: &Data,
) -> Tensor {
    let first = of_integers(x, w, mask, n, labels, data);
    first + of_integers_recorded(&x.sin(), w, mask, n, labels, data)
}

#[test]
fn integers_and_bools_have_no_gradient_and_are_not_an_error() {
    let labels = Tensor::from([0i64, 2]);
    let mask = noise(&[2, 3], 11).gt(0.0);
    let n = Tensor::from([[0i64, 1, 2], [3, 1, 0]]);
    let data = Data {
        x: noise(&[2, 3], 12),
        labels: labels.clone(),
    };
    let x = || (noise(&[2, 3], 1), noise(&[2, 3], 2));
    let (mask, n, labels, data) = (&mask, &n, &labels, &data);
    agrees!(
        of_integers,
        x(),
        |(x, w)| (x, w, mask, n, labels, data),
        (dx, dw),
        (dx, dw)
    );
    agrees!(
        of_integers_recorded,
        x(),
        |(x, w)| (x, w, mask, n, labels, data),
        (dx, dw),
        (dx, dw)
    );
    agrees!(
        of_integers_by_another,
        x(),
        |(x, w)| (x, w, mask, n, labels, data),
        (dx, dw),
        (dx, dw)
    );
}

#[traced]
fn scaled(
    #[shape(f64; B)] w: &Tensor,
    #[nodiff]
    #[shape(f64; B)]
    x: &Tensor,
) -> Tensor {
    let s = x.sin();
    let t = w * s;
    t.tanh()
}

/// The same function, differentiable in both parameters.
#[traced]
fn scaled_both(#[shape(f64; B)] w: &Tensor, #[shape(f64; B)] x: &Tensor) -> Tensor {
    let s = x.sin();
    let t = w * s;
    t.tanh()
}

/// `x` is not differentiated, so the call of `scaled` has no additional residuals.
#[traced]
fn not_asking(w: &Tensor, #[nodiff] x: &Tensor) -> Tensor {
    scaled(w, x)
}

#[traced]
fn asking(w: &Tensor, x: &Tensor) -> Tensor {
    scaled(w, x)
}

#[test]
fn gradients_that_are_not_requested_cost_nothing() {
    let (w, x) = (noise(&[4], 1), noise(&[4], 2));
    let own = scaled::saved(&w, &x).1.bytes();
    let both = scaled_both::saved(&w, &x).1.bytes();
    // Two residuals, `s` and the result, or four with the cosine and `w`.
    assert_eq!((own, both), (2 * 32, 4 * 32));
    assert_eq!(ScaledSaved::bytes_for(&[("B", 4)]), Some(64));
    assert_eq!(not_asking::saved(&w, &x).1.bytes(), own);
    assert_eq!(asking::saved(&w, &x).1.bytes(), both);
    let flops = |cost: gradloom::Cost| cost.pullback.flops.unwrap().eval(&[("B", 4)]).unwrap();
    assert!(flops(scaled::COST) < flops(scaled_both::COST));
}

#[traced]
fn scale(x: &Tensor) -> Tensor {
    x * 2.0
}

/// The function of the body hides the traced one.
#[traced]
fn scaled_by_a_function_of_the_body(x: &Tensor) -> Tensor {
    fn scale(x: &Tensor) -> Tensor {
        x * 5.0
    }
    scale(x).sum(..)
}

#[test]
fn a_function_of_the_body_hides_a_traced_one() {
    let x = Tensor::scalar(3.0f64);
    assert_eq!(scale(&x).item::<f64>(), 6.0);
    assert_eq!(scaled_by_a_function_of_the_body(&x).item::<f64>(), 15.0);
    let (value, grads) = scaled_by_a_function_of_the_body::value_and_grad(&x);
    assert_eq!((value.item::<f64>(), grads.x.item::<f64>()), (15.0, 5.0));
}
