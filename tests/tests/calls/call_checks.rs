//! Calls that reuse a plan are sometimes recorded again and compared with it. A body that breaks
//! the promise of `#[traced(pure)]` is found, and other bodies are unaffected.
#![allow(
    clippy::manual_is_multiple_of,
    clippy::unnecessary_map_on_constructor,
    clippy::needless_borrows_for_generic_args
)] // bodies are written as by users
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::events::{self, Event};
use gradloom::optim::{Adam, AdamW, Sgd};
use gradloom::prelude::*;
use gradloom::testing::{check_every_call, check_no_call};
use gradloom_tests::noise;
use gradloom_tests::observe::bits;
use gradloom_tests::panics::panic_of;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// Hidden state, which each call changes.
    static TURN: Cell<usize> = const { Cell::new(0) };
    static CAPTURED: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}

fn turn() -> usize {
    TURN.replace(TURN.get() + 1)
}

fn message(f: impl FnOnce()) -> String {
    panic_of(f).0
}

/// Calls twice, and expects the second call to report that the function breaks its promise.
#[track_caller]
fn lies<R>(function: &str, difference: &str, call: impl Fn() -> R) {
    TURN.set(0);
    let said = message(|| {
        check_every_call(|| {
            call();
            call();
        });
    });
    let start = format!("`calls::call_checks::{function}` is `#[traced(pure)]`");
    assert!(said.starts_with(&start), "{said}");
    assert!(said.contains(difference), "{said}");
    assert!(said.contains("remove `pure`"), "{said}");
    // No state is left behind: later calls are recorded and run as usual.
    let x = noise(&[2], 1);
    assert_eq!(bits(&honest(&x)), bits(&check_every_call(|| honest(&x))));
}

#[traced]
fn honest(x: &Tensor) -> Tensor {
    x * 2.0 + 1.0
}

#[traced(pure)]
fn another_number(x: &Tensor) -> Tensor {
    x * (turn() as f64)
}

#[traced(pure)]
fn another_op(x: &Tensor) -> Tensor {
    match turn() % 2 {
        0 => x.sin(),
        _ => x.cos(),
    }
}

#[traced(pure)]
fn more_ops(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..turn() + 1 {
        y = y.sin();
    }
    y
}

#[traced(pure)]
fn another_axis(x: &Tensor) -> Tensor {
    x.exp().sum(turn() % 2)
}

#[traced(pure)]
fn another_argument(x: &Tensor, y: &Tensor) -> Tensor {
    match turn() % 2 {
        0 => x.exp(),
        _ => y.exp(),
    }
}

#[traced(pure)]
fn an_argument_itself(x: &Tensor, y: &Tensor) -> Tensor {
    match turn() % 2 {
        0 => x.clone(),
        _ => y.clone(),
    }
}

#[traced(pure)]
fn another_constant(x: &Tensor) -> Tensor {
    x + Tensor::from([turn() as f32, 0.0])
}

#[traced(pure)]
fn another_sign_of_zero(x: &Tensor) -> Tensor {
    let zero = if turn() % 2 == 0 { 0.0f32 } else { -0.0 };
    x + Tensor::from([zero, 0.0])
}

#[traced(pure)]
fn captured(x: &Tensor) -> Tensor {
    let captured = CAPTURED.with_borrow(|c| c.clone().expect("a captured tensor"));
    x * captured
}

#[traced(pure)]
fn other_order(x: &Tensor) -> (Tensor, Tensor) {
    let (y, z) = (x.exp(), x.sin());
    match turn() % 2 {
        0 => (y, z),
        _ => (z, y),
    }
}

#[traced(pure)]
fn reads(x: &Tensor) -> Tensor {
    if turn() % 2 == 1 && x.sum(..).item::<f32>() > 0.0 {
        return x * 2.0;
    }
    x * 2.0
}

#[traced(pure)]
fn loss(x: &Tensor) -> Tensor {
    (x * (turn() as f64)).sum(..)
}

#[traced(pure)]
fn inner(x: &Tensor) -> Tensor {
    x * (turn() as f64 + 1.0)
}

#[traced(pure)]
fn outer(x: &Tensor) -> Tensor {
    inner(x).sin()
}

#[derive(Clone, Tree)]
struct Steps {
    parts: Vec<Tensor>,
    #[tree(skip)]
    turn: usize,
}

#[traced(pure)]
fn other_field(x: &Tensor) -> Steps {
    let turn = turn();
    let parts = vec![x.exp()];
    Steps { parts, turn }
}

