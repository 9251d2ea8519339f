//! Allocations in the steady state of a program. This file has only one test, because the counts
//! are those of the process. `cargo test -p gradloom-tests --test allocations -- --nocapture`
//! prints them.

use gradloom::prelude::*;
use gradloom::testing::check_no_call;
use gradloom::{cond, fori_loop, scan, vmap, while_loop};
use gradloom_tests::noise;
use gradloom_tests::steady::STEADY;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Maximum number of allocations of a run in the steady state.
const MOST: &[(&str, usize)] = &[
    ("call", 0),
    ("pull", 0),
    ("step", 0),
    ("tiny", 0),
    ("drop", 0),
    ("wide", 0),
    ("one", 0),
    ("ops", 0),
    ("chain", 0),
    ("plan", 6_000),
];

#[test]
fn the_steady_state_allocates_little() {
    // A check would record the body again.
    check_no_call(|| {
        count();
        count_turns_of_loops();
    });
}

/// Runs a loop op for a number of turns.
type Loop = fn(&Tensor, usize) -> Tensor;

const LOOPS: &[(&str, Loop)] = &[
    ("scan", |x, n| {
        let xs = Tensor::full([n, 4], 0.5, DType::F64);
        let turn = |c: &Tensor, x: &Tensor| {
            let c = (c * x + 1.0).tanh();
            (c.clone(), c)
        };
        let (last, all) = scan(turn, x, &xs);
        last + all.sum(0)
    }),
    ("fori_loop", |x, n| {
        fori_loop(0..n, |i: &Tensor, x: &Tensor| (x * 0.5 + i).tanh(), x)
    }),
    ("while_loop", |x, n| {
        let limit = Tensor::from(n as i64);
        let turn = |(i, x): &(Tensor, Tensor)| (i + 1, (x * 0.5 + 1.0).tanh());
        while_loop(
            |(i, _)| i.lt(&limit),
            turn,
            &(Tensor::from(0i64), x.clone()),
        )
        .1
    }),
    ("gradient", |x, n| {
        grad(|x: &Tensor| fori_loop(0..n, |_: &Tensor, x: &Tensor| x.sin(), x).sum(..))(x)
    }),
    ("gradient of while_loop", |x, n| {
        grad(|x: &Tensor| sines(x, &Tensor::from(n as i64)).sum(..))(x)
    }),
    ("lanes of while_loop", |x, n| {
        let limits = Tensor::from([n as i64, n as i64 / 2, 3, 0]);
        vmap(|(x, limit): &(Tensor, Tensor)| sines(x, limit))(&(x.clone(), limits))
    }),
    ("nested", |x, n| {
        let inner = |_: &Tensor, x: &Tensor| sines(x, &Tensor::from(3i64));
        fori_loop(0..n, inner, x)
    }),
    ("branches", |x, n| {
        let turn = |i: &Tensor, x: &Tensor| {
            let (sine, cosine) = (|x: &Tensor| x.sin(), |x: &Tensor| x.cos());
            cond(&i.rem(2).eq(0), sine, cosine, x)
        };
        fori_loop(0..n, turn, x)
    }),
];

/// Applies the sine `n` times.
fn sines(x: &Tensor, n: &Tensor) -> Tensor {
    let turn = |(i, x): &(Tensor, Tensor)| (i + 1, x.sin());
    while_loop(|(i, _)| i.lt(n), turn, &(Tensor::from(0i64), x.clone())).1
}

/// Checks that a planned loop of many turns makes as many allocations as one of few.
fn count_turns_of_loops() {
    let x = noise(&[4], 1);
    for (name, run) in LOOPS {
        let count = |n: usize| {
            let run = || evaluate(&run(&x, n)).expect("a small result can be computed");
            (0..3).for_each(|_| run());
            let region = Region::new(ALLOCATOR);
            run();
            region.change().allocations
        };
        // The shapes of two calls may share a place in the cache of shapes, which depends on all numbers in the call.
        let least = |n: usize| (n..n + 3).map(count).min().expect("there are three counts");
        let (few, many) = (least(10), least(1000));
        println!("{name:24} {few:6} allocations for 10 turns, {many:6} for 1000");
        assert_eq!(few, many, "`{name}` allocates in its turns");
    }
}

fn count() {
    let turns = 10;
    for (program, (name, most)) in STEADY.iter().zip(MOST) {
        assert_eq!(program.name, *name);
        let mut run = (program.start)();
        (0..3).for_each(|_| run());
        let region = Region::new(ALLOCATOR);
        (0..turns).for_each(|_| run());
        let change = region.change();
        let (calls, bytes) = (change.allocations / turns, change.bytes_allocated / turns);
        println!("{name:5} {calls:6} allocations, {bytes:8} bytes");
        // A steady state frees as much as it allocates.
        let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
        assert!(kept < 1024, "`{name}` kept {kept} bytes in {turns} turns");
        assert!(
            calls <= *most,
            "`{name}` made {calls} allocations in a turn, and may make {most}"
        );
    }
}
