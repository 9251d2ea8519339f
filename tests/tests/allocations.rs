//! Allocations in the steady state of a program. This file has only one test, because the counts
//! are those of the process. `cargo test -p gradloom-tests --test allocations -- --nocapture`
//! prints them.

use gradloom::testing::check_no_call;
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
    check_no_call(count);
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