#[traced(pure)]
fn other_structure(x: &Tensor) -> Steps {
    let parts = vec![x.exp(); 1 + turn() % 2];
    Steps { parts, turn: 0 }
}

#[test]
fn each_way_to_break_the_promise_of_pure_is_detected() {
    let (x, y) = (noise(&[2, 2], 1).cast(DType::F32), noise(&[2, 2], 2));
    evaluate(&(x.clone(), y.clone())).unwrap();
    let row = Tensor::from([1.0f32, 2.0]);
    lies("another_number", "static value", || another_number(&x));
    lies("another_op", "->", || another_op(&x));
    lies("more_ops", "number of operations", || more_ops(&x));
    lies("another_axis", "axes", || another_axis(&x));
    lies("another_argument", "leaf", || another_argument(&x, &y));
    let z = noise(&[2, 2], 3);
    lies("another_argument", "other arguments", || {
        another_argument(&z, &y)
    });
    lies("an_argument_itself", "are arguments", || {
        an_argument_itself(&z, &y)
    });
    lies("another_constant", "has different elements", || {
        another_constant(&row)
    });
    lies("another_sign_of_zero", "has different elements", || {
        another_sign_of_zero(&row)
    });
    lies("other_order", "->", || other_order(&x));
    // A promise does not help where a body reads elements: each call is recorded.
    assert!(reads::RECORDED.is_some_and(|why| why.contains("reads the values")));
    lies("outer", "static value", || outer(&x));
    lies("other_field", "skipped field", || other_field(&x));
    lies("other_structure", "structure", || other_structure(&x));
    lies("captured", "has different elements", || {
        CAPTURED.set(Some(Tensor::from([turn() as f32, 1.0])));
        captured(&row)
    });
}

#[test]
fn companions_are_checked_as_well() {
    let x = noise(&[3], 1);
    lies("loss", "static value", || loss(&x));
    lies("loss::vjp", "static value", || loss::vjp(&x).0);
    lies("loss::value_and_grad", "static value", || {
        loss::value_and_grad(&x)
    });
    lies("loss::value_and_grad", "static value", || loss::grad(&x));
    lies("loss::jvp", "static value", || loss::jvp(&x, &x));
}

#[traced(pure, order = 2)]
fn bowl(x: &Tensor) -> Tensor {
    (x.square() * (turn() as f64)).sum(..)
}

#[traced(pure)]
fn only_the_pullback(x: &Tensor) -> Tensor {
    // The values are equal, and the derivatives are not.
    match turn() % 2 {
        0 => x * 1.0,
        _ => x.stop_gradient() * 1.0,
    }
}

#[test]
fn second_order_and_pullbacks_are_checked() {
    let x = noise(&[3], 1);
    lies("bowl::hvp", "static value", || bowl::hvp(&x, &x));
    lies("only_the_pullback::vjp", ":", || {
        only_the_pullback::vjp(&x).0
    });
}

#[traced(pure)]
fn draws(x: &Tensor, key: Key) -> Tensor {
    let (first, second) = key.split();
    let key = if turn() % 2 == 0 { first } else { second };
    x * key.normal(x.shape(), DType::F64)
}

#[test]
fn a_checked_call_uses_its_key_once() {
    let x = noise(&[3], 1);
    lies("draws", "->", || draws(&x, Key::new(1)));
}

#[traced]
fn dropped(x: &Tensor, p: f64, key: Key) -> Tensor {
    let keep = key.bernoulli(1.0 - p, x.shape());
    keep.select(&(x / (1.0 - p)), &Tensor::zeros_like(x))
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
    #[tree(skip)]
    name: String,
}

#[traced(order = 2)]
fn score(layer: &Layer, #[nodiff] x: &Tensor) -> Tensor {
    let mut y = x.matmul(&layer.w);
    if let Some(b) = &layer.b {
        y += b;
    }
    (y.tanh() + Tensor::from([0.5, f64::NAN, -0.0].map(|v| if v.is_nan() { 1.0 } else { v })))
        .square()
        .sum(..)
}

#[traced]
fn renamed(layer: &Layer) -> Layer {
    Layer {
        w: &layer.w * 2.0,
        b: layer.b.clone(),
        name: format!("{}'", layer.name),
    }
}

fn layer() -> Layer {
    Layer {
        w: noise(&[2, 3], 1),
        b: Some(noise(&[3], 2)),
        name: "first".to_owned(),
    }
}

