//! Groups that follow a product: one task computes both.

use super::build::{Build, Kind, Part, What, Work};
use super::place::Place;
use crate::Aval;
use crate::kernel::{self, Group, Link};

/// A product is looked for among so many tasks: what is planned stays linear in what there is.
const REACH: usize = 64;

/// A product with a smaller result is not followed: a cache still has the result when the group reads all of it, and it reads that
/// faster than a part at a time.
const LEAST_BYTES: usize = 8 << 20;

/// The results of a group whose operands are `args`. Where one of them is the result of a product that nobody has read, the group
/// becomes a part of its task.
///
/// The product runs later for that, where the group would. It may be read again later.
pub(super) fn group(
    build: &mut Build,
    ops: What,
    args: &[Place],
    outs: &[Aval],
    n_results: usize,
    group: Group,
) -> Vec<Place> {
    let all = |build: &Build, args: &mut dyn Iterator<Item = &Place>| -> Vec<Part> {
        args.map(|x| build.part(x)).collect()
    };
    let plain = |build: &mut Build, ops, group: Group| {
        let args = all(build, &mut args.iter());
        build.task(ops, args, outs, Work::Cut(Link::Group(group)))
    };
    let Some((draft, at)) = product(build, args, group.len()) else {
        return plain(build, ops, group);
    };
    let dtype = args[at].dtype();
    let into = outs[..n_results]
        .iter()
        .position(|out| out.dtype() == dtype);
    let batch = build.drafts[draft].product.clone().expect("found as one");
    let kernel = match kernel::follow(&batch, dtype, group, at, into) {
        Ok(kernel) => kernel,
        Err(group) => return plain(build, ops, *group),
    };
    let before = build.drafts.remove(draft);
    let others = args.iter().enumerate().filter(|(i, _)| *i != at);
    let mut parts = before.args;
    parts.extend(all(build, &mut others.map(|(_, x)| x)));
    let what = match (ops, before.what) {
        (
            What::Group {
                ops,
                compiled,
                loops,
                ..
            },
            What::Op(product),
        ) => What::Group {
            after: Some(product),
            ops,
            compiled,
            loops,
        },
        (What::Op(op), What::Op(product)) => What::Group {
            after: Some(product),
            ops: vec![op],
            compiled: 0,
            loops: 1,
        },
        (ops, _) => ops,
    };
    let places = build.task(what, parts, outs, Work::Whole(kernel));
    let draft = build.drafts.last_mut().expect("the task was added");
    draft.outs.insert(0, before.outs[0]);
    draft.eqns.extend(before.eqns);
    draft.followed = Some(into.is_some());
    places
}

/// The latest product of which one of the operands is the whole result, if no task has read it: which task and which
/// operand.
fn product(build: &Build, args: &[Place], len: usize) -> Option<(usize, usize)> {
    let whole = |place: &Place| {
        let root = &build.roots[place.root as usize];
        root.kind == Kind::Made && root.len == len && place.layout.is_contiguous()
    };
    let large = |place: &Place| len.saturating_mul(place.dtype().size()) >= LEAST_BYTES;
    if !args.iter().any(large) {
        return None;
    }
    let drafts = build.drafts.iter().enumerate().rev().take(REACH);
    let mut candidates = drafts.filter(|(_, draft)| draft.product.is_some());
    candidates.find_map(|(i, draft)| {
        let root = draft.outs[0];
        let mut operands = args.iter().enumerate().filter(|(_, x)| x.root == root);
        let (at, place) = operands.next()?;
        let later = &build.drafts[i + 1..];
        let read = later
            .iter()
            .any(|d| d.args.iter().any(|part| part.root == root));
        let fits = operands.next().is_none() && !read && whole(place) && large(place);
        fits.then_some((i, at))
    })
}
