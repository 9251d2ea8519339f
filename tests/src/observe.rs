//! Observations of a call: its result as bits, and the events of the run time.

use crate::graphs;
use gradloom::Tree;
use gradloom::events::{self, Event};
use gradloom::testing::op_by_op;

/// Returns the elements of all leaves as bits. All NaNs are the same.
pub fn bits<T: Tree>(tree: &T) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    tree.visit(&mut |leaf| all.push(graphs::bits(leaf)));
    all
}

/// Runs `body`, and returns its result and one line for each event of the run time.
pub fn log<R>(body: impl FnOnce() -> R) -> (R, Vec<String>) {
    let (result, events) = events::record(body);
    (result, events.iter().map(Event::to_string).collect())
}

/// Checks that a second call reuses the plan of the first, and that both agree with evaluation op
/// by op.
#[track_caller]
pub fn finds<T: Tree>(f: impl Fn() -> T) {
    let events = agrees(f);
    let hit = events.first().is_some_and(|e| e == "hit p1");
    assert!(hit && events.len() < 3, "{events:?}");
}

/// Checks that a second call is recorded again, and that both agree with evaluation op by op.
#[track_caller]
pub fn is_recorded<T: Tree>(f: impl Fn() -> T) {
    let events = agrees(f);
    let recorded = |event: &String| event.starts_with("recorded `");
    assert!(events.iter().all(recorded), "{events:?}");
}

/// Checks that two calls and evaluation op by op give the same bits. Returns the events of the
/// second call.
#[track_caller]
fn agrees<T: Tree>(f: impl Fn() -> T) -> Vec<String> {
    let first = bits(&f());
    let (second, events) = log(&f);
    assert_eq!(bits(&second), first);
    assert_eq!(bits(&op_by_op(&f)), first);
    events
}

/// Checks that a repeated step that reads values is recorded but makes no plan.
#[track_caller]
pub fn makes_no_plan(step: impl FnOnce()) {
    let ((), events) = log(step);
    let planned: Vec<&String> = events.iter().filter(|e| e.starts_with("planned")).collect();
    assert!(planned.is_empty() && !events.is_empty(), "{planned:?}");
}

/// Checks that a repeated step neither traces anything nor makes a plan.
#[track_caller]
pub fn plans_nothing(step: impl FnOnce()) {
    let ((), events) = log(step);
    let found = |e: &&String| e.starts_with("hit") || e.starts_with("ran");
    let others: Vec<&String> = events.iter().filter(|e| !found(e)).collect();
    assert!(others.is_empty() && !events.is_empty(), "{others:?}");
}
