//! Loops that read values: the cost of an iteration does not grow with the length of the loop.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::events;
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom::{cache, explain, report, tree};
use gradloom_tests::noise;
use std::sync::Mutex;

/// Event counts and memory are global to the process, so the tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone<R>(test: impl FnOnce() -> R) -> R {
    let _guard = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    cache::clear();
    test()
}

/// Returns the number of plans made while `body` runs.
fn plans(body: impl FnOnce()) -> u64 {
    let before = events::counts().planned;
    body();
    events::counts().planned - before
}

/// Returns the resident memory of this process in MiB.
fn resident() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux provides `/proc/self/status`");
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1));
    kib.and_then(|k| k.parse::<usize>().ok())
        .expect("`VmRSS` is a number of KiB")
        / 1024
}

#[derive(Clone, Tree)]
struct Net {
    w: Tensor,
    b: Tensor,
}

fn net() -> Net {
    Net {
        w: noise(&[6, 4], 1),
        b: noise(&[4], 2),
    }
}

fn loss(net: &Net, x: &Tensor) -> Tensor {
    (x.matmul(&net.w) + &net.b).tanh().square().mean(..)
}

/// Returns the losses of a training loop that reads every `every`-th loss as it runs.
fn train(n: usize, every: usize) -> Vec<f64> {
    let (x, adam, mut net) = (noise(&[8, 6], 3), Adam::default(), net());
    let (mut state, mut losses) = (adam.init(&net), Vec::new());
    for step in 1..=n {
        let (loss, grads) = value_and_grad(|net: &Net| loss(net, &x))(&net);
        (net, state) = adam.step(&net, &grads, &state);
        if step % every == 0 {
            losses.push(loss.item::<f64>());
        }
    }
    losses.push(net.w.sum(..).item());
    losses
}

/// The same loop, evaluated at each step.
fn train_evaluated(n: usize) -> Vec<f64> {
    let (x, adam, mut net) = (noise(&[8, 6], 3), Adam::default(), net());
    let (mut state, mut losses) = (adam.init(&net), Vec::new());
    for _ in 0..n {
        let (loss, grads) = value_and_grad(|net: &Net| loss(net, &x))(&net);
        (net, state) = adam.step(&net, &grads, &state);
        evaluate((&net, &state, &loss)).unwrap();
        losses.push(loss.item::<f64>());
    }
    losses.push(net.w.sum(..).item());
    losses
}

#[test]
fn a_training_loop_that_reads_its_loss_plans_as_often_for_300_steps_as_for_30() {
    alone(|| {
        let [few, many] = [30, 300].map(|n| plans(|| drop(train(n, 1))));
        assert!(few <= 8 && many <= 2, "{few} plans, then {many}");
        assert_eq!(train(20, 1), train_evaluated(20));
    });
}

#[test]
fn a_training_loop_that_reads_at_each_tenth_step_plans_as_often_for_1000_steps_as_for_100() {
    alone(|| {
        let [few, many] = [100, 1000].map(|n| plans(|| drop(train(n, 10))));
        assert!(few <= 8 && many <= 2, "{few} plans, then {many}");
        let tenth = train_evaluated(20);
        assert_eq!(train(20, 10), [tenth[9], tenth[19], tenth[20]]);
    });
}

#[test]
fn a_training_loop_that_reads_nothing_takes_no_memory() {
    alone(|| {
        train(1000, usize::MAX);
        let before = resident();
        let made = plans(|| drop(train(3000, usize::MAX)));
        let grown = resident().saturating_sub(before);
        assert!(grown < 40, "{grown} MiB");
        assert!(made < 20, "{made} plans");
        assert_eq!(train(120, usize::MAX)[0], train_evaluated(120)[120]);
    });
}

/// Trains by closures and keeps all losses. Returns the number of plans made in the steps after `n`.
fn plans_of_closures(n: usize, momentum: f64) -> u64 {
    let (x, mut net) = (noise(&[8, 6], 3), net());
    let (mut velocity, mut losses) = (tree::scale(&net, 0.0), Vec::new());
    let mut step = || {
        let (loss, grads) = value_and_grad(|net: &Net| loss(net, &x))(&net);
        velocity = tree::add(&tree::scale(&velocity, momentum), &grads);
        net = tree::sub(&net, &tree::scale(&velocity, 0.01));
        losses.push(loss);
    };
    (0..n).for_each(|_| step());
    plans(|| (0..300).for_each(|_| step()))
}

