//! Liveness: the range of tasks during which each root must be in memory.

use super::arena::LiveRange;
use super::chains;
use super::results::PlanResults;
use crate::backend::{TaskBuilder, TaskWork};

/// First and last use of each root, as indices of tasks.
pub(super) struct Liveness {
    /// First task that writes the root.
    ///
    /// `None` for leaves and constants, and for storages that exist only inside of one task.
    made: Vec<Option<usize>>,
    /// Last task that writes or reads the root.
    last: Vec<usize>,
}

impl Liveness {
    /// Computes the liveness of all storages.
    ///
    /// Results that only their own task reads are removed from the results of the task, if it can
    /// do without them.
    pub(super) fn of(build: &mut TaskBuilder, results: &PlanResults) -> Liveness {
        let mut liveness = Liveness {
            made: vec![None; build.storages.len()],
            last: vec![0; build.storages.len()],
        };
        for (i, draft) in build.drafts.iter().enumerate() {
            for root in &draft.outs {
                liveness.made[*root as usize].get_or_insert(i);
                liveness.last[*root as usize] = i;
            }
            for part in &draft.args {
                liveness.last[part.root as usize] = i;
            }
        }
        for (i, draft) in build.drafts.iter_mut().enumerate() {
            let is_last =
                |root| liveness.last[root as usize] == i && results.number(root).is_none();
            let near = match &draft.work {
                TaskWork::Chain(members) => {
                    let only = |root| liveness.made[root as usize] == Some(i) && is_last(root);
                    chains::local_values(members, only)
                }
                // A product that only its epilogue reads is computed in the buffer of a result of
                // the epilogue.
                _ => {
                    let product = draft.outs.iter().copied().take(1);
                    let followed = draft.followed == Some(true);
                    product.filter(|z| followed && is_last(*z)).collect()
                }
            };
            for root in &near {
                liveness.made[*root as usize] = None;
            }
            draft.outs.retain(|root| !near.contains(root));
        }
        liveness
    }

    /// Returns the first task that writes the root, if the root is in memory.
    pub(super) fn made(&self, root: u32) -> Option<usize> {
        self.made[root as usize]
    }

    /// Returns the last task that writes or reads the root.
    pub(super) fn last(&self, root: u32) -> usize {
        self.last[root as usize]
    }

    /// Returns the live range of a root of `bytes` bytes, if a task writes it to memory.
    pub(super) fn life(&self, root: usize, bytes: usize) -> Option<LiveRange> {
        Some(LiveRange {
            bytes,
            first: self.made[root]?,
            last: self.last[root],
        })
    }
}
