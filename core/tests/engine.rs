//! Modes of evaluation, their graphs and epochs: the rows S2 of the requirements on engine modes.

use gradloom::engine::{self, Mode, ModeGuard};
use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom::trace::{TraceContext, pending, run};
use gradloom::{Param, custom, evaluate, scan};
use std::panic::{AssertUnwindSafe, catch_unwind};

const MODES: [Mode; 3] = [Mode::Promises, Mode::EagerGraph, Mode::OpByOp];

fn x() -> Tensor {
    Tensor::from([[0.5f64, -1.5, 2.0], [3.0, 0.25, -0.75]])
}

fn bits(x: &Tensor) -> Vec<u64> {
    x.to_vec::<f64>().iter().map(|x| x.to_bits()).collect()
}

#[traced]
fn layer(x: &Tensor, w: &Tensor) -> Tensor {
    let h = x.matmul(w);
    h.tanh() * 0.5 + h
}

/// Returns values and derivatives of several kinds of code.
fn work(x: &Tensor) -> Vec<Tensor> {
    let w = x.transpose();
    let y = layer(x, &w).softmax(-1);
    let [a, b] = y.unbind::<2>(0);
    let rows = vmap(|row: &Tensor| row.cumsum(0) / row.square().sum(..))(x);
    let turns = scan(
        |c: &Tensor, x: &Tensor| (c * 0.5 + x, c.exp()),
        &Tensor::from(1.0f64),
        &a,
    );
    let slope = grad(|x: &Tensor| (layer(x, &w) * x.sin().sum(..)).sum(..))(x);
    let second = hvp(|x: &Tensor| x.tanh().square().sum(..), x, &(x * 2.0));
    let mut all = vec![y, a, b, rows, turns.0, turns.1, slope];
    all.push(second);
    all
}

/// S2.3: all modes give the same bits, also for traced functions, derivatives, batches and loops.
#[test]
fn modes_give_the_same_bits() {
    let expected: Vec<_> = work(&x()).iter().map(bits).collect();
    for mode in MODES {
        let guard = engine::enter(mode);
        let found = work(&x());
        assert_eq!(
            found.iter().all(Tensor::is_realised),
            mode != Mode::Promises
        );
        let found: Vec<_> = found.iter().map(bits).collect();
        assert_eq!(found, expected, "{mode:?}");
        let input = guard.input(&x()).unwrap();
        let found: Vec<_> = work(&input).iter().map(bits).collect();
        assert_eq!(found, expected, "{mode:?}, on an input");
    }
}

/// S2.3: a guard restores the mode before, also on panic and out of order, and is one of its thread.
#[test]
fn guards_restore_the_mode_before() {
    let outer = engine::enter(Mode::EagerGraph);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _inner = engine::enter(Mode::OpByOp);
        panic!("inside");
    }));
    assert!(result.is_err());
    assert_eq!(engine::mode(), Mode::EagerGraph);
    let other = std::thread::spawn(engine::mode).join().unwrap();
    assert_eq!(other, Mode::Promises);
    let lazy = engine::enter(Mode::Promises);
    assert!(!x().tanh().is_realised());
    let by_op = engine::enter(Mode::OpByOp);
    drop(lazy);
    assert_eq!(engine::mode(), Mode::OpByOp);
    drop(outer);
    assert!(x().tanh().is_realised());
    drop(by_op);
    assert_eq!(engine::mode(), Mode::Promises);
    assert!(!x().tanh().is_realised());
}