#[test]
fn a_loop_of_closures_that_keeps_its_losses_is_cut_at_the_same_ops() {
    alone(|| {
        assert_eq!(
            [0.9, 0.5].map(|momentum| plans_of_closures(120, momentum)),
            [0, 0]
        )
    });
}

fn converge(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
        if y.abs().max(..).item::<f64>() > 1e9 {
            break;
        }
    }
    y
}

/// The same loop without a read.
fn converge_blindly(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
    }
    y
}

#[traced]
fn converge_traced(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
        if y.abs().max(..).item::<f64>() > 1e9 {
            break;
        }
    }
    y
}

#[test]
fn a_loop_that_reads_a_value_makes_a_bounded_number_of_plans_in_100_000_turns() {
    alone(|| {
        let x = noise(&[4], 1);
        let y = converge_blindly(&x, 500).to_vec::<f64>();
        assert_eq!(converge(&x, 500).to_vec::<f64>(), y);
        assert_eq!(converge_traced(&x, 500).to_vec::<f64>(), y);
        let made = plans(|| {
            converge(&x, 100_000).to_vec::<f64>();
            converge_traced(&x, 100_000).to_vec::<f64>();
        });
        assert!(made <= 1, "{made} plans");
    });
}

#[test]
fn the_gradient_of_a_loop_that_reads_makes_a_bounded_number_of_plans() {
    alone(|| {
        let x = noise(&[4], 1);
        let by_closure = |n| grad(move |x: &Tensor| converge(x, n).sum(..))(&x);
        let by_companion = |n| converge_traced::vjp(&x, n).1(&x.ones_like());
        let blindly = grad(|x: &Tensor| converge_blindly(x, 700).sum(..))(&x).to_vec::<f64>();
        for found in [by_closure(700), by_companion(700)] {
            let found = found.to_vec::<f64>();
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
            assert!(
                found.iter().zip(&blindly).all(close),
                "{found:?} {blindly:?}"
            );
        }
        for run in [&by_closure as &dyn Fn(usize) -> Tensor, &by_companion] {
            let few = plans(|| drop(run(3000).to_vec::<f64>()));
            let many = plans(|| drop(run(9000).to_vec::<f64>()));
            assert!(few + many < 40, "{few} plans, then {many}");
        }
    });
}

#[test]
fn a_million_steps_that_read_nothing_take_no_memory() {
    alone(|| {
        let x = noise(&[4], 1);
        converge_blindly(&x, 10_000).to_vec::<f64>();
        let before = resident();
        let made = plans(|| drop(converge_blindly(&x, 1_000_000).to_vec::<f64>()));
        let grown = resident().saturating_sub(before);
        assert!(grown < 40, "{grown} MiB");
        assert!(made < 10, "{made} plans");
    });
}

#[traced]
fn turn(y: &Tensor) -> Tensor {
    y * 0.999 + y.sin() * 0.001
}

#[test]
fn calls_whose_results_are_not_read_take_no_memory() {
    alone(|| {
        // Large enough that a call is a promise.
        let mut y = noise(&[4100], 1);
        let mut calls = |n: usize| {
            for _ in 0..n {
                y = turn(&y);
            }
            assert!(!y.is_realised());
        };
        calls(1001);
        let before = resident();
        calls(100_000);
        let grown = resident().saturating_sub(before);
        assert!(grown < 40, "{grown} MiB");
    });
}

/// Rows S2.12, S2.39 of the requirements.
#[test]
fn reading_computes_held_operands_and_nothing_else() {
    alone(|| {
        let x = noise(&[3, 4], 1);
        let kept = &x * 2.0;
        let view = kept.transpose();
        let repeated = kept.broadcast_to([50, 3, 4]);
        let beside = kept.exp();
        let part = kept.slice([1, 0], [2, 4], [1, 1]);
        let total = (view.sum(..) + repeated.sum(..) + (&kept + 1.0).sum(..) + part.sum(..)).sin();
        total.item::<f64>();
        assert!(kept.is_realised());
        assert!(part.is_realised(), "a part is smaller than the whole");
        assert!(!view.is_realised(), "its source is computed");
        assert!(!repeated.is_realised(), "its source is computed instead");
        assert!(!beside.is_realised(), "no target needs it");
    });
}

