//! Scans: a state that starts from a part of a parameter and that a loop or a branch replaces.
//!
//! Each body is a traced function and a plain one. The companions of the first are compared with
//! derivatives of the second, for several numbers of turns.

use gradloom::prelude::*;
use gradloom::tree::assert_close;

#[derive(Clone, Tree)]
struct State {
    x: Tensor,
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Inner {
    start: State,
    h: Tensor,
}

#[derive(Clone, Tree)]
struct Model {
    start: State,
    inner: Inner,
    many: Vec<State>,
    h: Tensor,
    pair: (State, Tensor),
    option: Option<State>,
}

#[derive(Clone, Tree)]
struct Out {
    next: State,
    y: Tensor,
}

#[traced]
fn only(v: &State) -> State {
    State {
        x: v.x.sin(),
        w: &v.w * &v.x,
    }
}

#[traced]
fn step(v: &State) -> (State, Tensor) {
    let x = v.x.sin();
    let w = &v.w * &v.x;
    (State { x, w }, v.x.sum(..))
}

#[traced]
fn back(v: &State) -> (Tensor, State) {
    let x = v.x.sin();
    let w = &v.w * &v.x;
    (v.x.sum(..), State { x, w })
}

#[traced]
fn three(v: &State, h: &Tensor) -> (State, Tensor, Tensor) {
    let x = v.x.sin();
    let w = &v.w * h;
    (State { x, w }, h.cos(), v.x.sum(..))
}

#[traced]
fn out(v: &State) -> Out {
    let y = v.w.sum(..);
    Out { next: only(v), y }
}

#[traced]
fn loss(v: &State) -> Tensor {
    (&v.x * &v.w).sum(..)
}

#[traced]
fn cell(h: &Tensor, v: &State) -> Tensor {
    (h * &v.w).sin()
}

#[traced]
fn two(h: &Tensor, v: &State) -> (Tensor, Tensor) {
    ((h * &v.w).sin(), h.sum(..))
}

#[traced]
impl Model {
    fn step(&self, v: &State) -> (State, Tensor) {
        let x = v.x.sin() * &self.h;
        let w = &v.w * &v.x;
        (State { x, w }, v.x.sum(..))
    }
}

fn argument() -> Model {
    let tensor = |k: f64| Tensor::from([0.3 + k, -0.2 * k, 0.5]);
    let state = |k: f64| State {
        x: tensor(k),
        w: tensor(k + 0.1),
    };
    Model {
        start: state(0.1),
        inner: Inner {
            start: state(0.3),
            h: tensor(0.7),
        },
        many: vec![state(0.5), state(0.6)],
        h: tensor(0.8),
        pair: (state(0.9), tensor(1.0)),
        option: Some(state(1.1)),
    }
}

/// Makes a test of each body, whose parameters are `m` and `n`.
macro_rules! scans {
    ($($name:ident |$m:ident, $n:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter))]
            fn f($m: &Model, $n: usize) -> Tensor $body
            fn plain($m: &Model, $n: usize) -> Tensor $body
            assert_eq!(f::RECORDED, None);
            let m = argument();
            for n in [3, 0, 1, 2, 3] {
                let (y, pull) = gradloom::vjp(|m: &Model| plain(m, n), &m);
                let grads = pull.call(&y.ones_like());
                assert_close(&f(&m, n), &y, 1e-12);
                let (value, pull) = f::vjp(&m, n);
                assert_close(&value, &y, 1e-12);
                assert_close(&pull(&y.ones_like()), &grads, 1e-12);
                let (value, tangent) = f::jvp((&m, n), &m);
                let (_, expected) = gradloom::jvp(|m: &Model| plain(m, n), &m, &m);
                assert_close(&value, &y, 1e-12);
                assert_close(&tangent, &expected, 1e-12);
            }
        }
    )*};
}

