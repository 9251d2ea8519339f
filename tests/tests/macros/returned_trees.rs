//! Calls of traced functions that return trees, in bodies that are compiled.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::plans_nothing;

#[derive(Clone, Tree)]
struct Net {
    w: Tensor,
    layers: Vec<Layer>,
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
    c: Tensor,
}

#[traced]
fn scaled(net: &Net, x: &Tensor) -> Net {
    Net {
        w: &net.w * x.sum(..),
        layers: net.layers.clone(),
    }
}

#[traced]
fn unchanged(net: &Net) -> Net {
    net.clone()
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.w);
        if let Some(b) = &self.b { y + b } else { y }
    }
}

#[traced]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x * &self.w;
        for layer in &self.layers {
            h = layer.forward(&h).tanh();
        }
        h
    }
}

#[traced]
fn passed_on(net: &Net, x: &Tensor) -> Tensor {
    let fast = scaled(net, x);
    fast.forward(x).sum(..)
}

#[traced]
fn nested(net: &Net, x: &Tensor) -> Tensor {
    unchanged(&scaled(net, x)).forward(x)
}

#[traced]
fn used_twice(net: &Net, x: &Tensor) -> Tensor {
    let fast = scaled(net, x);
    let twice = scaled(&fast, x);
    fast.forward(x) + twice.forward(x) * &fast.w + &twice.w
}

#[traced]
fn parts(net: &Net, x: &Tensor) -> Tensor {
    let fast = scaled(net, x);
    let mut y = &fast.w * x;
    for layer in &fast.layers {
        y = y.matmul(&layer.w);
        if let Some(b) = &layer.b {
            y += b;
        }
    }
    y + fast.layers[0].forward(x) * fast.layers.len() as f64
}

#[traced]
fn in_a_loop(net: &Net, x: &Tensor) -> Tensor {
    let mut fast = net.clone();
    for i in 0..3 {
        fast = scaled(&fast, &(x * 0.5));
        if i == 1 {
            fast = unchanged(&fast);
        }
    }
    fast.forward(x)
}

#[traced]
fn a_branch(net: &Net, x: &Tensor, n: usize) -> Tensor {
    let fast = if n > 1 { scaled(net, x) } else { net.clone() };
    let other = match n {
        0 => unchanged(net),
        _ => unchanged(&fast),
    };
    fast.forward(x) + other.forward(x)
}

#[traced]
fn step(x: &Tensor, state: &State) -> (Tensor, State) {
    let c = &state.c * 0.9 + x;
    let h = c.tanh() * &state.h;
    (h.clone(), State { h, c })
}

#[traced]
fn recurrent(x: &Tensor, state: &State) -> Tensor {
    let mut state = state.clone();
    let mut total = x.zeros_like();
    for i in 0..3 {
        let (y, next) = step(&(x * i as f64), &state);
        let before = state.c.clone();
        state = next;
        total += y * &before;
    }
    total + state.h + &state.c
}

#[traced]
fn returned(net: &Net, x: &Tensor) -> Net {
    let fast = scaled(net, x);
    scaled(&fast, &(x * 2.0))
}

#[traced]
fn returned_with_a_tensor(x: &Tensor, state: &State) -> (Tensor, State) {
    let (y, next) = step(x, state);
    let (z, last) = step(&y, &next);
    (z * y, last)
}

#[traced]
fn a_pair(x: &Tensor) -> (Tensor, Tensor) {
    (x.sin(), x.cos())
}

#[traced]
fn as_one_value(x: &Tensor) -> Tensor {
    let pair = a_pair(x);
    &pair.0 * &pair.1 + pair.0.exp()
}

#[traced]
fn taken_apart(x: &Tensor, state: &State) -> Tensor {
    let (_, next) = step(x, state);
    let State { h, c } = next;
    h * c
}

#[traced]
fn maybe(x: &Tensor, n: usize) -> Option<Tensor> {
    if n > 0 { Some(x.exp()) } else { None }
}

#[traced]
fn of_an_option(x: &Tensor, n: usize) -> Tensor {
    match maybe(x, n) {
        Some(y) => y * x,
        None => x.square(),
    }
}

