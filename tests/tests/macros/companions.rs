//! Companions of traced functions compared with transforms of closures.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom_tests::panics::panic_of;

#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    let h = x.matmul(w) + b;
    h.tanh()
}

fn inputs() -> (Tensor, Tensor, Tensor) {
    let x = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 0.25, 1.5, -0.75], [2, 3]);
    let w = Tensor::from_vec(
        (0..12).map(|i| i as f32 * 0.1 - 0.5).collect::<Vec<f32>>(),
        [3, 4],
    );
    let b = Tensor::from_vec(vec![0.1f32, -0.2, 0.3, 0.0], [4]);
    (x, w, b)
}

#[test]
fn a_straight_line_function_has_the_derivatives_of_its_closure() {
    let (x, w, b) = inputs();
    let (y, pullback) = dense::vjp(&x, &w, &b);
    let ct = y.ones_like();
    let (ct_x, ct_w, ct_b) = pullback(&ct);
    let args = (x.clone(), w.clone(), b.clone());
    let f = |(x, w, b): &(Tensor, Tensor, Tensor)| dense(x, w, b);
    let (z, reference) = vjp(f, &args);
    let (rx, rw, rb) = reference.call(&ct);
    assert_eq!(y.to_vec::<f32>(), z.to_vec::<f32>());
    assert_eq!(ct_x.to_vec::<f32>(), rx.to_vec::<f32>());
    assert_eq!(ct_w.to_vec::<f32>(), rw.to_vec::<f32>());
    assert_eq!(ct_b.to_vec::<f32>(), rb.to_vec::<f32>());
    let (dx, dw, db) = (x.sin(), w.cos(), b.exp());
    let (y, dy) = dense::jvp((&x, &w, &b), (&dx, &dw, &db));
    let (rz, rdy) = jvp(f, &args, &(dx, dw, db));
    assert_eq!(y.to_vec::<f32>(), rz.to_vec::<f32>());
    assert_eq!(dy.to_vec::<f32>(), rdy.to_vec::<f32>());
    let (y, saved) = dense::saved(&x, &w, &b);
    assert_eq!(y.shape(), [2, 4]);
    assert!(saved.bytes() > 0);
    println!("{}", dense::PROGRAM);
}

#[derive(Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[derive(Tree)]
struct Mlp {
    layers: Vec<Linear>,
}

#[traced]
impl Linear {
    fn new(w: Tensor, b: Tensor) -> Linear {
        Linear { w, b, scale: 0.5 }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        dense(x, &self.w, &self.b) * self.scale
    }

    fn plain(&self, x: &Tensor) -> Tensor {
        let scale: f32 = self.scale;
        (x.matmul(&self.w) + &self.b) * scale
    }

    fn twice(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.forward(x) + self.plain(y).sin()
    }
}

#[traced]
fn loss(model: &Mlp, x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        h = layer.forward(&h);
        if i + 1 < model.layers.len() {
            h = h.relu();
        }
    }
    h.cross_entropy(labels)
}

#[traced]
fn straight_loss(model: &Mlp, x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    let h = model.layers[0].forward(x).relu();
    let h = h.matmul(&model.layers[1].w) + &model.layers[1].b;
    h.cross_entropy(labels)
}

fn model() -> Mlp {
    let (_, w, b) = inputs();
    let v = Tensor::from_vec(
        (0..8).map(|i| i as f32 * 0.2 - 0.7).collect::<Vec<f32>>(),
        [4, 2],
    );
    let c = Tensor::from_vec(vec![0.3f32, -0.4], [2]);
    Mlp {
        layers: vec![Linear::new(w, b), Linear::new(v, c)],
    }
}

fn flat(tree: &impl Tree) -> Vec<Vec<f32>> {
    let mut out = Vec::new();
    tree.visit(&mut |t| out.push(t.to_vec::<f32>()));
    out
}