scans! {
    free |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    method |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = m.step(&v); v = next; total += y; } total }
    swapped |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (y, next) = back(&v); v = next; total += y; } total }
    after |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total + v.w.sum(..) }
    called_after |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total + loss(&v) }
    tuple_assign |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let y; (v, y) = step(&v); total += y; } total }
    typed |m, n| { let mut v: State = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    nested |m, n| { let mut v = m.inner.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    indexed |m, n| { let mut v = m.many[1].clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    of_pair |m, n| { let mut v = m.pair.0.clone(); let mut total = m.pair.1.sum(..); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    while_loop |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); let mut i = 0; while i < n { let (next, y) = step(&v); v = next; total += y; i += 1; } total }
    endless |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); let mut i = 0; loop { if i >= n { break; } let (next, y) = step(&v); v = next; total += y; i += 1; } total }
    branch |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); if n > 1 { let (next, y) = step(&v); v = next; total += y; } total + loss(&v) }
    in_branch |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for i in 0..n { let (next, y) = step(&v); if i > 0 { v = next; } total += y; } total }
    one |m, n| { let mut v = m.start.clone(); for _ in 0..n { v = only(&v); } loss(&v) }
    one_field |m, n| { let mut v = m.start.clone(); for _ in 0..n { v = only(&v); } v.x.sum(..) + v.w.sum(..) }
    built |m, n| { let mut v = m.start.clone(); for _ in 0..n { v = State { x: v.x.sin(), w: &v.w * 0.5 }; } loss(&v) }
    triple |m, n| { let mut v = m.start.clone(); let mut h = m.h.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (a, b, y) = three(&v, &h); v = a; h = b; total += y; } total + h.sum(..) }
    triple_open |m, n| { let mut v = m.start.clone(); let mut h = m.h.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (a, b, y) = three(&v, &h); v = a; h = b; total += y; } total }
    by_struct |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let o = out(&v); v = o.next; total += o.y; } total }
    by_struct_clone |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let o = out(&v); total += &o.y; v = o.next.clone(); } total }
    by_pattern |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let Out { next, y } = out(&v); v = next; total += y; } total }
    whole |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let r = step(&v); v = r.0; total += r.1; } total }
    tensor |m, n| { let mut h = m.h.clone(); for _ in 0..n { h = cell(&h, &m.start); } h.sum(..) }
    tensor_open |m, n| { let mut h = m.h.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = two(&h, &m.start); h = next; total += y; } total }
    pairs |m, n| { let (mut v, mut h) = (m.start.clone(), m.h.clone()); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (a, b, y) = three(&v, &h); (v, h) = (a, b); total += y; } total }
    pair_local |m, n| { let mut s = (m.start.clone(), m.h.clone()); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (a, b, y) = three(&s.0, &s.1); s = (a, b); total += y; } total }
    of_branch |m, n| { let mut v = if n > 1 { m.start.clone() } else { m.inner.start.clone() }; let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    of_match |m, n| { let v = match n { 0 => m.start.clone(), 1 => m.inner.start.clone(), _ => only(&m.start) }; let (_, y) = step(&v); y }
    late |m, n| { let v; if n > 1 { v = m.start.clone(); } else { v = only(&m.start); } let (_, y) = step(&v); y }
    reset |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); for i in 0..n { if i == 1 { v = m.inner.start.clone(); } let (next, y) = step(&v); v = next; total += y; } total }
    listed |m, n| { let mut v = m.start.clone(); let mut ys = Vec::new(); for _ in 0..n + 1 { let (next, y) = step(&v); v = next; ys.push(y); } Tensor::stack(&ys, 0).sum(0) }
    states |m, n| { let mut v = m.start.clone(); let mut all = Vec::new(); for _ in 0..n { let (next, y) = step(&v); all.push(v.clone()); v = next; } let mut total = loss(&v); for s in &all { total += loss(s); } total }
    of_many |m, n| { let mut total = Tensor::scalar(0.0f64); for first in &m.many { let mut v = first.clone(); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } } total }
    of_option |m, n| { let mut v = m.option.clone().unwrap(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } total }
    of_if_let |m, n| { let mut total = Tensor::scalar(0.0f64); if let Some(first) = &m.option { let mut v = first.clone(); for _ in 0..n { let (next, y) = step(&v); v = next; total += y; } } total }
    prev |m, n| { let mut v = m.start.clone(); let mut old = m.inner.start.clone(); let mut total = Tensor::scalar(0.0f64); for _ in 0..n { let (next, y) = step(&v); old = v; v = next; total += y; } total + loss(&old) }
    part_changed |m, n| { let mut v = m.start.clone(); for _ in 0..n { v.x = v.x.sin(); } loss(&v) }
    closure |m, n| { let mut v = m.start.clone(); let mut total = Tensor::scalar(0.0f64); let mut go = |v: &State| step(v); for _ in 0..n { let (next, y) = go(&v); v = next; total += y; } total }
}
