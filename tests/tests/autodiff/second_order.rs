//! `#[traced(order = 2)]`: the `hvp` companion returns the gradient and its directional derivative
//! for every form of function.

use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom::{DType, Tree};
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::noise;

/// Returns the inner product of two trees.
fn dot<X: Tree>(a: &X, b: &X) -> Tensor {
    let mut factors = Vec::new();
    b.visit(&mut |leaf| factors.push(leaf.clone()));
    let mut factors = factors.iter();
    let mut total = Tensor::scalar(0.0f64);
    a.visit(&mut |leaf| total = &total + (leaf * factors.next().unwrap()).sum(..));
    total
}

/// Compares the companion with forward over reverse and reverse over reverse of the closure, and
/// with finite differences.
fn check<X: Tree>(x: &X, plain: impl Fn(&X) -> Tensor, companion: impl Fn(&X, &X) -> (X, X)) {
    let v = noise_like(x, 9);
    let (gradient, change) = companion(x, &v);
    let (gradient, change) = (entries(&gradient), entries(&change));
    let of_closure = grad(&plain);
    near("gradient", &gradient, &entries(&of_closure(x)), 1e-12).unwrap();
    let forward = hvp(&plain, x, &v);
    near("hvp", &change, &entries(&forward), 1e-12).unwrap();
    let reverse = grad(|x: &X| dot(&of_closure(x), &v))(x);
    near("reverse over reverse", &change, &entries(&reverse), 1e-12).unwrap();
    let slopes = differences(&|x: &X| of_closure(x), x, &v, 1e-3);
    near("differences", &change, &slopes, 1e-8).unwrap();
}

#[traced(order = 2)]
fn cube(x: &Tensor) -> Tensor {
    (x * x * x).sum(..)
}

#[test]
fn the_hessian_of_a_cube_is_diagonal() {
    let (x, v) = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, -1.0]));
    let (gradient, change) = cube::hvp(&x, &v);
    assert_eq!(gradient.x.to_vec::<f32>(), [3.0, 12.0]);
    assert_eq!(change.x.to_vec::<f32>(), [6.0, -12.0]);
    check(&noise(&[4], 1), cube, |x, v| {
        let (g, h) = cube::hvp(x, v);
        (g.x, h.x)
    });
}

#[traced(order = 2)]
fn mlp(
    x: &Tensor,
    #[shape(3, 5)] w1: &Tensor,
    #[shape(5)] b1: &Tensor,
    w2: &Tensor,
    #[nodiff] target: &Tensor,
) -> Tensor {
    let h = (x.matmul(w1) + b1).tanh();
    let h = h.layer_norm(b1, b1, 1e-3).gelu();
    let error = h.matmul(w2).sigmoid() - target;
    error.square().mean(..)
}

#[test]
fn a_perceptron_has_the_second_derivatives_of_its_closure() {
    let x = (
        (noise(&[4, 3], 1), noise(&[3, 5], 2)),
        (noise(&[5], 3), noise(&[5, 2], 4)),
    );
    let target = noise(&[4, 2], 5);
    type Args = ((Tensor, Tensor), (Tensor, Tensor));
    check(
        &x,
        |((x, w1), (b1, w2)): &Args| mlp(x, w1, b1, w2, &target),
        |((x, w1), (b1, w2)), ((dx, dw1), (db1, dw2))| {
            let (g, h) = mlp::hvp((x, w1, b1, w2, &target), (dx, dw1, db1, dw2));
            (((g.x, g.w1), (g.b1, g.w2)), ((h.x, h.w1), (h.b1, h.w2)))
        },
    );
}

#[traced(order = 2)]
fn classify(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    x.matmul(w).cross_entropy(labels)
}

#[traced(order = 2)]
fn classify_by_hand(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    let log_p = x.matmul(w).log_softmax(-1);
    -(log_p * labels.one_hot(3, DType::F64)).sum(..) / 4.0
}

#[test]
fn a_cross_entropy_has_the_second_derivatives_of_its_closure() {
    let (w, x) = (noise(&[5, 3], 1), noise(&[4, 5], 2));
    let labels = Tensor::from([0i64, 2, 1, 2]);
    check(
        &w,
        |w| classify(w, &x, &labels),
        |w, dw| {
            let (g, h) = classify::hvp((w, &x, &labels), dw);
            (g.w, h.w)
        },
    );
    check(
        &w,
        |w| classify(w, &x, &labels),
        |w, dw| {
            let (g, h) = classify_by_hand::hvp((w, &x, &labels), dw);
            (g.w, h.w)
        },
    );
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    first: Linear,
    rest: Vec<Linear>,
    #[tree(skip)]
    scale: f64,
}

