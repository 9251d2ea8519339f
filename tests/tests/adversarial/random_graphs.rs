//! Random graphs over the whole op table give the bits of evaluation op by op, however they are
//! split into evaluations and whatever plans are cached.
//!
//! `GRADLOOM_GRAPHS=100000 cargo test --release -p gradloom-tests --test adversarial random_graphs`
//! tests more graphs.

use gradloom::engine::{self, Mode};
use gradloom::trace::{TraceContext, pending, run};
use gradloom::{Tensor, cache, evaluate};
use gradloom_ir::Op;
use gradloom_tests::graphs::{Graph, Kind, Rng, bits, graph};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Default number of graphs.
const GRAPHS: u64 = 2000;
/// Default number of graphs that are changed.
const MUTATIONS: u64 = 2000;

/// Cache settings are global to the process, so the tests run one after the other, and no test of
/// this binary counts plans.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn count(usual: u64) -> u64 {
    let asked = std::env::var("GRADLOOM_GRAPHS").ok();
    asked.map_or(usual, |n| n.parse().expect("`GRADLOOM_GRAPHS` is a number"))
}

fn settings(hash_bits: u32, capacity: usize) {
    cache::set_hash_bits(hash_bits);
    cache::set_capacity(capacity);
}

/// Compares some values with the reference.
#[track_caller]
fn check(what: &str, seed: u64, graph: &Graph, values: &[(usize, Tensor)], expected: &[Vec<u64>]) {
    for (v, value) in values {
        assert_eq!(
            bits(value),
            expected[*v],
            "seed {seed}, {what}: value {v} of {graph:#?}"
        );
    }
}

fn numbered(values: Vec<Tensor>) -> Vec<(usize, Tensor)> {
    values.into_iter().enumerate().collect()
}

/// Picks some values in random order, perhaps with repetitions.
fn targets(rng: &mut Rng, values: &[Tensor]) -> Vec<(usize, Tensor)> {
    let n = 1 + rng.below(values.len());
    let chosen = (0..n).map(|_| rng.below(values.len()));
    chosen.map(|v| (v, values[v].clone())).collect()
}

fn all_ways(seed: u64, graph: &Graph, expected: &[Vec<u64>], rng: &mut Rng) {
    let lazy = || {
        graph
            .record(None, |_, _| {})
            .expect("the generator has checked the operands")
    };
    let tensors =
        |targets: &[(usize, Tensor)]| targets.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>();

    for what in ["all at once, perhaps cold", "all at once, warm"] {
        let values = lazy();
        evaluate(&values).unwrap();
        check(what, seed, graph, &numbered(values), expected);
    }

    let values = lazy();
    let some = targets(rng, &values);
    evaluate(&tensors(&some)).unwrap();
    check(
        "some, in another order, twice",
        seed,
        graph,
        &some,
        expected,
    );
    check("the rest", seed, graph, &numbered(values), expected);

    let mut early = rng.clone();
    let values = graph.record(None, |values, _| {
        if early.once_in(4) {
            let some = targets(&mut early, values);
            evaluate(&tensors(&some)).unwrap();
        }
    });
    check(
        "some of them early",
        seed,
        graph,
        &numbered(values.unwrap()),
        expected,
    );

    // Only the handles of some targets are alive.
    let kept = targets(rng, &lazy());
    check("handles dropped", seed, graph, &kept, expected);

    let unshared = graph.without_sharing(rng).unwrap();
    evaluate(&unshared).unwrap();
    check("no sharing", seed, graph, &numbered(unshared), expected);

    // A context records the ops of the graph as nodes, and a replay of the program records them again.
    let trace = TraceContext::new();
    let values = lazy();
    drop(trace);
    let (program, read) = pending(&values);
    evaluate(&values).unwrap();
    check("traced", seed, graph, &numbered(values), expected);
    let again = run(&program, &read);
    let again = again.unwrap_or_else(|error| panic!("seed {seed}: {error}: {graph:#?}"));
    evaluate(&again).unwrap();
    check("replayed", seed, graph, &numbered(again), expected);

    for mode in [Mode::EagerGraph, Mode::OpByOp, Mode::Promises] {
        let guard = engine::enter(mode);
        let values = lazy();
        guard.evaluate_all().unwrap();
        assert!(
            values.iter().all(Tensor::is_realised),
            "seed {seed}, {mode:?}: {graph:#?}"
        );
        check("in a mode", seed, graph, &numbered(values), expected);
    }

    let values = lazy();
    let (mine, theirs) = (targets(rng, &values), targets(rng, &values));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            evaluate(&tensors(&theirs)).unwrap();
            check("another thread", seed, graph, &theirs, expected);
        });
        check("two threads", seed, graph, &mine, expected);
    });
}

