//! From which task to which each value has to be in memory.

use super::arena::Life;
use super::build::{Build, Work};
use super::chains;
use super::results::Results;

/// When roots are made and read, by the numbers of tasks.
pub(super) struct Times {
    /// The first task that writes a root. `None` for what no task makes, and for what is in memory only inside of one.
    made: Vec<Option<usize>>,
    /// The last task that writes or reads it.
    last: Vec<usize>,
}

impl Times {
    /// Takes from the tasks what lies near: results that only the same task reads.
    pub(super) fn of(build: &mut Build, results: &Results) -> Times {
        let mut times = Times {
            made: vec![None; build.roots.len()],
            last: vec![0; build.roots.len()],
        };
        for (i, draft) in build.drafts.iter().enumerate() {
            for root in &draft.outs {
                times.made[*root as usize].get_or_insert(i);
                times.last[*root as usize] = i;
            }
            for part in &draft.args {
                times.last[part.root as usize] = i;
            }
        }
        for (i, draft) in build.drafts.iter_mut().enumerate() {
            let is_last = |root| times.last[root as usize] == i && results.number(root).is_none();
            let near = match &draft.work {
                Work::Chain(members) => {
                    let only = |root| times.made[root as usize] == Some(i) && is_last(root);
                    chains::near(members, only)
                }
                // What only the group reads that follows a product lies where a result of the group does.
                _ => {
                    let product = draft.outs.iter().copied().take(1);
                    let followed = draft.followed == Some(true);
                    product.filter(|z| followed && is_last(*z)).collect()
                }
            };
            for root in &near {
                times.made[*root as usize] = None;
            }
            draft.outs.retain(|root| !near.contains(root));
        }
        times
    }

    /// The first task that writes a root, if that is in memory.
    pub(super) fn made(&self, root: u32) -> Option<usize> {
        self.made[root as usize]
    }

    /// While a root of so many bytes has to be in memory, if a task makes it.
    pub(super) fn life(&self, root: usize, bytes: usize) -> Option<Life> {
        Some(Life {
            bytes,
            first: self.made[root]?,
            last: self.last[root],
        })
    }
}
