//! Reports of the run time about calls: counts by function and outcome, reasons, times, and
//! changing numbers.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::cache;
use gradloom::events::{self, Event};
use gradloom::optim::Sgd;
use gradloom::prelude::*;
use gradloom::report::{self, FunctionReport, Report};
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, log};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Counts are global to the process, so tests that compare whole reports run one after the other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

#[track_caller]
fn function(report: &Report, name: &str) -> FunctionReport {
    let found = report.functions().iter().find(|f| f.name == name);
    found
        .unwrap_or_else(|| panic!("`{name}` in\n{report}"))
        .clone()
}

fn counts(f: &FunctionReport) -> [u64; 4] {
    [f.calls(), f.found, f.planned, f.recorded]
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    #[tree(skip)]
    name: String,
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w).tanh()
    }
}

#[traced(order = 2)]
fn loss(layer: &Layer, #[nodiff] x: &Tensor) -> Tensor {
    layer.forward(x).square().sum(..)
}

#[traced]
fn announced(x: &Tensor) -> Tensor {
    println!("a call");
    x * 2.0
}

#[traced]
fn reading(x: &Tensor) -> Tensor {
    let y = x * 2.0;
    if y.sum(..).item::<f64>() > 0.0 { y } else { -y }
}

#[traced(pure, record)]
fn calls_reading(x: &Tensor) -> Tensor {
    reading(x).sin()
}

fn layer() -> Layer {
    Layer {
        w: noise(&[2, 2], 1),
        name: "first".to_owned(),
    }
}

#[test]
fn calls_are_counted_by_function_and_outcome() {
    let _turn = turn();
    let (layer, x) = (layer(), noise(&[3, 2], 2));
    let ((), report) = report::of(|| {
        for _ in 0..3 {
            layer.forward(&x);
            let (y, pullback) = loss::vjp(&layer, &x);
            pullback(&y);
            let gradient = loss::grad(&layer, &x).layer;
            loss::jvp((&layer, &x), &layer);
            loss::hvp((&layer, &x), &layer);
            let sgd = Sgd::default();
            sgd.step(&layer, &gradient, &sgd.init(&layer));
            announced(&x);
            let _ = announced::vjp(&x);
            reading(&x);
        }
        layer.forward(&noise(&[4, 2], 3));
        layer.forward(&(&x + 1.0));
    });
    let of = |name: &str| function(&report, name);
    let forward = of("reports::Layer::forward");
    assert_eq!(counts(&forward), [5, 3, 2, 0], "{report}");
    for name in [
        "loss::vjp",
        "loss::value_and_grad",
        "loss::jvp",
        "loss::hvp",
    ] {
        assert_eq!(
            counts(&of(&format!("reports::{name}"))),
            [3, 2, 1, 0],
            "{report}"
        );
    }
    assert_eq!(of("gradloom::optim::Sgd::step").calls(), 3);
    let announced = of("reports::announced");
    assert!(announced.recorded >= 3, "{report}");
    assert!(announced.why.is_some_and(|why| why.contains("println")));
    assert!(of("reports::announced::vjp").recorded >= 3);
    assert!(of("reports::reading").recorded >= 3);
    assert!(
        report
            .functions()
            .iter()
            .all(|f| f.time < Duration::from_secs(60))
    );
    let text = report.to_string();
    assert!(text.starts_with("function "), "{text}");
    assert!(text.contains("reports::loss::vjp"), "{text}");
}