#[test]
fn trees_methods_and_loops_have_the_derivatives_of_their_closures() {
    let (x, ..) = inputs();
    let labels = Tensor::from([1i64, 0]);
    let (l, grads) = loss::value_and_grad(&model(), &x, &labels);
    let f = |(m, x): &(Mlp, Tensor)| loss(m, x, &labels);
    let (rl, (rm, rx)) = value_and_grad(f)(&(model(), x.clone()));
    assert_eq!(l.item::<f32>(), rl.item::<f32>());
    assert_eq!(flat(&grads.model), flat(&rm));
    assert_eq!(flat(&grads.x), flat(&rx));
    let (l, grads) = straight_loss::value_and_grad(&model(), &x, &labels);
    let f = |(m, x): &(Mlp, Tensor)| straight_loss(m, x, &labels);
    let (rl, (rm, rx)) = value_and_grad(f)(&(model(), x.clone()));
    assert_eq!(l.item::<f32>(), rl.item::<f32>());
    assert_eq!(flat(&grads.model), flat(&rm));
    assert_eq!(flat(&grads.x), flat(&rx));
    assert!(
        straight_loss::PROGRAM.contains("call"),
        "{}",
        straight_loss::PROGRAM
    );
    assert!(
        loss::PROGRAM.contains("for (i, layer) in"),
        "{}",
        loss::PROGRAM
    );

    let m = &model().layers[0];
    let (dm, dx) = (model().layers.remove(0), x.sin());
    let (y, dy) = m.twice_jvp((&x, &x), (&dm, &dx, &dx));
    let f = |(m, x, y): &(Linear, Tensor, Tensor)| m.twice(x, y);
    let args = (model().layers.remove(0), x.clone(), x.clone());
    let (ry, rdy) = jvp(f, &args, &(dm, dx.clone(), dx.clone()));
    assert_eq!(flat(&y), flat(&ry));
    assert_eq!(flat(&dy), flat(&rdy));
    let (y, pullback) = m.twice_vjp(&x, &x);
    let ct = y.cos();
    let (_, reference) = vjp(f, &args);
    assert_eq!(flat(&pullback(&ct)), flat(&reference.call(&ct)));

    let (dm, dx) = (model(), x.sin());
    let (_, dy) = loss::jvp((&model(), &x, &labels), (&dm, &dx));
    let f = |(m, x): &(Mlp, Tensor)| loss(m, x, &labels);
    let (_, rdy) = jvp(f, &(model(), x.clone()), &(model(), dx.clone()));
    assert_eq!(flat(&dy), flat(&rdy));
}

#[traced]
fn pair(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let (a, b) = (x * y, x.sin());
    let s = a.sum(..);
    (a, s * b)
}

#[traced]
fn uses_pair(x: &Tensor, axis: i64, n: usize, rate: f32) -> Tensor {
    let (mut p, q) = pair(x, &x.exp());
    let rows = p.dim(0);
    p += q;
    p *= 2.0;
    p -= x * rate;
    let halves = n + rows;
    let [top, bottom] = p.split(axis + 1 - 1);
    let r = Tensor::concat(&[&top, &bottom.neg()], axis) / (halves as f32);
    assert_eq!(r.rank(), 2, "{axis}");
    let m = {
        let t = r.transpose();
        t.softmax(-1)
    };
    1.0 / (m + 3.0)
}

#[traced]
fn fallible(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let y = x.matmul(w);
    Ok(y.relu())
}

#[traced]
fn calls_fallible(x: &Tensor, w: Tensor) -> Result<Tensor> {
    let y = fallible(x, &w)?;
    let z = y.square();
    fallible(&z, &w.transpose().matmul(&w))
}

