//! Donation: results that are computed in place, in the buffers of leaves that are not shared.

use super::Out;
use super::memory_plan::TaskRegions;
use crate::DType;
use crate::backend::TaskDraft;
use gradloom_kernels::memory::Buffer;
pub(crate) use gradloom_kernels::task::DonationSet;
use gradloom_kernels::task::{BufferSizes, RegionBase};
use smallvec::SmallVec;
use std::sync::Arc;

/// Donation: the buffer of a leaf becomes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Donation {
    pub(crate) leaf: usize,
    pub(crate) result: usize,
}

/// Donated buffers. Their leaves are passed as [`Leaf::Donated`](gradloom_kernels::task::Leaf::Donated).
pub(crate) type Donations = SmallVec<[(Donation, Arc<Buffer>); 8]>;

/// Pairs leaves with results, and returns the buffers that `try_donate` donates, by leaf.
pub(crate) fn donate(
    all: &[DonationSet],
    mut try_donate: impl FnMut(usize) -> Option<Arc<Buffer>>,
) -> Donations {
    let mut given = Donations::new();
    for DonationSet { leaves, results } in all {
        let mut leaves = leaves.iter();
        for result in results {
            let next = leaves.find_map(|leaf| Some((*leaf, try_donate(*leaf as usize)?)));
            let Some((leaf, buffer)) = next else { break };
            let (leaf, result) = (leaf as usize, *result as usize);
            given.push((Donation { leaf, result }, buffer));
        }
    }
    given.sort_unstable_by_key(|(donation, _)| donation.leaf);
    given
}

/// Finds the leaves whose buffers may become results, in the order of tasks.
///
/// A task reads the leaf for the last time, is the first to write the result, which has the same size
/// and dtype, and can compute in place. Also returns the index of the first set whose leaves are intact
/// after an error: no later task fails. A task that fails does so before it writes.
pub(super) fn donations(
    drafts: &[TaskDraft],
    regions: &[TaskRegions],
    outs: &[Out],
    needs: &BufferSizes,
) -> (Box<[DonationSet]>, usize) {
    let last_failing = drafts.iter().rposition(|draft| draft.may_fail);
    let reads = last_reads(regions, outs, needs.leaves.len());
    let mut is_written = vec![false; needs.results.len()];
    let (mut donations, mut first_safe) = (Vec::new(), 0);
    for (i, of_task) in regions.iter().enumerate() {
        let (args, results) = (of_task.args(), of_task.outs());
        if last_failing.is_some_and(|last| i <= last) {
            first_safe = donations.len();
        }
        let in_place = &drafts[i].in_place;
        let given = args.iter().enumerate().filter_map(|(n, arg)| {
            let RegionBase::Leaf(leaf) = arg.base else {
                return None;
            };
            let size = (arg.dtype, arg.len);
            let whole = arg.start == 0 && needs.leaves[leaf as usize] == size;
            let once = reads[leaf as usize] == LastReads::Task { task: i, n: 1 };
            (in_place.takes(n) && whole && once).then_some((size, leaf))
        });
        let requested = results[..in_place.n_results()]
            .iter()
            .filter_map(|out| match out.base {
                RegionBase::Result(result) if !is_written[result as usize] => {
                    Some(((out.dtype, out.len), result))
                }
                _ => None,
            });
        donations.extend(of_one_size(given.collect(), requested.collect()));
        for out in results {
            if let RegionBase::Result(result) = out.base {
                is_written[result as usize] = true;
            }
        }
    }
    (donations.into(), first_safe)
}

/// Tasks that read a leaf, as far as a donation needs to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastReads {
    /// No task reads the leaf.
    None,
    /// The last task that reads the leaf does so `n` times.
    Task { task: usize, n: usize },
    /// The leaf is a result of the plan.
    Result,
}

fn last_reads(regions: &[TaskRegions], outs: &[Out], n_leaves: usize) -> Vec<LastReads> {
    let mut reads = vec![LastReads::None; n_leaves];
    for (task, regions) in regions.iter().enumerate() {
        for arg in regions.args() {
            let RegionBase::Leaf(leaf) = arg.base else {
                continue;
            };
            let reads = &mut reads[leaf as usize];
            let before = match *reads {
                LastReads::Task { task: last, n } if last == task => n,
                _ => 0,
            };
            let n = before + 1;
            *reads = LastReads::Task { task, n };
        }
    }
    for out in outs {
        if let Out::Leaf(leaf) = out {
            reads[*leaf as usize] = LastReads::Result;
        }
    }
    reads
}

/// Dtype and number of elements.
type Size = (DType, usize);

/// Groups leaves and results by size, and drops the sizes that only one of them has.
fn of_one_size(mut leaves: Vec<(Size, u32)>, mut results: Vec<(Size, u32)>) -> Vec<DonationSet> {
    if leaves.is_empty() || results.is_empty() {
        return Vec::new();
    }
    let key = |((dtype, len), _): &(Size, u32)| (*dtype as u8, *len);
    leaves.sort_by_key(key);
    results.sort_by_key(key);
    let numbers = |all: &[(Size, u32)]| all.iter().map(|(_, i)| *i).collect();
    let of_size = leaves.chunk_by(|a, b| a.0 == b.0).map(|leaves| {
        let size = key(&leaves[0]);
        let from = results.partition_point(|result| key(result) < size);
        let to = results.partition_point(|result| key(result) <= size);
        DonationSet {
            leaves: numbers(leaves),
            results: numbers(&results[from..to]),
        }
    });
    of_size
        .filter(|donations| !donations.results.is_empty())
        .collect()
}
