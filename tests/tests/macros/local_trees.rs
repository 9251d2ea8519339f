//! Local lists, structs and options of tensors, and iterators with closures, in compiled bodies.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::plans_nothing;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
    #[tree(skip)]
    scale: f64,
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<Layer>,
    out: Tensor,
}

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
    c: Tensor,
}

#[derive(Clone, Tree)]
enum Shape {
    Dot(Tensor),
    Box { b: Tensor, a: Tensor },
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.w) * self.scale;
        self.b.as_ref().map(|b| &y + b).unwrap_or(y)
    }

    fn doubled(&self) -> Self {
        Layer {
            w: &self.w * 2.0,
            ..self.clone()
        }
    }
}

#[traced]
fn pushed(net: &Net, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    let mut outs = Vec::new();
    for layer in &net.layers {
        h = layer.forward(&h);
        outs.push(h.clone());
    }
    let mut total = h * outs.len() as f64;
    for out in &outs {
        total += out.tanh();
    }
    total + &outs[0] + outs.last().unwrap()
}

#[traced]
fn stacked(net: &Net, x: &Tensor) -> Tensor {
    let mut outs: Vec<Tensor> = vec![];
    for layer in net.layers.iter() {
        outs.push(layer.forward(x));
    }
    let all = Tensor::stack(&outs, 0);
    all.sum(0) * &net.out
}

#[traced]
fn mapped(net: &Net, x: &Tensor) -> Tensor {
    let outs: Vec<Tensor> = net.layers.iter().map(|l| l.forward(x).sin()).collect();
    outs.iter()
        .zip(&net.layers)
        .fold(x.clone(), |a, (o, l)| a * o + l.scale)
}

#[traced]
fn filtered(net: &Net, x: &Tensor) -> Tensor {
    let chosen = net
        .layers
        .iter()
        .filter(|l| l.b.is_some())
        .map(|l| l.forward(x))
        .collect::<Vec<_>>();
    chosen.iter().fold(x.zeros_like(), |a, b| a + b)
}

#[traced]
fn folded(net: &Net, x: &Tensor) -> Tensor {
    net.layers
        .iter()
        .fold(x.clone(), |h, layer| layer.forward(&h).tanh())
}

#[traced]
fn changed(net: &Net, x: &Tensor) -> Tensor {
    let mut net = net.clone();
    net.out = &net.out * x;
    net.layers[1].w = &net.layers[0].w * 0.5;
    net.layers.reverse();
    net.out *= 2.0;
    let h = net.layers[0].forward(x);
    net.layers[1].doubled().forward(&h) + net.out
}

#[traced]
fn made(x: &Tensor) -> Tensor {
    let mut state = State {
        h: Tensor::zeros([2, 3], DType::F64),
        c: x.cos(),
    };
    for _ in 0..3 {
        let c = &state.c * 0.5 + x;
        state = State {
            h: &state.h + c.tanh(),
            c,
        };
    }
    product(&state)
}

#[traced]
fn product(state: &State) -> Tensor {
    &state.h * &state.c
}

#[traced]
fn updated(x: &Tensor) -> State {
    let state = State {
        h: x.sin(),
        c: x.cos(),
    };
    State {
        c: &state.h * x,
        ..state
    }
}

#[traced]
fn a_variant(x: &Tensor, n: usize) -> Shape {
    match n {
        0 => Shape::Dot(x.exp()),
        _ => Shape::Box {
            a: x.sin(),
            b: x.square(),
        },
    }
}

#[traced]
fn of_variants(x: &Tensor, n: usize) -> Tensor {
    match a_variant(x, n) {
        Shape::Dot(y) => y * 2.0,
        Shape::Box { a, b } => a - b * 3.0,
    }
}

#[traced]
fn best(net: &Net, x: &Tensor) -> Tensor {
    let mut last = None;
    for layer in &net.layers {
        last = Some(layer.forward(x));
    }
    match last {
        Some(y) => y * x,
        None => x.clone(),
    }
}

#[traced]
fn twice_the_same(x: &Tensor) -> Vec<Tensor> {
    let y = x.sin();
    vec![y.clone(), y.clone(), &y * &y, x.clone()]
}

#[traced]
fn of_twice(x: &Tensor) -> Tensor {
    let parts = twice_the_same(x);
    parts[0].exp() + &parts[1] * 2.0 + &parts[2] * 3.0 + &parts[3]
}

#[traced]
fn second_order(x: &Tensor) -> Tensor {
    let g = grad(|x: &Tensor| (x.sin() * x).sum(..))(x);
    g * x
}

fn net() -> Net {
    let layer = |seed, bias: bool| Layer {
        w: noise(&[3, 3], seed),
        b: bias.then(|| noise(&[3], seed + 1)),
        scale: seed as f64 * 0.25,
    };
    Net {
        layers: vec![layer(2, true), layer(4, false)],
        out: noise(&[3], 7),
    }
}

