//! Epilogues: elementwise groups that run in the task of a product.

use crate::Aval;
use crate::backend::{Operand, Slices, StorageKind, TaskBuilder, TaskKind, TaskWork, View};
use gradloom_kernels::elementwise::epilogue;
use gradloom_kernels::elementwise::group::Group;
use gradloom_kernels::rows::row_kernel::Fusable;

/// Search window for products. Keeps planning linear.
const REACH: usize = 64;

/// Size in bytes of a product from which an epilogue pays off.
///
/// A smaller result stays in a cache, and the group reads it faster as a whole than tile by tile.
const LEAST_BYTES: usize = 8 << 20;

/// Adds a group with operands `args` and returns its results.
///
/// The group becomes the epilogue of a product if one of its operands is the whole result of a
/// product that no task has read. The product then moves to the place of the group. Later tasks may
/// read the product, too.
pub(super) fn group(
    build: &mut TaskBuilder,
    ops: TaskKind,
    args: &[Operand],
    outs: &[Aval],
    n_results: usize,
    group: Group,
) -> Vec<View> {
    let all = |build: &TaskBuilder, args: &mut dyn Iterator<Item = &Operand>| -> Slices {
        args.map(|x| build.part(&x.view)).collect()
    };
    let plain = |build: &mut TaskBuilder, ops, group: Group| {
        let args = all(build, &mut args.iter());
        build.task(ops, args, outs, TaskWork::Fusable(Fusable::Group(group)))
    };
    let Some((draft, at)) = product(build, args, group.len()) else {
        return plain(build, ops, group);
    };
    let dtype = args[at].view.dtype();
    let into = outs[..n_results]
        .iter()
        .position(|out| out.dtype() == dtype);
    let batch = build.drafts[draft]
        .product
        .clone()
        .expect("`product` returns tasks with a product");
    let kernel = match epilogue::follow(&batch, dtype, group, at, into) {
        Ok(kernel) => kernel,
        Err(group) => return plain(build, ops, *group),
    };
    let before = build.drafts.remove(draft);
    let others = args.iter().enumerate().filter(|(i, _)| *i != at);
    let mut parts = before.args;
    parts.extend(all(build, &mut others.map(|(_, x)| x)));
    let what = match (ops, before.what) {
        (
            TaskKind::Group {
                ops,
                compiled,
                loops,
                ..
            },
            TaskKind::Op(product),
        ) => TaskKind::Group {
            after: Some(product),
            ops,
            compiled,
            loops,
        },
        (TaskKind::Op(op), TaskKind::Op(product)) => TaskKind::Group {
            after: Some(product),
            ops: vec![op],
            compiled: 0,
            loops: 1,
        },
        (ops, _) => ops,
    };
    let places = build.task(what, parts, outs, TaskWork::Whole(kernel));
    let draft = build.drafts.last_mut().expect("`task` has added a task");
    draft.outs.insert(0, before.outs[0]);
    draft.eqns.extend(before.eqns);
    draft.followed = Some(into.is_some());
    places
}

/// Finds the latest product whose whole result is an operand, if no task has read it.
///
/// Returns the task, and the index of the operand.
pub(super) fn product(build: &TaskBuilder, args: &[Operand], len: usize) -> Option<(usize, usize)> {
    let whole = |x: &Operand| {
        let Some(place) = x.as_view() else {
            return false;
        };
        let root = &build.storages[place.root as usize];
        root.kind == StorageKind::Made && root.len == len && place.layout.is_contiguous()
    };
    let large = |x: &Operand| len.saturating_mul(x.view.dtype().size()) >= LEAST_BYTES;
    if !args.iter().any(large) {
        return None;
    }
    let drafts = build.drafts.iter().enumerate().rev().take(REACH);
    let mut candidates = drafts.filter(|(_, draft)| draft.product.is_some());
    candidates.find_map(|(i, draft)| {
        let root = draft.outs[0];
        let mut operands = args.iter().enumerate().filter(|(_, x)| x.view.root == root);
        let (at, place) = operands.next()?;
        let later = &build.drafts[i + 1..];
        let read = later
            .iter()
            .any(|d| d.args.iter().any(|part| part.root == root));
        let fits = operands.next().is_none() && !read && whole(place) && large(place);
        fits.then_some((i, at))
    })
}