/// S2.3: the nodes of an eager graph stay, with their attributes, and form the program that promises form.
#[test]
fn an_eager_graph_keeps_the_nodes_of_computed_values() {
    let f = |x: &Tensor| {
        let [a, b] = x.split::<2>(0);
        (a * 2.0 + b).sum(-1)
    };
    let expected = pending(&f(&x())).0.to_string();
    let guard = engine::enter(Mode::EagerGraph);
    let given = x();
    let y = f(&given);
    assert!(y.is_realised());
    let (program, read) = pending(&y);
    assert_eq!(program.to_string(), expected);
    assert_eq!(bits(&read[0]), bits(&given));
    let context = TraceContext::new();
    let z = f(&given);
    assert_eq!(context.nodes().len(), 5, "{context}");
    drop(context);
    assert_eq!(bits(&z), bits(&y));
    guard.release();
    assert!(pending(&y).0.eqns.is_empty());
    let by_op = engine::enter(Mode::OpByOp);
    assert!(pending(&f(&given)).0.eqns.is_empty());
    drop(by_op);
}

/// Returns the result of `f`, and the number of plans that it runs.
fn runs<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let (result, log) = events::record(f);
    let runs = log.iter().filter(|e| matches!(e, Event::Ran { .. }));
    (result, runs.count())
}

/// S2.36: a derivative of recorded values is that of the closure, and computes none of them again.
#[test]
fn pull_back_is_the_derivative_of_what_was_recorded() {
    let f = |(x, w): &(Tensor, Tensor)| layer(x, w).softmax(-1) * x.sum(..);
    let args = (x(), x().transpose());
    let (y, pullback) = gradloom::vjp(f, &args);
    let ct = y.cos();
    let (dx, dw) = pullback.call(&ct);
    let second = grad(|args: &(Tensor, Tensor)| {
        let d = grad(|args: &(Tensor, Tensor)| f(args).square().sum(..))(args);
        d.0.sin().sum(..)
    })(&args);
    for mode in MODES {
        let guard = engine::enter(mode);
        let args = guard.input(&args).unwrap();
        let y = f(&args);
        evaluate(&y).unwrap();
        let ((a, b), n_pass) = runs(|| guard.pull_back(&y, &ct, &args).unwrap());
        if mode == Mode::EagerGraph {
            assert!(a.is_realised() && b.is_realised());
            let (_, n_forward) = runs(|| f(&args));
            let (_, n_vjp) = runs(|| gradloom::vjp(f, &args).1.call(&ct));
            assert!(n_pass + n_forward <= n_vjp, "{n_pass} {n_forward} {n_vjp}");
        }
        assert_eq!((bits(&a), bits(&b)), (bits(&dx), bits(&dw)), "{mode:?}");
        // The pass is recorded too.
        let loss = f(&args).square().sum(..);
        let one = Tensor::from(1.0f64);
        let d = guard.pull_back(&loss, &one, &args).unwrap();
        let d2 = guard.pull_back(&d.0.sin().sum(..), &one, &args).unwrap();
        gradloom::tree::assert_close(&d2, &second, 1e-12);
    }
}

/// Leaves may be inner values, may repeat, and may have no influence.
#[test]
fn leaves_of_pull_back_are_nodes() {
    let guard = engine::enter(Mode::EagerGraph);
    let a = guard.input(&Tensor::from(3.0f64)).unwrap();
    let unused = guard.input(&Tensor::from([1.0f64, 2.0])).unwrap();
    let h = &a * &a;
    let y = &h * &a;
    let one = Tensor::from(1.0f64);
    let all = vec![a.clone(), unused, h.clone(), a.clone(), y.clone()];
    let values =
        |all: Vec<Tensor>| -> Vec<Vec<f64>> { all.iter().map(Tensor::to_vec::<f64>).collect() };
    let inner = guard
        .pull_back(&y, &one, &vec![a.clone(), h.clone()])
        .unwrap();
    assert_eq!(values(inner), [vec![9.0], vec![3.0]]);
    let whole = guard.pull_back(&y, &one, &a).unwrap();
    assert_eq!(whole.item::<f64>(), 27.0);
    let repeated = guard
        .pull_back(&y, &one, &vec![a.clone(), a.clone()])
        .unwrap();
    assert_eq!(values(repeated), [vec![27.0], vec![27.0]]);
    let all = guard.pull_back(&y, &one, &all).unwrap();
    assert_eq!(
        values(all),
        [vec![0.0], vec![0.0, 0.0], vec![0.0], vec![0.0], vec![1.0]]
    );
}

