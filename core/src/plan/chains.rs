//! Chains: tasks that run together on blocks of rows, such as row kernels and elementwise groups.
//!
//! A task joins the task that reads its result row by row, or that reads the same operand, if one of the two can move
//! next to the other. What a row is reduced to is a value of the chain, too, so the steps of a norm or of the gradient of
//! a maximum read their operand once. Values that only the chain uses are never in memory as a whole.

use crate::backend::{InPlace, Member, Roots, Slice, Slices};
use crate::backend::{Storage, TaskBuilder, TaskDraft, TaskKind, TaskWork};
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

/// Largest number of operands of a chain.
const MOST_ARGS: usize = 16;

/// Largest number of values that a chain computes, most of which are local to a block.
const MOST_VALUES: usize = 32;

/// Joins tasks to chains where possible.
pub(super) fn chains(build: &mut TaskBuilder) {
    let rows = |draft: &TaskDraft| match &draft.work {
        TaskWork::Fusable(work) => work.n_rows().is_some(),
        TaskWork::Whole(_) | TaskWork::Chain(_) => false,
    };
    if !build.drafts.iter().any(rows) {
        return;
    }
    let mut done: Vec<TaskDraft> = Vec::with_capacity(build.drafts.len());
    for mut draft in std::mem::take(&mut build.drafts) {
        let mut at = done.len();
        while let Some(found) = partner(&build.storages, &done[..at], &draft) {
            let mut joined = done.remove(found.first);
            for (n, i) in found.between.iter().enumerate() {
                joined = join(joined, done.remove(i - n - 1));
            }
            draft = join(joined, draft);
            at = match found.moves {
                Moves::Later => at - 1 - found.between.len(),
                Moves::Earlier => found.first,
            };
        }
        done.insert(at, draft);
    }
    build.drafts = done;
}

/// Task that another one can be joined with.
struct Partner {
    first: usize,
    /// Tasks that read results of the first one and that the other task needs. They become members as well.
    between: Vec<usize>,
    moves: Moves,
}

/// Direction of the move that brings the tasks together.
enum Moves {
    /// The earlier tasks move to the last one.
    Later,
    /// The later tasks move to the first one.
    Earlier,
}

/// Finds the latest task that can be joined with `draft` so that a large value is in memory, or read, once less.
fn partner(storages: &[Storage], before: &[TaskDraft], draft: &TaskDraft) -> Option<Partner> {
    let large = |part: &Slice| part.len * storages[part.root as usize].dtype.size() >= LEAST_BYTES;
    if matches!(draft.work, TaskWork::Whole(_)) || !draft.args.iter().any(large) {
        return None;
    }
    let candidates = before.iter().enumerate().rev().take(REACH);
    let mut candidates = candidates.filter(|(_, other)| {
        let common = |part: &Slice| {
            large(part) && (other.outs.contains(&part.root) || other.args.contains(part))
        };
        draft.args.iter().any(common)
    });
    candidates.find_map(|(first, other)| {
        let first_members = members(other)?;
        let (between, moves) = between(before, first, draft)?;
        let all: Option<Vec<_>> = between.iter().map(|i| members(&before[*i])).collect();
        let all = all?.into_iter().flatten();
        let all: Vec<MemberParts<'_>> = first_members.chain(all).chain(members(draft)?).collect();
        let [n_rows, _] = block(storages, &all)?;
        let makes = |part: &Slice| large(part) && other.outs.contains(&part.root);
        let gains = draft.args.iter().any(makes)
            || shared(&all, n_rows).any(|(part, _)| large(part)) && !all.iter().any(is_heavy);
        let made = |root: &u32| all.iter().any(|(.., outs)| outs.contains(root));
        let mut args: Vec<&Slice> = all.iter().flat_map(|(_, args, _)| *args).collect();
        args.retain(|part| !made(&part.root));
        args.sort_unstable_by_key(|part| (part.root, part.start, part.len));
        args.dedup();
        let n_outs: usize = all.iter().map(|(.., outs)| outs.len()).sum();
        (gains && args.len() <= MOST_ARGS && n_outs <= MOST_VALUES).then_some(Partner {
            first,
            between,
            moves,
        })
    })
}