#[traced(order = 2)]
impl Net {
    fn loss(&self, x: &Tensor) -> Tensor {
        let h = (x.matmul(&self.first.w) + &self.first.b).softplus();
        let out = h.matmul(&self.rest[0].w) * &self.rest[0].b;
        // Uses the same leaf a second time, through another path.
        (out * self.scale + &self.rest[0].b).square().sum(..)
    }

    /// Returns two tensors, so it has no companion of second order.
    fn both(&self, x: &Tensor) -> (Tensor, Tensor) {
        (x * &self.first.w, x + &self.first.b)
    }
}

#[traced(order = 2)]
fn penalty(net: &Net, rate: f64) -> Tensor {
    let first = &net.first;
    let norm = first.w.square().sum(..);
    let b = -&first.b;
    (norm * b.exp().sum(..)).sqrt() * rate
}

fn net() -> Net {
    let linear = |i, o, seed| Linear {
        w: noise(&[i, o], seed),
        b: noise(&[o], seed + 1),
    };
    Net {
        first: linear(3, 4, 1),
        rest: vec![linear(4, 2, 3), linear(2, 2, 5)],
        scale: 0.7,
    }
}

#[test]
fn functions_of_trees_have_second_derivatives() {
    let x = (net(), noise(&[5, 3], 7));
    check(
        &x,
        |(net, x)| net.loss(x),
        |(net, x), (d_net, dx)| {
            let (g, h) = net.loss_hvp(x, (d_net, dx));
            ((g.this, g.x), (h.this, h.x))
        },
    );
    // The loss does not depend on the second layer.
    let (_, h) = x.0.loss_hvp(&x.1, (&x.0, &x.1));
    assert_eq!(h.this.rest[1].w.to_vec::<f64>(), [0.0; 4]);
    let (y, _) = x.0.both(&noise(&[3, 4], 1));
    assert_eq!(y.shape(), [3, 4]);
    check(
        &x.0,
        |net| penalty(net, 2.0),
        |net, d_net| {
            let (g, h) = penalty::hvp((net, 2.0), d_net);
            (g.net, h.net)
        },
    );
}

#[traced(order = 2)]
fn statics(x: &Tensor, axis: i64, n: usize, eps: f64) -> Tensor {
    let m = x.mean_keepdims(axis);
    let centred = x - m;
    let rows = x.shape()[0];
    let power = centred.reshape([rows * n, 3 - n]);
    let variance = power.square().sum(0) + eps;
    variance.log().sum(..) * (n as f64)
}

#[test]
fn static_arguments_and_host_values_are_allowed() {
    check(
        &noise(&[4, 2], 1),
        |x| statics(x, 1, 1, 0.1),
        |x, v| {
            let (g, h) = statics::hvp((x, 1, 1, 0.1), v);
            (g.x, h.x)
        },
    );
    check(
        &noise(&[4, 2], 1),
        |x| statics(x, 0, 2, 0.3),
        |x, v| {
            let (g, h) = statics::hvp((x, 0, 2, 0.3), v);
            (g.x, h.x)
        },
    );
}

#[traced(order = 2)]
fn pairs(p: (Tensor, Tensor), q: Tensor) -> Tensor {
    let (a, b) = p;
    let parts = Tensor::concat(&[&a.exp(), &b.sin()], 0);
    (parts.softmax(0) * q).sum(..)
}

#[test]
fn tuples_and_arguments_by_value_are_allowed() {
    type Args = ((Tensor, Tensor), Tensor);
    let x: Args = ((noise(&[2], 1), noise(&[3], 2)), noise(&[5], 3));
    check(
        &x,
        |(p, q)| pairs(p.clone(), q.clone()),
        |(p, q), (dp, dq)| {
            let (g, h) = pairs::hvp((p.clone(), q.clone()), (dp, dq));
            ((g.p, g.q), (h.p, h.q))
        },
    );
}

#[traced(order = 2)]
fn chain(a: &Tensor, b: &Tensor, c: &Tensor) -> Tensor {
    let ab = a.matmul(b);
    let abc = ab.matmul(c);
    abc.transpose().matmul(&ab).logsumexp(..)
}

#[test]
fn a_chain_of_products_has_second_derivatives() {
    type Args = (Tensor, (Tensor, Tensor));
    let x: Args = (noise(&[2, 3], 1), (noise(&[3, 4], 2), noise(&[4, 5], 3)));
    check(
        &x,
        |(a, (b, c))| chain(a, b, c),
        |(a, (b, c)), (da, (db, dc))| {
            let (g, h) = chain::hvp((a, b, c), (da, db, dc));
            ((g.a, (g.b, g.c)), (h.a, (h.b, h.c)))
        },
    );
}