#[traced]
fn branches(x: &Tensor, deep: bool, #[fixed] kind: Kind) -> Result<Tensor> {
    if deep {
        return fallible(x, &x.transpose());
    }
    Ok(match kind {
        Kind::Sin => x.sin(),
        Kind::Cos => x.cos(),
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Sin,
    Cos,
}

/// Checks equality up to rounding. A call adds its own cotangents first, so sums may be in another
/// order.
fn close(x: &[Vec<f32>], y: &[Vec<f32>]) {
    assert_eq!(x.len(), y.len());
    for (x, y) in x.iter().flatten().zip(y.iter().flatten()) {
        assert!((x - y).abs() <= 1e-5 * x.abs().max(y.abs()), "{x} and {y}");
    }
}

macro_rules! agrees {
    ($f:expr, $x:expr, $vjp:expr, $jvp:expr) => {{
        let x = $x;
        let (y, pullback) = $vjp;
        let ct = y.map(&mut |t: &Tensor| t.cos());
        let (ry, reference) = vjp($f, &x);
        assert_eq!(flat(&y), flat(&ry));
        close(&flat(&pullback(&ct)), &flat(&reference.call(&ct)));
        let (y, dy) = $jvp;
        let dx = x.map(&mut |t: &Tensor| t.sin());
        let (ry, rdy) = jvp($f, &x, &dx);
        assert_eq!(flat(&y), flat(&ry));
        assert_eq!(flat(&dy), flat(&rdy));
    }};
}

#[test]
fn functions_with_statics_tuples_and_results_agree_with_closures() {
    let x = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 0.25, 1.5, -0.75, 0.1, 0.2], [4, 2]);
    let w = Tensor::from_vec(vec![0.5f32, -0.3, 0.7, 0.9], [2, 2]);
    let dx = x.sin();
    let dw = w.sin();
    agrees!(
        |x: &Tensor| uses_pair(x, 0, 3, 0.5),
        x.clone(),
        uses_pair::vjp(&x, 0, 3, 0.5),
        uses_pair::jvp((&x, 0, 3, 0.5), &dx)
    );
    agrees!(
        |(x, y): &(Tensor, Tensor)| pair(x, y),
        (x.clone(), x.exp()),
        pair::vjp(&x, &x.exp()),
        pair::jvp((&x, &x.exp()), (&dx, &x.exp().sin()))
    );
    agrees!(
        |(x, w): &(Tensor, Tensor)| calls_fallible(x, w.clone()).unwrap(),
        (x.clone(), w.clone()),
        calls_fallible::vjp(&x, w.clone()).unwrap(),
        calls_fallible::jvp((&x, w.clone()), (&dx, &dw)).unwrap()
    );
    agrees!(
        |x: &Tensor| branches(x, true, Kind::Sin).unwrap(),
        x.clone(),
        branches::vjp(&x, true, Kind::Sin).unwrap(),
        branches::jvp((&x, true, Kind::Sin), &dx).unwrap()
    );
    assert!(fallible(&x, &x).is_err());
    assert!(fallible::vjp(&x, &x).is_err());
    assert!(calls_fallible::vjp(&x, x.clone()).is_err());
    assert!(branches::jvp((&x, false, Kind::Cos), &dw).is_err());
    println!("{}", uses_pair::PROGRAM);
}

#[traced]
fn logs(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (x * y, x.log() * y)
}

#[traced]
fn first_of_logs(x: &Tensor) -> Tensor {
    let (a, _) = logs(x, &x.exp());
    a
}

#[traced(record)]
fn recorded_logs(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (x * y, x.log() * y)
}

#[traced]
fn first_of_recorded(x: &Tensor) -> Tensor {
    let (a, _) = recorded_logs(x, &x.exp());
    a
}

#[traced]
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    x * y
}

#[traced]
fn times_infinity(x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    product(x, y)
}

#[derive(Debug)]
enum Own {
    Engine,
    Odd,
}

impl From<Error> for Own {
    fn from(_: Error) -> Own {
        Own::Engine
    }
}