fn text(result: Result<Tensor>) -> String {
    result.unwrap_err().to_string()
}

/// S2.11, S2.13, S2.45: epochs can be seen, and a derivative through a stale value is an error, never wrong.
#[test]
fn values_of_an_earlier_epoch_are_stale() {
    let guard = engine::enter(Mode::EagerGraph);
    let outside = x();
    let x = guard.input(&outside).unwrap();
    let y = x.sin().sum(..);
    let one = Tensor::from(1.0f64);
    assert_eq!((guard.epoch(), guard.epoch_of(&y)), (0, Some(0)));
    assert_eq!(guard.epoch_of(&outside), None);
    let before = bits(&y);
    guard.release();
    assert_eq!((guard.epoch(), guard.epoch_of(&y)), (1, Some(0)));
    assert!(guard.is_stale(&y) && !guard.is_stale(&outside));
    assert_eq!(bits(&y), before);
    assert_eq!(
        text(guard.pull_back(&y, &one, &x)),
        "`argument` is of epoch 0 of the graph, which has been released, and this is epoch 1: record it again"
    );
    let x = guard.input(&outside).unwrap();
    assert_eq!(
        text(guard.pull_back(&y, &one, &x)),
        "`result` is of epoch 0 of the graph, which has been released, and this is epoch 1: record it again"
    );
    assert_eq!(
        text(guard.pull_back(&x.sum(..), &one, &outside)),
        "`argument`, f64[2, 3], is not in this graph: make it one of its inputs by `ModeGuard::input`, or compute it from one"
    );
    assert_eq!(
        text(guard.pull_back(&outside.sum(..), &one, &x)),
        "`pull_back` of f64[], which does not depend on the argument"
    );
    assert_eq!(
        text(guard.pull_back(&x.sin(), &one, &x)),
        "the cotangent of `result` is f64[], expected f64[2, 3]"
    );
    let n = guard.input(&Tensor::from([1i64])).unwrap();
    assert!(guard.pull_back(&x.sum(..), &one, &n).is_err());
    // A stale value is a constant of the next epoch.
    let z = (&x * &y).sum(..);
    let dx = guard.pull_back(&z, &one, &x).unwrap();
    assert_eq!(dx.to_vec::<f64>(), vec![y.item::<f64>(); 6]);
    let other = engine::enter(Mode::EagerGraph);
    assert_eq!(other.epoch_of(&z), None);
}

/// S2.14, S2.37, S2.43, S2.48: stale values are restored by the operations with their original attributes. Without this,
/// their derivative is an error.
#[test]
fn a_released_graph_is_restored_from_its_program() {
    let f = |x: &Tensor| {
        let sums = vmap(|row: &Tensor| row.sum(-1).exp() + row.max_keepdims(0).sum(..))(x);
        sums.reshape([1, 2]).sum(..)
    };
    let expected = grad(f)(&x());
    let guard = engine::enter(Mode::EagerGraph);
    let input = guard.input(&x()).unwrap();
    let y = f(&input);
    let one = Tensor::from(1.0f64);
    let (program, read) = pending(&y);
    let text = program.to_string();
    guard.release();
    assert!(guard.pull_back(&y, &one, &input).is_err());
    for epoch in 1..3 {
        let inputs: Vec<Tensor> = guard.input(&read).unwrap();
        let again = run(&program, &inputs).unwrap().remove(0);
        assert_eq!(bits(&again), bits(&y));
        assert_eq!(guard.epoch_of(&again), Some(epoch));
        let dx = guard.pull_back(&again, &one, &inputs[0]).unwrap();
        assert_eq!(bits(&dx), bits(&expected));
        let (restored, _) = pending(&again);
        assert_eq!(restored.eqns.len(), program.eqns.len() + 1, "{text}");
        guard.release();
    }
}