#[test]
fn the_reason_is_that_of_the_last_recorded_call() {
    let _turn = turn();
    let layer = layer();
    let x = noise(&[3, 2], 2);
    evaluate(&x).unwrap();
    let why = |call: &dyn Fn()| {
        let ((), report) = report::of(call);
        function(&report, "reports::renamed")
            .why
            .unwrap()
            .into_owned()
    };
    let renamed_to = |name: &str, x: &Tensor| {
        let mut layer = layer.clone();
        layer.name = name.to_owned();
        renamed(&layer, x);
    };
    assert_eq!(why(&|| renamed_to("a", &x)), "the first call");
    let wide = noise(&[5, 2], 2);
    evaluate(&wide).unwrap();
    assert_eq!(
        why(&|| renamed_to("a", &wide)),
        "`x`: f64[3, 2] -> f64[5, 2]"
    );
    assert_eq!(
        why(&|| renamed_to("b", &x)),
        "a different structure or skipped value of `layer`"
    );
    let ((), report) = report::of(|| renamed_to("b", &(&x + 1.0)));
    let of_pending = function(&report, "reports::renamed");
    assert_eq!((of_pending.found, of_pending.recorded), (1, 0));
    grad(|x: &Tensor| {
        let ((), report) = report::of(|| drop(renamed(&layer, x)));
        assert_eq!(
            function(&report, "reports::renamed").why.as_deref(),
            Some("an argument is traced by a transform")
        );
        x.sum(..)
    })(&x);
}

#[traced(pure)]
fn renamed(layer: &Layer, x: &Tensor) -> Tensor {
    x.matmul(&layer.w)
}

#[test]
fn a_recorded_callee_is_named() {
    let _turn = turn();
    let x = noise(&[3], 1);
    evaluate(&x).unwrap();
    calls_reading(&x);
    let (_, log) = events::record(|| calls_reading(&x));
    let recorded = log.iter().find_map(|event| match event {
        Event::Recorded { function, why } => Some((*function, why.to_string())),
        _ => None,
    });
    let (function, why) = recorded.unwrap();
    assert_eq!(function, "reports::calls_reading");
    assert_eq!(why, "the body calls `reports::reading`, which is recorded");
    let before = events::counts().recorded;
    calls_reading(&x);
    assert!(events::counts().recorded > before);
}

#[traced]
fn update(w: &Tensor, g: &Tensor, lr: f64, decay: f64) -> Tensor {
    w * (1.0 - decay) - g * Tensor::full([3], lr, DType::F64)
}

#[test]
fn a_number_that_changes_is_named_once_it_has_changed_three_times() {
    let _turn = turn();
    let (w, g) = (noise(&[3], 1), noise(&[3], 2));
    let log = |lr: f64, decay: f64| {
        let (_, log) = events::record(|| update(&w, &g, lr, decay));
        let changing = log.iter().find(|e| matches!(e, Event::Changing { .. }));
        changing.map(ToString::to_string)
    };
    assert_eq!(log(0.1, 0.0), None);
    assert_eq!(log(0.2, 0.0), None);
    // A value seen before has its plan. If two numbers change at once, neither is blamed.
    assert_eq!(log(0.1, 0.0), None);
    assert_eq!(log(0.9, 0.5), None);
    assert_eq!(log(0.3, 0.0), None);
    let said = "`reports::update` was recorded again: argument `lr` changed 3 times: pass a tensor";
    assert_eq!(log(0.4, 0.0).as_deref(), Some(said));
    let report = gradloom::report();
    assert_eq!(
        function(&report, "reports::update").why.as_deref(),
        Some("argument `lr` changed 3 times: pass a tensor")
    );
    for n in 0..4 {
        update(&w, &g, f64::from(n), 0.25);
    }
}

#[traced]
fn by_axis(x: &Tensor, axis: usize, #[fixed] name: &str) -> Tensor {
    match name {
        "sum" => x.sum(axis),
        _ => x.mean(axis),
    }
}

#[test]
fn changing_static_values_other_than_numbers_are_not_named() {
    let _turn = turn();
    let x = noise(&[3, 3], 1);
    let (_, log) = events::record(|| {
        for name in ["sum", "mean", "other", "more", "last"] {
            by_axis(&x, 0, name);
        }
    });
    assert!(!log.iter().any(|e| matches!(e, Event::Changing { .. })));
}

#[traced]
fn doubled(x: &Tensor) -> Tensor {
    x * 2.0
}

#[traced]
fn doubled_or_less(x: &Tensor) -> Tensor {
    let y = doubled(x);
    if y.sum(..).item::<f64>() > 0.0 { y } else { -y }
}

#[traced(pure, record)]
fn calls_doubled_or_less(x: &Tensor) -> Tensor {
    doubled_or_less(x).sin()
}

