//! Named values of traced functions as trace points.

use crate::{names_of, records_of};
use gradloom::dump::{Config, Format, read, scope, with_config};
use gradloom::events;
use gradloom::prelude::*;
use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[traced]
fn blk(x: &Tensor, w: &Tensor) -> Tensor {
    let h = x.matmul(w).tanh();
    let scaled = &h * 0.5;
    x + scaled * h
}

#[traced]
fn model(x: &Tensor, w: &Tensor) -> Tensor {
    let mut x = x * 1.0;
    for _ in 0..3 {
        x = blk(&x, w);
    }
    x.square().sum(..)
}

fn arguments() -> (Tensor, Tensor) {
    let [a, b] = Key::new(7).split_n();
    (a.normal([4, 3], DType::F32), b.normal([3, 3], DType::F32))
}

/// Traces the points that fit a pattern.
fn traced<T>(folder: &Path, patterns: &str, f: impl FnOnce() -> T) -> T {
    with_config(Config::new(folder).points(patterns), f)
}

/// S3.26, S3.28: names from the call path, without a line of code at the call.
#[test]
fn named_values_have_the_names_of_the_call_path() {
    let folder = tempfile::tempdir().unwrap();
    let (x, w) = arguments();
    let plain = model(&x, &w).to_vec::<f32>();
    let y = traced(folder.path(), "*", || {
        let _token = scope("t4");
        model(&x, &w).to_vec::<f32>()
    });
    assert_eq!(plain, y);
    let found = records_of(folder.path());
    let found: Vec<_> = found
        .iter()
        .map(|r| (&*r.name, r.seq_index, r.layer_idx, r.stage.as_deref()))
        .collect();
    let forward = Some("forward");
    assert_eq!(
        found,
        [
            ("t4/model/x", Some(4), None, forward),
            ("t4/model/blk0/h", Some(4), Some(0), forward),
            ("t4/model/blk0/scaled", Some(4), Some(0), forward),
            ("t4/model/0/x", Some(4), Some(0), forward),
            ("t4/model/blk1/h", Some(4), Some(1), forward),
            ("t4/model/blk1/scaled", Some(4), Some(1), forward),
            ("t4/model/1/x", Some(4), Some(1), forward),
            ("t4/model/blk2/h", Some(4), Some(2), forward),
            ("t4/model/blk2/scaled", Some(4), Some(2), forward),
            ("t4/model/2/x", Some(4), Some(2), forward),
        ]
    );
    let trace = read(folder.path()).unwrap();
    let source = trace.entries[1].source.as_deref().unwrap();
    assert!(source.ends_with("points.rs:14:9"), "{source}");
}

#[derive(Tree)]
struct Pair {
    a: Tensor,
    b: Tensor,
}

#[traced]
fn shapes_of_let(x: &Tensor, n: usize) -> Tensor {
    let chosen = match n {
        0 => x * 2.0,
        _ => x.clone(),
    };
    let block = {
        let inner = &chosen + 1.0;
        inner
    };
    let pair = Pair {
        a: &block * 3.0,
        b: x + 1.0,
    };
    let branch = if n > 9 {
        return x.clone();
    } else {
        &pair.a - &pair.b
    };
    let mut total = &branch * 1.0;
    total += x;
    total * chosen * block
}

#[test]
fn each_form_of_let_is_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from([1.0f32, 2.0]);
    let plain = shapes_of_let(&x, 1).to_vec::<f32>();
    let found = traced(folder.path(), "*", || shapes_of_let(&x, 1).to_vec::<f32>());
    assert_eq!(plain, found);
    let names = names_of(folder.path());
    let names: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("shapes_of_let/"))
        .collect();
    assert_eq!(
        names,
        [
            "chosen", "inner", "block", "pair.a", "pair.b", "branch", "total", "total"
        ]
    );
}

#[traced]
fn indexed(x: &Tensor) -> Tensor {
    let part = x.i(0..1);
    let cleared = x.set(0, 0.0);
    let added = cleared.add_at(1, part.i(0));
    (added * cleared).sum(..)
}

#[test]
fn parts_by_an_index_are_points() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from([1.0f32, 2.0]);
    traced(folder.path(), "*", || drop(indexed(&x)));
    let names = names_of(folder.path());
    assert_eq!(names, ["indexed/part", "indexed/cleared", "indexed/added"]);
}