fn x() -> Tensor {
    noise(&[2, 3], 9)
}

macro_rules! compiled {
    ($f:ident) => {
        assert!(!$f::PROGRAM.contains("recorded"), "{}", $f::PROGRAM);
        assert_eq!($f::RECORDED, None, stringify!($f));
    };
}

macro_rules! of_net {
    ($f:ident) => {{
        compiled!($f);
        let x = (net(), x());
        evaluate(&x).unwrap();
        Companions {
            call: &|x: &(Net, Tensor)| $f(&x.0, &x.1),
            vjp: &|x, ct| {
                let (y, pullback) = $f::vjp(&x.0, &x.1);
                let cts = pullback(ct);
                (y, (cts.0, cts.1))
            },
            jvp: &|x, dx| $f::jvp((&x.0, &x.1), (&dx.0, &dx.1)),
        }
        .check(&x);
        plans_nothing(|| {
            let (y, pullback) = $f::vjp(&x.0, &x.1);
            evaluate(&pullback(&y)).unwrap();
        });
    }};
}

macro_rules! of_tensor {
    ($f:ident $(, $n:expr)?) => {{
        compiled!($f);
        let x = x();
        Companions {
            call: &|x: &Tensor| $f(x $(, $n)?),
            vjp: &|x, ct| {
                let (y, pullback) = $f::vjp(x $(, $n)?);
                (y, pullback(ct))
            },
            jvp: &|x, dx| $f::jvp((x $(, $n)?), dx),
        }
        .check(&x);
    }};
}

#[test]
fn tensors_are_pushed_to_local_lists() {
    of_net!(pushed);
    of_net!(stacked);
}

#[test]
fn iterators_have_closures() {
    of_net!(mapped);
    of_net!(filtered);
    of_net!(folded);
}

#[test]
fn local_trees_are_made_and_changed() {
    of_net!(changed);
    of_tensor!(made);
    of_tensor!(updated);
    of_net!(best);
}

#[test]
fn enums_are_returned() {
    of_tensor!(a_variant, 0);
    of_tensor!(a_variant, 1);
    of_tensor!(of_variants, 0);
    of_tensor!(of_variants, 1);
}

#[test]
fn a_tensor_that_occurs_twice_has_two_cotangents() {
    of_tensor!(twice_the_same);
    of_tensor!(of_twice);
}

#[test]
fn a_transform_of_a_closure_is_a_step_of_a_compiled_body() {
    of_tensor!(second_order);
}

/// A loop as an op.
#[traced]
fn scanned(xs: &Tensor, w: &Tensor) -> Tensor {
    let step = |h: &Tensor, x: &Tensor| ((h * w + x).tanh(), h.sum(..));
    let (last, all) = gradloom::scan(step, w, xs);
    last * all.sum(..)
}

/// A loop and a conditional with their closures in place.
#[traced]
fn looped(x: &Tensor, w: &Tensor) -> Tensor {
    let y = gradloom::fori_loop(0..3, |_: &Tensor, y: &Tensor| (y * w).sin(), x);
    let p = y.sum(..).gt(Tensor::from(0.0f64));
    gradloom::cond(&p, |y: &Tensor| y * 2.0, |y: &Tensor| y.square(), &y)
}

#[test]
fn loops_as_ops_are_steps_of_a_body() {
    let [xs, w] = [[4, 3], [1, 3]].map(|s| {
        (Tensor::arange(s[0] * s[1], DType::F64) * 0.3)
            .sin()
            .reshape(s)
    });
    let w = w.squeeze(0);
    let unrolled = |(xs, w): &(Tensor, Tensor)| {
        let (mut h, mut sum) = (w.clone(), Tensor::from(0.0f64));
        for t in 0..4 {
            sum = sum + h.sum(..);
            h = (&h * w + xs.slice([t], [t + 1], [1]).squeeze(0)).tanh();
        }
        h * sum
    };
    let close = |a: &Tensor, b: &Tensor| {
        let [a, b] = [a, b].map(|x| x.to_vec::<f64>());
        assert!(
            a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12),
            "{a:?} {b:?}"
        );
    };
    let args = (xs.clone(), w.clone());
    close(&scanned(&xs, &w), &unrolled(&args));
    let ct = unrolled(&args).cos();
    let (_, pullback) = gradloom::vjp(unrolled, &args);
    let expected = pullback.call(&ct);
    let found = (scanned::vjp(&xs, &w).1)(&ct);
    close(&found.0, &expected.0);
    close(&found.1, &expected.1);
    let plain = |(x, w): &(Tensor, Tensor)| {
        let mut y = x.clone();
        for _ in 0..3 {
            y = (y * w).sin();
        }
        match y.sum(..).item::<f64>() > 0.0 {
            true => y * 2.0,
            false => y.square(),
        }
    };
    for x in [&w, &(&w * -1.0)] {
        let args = (x.clone(), w.clone());
        close(&looped(x, &w), &plain(&args));
        let found = (looped::vjp(x, &w).1)(&ct);
        let expected = gradloom::vjp(plain, &args).1.call(&ct);
        close(&found.0, &expected.0);
        close(&found.1, &expected.1);
    }
    // A second call finds the plan of the first.
    plans_nothing(|| {
        drop((
            scanned(&xs, &w).to_vec::<f64>(),
            looped(&w, &w).to_vec::<f64>(),
        ))
    });
}

