//! Host code that keeps a traced function pure: a repeated call reuses its plan, with the bits of
//! its ops.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::optim::{Sgd, SgdState};
use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds, is_recorded, log};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const AXES: [usize; 2] = [0, 1];
const SCALE: f64 = 1.5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pooling {
    Sum,
    Mean(usize),
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<(Tensor, Option<Tensor>)>,
    #[tree(skip)]
    dropout: f64,
}

fn net() -> Net {
    let layer = |i| (noise(&[3, 3], i), (i == 1).then(|| noise(&[3], 7)));
    Net {
        layers: vec![layer(0), layer(1)],
        dropout: 0.5,
    }
}

#[traced]
fn numbers(x: &Tensor, n: usize, by: f64) -> Tensor {
    let rows = x.dim(0).next_multiple_of(2).isqrt().abs_diff(7).clamp(1, 3);
    let scale = SCALE.mul_add(by.hypot(2.0), f64::from(n as u32)).recip();
    let total = (1..=n)
        .map(|i| i.pow(2))
        .reduce(usize::max)
        .map_or(0.0, |m| m as f64);
    x * (scale + total.cbrt().to_radians()) / rows
}

#[traced]
fn shapes(x: &Tensor) -> Tensor {
    let mut shape = x.shape().to_vec();
    shape.insert(0, 1);
    shape.extend_from_slice(&[1]);
    shape.sort_unstable_by_key(|n| usize::MAX - n);
    shape.retain(|n| *n > 0);
    shape.swap(0, 1);
    let last = shape.get(1).copied().unwrap_or(1);
    let axes = vec![0usize; AXES.len() - 1];
    assert!(matches!(shape.first(), Some(n) if *n > 0), "no {last}");
    x.reshape(&shape[..]).sum(&axes[..])
}

#[traced]
fn pooled(x: &Tensor, #[fixed] how: Pooling, limit: Option<f64>) -> Tensor {
    let axes: [usize; 2] = std::array::from_fn(|i| AXES[i]);
    let factor = limit.filter(|l| l.is_sign_positive()).or(Some(2.0));
    let factor = factor
        .is_some_and(|f| f > 1.0)
        .then(|| factor.map_or(1.0, f64::sqrt));
    let pooled = match how {
        Pooling::Sum => x.sum(axes),
        Pooling::Mean(axis) => x.mean(std::cmp::min(axis, const { AXES[1] })),
    };
    pooled * factor.unwrap_or(1.0)
}

#[traced]
fn walked(net: &Net, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    let (mut rest, mut turns) = (net.layers.len(), 0);
    while rest > 0 {
        let (w, b) = &net.layers[turns];
        h = h.matmul(w);
        if let Some(b) = b {
            h += b;
        }
        (rest, turns) = (rest.saturating_sub(1), turns + 1);
    }
    let p: f64 = net.dropout;
    match (p < 1.0).then_some(p) {
        Some(p) if p.is_normal() => h * (1.0 - p),
        _ => h,
    }
}

/// Applies a mask of host values, which is a constant of the plan.
#[traced]
fn masked(x: &Tensor, keep: &[bool]) -> (Tensor, Tensor) {
    let mask = Tensor::from(
        keep.iter()
            .map(|k| f64::from(u8::from(*k)))
            .collect::<Vec<f64>>(),
    );
    (x * &mask + Tensor::scalar(0.25), mask)
}

#[derive(Clone, Tree)]
struct Parts {
    first: Tensor,
    #[tree(skip)]
    n: usize,
    others: Vec<Tensor>,
}

#[traced]
fn parts(x: &Tensor, n: usize) -> Parts {
    let mut others = Vec::new();
    for i in 0..n {
        others.push(x * i as f64);
    }
    let first = x.exp();
    let name = format!("{}-{n}", x.dtype());
    assert!(
        matches!(name.split_once('-'), Some((_, n)) if !n.is_empty()),
        "{name}"
    );
    Parts { first, n, others }
}