#[traced]
fn own_error(x: &Tensor, n: usize) -> std::result::Result<Tensor, Own> {
    if n % 2 == 1 {
        return Err(Own::Odd);
    }
    Ok(x.sum(n))
}

#[test]
fn a_value_without_consumers_does_not_reach_the_derivative() {
    let x = Tensor::from([0.0f32, 1.0]);
    let ct = x.ones_like();
    let expected: Vec<f32> = vec![1.0, 2.0 * 1.0f32.exp()];
    let (_, pullback) = first_of_logs::vjp(&x);
    close(&flat(&pullback(&ct)), std::slice::from_ref(&expected));
    let (_, pullback) = first_of_recorded::vjp(&x);
    close(&flat(&pullback(&ct)), &[expected]);
    let infinite = Tensor::from([f32::INFINITY, 2.0]);
    let (_, dy) = times_infinity::jvp((&x, &infinite), &ct);
    assert_eq!(dy.to_vec::<f32>(), [f32::INFINITY, 2.0]);
    let (_, dy) = times_infinity::jvp((&infinite, &x), &ct);
    assert_eq!(dy.to_vec::<f32>(), [0.0, 1.0]);
}

#[test]
fn a_user_defined_error_type_is_returned() {
    let x = Tensor::from([0.0f32, 1.0]);
    assert!(matches!(own_error::grad(&x, 1), Err(Own::Odd)));
    assert!(matches!(own_error::grad(&x, 2), Err(Own::Engine)));
    assert_eq!(
        own_error::grad(&x, 0).unwrap().x.to_vec::<f32>(),
        [1.0, 1.0]
    );
    assert!(matches!(own_error::jvp((&x, 1), &x), Err(Own::Odd)));
}

#[traced]
fn callee(x: &Tensor, w: &Tensor) -> Tensor {
    (x * w).sin()
}

#[traced]
fn caller(x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    let mut y = callee(x, w);
    for _ in 0..n {
        y = callee(&y, w) * 2.0;
    }
    y
}

#[traced(record)]
fn recorded_callee(x: &Tensor, w: &Tensor) -> Tensor {
    (x * w).sin()
}

#[traced(record)]
fn recorded_caller(x: &Tensor, w: &Tensor) -> Tensor {
    recorded_callee(x, w).exp()
}

/// Residuals of calls are leaves: they can be evaluated, listed, replaced, and sent to another thread.
#[test]
fn residuals_of_calls_are_leaves() {
    let x = Tensor::from([0.5f64, -1.0]);
    let w = Tensor::from([2.0f64, 0.25]);
    let ct = Tensor::from([1.0f64, 3.0]);
    let (y, pullback) = caller::vjp(&x, &w, 2);
    let (ct_x, ct_w) = pullback(&ct);
    let (again, saved) = caller::saved(&x, &w, 2);
    evaluate((&again, &saved)).unwrap();
    assert_eq!(y.to_vec::<f64>(), again.to_vec::<f64>());
    let all = gradloom::tree::leaves_with_paths(&saved);
    assert!(all.len() >= 6, "{all:?}");
    assert!(all.iter().all(|(_, x)| x.is_realised()));
    assert!(format!("{saved:?}").contains("f64[2]"));
    // A copy with its own buffers has the same pullback.
    let copy = saved.map(&mut |x| Tensor::from_vec(x.to_vec::<f64>(), x.shape()));
    drop(saved);
    let given = ct.clone();
    let found = std::thread::spawn(move || copy.pullback(&given))
        .join()
        .unwrap();
    assert_eq!(
        found.tensor(0).unwrap().to_vec::<f64>(),
        ct_x.to_vec::<f64>()
    );
    assert_eq!(
        found.tensor(1).unwrap().to_vec::<f64>(),
        ct_w.to_vec::<f64>()
    );

    let (_, saved) = recorded_caller::saved(&x, &w);
    let (ct_x, _) = recorded_caller::vjp(&x, &w).1(&ct);
    assert!(!gradloom::tree::leaves_with_paths(&saved).is_empty());
    let double = saved.map(&mut |x| x * 1.0);
    let found = double.pullback(&ct);
    assert_eq!(
        found.tensor(0).unwrap().to_vec::<f64>(),
        ct_x.to_vec::<f64>()
    );
}