#[traced(order = 2)]
fn fallible(x: &Tensor, y: &Tensor) -> gradloom::Result<Tensor> {
    let z = x.matmul(y).abs().pow(Tensor::scalar(1.5f64));
    Ok(z.sum(..))
}

#[test]
fn a_fallible_function_has_a_fallible_companion() {
    let x = (noise(&[2, 3], 1), noise(&[3, 2], 2));
    check(
        &x,
        |(x, y)| fallible(x, y).unwrap(),
        |(x, y), (dx, dy)| {
            let (g, h) = fallible::hvp((x, y), (dx, dy)).unwrap();
            ((g.x, g.y), (h.x, h.y))
        },
    );
    let error = fallible::hvp((&x.0, &x.0), (&x.0, &x.0)).err().unwrap();
    assert!(error.to_string().contains("matmul"), "{error}");
}

#[traced]
fn cell(h: &Tensor, w: &Tensor) -> Tensor {
    h.matmul(w).tanh()
}

#[traced(order = 2)]
#[allow(unused_variables)]
fn calls(w: &Tensor, #[nodiff] h: &Tensor, unused: Tensor) -> Tensor {
    let once = cell(h, w);
    let twice = cell(&once, w);
    (twice * once).sum(..)
}

#[test]
fn a_function_that_calls_another_has_second_derivatives() {
    let (w, h, unused) = (noise(&[3, 3], 1), noise(&[2, 3], 2), noise(&[2], 3));
    check(
        &(w, unused),
        |(w, unused)| calls(w, &h, unused.clone()),
        |(w, unused), (dw, d_unused)| {
            let (g, c) = calls::hvp((w, &h, unused.clone()), (dw, d_unused));
            ((g.w, g.unused), (c.w, c.unused))
        },
    );
}

#[traced(order = 2)]
fn turns(x: &Tensor, net: &Net, n: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..n {
        h = h.matmul(&net.first.w);
        if i % 2 == 0 {
            h = h.sin();
        }
    }
    h.square().sum(..)
}

#[derive(Debug)]
enum Refused {
    Negative,
    Wrong(String),
}

impl From<gradloom::Error> for Refused {
    fn from(error: gradloom::Error) -> Refused {
        Refused::Wrong(error.to_string())
    }
}

#[traced(order = 2)]
fn root(x: &Tensor, n: i64) -> Result<Tensor, Refused> {
    if n < 0 {
        return Err(Refused::Negative);
    }
    let mut y = x.clone();
    for _ in 0..n {
        y = (&y + x / &y) * 0.5;
    }
    Ok(y.sum(..))
}

#[test]
fn a_function_with_a_loop_has_second_derivatives() {
    let mut net = net();
    net.first.w = noise(&[3, 3], 8);
    let x = (noise(&[2, 3], 1), net);
    for n in 0..4 {
        check(
            &x,
            |(x, net)| turns(x, net, n),
            |(x, net), (dx, d_net)| {
                let (g, h) = turns::hvp((x, net, n), (dx, d_net));
                ((g.x, g.net), (h.x, h.net))
            },
        );
    }
    let x = noise(&[3], 1).square() + 1.0;
    check(
        &x,
        |x| root(x, 5).unwrap(),
        |x, v| {
            let (g, h) = root::hvp((x, 5), v).unwrap();
            (g.x, h.x)
        },
    );
    let refused = root::hvp((&x, -1), &x);
    assert!(matches!(refused, Err(Refused::Negative)));
    let refused = root::hvp((&Tensor::scalar(1i64), 1), &Tensor::scalar(1i64));
    let Err(Refused::Wrong(message)) = refused else {
        panic!("an integer has no derivative");
    };
    assert!(
        message.contains("`x`") || message.contains('x'),
        "{message}"
    );
}

#[traced(order = 2, allow(unused_parameter))]
fn linear(x: &Tensor, c: &Tensor, other: &Tensor) -> Tensor {
    let _ = other.exp();
    (x * c).sum(..) + x.stop_gradient().square().sum(..)
}

#[test]
fn a_derivative_that_does_not_depend_on_an_argument_is_zero() {
    type Args = (Tensor, (Tensor, Tensor));
    let x: Args = (noise(&[3], 1), (noise(&[3], 2), noise(&[2], 3)));
    let v: Args = noise_like(&x, 4);
    let (g, h) = linear::hvp((&x.0, &x.1.0, &x.1.1), (&v.0, &v.1.0, &v.1.1));
    near("gradient", &entries(&g.x), &entries(&x.1.0), 1e-15).unwrap();
    near("change", &entries(&h.x), &entries(&v.1.0), 1e-15).unwrap();
    near("change", &entries(&h.c), &entries(&v.0), 1e-15).unwrap();
    assert_eq!(entries(&g.other), [0.0; 2]);
    assert_eq!(entries(&h.other), [0.0; 2]);
}