#[test]
fn ordinary_host_code_is_pure() {
    let all = [
        numbers::RECORDED,
        shapes::RECORDED,
        pooled::RECORDED,
        walked::RECORDED,
        masked::RECORDED,
        parts::RECORDED,
    ];
    assert_eq!(all, [None; 6]);
    let x = noise(&[4, 3], 1);
    finds(|| numbers(&x, 3, 0.5));
    finds(|| numbers::vjp(&x, 3, 0.5).0);
    finds(|| shapes(&x));
    for how in [Pooling::Sum, Pooling::Mean(0), Pooling::Mean(1)] {
        finds(|| pooled(&x, how, Some(2.5)));
        finds(|| pooled(&x, how, None));
    }
    finds(|| walked(&net(), &x.clone()).clone());
    for keep in [[true, false, true], [false, true, true]] {
        finds(|| masked(&x, &keep));
        finds(|| masked::jvp((&x, &keep), &x));
        let (y, pullback) = masked::vjp(&x, &keep);
        assert_eq!(bits(&y), bits(&masked(&x, &keep)));
        let expected = keep.map(|k| f64::from(u8::from(k)).to_bits());
        assert_eq!(
            bits(&pullback(&(x.ones_like(), y.1.clone())))[0][..3],
            expected
        );
    }
}

