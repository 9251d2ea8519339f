//! The end of planning: where each value lies in memory.

use super::arena::{self, Life};
use super::build::{Build, Kind, Part, Work};
use super::chains::{self, chains};
use super::gifts::gifts;
use super::{BOUND, Out, Place, Plan};
use crate::kernel::{Base, Needs, Region, Task};
use gradloom_ir::{Op, Program, SecondaryMap, Var};

/// Decides where each value lies.
pub(super) fn finish(
    mut build: Build,
    program: &Program,
    places: &SecondaryMap<Var, Place>,
) -> Plan {
    let mut result_of: Vec<Option<u32>> = Vec::new();
    let mut results: Vec<u32> = Vec::new();
    let made_by_op: SecondaryMap<Var, Op> = {
        let eqns = program.eqns.iter();
        eqns.flat_map(|e| e.outs.iter().map(|v| (*v, e.op)))
            .collect()
    };
    let outs = program.outs.iter().map(|var| {
        build.op = made_by_op.get(*var).copied().unwrap_or(Op::Identity);
        let place = places.get(*var).expect(BOUND);
        let root = &build.roots[place.root as usize];
        let whole = place.layout.is_contiguous() && place.layout.numel() == root.len;
        if let (Kind::Leaf(i), true) = (root.kind, whole) {
            return Out::Leaf(i);
        }
        let root = build.whole(place).root;
        result_of.resize(build.roots.len(), None);
        let result = *result_of[root as usize].get_or_insert_with(|| {
            results.push(root);
            results.len() as u32 - 1
        });
        Out::Result(result)
    });
    let outs: Box<[Out]> = outs.collect();
    result_of.resize(build.roots.len(), None);

    chains(&mut build);
    let mut made_by = vec![usize::MAX; build.roots.len()];
    let mut last_read = vec![0; build.roots.len()];
    for (i, draft) in build.drafts.iter().enumerate() {
        for root in &draft.outs {
            let made_by = &mut made_by[*root as usize];
            (*made_by, last_read[*root as usize]) = (i.min(*made_by), i);
        }
        for part in &draft.args {
            last_read[part.root as usize] = i;
        }
    }
    // What only the group reads that follows a product lies where a result of the group does.
    for (i, draft) in build.drafts.iter_mut().enumerate() {
        if draft.followed != Some(true) {
            continue;
        }
        let z = draft.outs[0] as usize;
        if last_read[z] == i && result_of[z].is_none() {
            draft.outs.remove(0);
            made_by[z] = usize::MAX;
        }
    }
    for (i, draft) in build.drafts.iter_mut().enumerate() {
        let Work::Chain(members) = &draft.work else {
            continue;
        };
        let only = |root: u32| {
            let root = root as usize;
            (made_by[root], last_read[root], result_of[root]) == (i, i, None)
        };
        let near = chains::near(members, only);
        near.iter()
            .for_each(|root| made_by[*root as usize] = usize::MAX);
        draft.outs.retain(|root| !near.contains(root));
    }
    let in_arena = |root: &usize| {
        let made = build.roots[*root].kind == Kind::Made && made_by[*root] != usize::MAX;
        made && result_of[*root].is_none()
    };
    let mut temporary: Vec<usize> = (0..build.roots.len()).filter(in_arena).collect();
    temporary.sort_by_key(|root| made_by[*root]);
    let life = |root: &usize| Life {
        bytes: build.roots[*root]
            .len
            .saturating_mul(build.roots[*root].dtype.size()),
        first: made_by[*root],
        last: last_read[*root],
    };
    let lives: Vec<Life> = temporary.iter().map(life).collect();
    let (offsets, arena) = arena::offsets(&lives);
    let mut base: Vec<(Base, usize)> = vec![(Base::Arena, 0); build.roots.len()];
    for (root, offset) in temporary.iter().zip(offsets) {
        base[*root].1 = offset;
    }
    let mut needs = Needs {
        arena,
        ..Needs::default()
    };
    for (i, root) in build.roots.iter().enumerate() {
        let size = (root.dtype, root.len);
        match root.kind {
            Kind::Leaf(leaf) => {
                base[i].0 = Base::Leaf(leaf);
                needs.leaves.push(size);
            }
            Kind::Constant(constant) => {
                base[i].0 = Base::Constant(constant);
                needs.constants.push(size);
            }
            Kind::Made => {
                if let Some(result) = result_of[i] {
                    base[i].0 = Base::Result(result);
                }
            }
        }
    }
    let sizes = results.iter().map(|r| &build.roots[*r as usize]);
    needs.results = sizes.map(|root| (root.dtype, root.len)).collect();
    let region = |part: &Part| {
        let dtype = build.roots[part.root as usize].dtype;
        let (base, offset) = base[part.root as usize];
        Region {
            base,
            dtype,
            start: offset + part.start * dtype.size(),
            len: part.len,
        }
    };
    let whole = |root: &u32| {
        region(&Part {
            root: *root,
            start: 0,
            len: build.roots[*root as usize].len,
        })
    };
    let regions: Vec<(Vec<Region>, Vec<Region>)> = build
        .drafts
        .iter()
        .map(|d| {
            (
                d.args.iter().map(region).collect(),
                d.outs.iter().map(whole).collect(),
            )
        })
        .collect();
    let in_order: Vec<_> = build.drafts.iter().map(|d| &d.in_order).collect();
    let gifts = gifts(&in_order, &regions, &outs, &needs);
    let makers = results.iter().map(|root| made_by[*root as usize]).collect();
    let n_tasks = build.drafts.len();
    let mut tasks = Vec::with_capacity(n_tasks);
    let mut whats = Vec::with_capacity(n_tasks);
    let mut eqns = Vec::with_capacity(n_tasks);
    for (draft, (args, outs)) in build.drafts.into_iter().zip(regions) {
        let kernel = match draft.work {
            Work::Whole(kernel) => kernel,
            Work::Cut(link) => link.prepare(outs.iter().map(|r| r.len * r.dtype.size())),
            Work::Chain(members) => {
                chains::prepare(&build.roots, members, &draft.args, &draft.outs)
            }
        };
        tasks.push(Task::new(kernel, args, outs, &needs));
        whats.push(draft.what);
        eqns.push(draft.eqns);
    }
    let nth = |(i, out): (usize, &Out)| matches!(out, Out::Result(r) if *r as usize == i);
    let is_plain = outs.iter().enumerate().all(nth);
    Plan {
        tasks: tasks.into(),
        whats: whats.into(),
        eqns: eqns.into(),
        needs,
        constants: build.constants.into(),
        outs,
        is_plain,
        gifts,
        makers,
        n_equations: program.eqns.len(),
    }
}