#[traced]
fn doubled_twice(x: &Tensor) -> Tensor {
    doubled(&doubled(x))
}

#[test]
fn callees_are_counted_in_each_call_without_a_plan_and_in_no_other() {
    let _turn = turn();
    let x = noise(&[3], 1);
    evaluate(&x).unwrap();
    let ((), report) = report::of(|| (0..5).for_each(|_| drop(calls_doubled_or_less(&x))));
    let of = |name: &str| counts(&function(&report, &format!("reports::{name}")));
    assert_eq!(of("calls_doubled_or_less"), [5, 0, 0, 5], "{report}");
    assert_eq!(of("doubled_or_less"), [5, 0, 0, 5], "{report}");
    assert_eq!(of("doubled"), [5, 3, 1, 1], "{report}");
    let ((), report) = report::of(|| (0..5).for_each(|_| drop(doubled_twice(&x))));
    let counted: Vec<_> = report.functions().iter().map(counts).collect();
    assert_eq!(counted, [[5, 4, 1, 0]], "{report}");
    // The report gives a reason for a callee that is recorded with its caller and has no other calls.
    let ((), report) = report::of(|| drop(calls_doubled_or_less(&noise(&[4], 1))));
    let why = function(&report, "reports::doubled").why;
    assert_eq!(why.as_deref(), Some("it was recorded with its caller"));
}

#[traced]
fn planned_each_time(x: &Tensor) -> Tensor {
    x.tanh()
}

#[test]
fn calls_are_counted_if_the_cache_keeps_no_plans() {
    let _turn = turn();
    let x = noise(&[3], 1);
    evaluate(&x).unwrap();
    let capacity = cache::stats().capacity;
    cache::set_capacity(0);
    let ((), report) = report::of(|| (0..3).for_each(|_| drop(planned_each_time(&x))));
    cache::set_capacity(capacity);
    let planned = function(&report, "reports::planned_each_time");
    assert_eq!(counts(&planned), [3, 0, 3, 0], "{report}");
}

#[derive(Clone)]
struct Schedule(f64);

#[traced(pure)]
fn scheduled(x: &Tensor, #[fixed] schedule: &Schedule, n: usize) -> Tensor {
    x * (schedule.0 * n as f64)
}

#[test]
fn an_argument_that_cannot_be_part_of_a_key_is_named() {
    let _turn = turn();
    let x = noise(&[3], 1);
    let ((), report) = report::of(|| drop(scheduled(&x, &Schedule(0.5), 2)));
    let why = function(&report, "reports::scheduled").why.unwrap();
    assert!(why.starts_with("`schedule` holds a `"), "{why}");
    assert!(why.contains("Schedule"), "{why}");
}

#[traced]
fn on_threads(x: &Tensor) -> Tensor {
    x.exp()
}

#[test]
fn calls_of_finished_threads_are_counted() {
    let _turn = turn();
    let x = noise(&[3], 1);
    evaluate(&x).unwrap();
    let ((), report) = report::of(|| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| drop(on_threads(&x))));
            }
        });
    });
    let totals = function(&report, "reports::on_threads");
    assert_eq!(counts(&totals), [20, 16, 4, 0]);
}

#[traced]
fn large(x: &Tensor) -> Tensor {
    x.exp().sin()
}

#[test]
fn the_time_of_a_deferred_plan_counts_for_its_function() {
    let _turn = turn();
    let x = Tensor::ones([1 << 20], DType::F32);
    evaluate(&x).unwrap();
    evaluate(&large(&x)).unwrap();
    let (y, promised) = report::of(|| large(&x));
    let ((), ran) = report::of(|| {
        evaluate(&y).unwrap();
        large(&x);
    });
    let (promised, ran) = (
        function(&promised, "reports::large").time,
        function(&ran, "reports::large").time,
    );
    assert_eq!(promised, Duration::ZERO);
    assert!(ran > Duration::from_micros(50), "{ran:?}");
}

mod app {
    use super::{DType, Layer, Tensor, traced};

    #[traced]
    pub(super) fn loss(layer: &Layer, #[nodiff] x: &Tensor) -> Tensor {
        layer.forward(x).square().sum(..)
    }