/// Returns the tasks after `first` that become members of a chain of it and of `draft`, and how the others allow them to
/// move together.
fn between(before: &[TaskDraft], first: usize, draft: &TaskDraft) -> Option<(Vec<usize>, Moves)> {
    let reads = |d: &TaskDraft, of: &TaskDraft| {
        let mut outs = of.outs.iter();
        outs.any(|root| d.outs.contains(root) || d.args.iter().any(|part| part.root == *root))
    };
    // Tasks that depend on the first one, and those that the last one depends on.
    let (mut later, mut needed): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for i in first + 1..before.len() {
        let depends = |on: &usize| reads(&before[i], &before[*on]);
        if depends(&first) || later.iter().any(depends) {
            later.push(i);
        }
    }
    for i in (first + 1..before.len()).rev() {
        let mut by = needed.iter().map(|by| &before[*by]).chain([draft]);
        if by.any(|by| reads(by, &before[i])) {
            needed.push(i);
        }
    }
    needed.reverse();
    let both: Vec<usize> = later
        .iter()
        .copied()
        .filter(|i| needed.contains(i))
        .collect();
    let moves = match (both == later, both == needed) {
        (true, _) => Moves::Later,
        (_, true) => Moves::Earlier,
        _ => return None,
    };
    Some((both, moves))
}

/// Returns the operands that several tasks read row by row, with the number of elements of a row.
fn shared<'a>(
    members: &'a [MemberParts<'a>],
    n_rows: usize,
) -> impl Iterator<Item = (&'a Slice, usize)> {
    let of = move |(work, args, _): &MemberParts<'a>| {
        let (work, args) = (*work, *args);
        let rows = args.iter().enumerate();
        rows.filter_map(move |(i, part)| Some((part, work.reads(i, n_rows)?)))
    };
    members.iter().enumerate().flat_map(move |(i, member)| {
        let others = &members[..i];
        of(member).filter(move |(part, _)| {
            let mut read = others.iter().flat_map(of);
            read.any(|(other, _)| other == *part)
        })
    })
}

fn is_heavy((work, ..): &MemberParts<'_>) -> bool {
    work.is_heavy()
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
fn block(storages: &[Storage], members: &[MemberParts<'_>]) -> Option<[usize; 2]> {
    // Sums of a group may be over parts of the rows of a kernel.
    let n_rows = members
        .iter()
        .filter_map(|(work, ..)| work.n_rows())
        .min()?;
    if n_rows == 0 {
        return None;
    }
    let mut grain = 1;
    let size = |part: &Slice| storages[part.root as usize].dtype.size();
    let shared = shared(members, n_rows).map(|(part, row)| row * size(part));
    let mut row_bytes = shared.max().unwrap_or(1).max(1);
    for (work, args, _) in members {
        let own = work.row_multiple(n_rows)?;
        grain = own.checked_mul(grain / gcd(grain, own))?;
        for (i, part) in args.iter().enumerate() {
            let made = members.iter().find_map(|(work, _, outs)| {
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
    let most = match members.iter().any(is_heavy) {
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
    let (mut args, mut outs) = (Slices::new(), Roots::new());
    let mut eqns = first.eqns.clone();
    eqns.extend(second.eqns.iter().copied());
    let may_fail = first.may_fail || second.may_fail;
    for draft in [first, second] {
        let made = |part: &&Slice| !outs.contains(&part.root);
        let new: Slices = draft.args.iter().filter(made).copied().collect();
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
    let mut once = Slices::new();
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
        may_fail,
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
    let parts: Vec<MemberParts<'_>> = members
        .iter()
        .map(|m| (&m.work, &*m.args, &*m.outs))
        .collect();
    let [n_rows, block] =
        block(storages, &parts).expect("`partner` checked that the tasks form a chain");
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