/// Makes calls of all kinds, several times.
fn program() -> Vec<Vec<u64>> {
    let (mut model, x) = (layer(), noise(&[4, 2], 3));
    let (adam, adamw, sgd) = (
        Adam::default(),
        AdamW::default(),
        Sgd {
            momentum: 0.5,
            ..Sgd::default()
        },
    );
    let (mut a, mut w, mut s) = (adam.init(&model), adamw.init(&model), sgd.init(&model));
    let mut all = Vec::new();
    for n in 0..4 {
        let (value, grads) = score::value_and_grad(&model, &x);
        (model, a) = adam.step(&model, &grads.layer, &a);
        (model, w) = adamw.step(&model, &grads.layer, &w);
        (model, s) = sgd.step(&model, &grads.layer, &s);
        let (y, pullback) = score::vjp(&model, &x);
        let (_, dy) = score::jvp((&model, &x), &model);
        let (gradient, change) = score::hvp((&model, &x), &model);
        let drawn = dropped(&x, 0.5, Key::new(n));
        let same = dropped(&x, 0.5, Key::new(7));
        let next = renamed(&model);
        assert_eq!(next.name, "first'");
        all.push(bits(&(
            value,
            y.clone(),
            pullback(&y),
            dy,
            gradient,
            change,
        )));
        all.push(bits(&(drawn, same, next)));
    }
    all.concat()
}

#[test]
fn checks_change_neither_results_nor_events_nor_counts() {
    let unchecked = check_no_call(|| (program(), program()));
    let (checked, with) = events::record(|| check_every_call(program));
    let (again, without) = events::record(|| check_no_call(program));
    assert_eq!(checked, unchecked.1);
    assert_eq!(again, unchecked.1);
    assert_eq!(with, without);
    assert!(with.iter().any(|event| matches!(event, Event::Hit { .. })));
}

static BODIES: AtomicUsize = AtomicUsize::new(0);

#[traced(pure)]
fn counted(x: &Tensor) -> Tensor {
    BODIES.fetch_add(1, Ordering::Relaxed);
    x * 3.0
}

#[test]
fn a_call_runs_its_body_at_most_once_and_one_call_in_sixteen_is_checked() {
    let x = noise(&[3], 1);
    let ran = |calls: usize| {
        let before = BODIES.load(Ordering::Relaxed);
        (0..calls).for_each(|_| drop(counted(&x)));
        BODIES.load(Ordering::Relaxed) - before
    };
    assert_eq!(check_no_call(|| ran(40)), 1);
    assert_eq!(check_every_call(|| ran(5)), 5);
    if std::env::var_os("GRADLOOM_CHECK_CALLS").is_none() {
        assert_eq!(ran(160), 10);
    }
}

#[traced(pure)]
fn panics(x: &Tensor) -> Tensor {
    let turn = turn();
    assert!(turn != 1, "turn {turn}");
    x * 2.0
}

#[test]
fn a_body_that_panics_in_a_check_leaves_no_state_behind() {
    let x = noise(&[3], 1);
    check_every_call(|| {
        TURN.set(0);
        panics(&x);
        assert_eq!(message(|| drop(panics(&x))), "turn 1");
        assert_eq!(bits(&panics(&x)), bits(&(&x * 2.0)));
        let (_, events) = events::record(|| honest(&x));
        assert!(!events.is_empty(), "events are emitted again");
    });
}

#[traced(pure)]
fn fails(x: &Tensor) -> Result<Tensor> {
    match turn() % 2 {
        0 => Ok(x * 2.0),
        _ => Ok(x.matmul(&noise(&[7, 7], 1))),
    }
}

#[test]
fn an_error_in_a_check_is_the_error_of_the_call() {
    let x = noise(&[3, 3], 1);
    check_every_call(|| {
        TURN.set(0);
        fails(&x).unwrap();
        assert!(fails(&x).is_err());
        assert_eq!(bits(&fails(&x).unwrap()), bits(&(&x * 2.0)));
    });
}

#[traced(pure)]
fn equal_arguments(x: &Tensor, y: &Tensor) -> Tensor {
    x * y
}

#[test]
fn a_plan_for_distinct_arguments_is_valid_for_equal_ones() {
    let (x, y) = (noise(&[3], 1), noise(&[3], 2));
    check_every_call(|| {
        equal_arguments(&x, &y);
        assert_eq!(bits(&equal_arguments(&x, &x)), bits(&x.square()));
        assert_eq!(bits(&equal_arguments(&y, &x)), bits(&(&x * &y)));
    });
}

