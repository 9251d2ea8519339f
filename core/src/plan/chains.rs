//! Chains: tasks that run together on blocks of rows, such as row kernels and elementwise groups.
//!
//! A task joins the task that reads its result row by row, if one of the two can move next to the
//! other. Values that only the chain uses are never in memory as a whole.

use crate::backend::{InPlace, Member, Slice, Storage, TaskBuilder, TaskDraft, TaskKind, TaskWork};
use gradloom_kernels::elementwise::gcd;
use gradloom_kernels::rows::chain::{self, Stage, StageOperand};
use gradloom_kernels::rows::row_kernel::Fusable;
use gradloom_kernels::task::Prepared;

/// Search window for partners of a task. Keeps planning linear.
const REACH: usize = 64;

/// Size in bytes from which a value is worth avoiding in memory. Smaller values stay in a cache.
const LEAST_BYTES: usize = 1 << 18;

/// Target size in bytes of one block of a value, chosen to fit a low-level cache.
const BLOCK_BYTES: usize = 1 << 16;

/// Largest size in bytes of one block of a value. Values that need larger blocks go through memory.
const MOST_BYTES: usize = 1 << 18;

/// Number of blocks of a chain that computes much for each row, so that threads can share it.
const BLOCKS: usize = 8;

/// Largest number of operands, and of results, of a task that runs without an allocation.
const FEW: usize = 8;

/// Joins tasks to chains where possible.
pub(super) fn chains(build: &mut TaskBuilder) {
    let rows = |draft: &TaskDraft| matches!(draft.work, TaskWork::Fusable(Fusable::Rows(_)));
    if !build.drafts.iter().any(rows) {
        return;
    }
    let mut done: Vec<TaskDraft> = Vec::with_capacity(build.drafts.len());
    for mut draft in std::mem::take(&mut build.drafts) {
        let mut at = done.len();
        while let Some((i, moves)) = partner(&build.storages, &done[..at], &draft) {
            let before = done.remove(i);
            draft = join(before, draft);
            at = match moves {
                Moves::Later => at - 1,
                Moves::Earlier => i,
            };
        }
        done.insert(at, draft);
    }
    build.drafts = done;
}

/// Direction of the move that brings two tasks together.
enum Moves {
    /// The earlier task moves to the later one.
    Later,
    /// The later task moves to the earlier one.
    Earlier,
}

/// Finds the latest task that makes an operand of `draft` and can be joined with it.
fn partner(
    storages: &[Storage],
    before: &[TaskDraft],
    draft: &TaskDraft,
) -> Option<(usize, Moves)> {
    let large = |part: &Slice| part.len * storages[part.root as usize].dtype.size() >= LEAST_BYTES;
    if matches!(draft.work, TaskWork::Whole(_)) || !draft.args.iter().any(large) {
        return None;
    }
    let candidates = before.iter().enumerate().rev().take(REACH);
    let mut candidates = candidates.filter(|(_, other)| {
        let makes = |part: &Slice| large(part) && other.outs.contains(&part.root);
        draft.args.iter().any(makes)
    });
    candidates.find_map(|(i, other)| {
        block(storages, members(other)?.chain(members(draft)?))?;
        let new = |part: &&Slice| !other.args.contains(part) && !other.outs.contains(&part.root);
        let n_args = other.args.len() + draft.args.iter().filter(new).count();
        if n_args > FEW || other.outs.len() + draft.outs.len() > FEW {
            return None;
        }
        let between = || before[i + 1..].iter();
        let reads = |d: &TaskDraft, root: u32| d.args.iter().any(|part| part.root == root);
        let touched = |d: &TaskDraft| {
            let mut outs = other.outs.iter();
            outs.any(|root| reads(d, *root) || d.outs.contains(root))
        };
        if !between().any(touched) {
            return Some((i, Moves::Later));
        }
        let needed = |d: &TaskDraft| d.outs.iter().any(|root| reads(draft, *root));
        (!between().any(needed)).then_some((i, Moves::Earlier))
    })
}

/// Task of a chain: its kernel, operands and results.
type MemberParts<'a> = (&'a Fusable, &'a [Slice], &'a [u32]);

/// Returns the tasks that a task consists of, or `None` if it cannot run on blocks of rows.
fn members(draft: &TaskDraft) -> Option<impl Iterator<Item = MemberParts<'_>> + Clone> {
    let (one, several) = match &draft.work {
        TaskWork::Whole(_) => return None,
        TaskWork::Fusable(work) => (Some((work, &*draft.args, &*draft.outs)), &[][..]),
        TaskWork::Chain(members) => (None, &**members),
    };
    let several = several.iter().map(|m| (&m.work, &*m.args, &*m.outs));
    Some(one.into_iter().chain(several))
}