#[traced]
fn halves(x: &Tensor) -> Vec<Tensor> {
    vec![x * 0.5, x.square()]
}

#[traced]
fn of_a_list(x: &Tensor) -> Tensor {
    let parts = halves(x);
    let mut y = x.clone();
    for part in &parts {
        y = y * part;
    }
    y + &parts[1]
}

fn net() -> Net {
    let layer = |seed, bias: bool| Layer {
        w: noise(&[3, 3], seed),
        b: bias.then(|| noise(&[3], seed + 1)),
    };
    Net {
        w: noise(&[3], 1),
        layers: vec![layer(2, true), layer(4, false)],
    }
}

fn x() -> Tensor {
    noise(&[2, 3], 9)
}

fn state() -> State {
    State {
        h: noise(&[2, 3], 10),
        c: noise(&[2, 3], 11),
    }
}

macro_rules! of_net {
    ($f:ident $(, $n:expr)?) => {{
        assert!(!$f::PROGRAM.contains("recorded"), "{}", $f::PROGRAM);
        assert_eq!($f::RECORDED, None, stringify!($f));
        let x = (net(), x());
        evaluate(&x).unwrap();
        Companions {
            call: &|x: &(Net, Tensor)| $f(&x.0, &x.1 $(, $n)?),
            vjp: &|x, ct| {
                let (y, pullback) = $f::vjp(&x.0, &x.1 $(, $n)?);
                let cts = pullback(ct);
                (y, (cts.0, cts.1))
            },
            jvp: &|x, dx| $f::jvp((&x.0, &x.1 $(, $n)?), (&dx.0, &dx.1)),
        }
        .check(&x);
        plans_nothing(|| {
            let (y, pullback) = $f::vjp(&x.0, &x.1 $(, $n)?);
            evaluate(&pullback(&y)).unwrap();
        });
    }};
}

macro_rules! of_state {
    ($f:ident) => {{
        assert!(!$f::PROGRAM.contains("recorded"), "{}", $f::PROGRAM);
        assert_eq!($f::RECORDED, None, stringify!($f));
        let x = (x(), state());
        evaluate(&x).unwrap();
        Companions {
            call: &|x: &(Tensor, State)| $f(&x.0, &x.1),
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
        assert!(!$f::PROGRAM.contains("recorded"), "{}", $f::PROGRAM);
        assert_eq!($f::RECORDED, None, stringify!($f));
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
fn a_returned_tree_is_passed_on() {
    of_net!(passed_on);
    of_net!(nested);
    of_net!(used_twice);
}

#[test]
fn the_parts_of_a_returned_tree_are_read() {
    of_net!(parts);
    of_state!(taken_apart);
    of_tensor!(as_one_value);
}

#[test]
fn a_local_holds_a_tree_in_loops_and_branches() {
    of_net!(in_a_loop);
    of_net!(a_branch, 0);
    of_net!(a_branch, 1);
    of_net!(a_branch, 2);
    of_state!(recurrent);
}

#[test]
fn a_body_returns_a_tree() {
    of_net!(returned);
    of_net!(scaled);
    of_state!(step);
    of_state!(returned_with_a_tensor);
}

#[test]
fn a_body_calls_functions_that_return_options_and_lists() {
    of_tensor!(of_an_option, 0);
    of_tensor!(of_an_option, 1);
    of_tensor!(of_a_list);
}

#[traced]
impl State {
    fn new(n: usize) -> Self {
        State {
            h: Tensor::ones([2, n], DType::F64),
            c: State::start(n),
        }
    }

    fn start(n: usize) -> Tensor {
        Tensor::zeros([2, n], DType::F64)
    }

    fn next(self, x: &Tensor) -> State {
        State {
            h: self.h * x,
            c: self.c + x,
        }
    }
}

#[traced]
fn from_a_builder(x: &Tensor) -> State {
    let mut state = State::new(x.dim(1));
    for _ in 0..2 {
        state = state.next(x);
    }
    state
}

#[test]
fn a_builder_of_a_traced_type_is_called() {
    of_tensor!(from_a_builder);
}