#[test]
fn a_pending_chain_behind_a_failing_value_stays_a_promise() {
    alone(|| {
        let labels = Tensor::from([7i64]);
        let bad = Tensor::from([[0.5f64, 1.0]]).cross_entropy(&labels);
        // The chain exceeds the limit of pending work, so the run time tries to evaluate it early.
        let mut y = bad.clone();
        for _ in 0..3000 {
            y += 1.0;
        }
        assert!(evaluate(&y).is_err());
        assert!(!y.is_realised() && !bad.is_realised());
    });
}

#[traced]
fn both(x: &Tensor) -> (Tensor, Tensor) {
    let mut product = x.clone();
    for _ in 0..5 {
        product = product.matmul(x) * 0.01;
    }
    (x.tanh(), product)
}

/// Row S2.15a of the requirements.
#[test]
fn a_call_does_not_compute_dropped_results() {
    alone(|| {
        let x = noise(&[128, 128], 1);
        let (first, _) = both(&x);
        let text = explain(&first);
        assert!(!text.contains("matmul") && text.contains("tanh"), "{text}");
        let (_, second) = both(&x);
        // Not computing the cheap result would not pay for a plan of its own.
        let text = explain(&second);
        assert!(text.contains("matmul") && text.contains("tanh"), "{text}");
        let whole = both(&x);
        let text = explain(&whole);
        assert!(text.contains("matmul") && text.contains("tanh"), "{text}");
        assert_eq!(first.to_vec::<f64>(), whole.0.to_vec::<f64>());
        assert_eq!(second.to_vec::<f64>(), whole.1.to_vec::<f64>());
        // Later calls still have all results.
        let again = both(&x);
        assert_eq!(again.1.to_vec::<f64>(), whole.1.to_vec::<f64>());
        assert_eq!(again.0.to_vec::<f64>(), whole.0.to_vec::<f64>());
    });
}

#[traced]
fn layer(x: &Tensor, w: &Tensor) -> Tensor {
    x.matmul(w).sin().square()
}

#[test]
fn a_pullback_is_right_after_an_earlier_pullback_was_dropped() {
    alone(|| {
        let (x, w) = (noise(&[128, 128], 1), noise(&[128, 128], 2));
        let (y, pullback) = layer::vjp(&x, &w);
        let ct = y.ones_like();
        let kept = pullback(&ct).0.to_vec::<f64>();
        let (y, _) = layer::vjp(&x, &w);
        y.to_vec::<f64>();
        let (y, pullback) = layer::vjp(&x, &w);
        assert_eq!(pullback(&y.ones_like()).0.to_vec::<f64>(), kept);
    });
}

#[traced]
fn energy(w: &Tensor, x: &Tensor) -> Tensor {
    (x.matmul(w)).tanh().square().sum(..)
}

/// A loop whose arguments are pending results of ops: a lazy start, a slice of the data as batch, and
/// a gradient that is scaled by hand.
#[test]
fn a_loop_with_pending_arguments_records_and_plans_nothing() {
    alone(|| {
        let data = noise(&[40, 6], 1);
        let start = Tensor::zeros([6, 3], DType::F64) + 0.1;
        let step = |w: &Tensor, i: usize| {
            let x = data.slice([(i % 10) * 4], [(i % 10) * 4 + 4], [1]) * 0.5;
            let (loss, grads) = energy::value_and_grad(w, &x);
            (w - grads.w * 0.1, loss.item::<f64>())
        };
        let plain = |w: &Tensor, i: usize| {
            let x = data.slice([(i % 10) * 4], [(i % 10) * 4 + 4], [1]) * 0.5;
            let f = |w: &Tensor| (x.matmul(w)).tanh().square().sum(..);
            let (loss, grad) = value_and_grad(f)(w);
            (w - grad * 0.1, loss.item::<f64>())
        };
        let (mut w, mut expected) = (start.clone(), start.clone());
        for i in 0..12 {
            let (next, loss) = step(&w, i);
            let (next_expected, loss_expected) = plain(&expected, i);
            assert!(
                (loss - loss_expected).abs() < 1e-12,
                "{loss} and {loss_expected}"
            );
            (w, expected) = (next, next_expected);
        }
        let ((), report) = report::of(|| {
            for i in 12..112 {
                w = step(&w, i).0;
            }
        });
        let named = |f: &&report::FunctionReport| f.name.ends_with("energy::value_and_grad");
        let function = report
            .functions()
            .iter()
            .find(named)
            .expect("it was called");
        assert_eq!((function.found, function.recorded), (100, 0), "{report}");
    });
}