/// Returns the number of rows of a chain and the number of rows per block.
///
/// Returns `None` if the tasks cannot be a chain: each value between them must be written and read
/// row by row.
fn block<'a>(
    storages: &[Storage],
    members: impl Iterator<Item = MemberParts<'a>> + Clone,
) -> Option<[usize; 2]> {
    let n_rows = members.clone().find_map(|(work, ..)| work.n_rows())?;
    if n_rows == 0 {
        return None;
    }
    let mut grain = 1;
    let mut row_bytes = 1;
    for (work, args, _) in members.clone() {
        let own = work.row_multiple(n_rows)?;
        grain = own.checked_mul(grain / gcd(grain, own))?;
        for (i, part) in args.iter().enumerate() {
            let made = members.clone().find_map(|(work, _, outs)| {
                let result = outs.iter().position(|root| *root == part.root)?;
                Some(work.writes(result, n_rows))
            });
            let Some(made) = made else { continue };
            let row = made.filter(|row| work.reads(i, n_rows) == Some(*row))?;
            let root = &storages[part.root as usize];
            if part.start > 0 || part.len != root.len || row * n_rows != root.len {
                return None;
            }
            row_bytes = row_bytes.max(row * root.dtype.size());
        }
    }
    let heavy = |(work, ..): MemberParts<'_>| work.is_heavy();
    let most = match members.clone().any(heavy) {
        true => n_rows.div_ceil(BLOCKS),
        false => n_rows,
    };
    let block = (BLOCK_BYTES / row_bytes)
        .min(most)
        .max(1)
        .checked_next_multiple_of(grain)?;
    (block.saturating_mul(row_bytes) <= MOST_BYTES).then_some([n_rows, block])
}

/// Joins two tasks to one chain.
fn join(first: TaskDraft, second: TaskDraft) -> TaskDraft {
    let mut kinds = Vec::new();
    let mut members = Vec::new();
    let (mut args, mut outs) = (Vec::new(), Vec::new());
    let mut eqns = first.eqns.clone();
    eqns.extend(second.eqns.iter().copied());
    for draft in [first, second] {
        let made = |part: &&Slice| !outs.contains(&part.root);
        let new: Vec<Slice> = draft.args.iter().filter(made).copied().collect();
        args.extend(new);
        outs.extend(draft.outs.iter().copied());
        match draft.what {
            TaskKind::Chain(several) => kinds.extend(several),
            what => kinds.push(what),
        }
        match draft.work {
            TaskWork::Fusable(work) => members.push(Member {
                work,
                args: draft.args,
                outs: draft.outs,
            }),
            TaskWork::Chain(several) => members.extend(several),
            TaskWork::Whole(_) => unreachable!("`members` rejects this task"),
        }
    }
    // An operand that several tasks read is passed once.
    let mut once: Vec<Slice> = Vec::with_capacity(args.len());
    for part in args {
        if !once.contains(&part) {
            once.push(part);
        }
    }
    TaskDraft {
        work: TaskWork::Chain(members),
        args: once,
        outs,
        what: TaskKind::Chain(kinds),
        in_place: InPlace::None,
        may_fail: true,
        eqns,
        product: None,
        followed: None,
    }
}

/// Returns the storages that only the chain reads, so that they need no memory of their own.
///
/// `is_last` returns whether no later task reads a root and the root is not a result of the plan.
pub(super) fn local_values(members: &[Member], is_last: impl Fn(u32) -> bool) -> Vec<u32> {
    let outs = members.iter().flat_map(|m| &m.outs).copied();
    let read = |root: u32| {
        let mut args = members.iter().flat_map(|m| &m.args);
        args.any(|part| part.root == root)
    };
    outs.filter(|root| read(*root) && is_last(*root)).collect()
}

/// Returns the kernel of a chain with these operands and results.
///
/// All other values are local to a block.
pub(super) fn prepare(
    storages: &[Storage],
    members: Vec<Member>,
    args: &[Slice],
    outs: &[u32],
) -> Prepared {
    let parts = members.iter().map(|m| (&m.work, &*m.args, &*m.outs));
    let [n_rows, block] =
        block(storages, parts).expect("`partner` checked that the tasks form a chain");
    let size = |root: &u32| {
        let root = &storages[*root as usize];
        (root.dtype, root.len)
    };
    let mut near: Vec<u32> = Vec::new();
    let all = members.iter().flat_map(|m| &m.outs);
    near.extend(all.filter(|root| !outs.contains(root)));
    let made = |root: u32| {
        let of = |storages: &[u32]| storages.iter().position(|r| *r == root);
        of(outs)
            .map(StageOperand::Out)
            .or_else(|| of(&near).map(StageOperand::Local))
    };
    let arg = |part: &Slice| {
        made(part.root).unwrap_or_else(|| {
            let at = args.iter().position(|arg| arg == part);
            StageOperand::Arg(at.expect("operands of members are operands of the chain"))
        })
    };
    let stages = members.into_iter().map(|m| Stage {
        args: m.args.iter().map(arg).collect(),
        outs: m
            .outs
            .iter()
            .map(|root| made(*root).expect("made"))
            .collect(),
        work: m.work,
    });
    let row = |root: &u32| {
        let (dtype, len) = size(root);
        (dtype, len / n_rows)
    };
    let (results, rows): (Vec<_>, Vec<_>) = (
        outs.iter().map(size).collect(),
        near.iter().map(row).collect(),
    );
    chain::chain(stages.collect(), [n_rows, block], &results, &rows)
}