/// The values are those of the program: recorded by hand.
#[test]
fn a_point_has_the_value_of_its_name() {
    let (folder, by_hand) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (x, w) = arguments();
    traced(folder.path(), "*", || drop(blk(&x, &w)));
    let h = x.matmul(&w).tanh();
    with_config(Config::new(by_hand.path()), || {
        gradloom::dump::dump_trace("h", &h).unwrap();
        gradloom::dump::dump_trace("scaled", &(&h * 0.5)).unwrap();
    });
    let hashes = |folder: &Path| Vec::from_iter(records_of(folder).into_iter().map(|r| r.blake3));
    assert_eq!(hashes(folder.path()), hashes(by_hand.path()));
}

/// The stage `backward` has the cotangents of the named values, in the order of the pass.
#[test]
fn the_backward_pass_has_the_cotangents() {
    let (folder, by_hand) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (x, w) = arguments();
    let plain = blk::vjp(&x, &w).1(&x.ones_like());
    let found = traced(folder.path(), "blk/*", || {
        blk::vjp(&x, &w).1(&x.ones_like())
    });
    assert_eq!(plain.0.to_vec::<f32>(), found.0.to_vec::<f32>());
    assert_eq!(plain.1.to_vec::<f32>(), found.1.to_vec::<f32>());
    assert_eq!(
        names_of(folder.path()),
        ["blk/h", "blk/scaled", "blk/ct_scaled", "blk/ct_h"]
    );
    let records = records_of(folder.path());
    assert_eq!(records[3].stage.as_deref(), Some("backward"));
    // y = x + scaled h and scaled = h / 2, with the cotangent 1 of y.
    let h = x.matmul(&w).tanh();
    with_config(Config::new(by_hand.path()), || {
        gradloom::dump::dump_trace("ct_scaled", &(&h * 1.0)).unwrap();
        gradloom::dump::dump_trace("ct_h", &(&h * 0.5 + &h * 0.5)).unwrap();
    });
    let hashes = |records: &[gradloom::dump::TraceRecord]| {
        Vec::from_iter(records.iter().map(|r| r.blake3.clone()))
    };
    assert_eq!(hashes(&records[2..]), hashes(&records_of(by_hand.path())));
}

/// Backward names through calls and loops, with the layers.
#[test]
fn the_backward_pass_visits_the_layers_in_reverse() {
    let folder = tempfile::tempdir().unwrap();
    let (x, w) = arguments();
    let plain = model::grad(&x, &w);
    let found = traced(folder.path(), "*/h", || model::grad(&x, &w));
    assert_eq!(plain.w.to_vec::<f32>(), found.w.to_vec::<f32>());
    let records = records_of(folder.path());
    let found: Vec<_> = records.iter().map(|r| (&*r.name, r.layer_idx)).collect();
    assert_eq!(
        found,
        [
            ("model/blk0/h", Some(0)),
            ("model/blk1/h", Some(1)),
            ("model/blk2/h", Some(2)),
            ("model/blk2/ct_h", Some(2)),
            ("model/blk1/ct_h", Some(1)),
            ("model/blk0/ct_h", Some(0)),
        ]
    );
}

/// S3.37
#[test]
fn a_pattern_selects_points() {
    let folder = tempfile::tempdir().unwrap();
    let (x, w) = arguments();
    traced(folder.path(), "model/blk?/*,!*/scaled", || {
        drop(model(&x, &w))
    });
    assert_eq!(
        names_of(folder.path()),
        ["model/blk0/h", "model/blk1/h", "model/blk2/h"]
    );
}

/// S3.3, S3.4: a call without a trace finds its plan as before, also after a trace.
#[test]
fn plans_are_found_while_nothing_is_traced() {
    let (x, w) = arguments();
    let step = || model::grad(&x, &w).w.to_vec::<f32>();
    step();
    let (_, before) = events::record(step);
    let folder = tempfile::tempdir().unwrap();
    traced(folder.path(), "*", step);
    let (_, after) = events::record(step);
    let text = |log: &[events::Event]| Vec::from_iter(log.iter().map(ToString::to_string));
    assert_eq!(text(&before), text(&after));
    assert!(before.iter().all(|event| !matches!(
        event,
        events::Event::Traced { .. } | events::Event::Planned { .. }
    )));
}