/// Enough ops that the macro uses the form for long programs, with host statements between them.
#[traced(order = 2)]
fn long(x: &Tensor, w: &Tensor) -> Tensor {
    let a = (x.sin() * w.cos() + x.exp() / (w.square() + 1.0)).tanh();
    let b = (a.sigmoid() * x.softplus() - w.erf()).gelu();
    let n = b.shape()[0];
    let c = b.matmul(a.t()) / (n as f64);
    let d = (c.softmax(1).matmul(x) + b.gelu_tanh()).normalize(1, 1e-3);
    let e = (d.logsumexp(1) * a.max(1) + b.min(1).expm1()).square();
    let s = Tensor::stack(&[&e, &(&e * 0.5).log1p()], 0);
    let [p, q] = s.split::<2>(0);
    let r = p.slice([0], [1], [1]).maximum(&q) - p.minimum(&q).sqrt();
    let u = (r.reshape([-1]) + e.unsqueeze(0).squeeze(0)).reciprocal();
    (u.abs() + 1.0).rsqrt().sum(..) + c.log_softmax(0).sum(..) + a.tan().sum(..)
}

#[test]
fn a_long_function_has_second_derivatives() {
    let x = (noise(&[3, 4], 1), noise(&[3, 4], 2));
    check(
        &x,
        |(x, w)| long(x, w),
        |(x, w), (dx, dw)| {
            let (g, h) = long::hvp((x, w), (dx, dw));
            ((g.x, g.w), (h.x, h.w))
        },
    );
}

#[traced(order = 1)]
fn first(x: &Tensor) -> Tensor {
    x.sum(..)
}

#[test]
fn order_one_has_the_default_companions() {
    assert_eq!(entries(&first::grad(&noise(&[2], 1)).x), [1.0; 2]);
}

#[traced(order = 2)]
fn generic<T: Tree, const N: usize>(model: &T, x: &Tensor) -> Tensor {
    let _ = model;
    x.exp().reshape([N as i64]).square().sum(..)
}

#[test]
fn generic_functions_have_second_derivatives() {
    let x = (noise(&[2], 1), noise(&[2, 3], 2));
    check(
        &x,
        |(model, x)| generic::<_, 6>(model, x),
        |(model, x), (d_model, dx)| {
            let (g, h) = generic::hvp::<_, 6>((model, x), (d_model, dx));
            ((g.model, g.x), (h.model, h.x))
        },
    );
}

#[test]
fn a_result_that_is_not_a_single_float_is_named() {
    #[traced(order = 2)]
    fn rows(x: &Tensor) -> Tensor {
        x.square().sum(1)
    }
    let x = noise(&[2, 3], 1);
    let panic = std::panic::catch_unwind(|| rows::hvp(&x, &x))
        .err()
        .unwrap();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("f64[2]"), "{message}");
    let panic = std::panic::catch_unwind(|| cube::hvp(&x, &noise(&[2], 1)))
        .err()
        .unwrap();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("tangent"), "{message}");
}

#[traced(order = 2, record)]
fn recorded(x: &Tensor, #[shape(_)] w: Tensor) -> Tensor {
    let f = |y: &Tensor| y.tanh();
    (f(x) * w).square().sum(..)
}

#[test]
fn a_recorded_function_has_second_derivatives() {
    let x = (noise(&[3], 1), noise(&[3], 2));
    check(
        &x,
        |(x, w)| recorded(x, w.clone()),
        |(x, w), (dx, dw)| {
            let (g, h) = recorded::hvp((x, w.clone()), (dx, dw));
            ((g.x, g.w), (h.x, h.w))
        },
    );
}

#[test]
fn straight_line_code_is_not_traced_at_run_time() {
    let traced = |log: Vec<Event>| log.iter().any(|e| matches!(e, Event::Traced { .. }));
    let (x, w) = (noise(&[3, 4], 1), noise(&[3, 4], 2));
    let (_, log) = events::record(|| long::hvp((&x, &w), (&x, &w)));
    assert!(!traced(log));
    let w = noise(&[4], 3);
    let (_, log) = events::record(|| recorded::hvp((&x, w.clone()), (&x, &w)));
    assert!(traced(log));
}

/// Differentiates a companion of second order with the run-time transforms.
#[test]
fn third_derivatives_come_from_the_run_time_transforms() {
    let (x, v) = (noise(&[3], 1), noise(&[3], 2));
    let (_, third) = jvp(|x: &Tensor| cube::hvp(x, &v).1.x, &x, &v);
    near(
        "third",
        &entries(&third),
        &entries(&(v.square() * 6.0)),
        1e-14,
    )
    .unwrap();
}