#[traced(pure)]
fn references_in_a_list(net: &Net, x: &Tensor) -> Tensor {
    let [w, out] = [&net.layers[0].w, &net.out];
    let all = net.layers[0].doubled();
    let both = [&all.w, w];
    x.matmul(both[0]) * out + x.matmul(both[1])
}

#[traced]
fn numbers_of_a_tree_change(net: &Net, x: &Tensor) -> Tensor {
    let mut layer = net.layers[0].clone();
    layer.scale += 1.0;
    layer.w *= 0.5;
    layer.forward(x)
}

#[traced]
fn sum_of(parts: &[Tensor]) -> Tensor {
    let mut total = parts[0].clone();
    for part in &parts[1..] {
        total += part;
    }
    total
}

#[traced]
fn biased(x: &Tensor, bias: Option<&Tensor>) -> Tensor {
    match bias {
        Some(bias) => x * bias,
        None => x.clone(),
    }
}

#[traced]
fn lent(x: &Tensor) -> Tensor {
    let parts = vec![x.sin(), x * 2.0, x.cos()];
    let bias = Some(x.exp());
    sum_of(&parts[1..]) + biased(x, bias.as_ref())
}

#[test]
fn references_to_parts_keep_their_cotangents() {
    of_net!(references_in_a_list);
    of_net!(numbers_of_a_tree_change);
    of_tensor!(lent);
}

/// A tree that dereferences to one of its parts.
#[derive(Clone, Tree)]
struct Padded {
    pad: Tensor,
    w: Tensor,
}

impl std::ops::Deref for Padded {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.w
    }
}

#[traced]
fn squared(x: &Tensor) -> Tensor {
    x * x
}

#[traced(allow(recorded_call))]
fn dereferenced(padded: &Padded) -> Tensor {
    squared(padded)
}

#[test]
#[should_panic(expected = "is a tree of 2 tensors, and the traced function takes one of 1")]
fn a_tree_that_is_dereferenced_has_no_cotangent() {
    let padded = Padded { pad: x(), w: x() };
    let _ = dereferenced::vjp(&padded);
}

#[test]
#[should_panic(expected = "an argument is a tree of 2 tensors")]
fn a_tree_that_is_dereferenced_has_no_tangent() {
    let padded = Padded { pad: x(), w: x() };
    let _ = dereferenced::jvp(&padded, &padded);
}

#[traced]
impl State {
    fn read(&self) -> Tensor {
        self.h.sin() * &self.c
    }
}

#[traced]
fn states(x: &Tensor) -> Vec<State> {
    let state = State {
        h: x.sin(),
        c: x.cos(),
    };
    vec![
        state.clone(),
        State {
            h: state.c,
            c: state.h,
        },
    ]
}

#[traced]
fn maybe_state(state: &State, n: usize) -> Option<State> {
    if n > 0 { Some(state.clone()) } else { None }
}

#[traced]
fn methods_of_parts(x: &Tensor, n: usize) -> Tensor {
    let all = states(x);
    let first = &all[0];
    let mut y = first.read();
    for state in &all {
        y += state.read();
    }
    if let Some(state) = maybe_state(first, n) {
        y += state.read();
    }
    y
}

#[traced]
fn replaced_in_a_branch(x: &Tensor, n: usize) -> Tensor {
    let mut state = State {
        h: x.exp(),
        c: x.sin(),
    };
    if let Some(next) = maybe_state(&state, n) {
        state = next;
    }
    let parts = vec![state.read(), x.sin()];
    &parts[0] * &parts[1]
}

#[traced]
fn taken(x: &Tensor) -> Tensor {
    let mut kept = Some(x.sin());
    let first = kept.take().unwrap();
    first + kept.unwrap_or(x.cos())
}

#[test]
fn methods_are_called_on_parts_of_results() {
    of_tensor!(methods_of_parts, 0);
    of_tensor!(methods_of_parts, 1);
    of_tensor!(replaced_in_a_branch, 0);
    of_tensor!(replaced_in_a_branch, 1);
}

#[test]
fn a_step_changes_no_copy() {
    assert_eq!(taken::RECORDED, None);
    Companions {
        call: &|x: &Tensor| taken(x),
        vjp: &|x, ct| {
            let (y, pullback) = taken::vjp(x);
            (y, pullback(ct))
        },
        jvp: &|x, dx| taken::jvp(x, dx),
    }
    .check(&x());
}
