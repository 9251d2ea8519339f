//! What a call gave, to the bit, and what the run time did for it.

use crate::graphs;
use gradloom::Tree;
use gradloom::events::{self, Event};
use gradloom::testing::op_by_op;

/// The elements of all leaves as bits; all NaNs are one.
pub fn bits<T: Tree>(tree: &T) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    tree.visit(&mut |leaf| all.push(graphs::bits(leaf)));
    all
}

/// Runs `body`, and returns with its result a line for each thing that the run time did meanwhile.
pub fn log<R>(body: impl FnOnce() -> R) -> (R, Vec<String>) {
    let (result, events) = events::record(body);
    (result, events.iter().map(Event::to_string).collect())
}

/// Calls a function twice and once op by op: the second call finds its plan, and all agree.
#[track_caller]
pub fn finds<T: Tree>(f: impl Fn() -> T) {
    let events = agrees(f);
    let hit = events.first().is_some_and(|e| e == "hit p1");
    assert!(hit && events.len() < 3, "{events:?}");
}

/// Calls a function twice and once op by op: it is recorded each time, and all agree.
#[track_caller]
pub fn is_recorded<T: Tree>(f: impl Fn() -> T) {
    let events = agrees(f);
    let recorded = |event: &String| event.starts_with("recorded `");
    assert!(events.iter().all(recorded), "{events:?}");
}

/// Two calls and one op by op give the same bits. Returns what the run time did for the second.
#[track_caller]
fn agrees<T: Tree>(f: impl Fn() -> T) -> Vec<String> {
    let first = bits(&f());
    let (second, events) = log(&f);
    assert_eq!(bits(&second), first);
    assert_eq!(bits(&op_by_op(&f)), first);
    events
}

/// Runs a step that has run before and reads values: the run time records it, and makes no plan.
#[track_caller]
pub fn makes_no_plan(step: impl FnOnce()) {
    let ((), events) = log(step);
    let planned: Vec<&String> = events.iter().filter(|e| e.starts_with("planned")).collect();
    assert!(planned.is_empty() && !events.is_empty(), "{planned:?}");
}

/// Runs a step that has run before: the run time traces nothing and makes no plan.
#[track_caller]
pub fn plans_nothing(step: impl FnOnce()) {
    let ((), events) = log(step);
    let found = |e: &&String| e.starts_with("hit") || e.starts_with("ran");
    let others: Vec<&String> = events.iter().filter(|e| !found(e)).collect();
    assert!(others.is_empty() && !events.is_empty(), "{others:?}");
}