/// S2.10: everything that is pending and held is computed, by one plan.
#[test]
fn evaluate_all_computes_what_is_held() {
    for handles in [1, 2] {
        let guard = engine::enter(Mode::Promises);
        let x = x();
        let h = x.tanh();
        let (a, b) = (&h * 2.0, h.sum(-1));
        let parts = h.split::<2>(0);
        let held = (handles == 2).then(|| h.clone());
        drop((h, x.exp()));
        let before = engine::enter(Mode::Promises);
        let inner = x.sin();
        before.evaluate_all().unwrap();
        assert!(inner.is_realised() && !a.is_realised());
        drop(before);
        assert_eq!(runs(|| guard.evaluate_all().unwrap()).1, 1);
        assert!(a.is_realised() && b.is_realised());
        assert!(parts.iter().all(Tensor::is_realised));
        assert!(held.is_none_or(|h| h.is_realised()));
        let ((), log) = events::record(|| guard.evaluate_all().unwrap());
        assert!(log.is_empty(), "{log:?}");
        assert_eq!(a.shape(), [2, 3]);
    }
}

/// A failure leaves all values pending, and the evaluation can be retried.
#[test]
fn evaluate_all_fails_as_evaluate_does() {
    let guard = engine::enter(Mode::Promises);
    let loss = x().cross_entropy(Tensor::from([0i64, 7]));
    let other = x().tanh();
    for _ in 0..2 {
        let error = guard.evaluate_all().unwrap_err();
        assert!(matches!(error, Error::Label { label: 7, .. }), "{error}");
        assert!(!loss.is_realised());
    }
    drop(loss);
    guard.evaluate_all().unwrap();
    assert!(other.is_realised());
    let _eager = engine::enter(Mode::EagerGraph);
    let labels = Tensor::from([0i64, 7]);
    let failed = catch_unwind(AssertUnwindSafe(|| x().cross_entropy(&labels)));
    assert!(failed.is_err(), "the op fails where it is recorded");
    assert!(x().tanh().is_realised());
}

/// Backward passes in an eager graph release nothing, so a second one adds the same gradient.
#[test]
fn backward_passes_keep_an_eager_graph() {
    let w = Param::new(x()).unwrap();
    let guard = engine::enter(Mode::EagerGraph);
    let loss = w.tensor().square().sum(..);
    loss.backward().unwrap();
    loss.backward().unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&(x() * 4.0)));
    guard.release();
    // The path to a parameter belongs to the parameter.
    loss.backward().unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&(x() * 6.0)));
    assert!(loss.backward().is_err());
}

/// A function of host code, whose rule runs when the graph is pulled back.
struct Cube;

impl custom::CustomFunction for Cube {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Tensor;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Tensor)> {
        Ok((x * x * x, x.clone()))
    }

    fn backward(&self, call: &custom::Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.saved.square() * 3.0)
    }
}

#[test]
fn custom_functions_are_nodes() {
    let f = std::sync::Arc::new(Cube);
    for mode in MODES {
        let guard = engine::enter(mode);
        let input = guard.input(&x()).unwrap();
        let y = custom::custom_call(&f, &input);
        let dx = guard.pull_back(&y, &y.ones_like(), &input).unwrap();
        let expected = grad(|x: &Tensor| (x * x * x).sum(..))(&x());
        gradloom::tree::assert_close(&dx, &expected, 1e-15);
    }
}

/// A destructor of the user that computes while a graph drops values does not disturb it.
#[test]
fn guards_may_be_dropped_while_unwinding() {
    let result = catch_unwind(|| {
        let guard = engine::enter(Mode::EagerGraph);
        let kept: Vec<Tensor> = (0..300).map(|i| x() * f64::from(i)).collect();
        assert_eq!(guard.epoch_of(&kept[299]), Some(0));
        let _guard: ModeGuard = guard;
        panic!("{}", kept.len());
    });
    assert!(result.is_err());
    assert_eq!(engine::mode(), Mode::Promises);
}