thread_local! {
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// A function with a side effect.
fn count() {
    RUNS.set(RUNS.get() + 1);
}

#[traced(record)]
fn impure(x: &Tensor) -> Tensor {
    count();
    let h = x.sin();
    (h * x).sum(..)
}

/// A body with side effects runs once, and is traced all the same.
#[test]
fn side_effects_happen_once() {
    let x = Tensor::from([1.0f32, 2.0]);
    let folder = tempfile::tempdir().unwrap();
    let runs = |f: &dyn Fn() -> Vec<f32>| {
        RUNS.set(0);
        (f(), RUNS.get())
    };
    let calls: [&dyn Fn() -> Vec<f32>; 3] = [
        &|| impure(&x).to_vec(),
        &|| impure::grad(&x).x.to_vec(),
        &|| impure::jvp(&x, &x).1.to_vec(),
    ];
    let plain = calls.map(runs);
    let found = traced(folder.path(), "*", || calls.map(runs));
    assert_eq!(plain, found);
    assert_eq!(
        names_of(folder.path()),
        ["impure/h", "impure/h", "impure/ct_h", "impure/h"]
    );
}

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
    c: Tensor,
}

#[derive(Clone, Tree)]
struct LstmCell {
    w: Tensor,
}

#[traced]
impl LstmCell {
    #[traced]
    fn step(&self, x: &Tensor, state: &State) -> State {
        let gate = x.matmul(&self.w) + &state.h;
        let c = &state.c * gate.sigmoid();
        State { h: c.tanh(), c }
    }

    fn forward(&self, x: &Tensor, state: &State) -> Tensor {
        let state = self.step(x, state);
        let (a, b) = (&state.h * 2.0, state.c.square());
        let both = a + b;
        both.sum(..)
    }
}

/// A method `forward` has the name of its type, others both; a tree has a record for each leaf.
#[test]
fn methods_and_trees_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let (x, w) = arguments();
    let cell = LstmCell { w };
    let state = State {
        h: x.clone(),
        c: x.clone(),
    };
    let plain = cell.forward(&x, &state).to_vec::<f32>();
    assert_eq!(
        traced(folder.path(), "*", || cell
            .forward(&x, &state)
            .to_vec::<f32>()),
        plain
    );
    assert_eq!(
        names_of(folder.path()),
        [
            "lstm_cell/lstm_cell.step/gate",
            "lstm_cell/lstm_cell.step/c",
            "lstm_cell/state.h",
            "lstm_cell/state.c",
            "lstm_cell/a",
            "lstm_cell/b",
            "lstm_cell/both",
        ]
    );
}

#[traced]
fn nested(x: &Tensor, n: usize) -> Result<Tensor> {
    let mut h = x.clone();
    for i in 0..n {
        for _ in 0..i {
            let y = h.sin();
            h = y * 0.5;
        }
        if i == 2 {
            continue;
        }
        h = blk(&h, x);
    }
    Ok(h.sum(..))
}

/// Loops in loops, early exits and `Result`.
#[test]
fn loops_have_the_iteration_in_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let x = Key::new(3).normal([2, 2], DType::F32);
    let plain = nested::grad(&x, 3).unwrap();
    let found = traced(folder.path(), "*/y,*/h", || nested::grad(&x, 3).unwrap());
    assert_eq!(plain.x.to_vec::<f32>(), found.x.to_vec::<f32>());
    let forward: Vec<_> = records_of(folder.path())
        .into_iter()
        .filter(|r| r.stage.as_deref() == Some("forward"))
        .map(|r| (r.name, r.layer_idx))
        .collect();
    let forward: Vec<_> = forward
        .iter()
        .map(|(name, layer)| (&**name, *layer))
        .collect();
    assert_eq!(
        forward,
        [
            ("nested/h", None),
            ("nested/blk0/h", Some(0)),
            ("nested/0/h", Some(0)),
            ("nested/1/0/y", Some(0)),
            ("nested/1/0/h", Some(0)),
            ("nested/blk1/h", Some(1)),
            ("nested/1/h", Some(1)),
            ("nested/2/0/y", Some(0)),
            ("nested/2/0/h", Some(0)),
            ("nested/2/1/y", Some(1)),
            ("nested/2/1/h", Some(1)),
        ]
    );
}

/// Repeated calls have numbered files, in order, also in one file of lines.
#[test]
fn repeated_calls_are_told_apart() {
    for format in [Format::Files, Format::Lines] {
        let folder = tempfile::tempdir().unwrap();
        let (x, w) = arguments();
        with_config(
            Config::new(folder.path()).points("*/h").format(format),
            || {
                drop(blk(&x, &w));
                drop(blk(&(&x * 2.0), &w));
            },
        );
        let found = records_of(folder.path());
        assert_eq!(found.len(), 2);
        assert!(
            found.iter().all(|record| record.name == "blk/h") && found[0].blake3 != found[1].blake3
        );
    }
}