#[test]
fn every_way_to_evaluate_a_graph_gives_the_same_bits() {
    let _alone = alone();
    let mut met: BTreeMap<Op, u64> = BTreeMap::new();
    let n = count(GRAPHS);
    for seed in 0..n {
        let mut rng = Rng::new(seed);
        let n_steps = 1 + rng.below(if seed % 8 == 0 { 40 } else { 16 });
        let graph = graph(&mut rng, Kind::Any, n_steps);
        graph
            .steps()
            .for_each(|step| *met.entry(step.op).or_default() += 1);
        // Single ops are looked up in a cache that also holds plans of larger graphs.
        settings(64, cache::DEFAULT_CAPACITY);
        let expected = graph.one_by_one().unwrap();
        match seed % 4 {
            0 => settings(4, cache::DEFAULT_CAPACITY),
            1 => settings(64, 0),
            2 => settings(64, 1),
            _ => {}
        }
        all_ways(seed, &graph, &expected, &mut rng);
    }
    settings(64, cache::DEFAULT_CAPACITY);
    for op in Op::ALL {
        let times = met.get(op).copied().unwrap_or(0);
        assert!(
            times >= n / 100,
            "`{op}` occurs {times} times in {n} graphs"
        );
    }
}

/// The reference plans each op on its own, so it cannot use a plan of another graph.
///
/// Row S2.18 of the requirements.
#[test]
fn a_graph_with_one_change_has_its_own_results() {
    let _alone = alone();
    let (mut n_changed, mut n_different) = (0, 0);
    let n = count(MUTATIONS);
    let mut seed = 0;
    while n_changed < n {
        seed += 1;
        let mut rng = Rng::new(1 << 40 | seed);
        let n_steps = 1 + rng.below(8);
        let graph = graph(&mut rng, Kind::Any, n_steps);
        let Some(changed) = graph.mutated(&mut rng) else {
            continue;
        };
        n_changed += 1;
        settings(64, 0);
        let (before, after) = (graph.one_by_one().unwrap(), changed.one_by_one());
        settings(if seed % 2 == 0 { 4 } else { 64 }, cache::DEFAULT_CAPACITY);
        n_different += u64::from(after.as_ref().is_ok_and(|after| *after != before));
        for (graph, expected) in [(&graph, Ok(&before)), (&changed, after.as_ref())] {
            let values = graph.record(None, |_, _| {}).unwrap();
            match (evaluate(&values), expected) {
                (Ok(()), Ok(expected)) => check(
                    "one thing changed",
                    seed,
                    graph,
                    &numbered(values),
                    expected,
                ),
                // For example, a label out of range.
                (Err(found), Err(expected)) => {
                    assert_eq!(found, *expected, "seed {seed}: {graph:#?}")
                }
                (found, expected) => {
                    panic!("seed {seed}: {found:?}, one by one {expected:?}: {graph:#?}")
                }
            }
            let targets = targets(&mut rng, &graph.record(None, |_, _| {}).unwrap());
            if let Ok(expected) = expected {
                evaluate(&targets.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>()).unwrap();
                check("other targets", seed, graph, &targets, expected);
            }
        }
    }
    settings(64, cache::DEFAULT_CAPACITY);
    // What a branch that is not taken reads changes nothing.
    assert!(
        n_different * 5 > n * 2,
        "{n_different} of {n} changes changed a result"
    );
}