/// Host code with hidden state that the purity analysis may miss. Its result differs at each call.
mod hidden {
    use super::{Tensor, Tree, traced, turn};
    use std::cell::Cell;
    use std::fmt;

    fn noise(by: f64) -> f64 {
        by + turn() as f64
    }

    const NOISE: fn(f64) -> f64 = noise;

    thread_local! {
        #[allow(non_upper_case_globals)]
        static gain: Cell<f64> = const { Cell::new(1.0) };
    }

    struct Knob;

    impl Knob {
        #[allow(clippy::len_without_is_empty)]
        fn len(&self) -> usize {
            turn() + 2
        }
    }

    impl fmt::Display for Knob {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&"x".repeat(turn() + 1))
        }
    }

    impl Iterator for Knob {
        type Item = f64;
        fn next(&mut self) -> Option<f64> {
            Some(noise(1.0))
        }
    }

    struct Level;

    impl From<Level> for f64 {
        fn from(_: Level) -> f64 {
            noise(1.0)
        }
    }

    trait Modes {
        fn inspect(&self, name: &str) -> Tensor;
    }

    impl Modes for Tensor {
        fn inspect(&self, _: &str) -> Tensor {
            self * noise(1.0)
        }
    }

    #[derive(Clone, Tree)]
    pub(super) struct Net {
        pub(super) w: Tensor,
        #[tree(skip)]
        pub(super) activation: fn(f64) -> f64,
    }

    #[traced]
    pub(super) fn a_function_in_a_local(x: &Tensor) -> Tensor {
        let f = noise;
        x * Some(2.0).map(f).unwrap()
    }

    #[traced]
    pub(super) fn a_function_in_a_constant(x: &Tensor) -> Tensor {
        x * Some(2.0).map(NOISE).unwrap()
    }

    #[traced]
    pub(super) fn a_function_in_a_field(net: &Net) -> Tensor {
        let by = Some(2.0).map(net.activation).unwrap();
        &net.w * by
    }

    #[traced]
    pub(super) fn a_method_of_a_unit(x: &Tensor) -> Tensor {
        let knob = Knob;
        x * (knob.len() as f64)
    }

    #[traced]
    pub(super) fn an_iterator(x: &Tensor) -> Tensor {
        let mut knob = Knob;
        x * knob.next().unwrap_or(1.0)
    }

    #[traced]
    pub(super) fn a_conversion(x: &Tensor) -> Tensor {
        x * f64::from(Level)
    }

    #[traced]
    pub(super) fn a_method_of_a_tensor(x: &Tensor) -> Tensor {
        let y = x * 2.0;
        y.inspect("y")
    }

    #[traced]
    pub(super) fn a_text(x: &Tensor) -> Tensor {
        let text = format!("{}", Knob);
        x * (text.len() as f64)
    }

    #[traced]
    pub(super) fn a_thread_local(x: &Tensor) -> Tensor {
        x * gain.replace(noise(2.0))
    }

    pub(super) fn net(w: &Tensor) -> Net {
        Net {
            w: w.clone(),
            activation: noise,
        }
    }
}

/// Checks that a body that is wrongly judged pure is reported, and that any other is recorded and
/// right.
#[track_caller]
fn is_right_or_found(call: impl Fn() -> Tensor) {
    TURN.set(0);
    let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        check_every_call(|| {
            let first = bits(&call());
            assert_ne!(bits(&call()), first, "the second result is the first one");
        });
    }));
    if let Err(said) = second {
        let said = said.downcast::<String>().expect("a `String` message");
        assert!(said.contains("please report it"), "{said}");
    }
}

#[test]
fn hidden_state_missed_by_the_purity_analysis_is_detected() {
    let x = noise(&[3], 1);
    is_right_or_found(|| hidden::a_function_in_a_local(&x));
    is_right_or_found(|| hidden::a_function_in_a_constant(&x));
    is_right_or_found(|| hidden::a_function_in_a_field(&hidden::net(&x)));
    is_right_or_found(|| hidden::a_method_of_a_unit(&x));
    is_right_or_found(|| hidden::an_iterator(&x));
    is_right_or_found(|| hidden::a_conversion(&x));
    is_right_or_found(|| hidden::a_method_of_a_tensor(&x));
    is_right_or_found(|| hidden::a_text(&x));
    is_right_or_found(|| hidden::a_thread_local(&x));
}