#[traced]
fn negated(x: &Tensor) -> Tensor {
    -x
}

#[traced]
fn halves(x: &Tensor) -> (Tensor, Tensor) {
    (-x, x.sin())
}

#[traced]
fn repeated(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = y.square();
    }
    y
}

#[traced(record)]
fn recorded_square(x: &Tensor) -> Tensor {
    x.square()
}

#[test]
fn the_cotangent_of_residuals_fits_the_result() {
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let single = Tensor::from(1.0f64);
    let refused = |pull: &dyn Fn()| {
        let (message, file, _) = panic_of(pull);
        assert!(file.ends_with("companions.rs"), "{file}");
        message
    };
    let others = [
        single.clone(),
        Tensor::ones([7], DType::F32),
        Tensor::ones([2, 2], DType::F32),
        Tensor::ones([2], DType::F64),
    ];
    let (negated, halves) = (negated::saved(&x).1, halves::saved(&x).1);
    let (repeated, recorded) = (repeated::saved(&x, 3).1, recorded_square::saved(&x).1);
    let mut messages = Vec::new();
    for ct in &others {
        let message = refused(&|| drop(negated.pullback(ct)));
        for same in [
            refused(&|| drop(repeated.pullback(ct))),
            refused(&|| drop(recorded.pullback(ct))),
        ] {
            assert_eq!(same, message);
        }
        messages.push(message);
    }
    messages.push(refused(&|| drop(negated.pullback(&(x.clone(), x.clone())))));
    messages.push(refused(&|| drop(halves.pullback(&x))));
    messages.push(refused(&|| {
        drop(halves.pullback(&(x.clone(), single.clone())))
    }));
    insta::assert_snapshot!(messages.join("\n"));
    assert_eq!(
        negated.pullback(&x).tensor(0).unwrap().to_vec::<f64>(),
        [-1.0, -2.0, -3.0, -4.0]
    );
}

/// A model with a statistic that is not trained.
#[derive(Clone, Tree)]
struct Centred {
    scale: Tensor,
    #[nodiff]
    mean: Tensor,
}

fn centred() -> Centred {
    Centred {
        scale: Tensor::from([1.0, 2.0]),
        mean: Tensor::from([0.5, 0.1]),
    }
}

#[traced(order = 2, check(value(model = centred())))]
fn centred_loss(
    model: &Centred,
    #[nodiff]
    #[shape(3, 2)]
    x: &Tensor,
) -> Tensor {
    ((x - &model.mean) * &model.scale).square().mean(..)
}

#[test]
fn frozen_leaves_have_no_derivatives() {
    let model = centred();
    let ones = |_: &Tensor| Tensor::from([1.0, 1.0]);
    let x = Tensor::from([[1.0, 3.0], [0.2, 0.1], [0.5, -0.4]]);
    let direction = model.map(&mut { ones });
    let closure = |model: &Centred| centred_loss(model, &x);
    let (gradient, change) = centred_loss::hvp((&model, &x), &direction);
    let expected = gradloom::hvp(closure, &model, &direction);
    let bits = gradloom_tests::graphs::bits;
    assert_eq!(bits(&gradient.model.mean), [0; 2]);
    assert_eq!(bits(&change.model.mean), [0; 2]);
    assert_eq!(bits(&change.model.scale), bits(&expected.scale));
    assert_eq!(bits(&expected.mean), [0; 2]);
    gradloom::testing::gradcheck(closure, &model).unwrap();
    gradloom::testing::gradcheck_elements(closure, &model, 2).unwrap();
}