    #[traced]
    pub(super) fn update(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
        w - g * Tensor::full([1], lr, DType::F64)
    }

    #[traced]
    pub(super) fn accuracy(layer: &Layer, x: &Tensor) -> Tensor {
        let y = layer.forward(x);
        if y.sum(..).item::<f64>() > 0.0 { y } else { -y }
    }
}

/// The book shows this report in `caching-and-purity.md`, with the same counts. `--nocapture` prints it with its times.
#[test]
fn the_table_has_a_row_for_each_function() {
    let _turn = turn();
    let (mut layer, x) = (layer(), noise(&[3, 2], 2));
    let ((), report) = report::of(|| {
        for step in 0..900 {
            let (_, gradient) = app::loss::value_and_grad(&layer, &x);
            layer.w = app::update(&layer.w, &gradient.layer.w, 0.1 / f64::from(1 + step));
            if step % 100 == 0 {
                app::accuracy(&layer, &x);
            }
        }
    });
    println!("{report}");
    let columns = |name: &str| {
        let f = function(&report, &format!("reports::app::{name}"));
        (counts(&f), f.why.unwrap_or_default().into_owned())
    };
    let first = "the first call".to_owned();
    assert_eq!(columns("loss::value_and_grad"), ([900, 899, 1, 0], first));
    let changed = "argument `lr` changed 899 times: pass a tensor".to_owned();
    assert_eq!(columns("update"), ([900, 0, 900, 0], changed));
    let (accuracy, why) = columns("accuracy");
    assert_eq!(accuracy, [9, 0, 0, 9]);
    assert!(why.contains("`.item()` at line"), "{why}");
    let lines: Vec<String> = report.to_string().lines().map(str::to_owned).collect();
    let end = lines[0].find("calls").unwrap() + "calls".len();
    let is_aligned = |line: &String| line[..end].ends_with(|c: char| c.is_ascii_digit());
    assert!(lines[1..lines.len() - 1].iter().all(is_aligned), "{report}");
}

#[traced]
fn of_a_batch(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor) -> Tensor {
    x.matmul(w).sin()
}

#[test]
fn each_length_of_a_batch_is_planned_once() {
    let _turn = turn();
    let w = noise(&[3, 2], 1);
    let batches: Vec<Tensor> = (1..=64).map(|n| noise(&[n, 3], n as u64)).collect();
    let pass = || -> Vec<Tensor> { batches.iter().map(|x| of_a_batch(x, &w)).collect() };
    let expected = bits(&op_by_op(pass));
    for [found, planned] in [[0, 64], [64, 0], [64, 0]] {
        let ((y, events), report) = report::of(|| {
            log(|| {
                let y = pass();
                evaluate(&y).unwrap();
                y
            })
        });
        let of_calls = function(&report, "reports::of_a_batch");
        assert_eq!(counts(&of_calls), [64, found, planned, 0], "{report}");
        // The body is not run again for a length that has a plan.
        let is_recorded = |e: &&String| e.starts_with("traced") || e.starts_with("recorded");
        assert_eq!(events.iter().find(is_recorded), None);
        assert_eq!(bits(&y), expected);
    }
}

#[test]
fn the_changed_argument_of_a_step_is_named() {
    let _turn = turn();
    let sgd = Sgd::default();
    let why = |params: &(Tensor, Tensor)| {
        let gradients = (noise(&[1, 4], 3).cast(params.0.dtype()), noise(&[4], 4));
        evaluate(params).unwrap();
        evaluate(&gradients).unwrap();
        let ((), report) = report::of(|| drop(sgd.step(params, &gradients, &sgd.init(params))));
        function(&report, "gradloom::optim::Sgd::step").why.unwrap()
    };
    let params = (noise(&[1, 4], 1), noise(&[4], 2));
    why(&params);
    let why = why(&(params.0.cast(DType::F32), params.1.clone()));
    assert_eq!(
        why,
        "`params`: f64[1, 4] -> f32[1, 4]; `gradients`: f64[1, 4] -> f32[1, 4]"
    );
}