/// An error of the disk is reported on standard error, and the call returns its result.
#[test]
fn a_point_that_cannot_be_written_changes_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (x, w) = arguments();
    let plain = model(&x, &w).to_vec::<f32>();
    assert_eq!(traced(&file, "*", || model(&x, &w).to_vec::<f32>()), plain);
}

/// S3.28: patterns select passes.
#[test]
fn patterns_select_the_forward_and_the_backward_pass() {
    let (x, w) = arguments();
    let names = |patterns: &str| {
        let folder = tempfile::tempdir().unwrap();
        traced(folder.path(), patterns, || {
            evaluate(&model::grad(&x, &w).w).unwrap()
        });
        names_of(folder.path())
    };
    let (all, forward) = (names("*"), names("*,!*/ct_*"));
    let (backward, none) = (names("*/ct_*"), names("*/ct_h,!*/h"));
    let is_backward = |name: &&String| name.contains("/ct_");
    let (only_backward, only_forward): (Vec<_>, Vec<_>) = all.iter().partition(is_backward);
    assert!(!only_backward.is_empty() && !only_forward.is_empty());
    assert_eq!(forward.iter().collect::<Vec<_>>(), only_forward);
    assert_eq!(backward.iter().collect::<Vec<_>>(), only_backward);
    assert!(none.is_empty(), "{none:?}");
    let both = names("*/blk1/h");
    assert_eq!(both, ["model/blk1/h", "model/blk1/ct_h"]);
}

/// S3.26: a body that rustc finds to have side effects runs once.
#[test]
fn a_body_with_side_effects_runs_once() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    #[traced(allow(recorded_call))]
    fn counted(x: &Tensor) -> Tensor {
        CALLS.fetch_add(1, Ordering::SeqCst);
        let h = x.sin();
        h.sum(..)
    }
    #[traced(allow(recorded_call))]
    fn pushed(x: &Tensor, #[fixed] seen: &Mutex<Vec<usize>>) -> Tensor {
        seen.lock().unwrap().push(1);
        let h = x.sin();
        h.sum(..)
    }
    #[traced(allow(recorded_call))]
    fn outer(x: &Tensor) -> Tensor {
        let y = counted(x);
        y * 2.0
    }
    let x = Tensor::from([1.0f64, 2.0]);
    let folder = tempfile::tempdir().unwrap();
    let n_calls = |call: &dyn Fn()| {
        let before = CALLS.load(Ordering::SeqCst);
        traced(folder.path(), "*", call);
        CALLS.load(Ordering::SeqCst) - before
    };
    let calls: [&dyn Fn(); 5] = [
        &|| drop(counted::grad(&x)),
        &|| drop(counted::value_and_grad(&x)),
        &|| drop(counted::vjp(&x)),
        &|| drop(counted::jvp(&x, &x)),
        &|| drop(outer::grad(&x)),
    ];
    assert_eq!(calls.map(n_calls), [1; 5]);
    let seen = Mutex::new(Vec::new());
    traced(folder.path(), "*", || pushed::grad(&x, &seen));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// S3.26: values computed from parts of trees and of lists are trace points.
#[test]
fn loops_over_tensors_and_patterns_have_points() {
    #[traced]
    fn summed(xs: &[Tensor], more: &Option<Tensor>, n: usize) -> Tensor {
        let mut places = Vec::with_capacity(n);
        places.push(n);
        let mut s = xs[0].clone();
        for (i, x) in xs.iter().enumerate() {
            let next = i + n;
            let t = x * next as f64;
            s = t + s;
        }
        for (x, y) in xs.iter().zip(xs) {
            let u = x * y;
            s += &u;
        }
        if let Some(b) = more {
            let doubled = b * 2.0;
            s += doubled;
        }
        let last = match more {
            Some(b) => {
                let tripled = b * 3.0;
                tripled.sum(..)
            }
            None => s.sum(..),
        };
        let part = &xs[1] * 4.0;
        last + part.sum(..) + s.sum(..) + places.len() as f64
    }
    let x = Tensor::from([1.0f64, 2.0]);
    let folder = tempfile::tempdir().unwrap();
    let xs = [x.clone(), x.sin()];
    traced(folder.path(), "*", || summed(&xs, &Some(x.clone()), 1));
    let found = names_of(folder.path());
    for name in [
        "s", "0/t", "1/t", "0/s", "0/u", "1/u", "doubled", "tripled", "part", "last",
    ] {
        let name = format!("summed/{name}");
        assert!(found.contains(&name), "{name} is not in {found:?}");
    }
    assert!(!found.iter().any(|name| name.contains("next")), "{found:?}");
}