#[test]
fn a_function_that_returns_a_struct_reuses_its_plan() {
    let x = noise(&[4, 3], 1);
    for n in [0, 2, 3, 2] {
        let found = parts(&x, n);
        assert_eq!((found.n, found.others.len()), (n, n));
        finds(|| parts(&x, n));
        finds(|| parts::jvp((&x, n), &x));
        let (y, pullback) = parts::vjp(&x, n);
        assert_eq!((y.n, bits(&y)), (n, bits(&found)));
        let expected = op_by_op(|| parts::vjp(&x, n).1(&y));
        assert_eq!(bits(&pullback(&y)), bits(&expected));
    }
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

fn count() -> f64 {
    CALLS.fetch_add(1, Ordering::Relaxed) as f64
}

fn times(n: usize) -> f64 {
    n as f64 * count()
}

thread_local! {
    static STATE: Cell<f64> = const { Cell::new(1.0) };
}

#[traced]
fn counted(x: &Tensor) -> Tensor {
    let n = count();
    x * n
}

#[traced]
fn passed(x: &Tensor) -> Tensor {
    let all: Vec<f64> = (0..2).map(times).collect();
    x * all[1]
}

#[traced]
fn taken(x: &Tensor) -> Tensor {
    let by: f64 = STATE.take();
    x * by
}

#[traced]
fn replaced(x: &Tensor) -> Tensor {
    let state = &STATE;
    let by: f64 = state.replace(3.0);
    x * by
}

#[traced]
fn printed(x: &Tensor) -> Tensor {
    println!("{:?}", x.shape());
    x * 2.0
}

#[traced(record)]
fn recorded(x: &Tensor) -> Tensor {
    x * 2.0
}

/// User functions that look like those of the library and of numbers.
trait Drawn {
    fn draw() -> Self;
}

impl Drawn for Tensor {
    fn draw() -> Tensor {
        Tensor::scalar(count())
    }
}

impl Drawn for f64 {
    fn draw() -> f64 {
        count()
    }
}

#[traced]
fn drawn(x: &Tensor) -> Tensor {
    x * Tensor::draw()
}

#[traced]
fn number_drawn(x: &Tensor) -> Tensor {
    let by = f64::draw();
    x * by
}

#[derive(Clone, Tree)]
struct Counter {
    x: Tensor,
    #[tree(skip)]
    calls: std::rc::Rc<Cell<f64>>,
}

#[traced]
fn ticks(counter: &Counter) -> Counter {
    let by = counter.calls.replace(5.0);
    Counter {
        x: &counter.x * by,
        calls: counter.calls.clone(),
    }
}

#[test]
fn impure_code_is_named_with_its_line() {
    let why = [
        ("count()", counted::RECORDED),
        ("times", passed::RECORDED),
        ("Tensor::draw()", drawn::RECORDED),
        ("f64::draw()", number_drawn::RECORDED),
        (".replace()", ticks::RECORDED),
        ("println!", printed::RECORDED),
    ];
    for (what, why) in why {
        let why = why.expect(what);
        assert!(why.starts_with(&format!("`{what}` at line ")), "{why}");
        assert!(why.contains(" may have side effects"), "{why}");
    }
    for why in [taken::RECORDED, replaced::RECORDED] {
        let why = why.expect("a thread-local may be written to");
        assert!(why.starts_with("`STATE` at line "), "{why}");
        assert!(why.contains("may be mutable"), "{why}");
    }
    let asked = Some(
        "`#[traced(record)]` requests it; or declare that it has no side effects with `#[traced(pure)]`",
    );
    assert_eq!(recorded::RECORDED, asked);
    let x = Tensor::from([1.0f64]);
    STATE.set(7.0);
    assert_eq!(taken(&x).to_vec::<f64>(), [7.0]);
    assert_eq!(taken(&x).to_vec::<f64>(), [0.0]);
    assert_eq!(replaced(&x).to_vec::<f64>(), [0.0]);
    assert_eq!(replaced(&x).to_vec::<f64>(), [3.0]);
    for f in [passed, drawn, number_drawn] {
        assert_ne!(f(&x).to_vec::<f64>(), f(&x).to_vec::<f64>());
    }
    let counter = Counter {
        x,
        calls: Default::default(),
    };
    assert_eq!(ticks(&counter).x.to_vec::<f64>(), [0.0]);
    assert_eq!(ticks(&counter).x.to_vec::<f64>(), [5.0]);
}

#[traced]
fn loss(net: &Net, #[nodiff] x: &Tensor) -> Tensor {
    walked(net, x).square().mean(..)
}

const MOMENTUM: Sgd = Sgd {
    lr: 0.1,
    momentum: 0.9,
    nesterov: false,
};

#[traced(pure, record)]
fn step(
    net: &Net,
    #[nodiff] state: &SgdState<Net>,
    #[nodiff] x: &Tensor,
) -> (Net, SgdState<Net>, Tensor) {
    let (value, grads) = loss::value_and_grad(net, x);
    let (net, state) = MOMENTUM.step(net, &grads.net, state);
    (net, state, value)
}

#[test]
fn a_training_step_may_be_a_single_plan() {
    let (x, first) = (noise(&[4, 3], 1), net());
    assert_eq!(step::RECORDED, None);
    let train = || {
        let (mut net, mut state) = (first.clone(), MOMENTUM.init(&first));
        for _ in 0..4 {
            let value;
            (net, state, value) = step(&net, &state, &x);
            evaluate(&(net.clone(), state.clone(), value)).unwrap();
        }
        (net, state)
    };
    let plain = || {
        let (mut net, mut state) = (first.clone(), MOMENTUM.init(&first));
        for _ in 0..4 {
            let (_, grads) = loss::value_and_grad(&net, &x);
            (net, state) = MOMENTUM.step(&net, &grads.net, &state);
        }
        (net, state)
    };
    let expected = bits(&plain());
    assert_eq!(bits(&train()), expected);
    let (found, events) = log(train);
    let names: Vec<&str> = events.iter().map(String::as_str).collect();
    // The first two events create the initial state.
    assert_eq!(names[2..], ["hit p2", "ran p2"].repeat(4));
    assert_eq!(bits(&found), expected);
    assert_eq!(bits(&op_by_op(train)), expected);
}

#[derive(Clone, Tree)]
struct Weighted<T: Clone> {
    #[tree(skip)]
    k: T,
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Compared<T: Clone + Eq + 'static> {
    #[tree(skip)]
    k: T,
    w: Tensor,
}

#[derive(Clone)]
struct Unit;

#[traced(allow(recorded_call))]
fn weighted(s: &Weighted<f64>, x: &Tensor) -> Tensor {
    x * &s.w * s.k
}

#[traced]
fn by_type(s: &Weighted<Unit>, x: &Tensor) -> Tensor {
    x * &s.w
}

#[traced]
fn compared(s: &Compared<usize>, x: &Tensor) -> Tensor {
    x * &s.w * s.k as f64
}

#[test]
fn the_reason_knows_skipped_fields_of_generic_arguments() {
    let why = weighted::RECORDED.unwrap();
    assert!(why.contains("the skipped field `k` of `Weighted`"), "{why}");
    assert_eq!((by_type::RECORDED, compared::RECORDED), (None, None));
    let (x, w) = (Tensor::from([1.0f64, 2.0]), Tensor::from([3.0f64, 4.0]));
    let s = Weighted {
        k: 0.5,
        w: w.clone(),
    };
    is_recorded(|| weighted(&s, &x));
    let s = Weighted {
        k: Unit,
        w: w.clone(),
    };
    finds(|| by_type(&s, &x));
    let s = Compared { k: 3usize, w };
    finds(|| compared(&s, &x));
}
