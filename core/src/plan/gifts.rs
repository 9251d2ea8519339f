//! Results that are computed in place: in the buffers of leaves that nobody else holds.

use super::Out;
use crate::buffer::Buffer;
use crate::kernel::{Base, Needs, Region};
use smallvec::SmallVec;
use std::sync::Arc;

/// A leaf whose buffer may become a result, if nobody else has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gift {
    pub(crate) leaf: usize,
    pub(crate) result: usize,
}

/// Buffers that become results, by result. The leaves are [`Leaf::Given`](crate::kernel::Leaf::Given).
pub(crate) type Given = SmallVec<[(Gift, Arc<Buffer>); 8]>;

/// The leaves whose buffers may become results: those that are read for the last time by a group that writes a result of their
/// size and dtype, element by element. After that no task may fail, so that an error leaves the leaves as they were: there are
/// only groups.
pub(super) fn gifts(
    in_order: &[&(usize, Vec<bool>)],
    regions: &[(Vec<Region>, Vec<Region>)],
    outs: &[Out],
    needs: &Needs,
) -> Box<[Gift]> {
    let last_other = in_order.iter().rposition(|(_, order)| order.is_empty());
    let first = last_other.map_or(0, |i| i + 1);
    let reads = |args: &[Region], leaf: u32| {
        let of_leaf = args.iter().filter(|arg| arg.base == Base::Leaf(leaf));
        of_leaf.count()
    };
    let mut gifts = Vec::new();
    for (i, (args, results)) in regions.iter().enumerate().skip(first) {
        let (n_results, in_order) = in_order[i];
        for (arg, in_order) in args.iter().zip(in_order) {
            let Base::Leaf(leaf) = arg.base else { continue };
            let whole = arg.start == 0 && needs.leaves[leaf as usize] == (arg.dtype, arg.len);
            let later = &regions[i + 1..];
            let is_out = |out: &Out| matches!(out, Out::Leaf(l) if *l == leaf);
            let last = reads(args, leaf) == 1
                && later.iter().all(|(args, _)| reads(args, leaf) == 0)
                && !outs.iter().any(is_out);
            if !(*in_order && whole && last) {
                continue;
            }
            for out in &results[..*n_results] {
                if let Base::Result(result) = out.base
                    && (out.dtype, out.len) == (arg.dtype, arg.len)
                {
                    gifts.push(Gift {
                        leaf: leaf as usize,
                        result: result as usize,
                    });
                }
            }
        }
    }
    gifts.sort_by_key(|gift| gift.result);
    gifts.into()
}
