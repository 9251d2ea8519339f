//! Which numbers of a computation change from one evaluation to the next.
//!
//! A number is part of the key of a plan, so that the plan can be simplified by it. If the same ops are
//! evaluated with another number, such as the next learning rate of a schedule, that number becomes a
//! leaf: one more plan serves all values.
//!
//! Numbers here are operands: results of `Op::Scalar`. The value of a fill or of padding and the `eps` of a norm are
//! static arguments, which kernels read from their tasks and not from memory, so each value has a plan.

use gradloom_ir::hash::HashMap;
use smallvec::SmallVec;
use std::hash::BuildHasherDefault;

/// Largest number of computations that are remembered.
const MOST: usize = 4096;

/// Number of equal evaluations in a row after which a plan for their numbers is worth its cost.
const STEADY: u32 = 256;

/// Numbers of computations, by a hash of the key without the numbers.
///
/// A collision makes a leaf of a number that does not change, which is slower and not wrong.
pub(crate) struct Numbers(HashMap<u64, Seen>);

/// The numbers of a computation.
struct Seen {
    values: SmallVec<[u64; 4]>,
    /// The numbers that have had several values.
    changes: SmallVec<[bool; 4]>,
    /// Hash of the key at the last evaluation, and the number of evaluations with it in a row.
    last: (u64, u32),
}

impl Numbers {
    pub(crate) const fn new() -> Numbers {
        Numbers(HashMap::with_hasher(BuildHasherDefault::new()))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the numbers that become leaves: those that had other values in the same ops before.
    ///
    /// `ops` is a hash of the key without the numbers, `key` of the whole key. No plan was found for it.
    pub(crate) fn changing(
        &mut self,
        ops: u64,
        key: u64,
        values: SmallVec<[u64; 4]>,
    ) -> SmallVec<[u32; 4]> {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let seen = self.0.entry(ops).or_insert_with(|| Seen {
            changes: values.iter().map(|_| false).collect(),
            values: values.clone(),
            last: (key, 0),
        });
        if seen.values.len() != values.len() {
            return SmallVec::new();
        }
        seen.last = match seen.last {
            (last, n) if last == key => (key, n + 1),
            _ => (key, 0),
        };
        if seen.last.1 >= STEADY {
            return SmallVec::new();
        }
        for ((changes, old), new) in seen.changes.iter_mut().zip(&seen.values).zip(&values) {
            *changes |= old != new;
        }
        let changes = seen
            .changes
            .iter()
            .enumerate()
            .filter(|(_, changes)| **changes);
        changes.map(|(i, _)| i as u32).collect()
    }
}
