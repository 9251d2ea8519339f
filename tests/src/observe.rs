//! What a call gave, to the bit, and what the run time did for it.

use crate::graphs;
use gradloom::Tree;
use gradloom::events::{self, Event};

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
