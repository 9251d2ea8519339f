//! A plan: the equations of a simplified program as tasks in the order in which they run, with everything resolved
//! that does not depend on the values: which run in one loop, which views copy nothing, and where each value lies.

mod arena;
mod build;
mod epilogue;
mod explain;
mod gifts;
mod instructions;
mod place;

pub(crate) use build::{Build, What};
pub(crate) use gifts::{Gift, Given};
pub(crate) use place::Place;

use crate::buffer::{Buffer, afford};
use crate::kernel::{self, Base, KernelFault, Leaf, Needs, Region, Sum, Task};
use crate::layout::Layout;
use crate::lower::Lowered;
use crate::spare;
use crate::{Aval, Error, Result};
use arena::Life;
use build::{Eqns, Kind, Part};
use gifts::gifts;
use gradloom_ir::pass::{self, is_elementwise};
use gradloom_ir::{Op, Program, SecondaryMap, Var};
use instructions::{Instructions, instructions};
use smallvec::SmallVec;
use std::sync::Arc;

/// How to compute some results from some leaves.
pub(crate) struct Plan {
    tasks: Box<[Task]>,
    /// What each task computes.
    whats: Box<[What]>,
    /// The equations that each task computes; of an equation that takes several, the first has it.
    eqns: Box<[Eqns]>,
    needs: Needs,
    constants: Box<[Buffer]>,
    outs: Box<[Out]>,
    /// Whether the results are the buffers that the plan fills, each once and in order.
    is_plain: bool,
    /// The leaves whose buffers may become results, by result.
    gifts: Box<[Gift]>,
    /// The task that makes each result that is not a leaf.
    makers: Box<[usize]>,
    n_equations: usize,
}

/// The leaves of a plan.
pub(crate) type Leaves<'a> = SmallVec<[Leaf<'a>; 16]>;

/// The buffers that a plan fills.
type Results = SmallVec<[Arc<Buffer>; 16]>;

/// A result: a leaf as it is, or a buffer that the plan fills. Several may share one.
#[derive(Clone, Copy)]
enum Out {
    Leaf(u32),
    Result(u32),
}

impl Plan {
    /// Simplifies `lowered` and plans it.
    pub(crate) fn new(lowered: &Lowered) -> Plan {
        let program = pass::simplify(lowered.program.clone());
        let leaves = &program.params[..program.params.len() - lowered.likes.len()];
        let avals = leaves.iter().map(|leaf| aval(&program, *leaf));
        let leaves: Vec<_> = avals
            .map(|aval| (aval.numel(), Layout::contiguous(aval.shape())))
            .collect();
        Plan::of(&program, &leaves)
    }

    /// Plans a program whose first parameters are leaves: the elements of their buffers, and how they lie there.
    pub(crate) fn of(program: &Program, leaves: &[(usize, Layout)]) -> Plan {
        let mut build = Build::default();
        let mut places: SecondaryMap<Var, Place> = SecondaryMap::new();
        for (i, (len, layout)) in leaves.iter().enumerate() {
            let leaf = program.params[i];
            let dtype = aval(program, leaf).dtype();
            let place = build.leaf(i as u32, dtype, *len).with(layout.clone());
            places.insert(leaf, place);
        }
        let readers = Readers::of(program);
        let mut done = vec![false; program.eqns.len()];
        for step in pass::fuse(program) {
            match step[..] {
                [i] if !is_elementwise(program.eqns[i].op) => {
                    if !done[i] {
                        equation(&mut build, program, i, &mut places);
                    }
                }
                _ => {
                    let sums = sums(program, &step, &readers);
                    sums.iter().for_each(|(i, _)| done[*i] = true);
                    group(&mut build, program, &step, &sums, &readers, &mut places);
                }
            }
        }
        finish(build, program, &places)
    }

    /// The number of equations that running it runs.
    pub(crate) fn n_steps(&self) -> usize {
        self.n_equations
    }

    /// Computes the results, which are added to a list. Each is the whole of its buffer, in row-major order. After an error
    /// the list is as it was, and so is what is given.
    pub(crate) fn run(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Given,
        results: &mut Vec<Option<Arc<Buffer>>>,
    ) -> Result<()> {
        let ran = self.try_run(leaves, given, results);
        ran.map_err(|(task, fault)| Error::of_kernel(self.name(task), fault))
    }

    /// The same; an error has the task that is at fault.
    pub(crate) fn try_run(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Given,
        all: &mut Vec<Option<Arc<Buffer>>>,
    ) -> Result<(), (usize, KernelFault)> {
        afford(self.needs.arena).map_err(|fault| (self.largest(), fault))?;
        let mut results = Results::new();
        let mut made = || -> Result<(), (usize, KernelFault)> {
            for (i, &(dtype, len)) in self.needs.results.iter().enumerate() {
                if given.iter().all(|(gift, _)| gift.result != i) {
                    let made = spare::buffer(dtype, len);
                    results.push(made.map_err(|fault| (self.makers[i], fault))?);
                }
            }
            Ok(())
        };
        made()?;
        let gifts: SmallVec<[Gift; 8]> = given.iter().map(|(gift, _)| *gift).collect();
        for (gift, buffer) in given.drain(..) {
            results.insert(gift.result, buffer);
        }
        let ran = kernel::run(
            &self.tasks,
            &self.needs,
            leaves,
            &self.constants,
            &mut results,
        );
        if let Err(error) = ran {
            let back = gifts.iter().rev();
            given.extend(back.map(|gift| (*gift, results.remove(gift.result))));
            return Err(error);
        }
        if self.is_plain {
            all.extend(results.into_iter().map(Some));
            return Ok(());
        }
        let out = |out: &Out| match *out {
            Out::Leaf(i) => match leaves[i as usize] {
                Leaf::Held(buffer) => buffer.clone(),
                Leaf::Given(_) => unreachable!("a leaf that is a result is not given away"),
            },
            Out::Result(i) => results[i as usize].clone(),
        };
        all.extend(self.outs.iter().map(out).map(Some));
        Ok(())
    }

    /// The op of a task as the user knows it, for messages.
    fn name(&self, task: usize) -> &'static str {
        match self.whats.get(task) {
            // It is emitted by the derivative of `cross_entropy` alone.
            Some(What::Op(Op::SoftmaxLessHot)) => Op::CrossEntropy.def().name(),
            Some(What::Op(op)) => op.def().name(),
            Some(What::Group { ops, .. }) => ops.last().map_or("identity", |op| op.def().name()),
            Some(What::Copy(op)) => op.def().name(),
            None => Op::Identity.def().name(),
        }
    }

    /// The leaves whose buffers may become results, by result.
    pub(crate) fn gifts(&self) -> &[Gift] {
        &self.gifts
    }

    /// How many elements the tasks read and write.
    pub(crate) fn traffic(&self) -> usize {
        let regions = self
            .tasks
            .iter()
            .flat_map(|t| t.args().iter().chain(t.outs()));
        regions.fold(0, |sum, region| sum.saturating_add(region.len))
    }

    #[cfg(test)]
    pub(crate) fn n_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The bytes of intermediate values.
    #[cfg(test)]
    pub(crate) fn arena(&self) -> usize {
        self.needs.arena
    }

    /// Whether nothing is computed: the results are leaves or parts of them.
    #[cfg(test)]
    pub(crate) fn only_moves(&self) -> bool {
        self.whats.iter().all(|what| matches!(what, What::Copy(_)))
    }

    /// The task with the largest result.
    fn largest(&self) -> usize {
        let bytes = |task: &Task| task.outs().iter().map(|r| r.len).max();
        let tasks = self.tasks.iter().enumerate();
        tasks.max_by_key(|(_, t)| bytes(t)).map_or(0, |(i, _)| i)
    }
}

fn aval(program: &Program, var: Var) -> Aval {
    Aval::from_ir(program.aval(var))
}

/// The equations that read each variable; the results of the program are read by one that is not there.
struct Readers(SecondaryMap<Var, Vec<usize>>);

impl Readers {
    fn of(program: &Program) -> Readers {
        let mut readers: SecondaryMap<Var, Vec<usize>> = SecondaryMap::new();
        let mut read = |var: Var, by: usize| match readers.get_mut(var) {
            Some(list) => list.push(by),
            None => drop(readers.insert(var, vec![by])),
        };
        for (i, eqn) in program.eqns.iter().enumerate() {
            eqn.data().iter().for_each(|var| read(*var, i));
        }
        program.outs.iter().for_each(|out| read(*out, usize::MAX));
        Readers(readers)
    }

    /// The equations outside of a group (ascending) that read the variable.
    fn outside(&self, var: Var, group: &[usize]) -> impl Iterator<Item = usize> {
        let readers = self.0.get(var).into_iter().flatten().copied();
        readers.filter(|by| group.binary_search(by).is_err())
    }
}

/// The sums of members that their group can make: the equation of each, and how. They are all made in the same way.
fn sums(program: &Program, step: &[usize], readers: &Readers) -> Vec<(usize, Sum)> {
    let mut found: Vec<(usize, Sum)> = Vec::new();
    for member in step {
        let var = program.eqns[*member].out();
        for i in readers.outside(var, step) {
            let Some(eqn) = program.eqns.get(i) else {
                continue;
            };
            let statics: Vec<_> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
            let (shape, out) = (aval(program, var), aval(program, eqn.outs[0]));
            let sum = kernel::fused_sum(eqn.op, &statics, shape.shape(), out.shape());
            if let Some(sum) = sum
                && found.iter().all(|(other, s)| *other != i && *s == sum)
            {
                found.push((i, sum));
            }
        }
    }
    found
}

/// Plans one equation.
fn equation(build: &mut Build, program: &Program, i: usize, places: &mut SecondaryMap<Var, Place>) {
    let eqn = &program.eqns[i];
    let of = |var: &Var| places.get(*var).expect(BOUND).clone();
    let args: Vec<Place> = eqn.data().iter().map(of).collect();
    let avals = |vars: &[Var]| vars.iter().map(|v| aval(program, *v)).collect::<Vec<_>>();
    let statics: Vec<_> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let (likes, outs) = (avals(eqn.likes()), avals(&eqn.outs));
    build.op = eqn.op;
    build.eqns = Eqns::from_elem(i as u32, 1);
    let made = kernel::lower(build, eqn.op, &statics, &args, &likes, &outs);
    build.eqns.clear();
    for ((var, place), out) in eqn.outs.iter().zip(made).zip(&outs) {
        debug_assert_eq!(
            (out.dtype(), out.shape()),
            (place.dtype(), place.shape()),
            "{}",
            eqn.op
        );
        places.insert(*var, place);
    }
}

const MEMBERS: &str = "a group has members";
const BOUND: &str = "a variable is bound before it is read";

/// Plans elementwise equations with results of one shape, as one task that makes `sums` of them too.
fn group(
    build: &mut Build,
    program: &Program,
    step: &[usize],
    sums: &[(usize, Sum)],
    readers: &Readers,
    places: &mut SecondaryMap<Var, Place>,
) {
    let eqns = || step.iter().map(|i| &program.eqns[*i]);
    build.op = eqns().next_back().expect(MEMBERS).op;
    let summed = sums.iter().map(|(i, _)| i);
    build.eqns = step.iter().chain(summed).map(|i| *i as u32).collect();
    let out = aval(program, eqns().next().expect(MEMBERS).out());
    let shape = out.shape();
    // Numbers of values: operands first, then members.
    let mut number: SecondaryMap<Var, usize> = SecondaryMap::new();
    let mut inputs: Vec<Place> = Vec::new();
    for var in eqns().flat_map(|eqn| eqn.data()) {
        if let (Some(place), None) = (places.get(*var), number.get(*var)) {
            let place = place.broadcast_to(shape);
            let place = match kernel::jumps(&place.layout) {
                true => build.contiguous(&place),
                false => place,
            };
            number.insert(*var, inputs.len());
            inputs.push(place);
        }
    }
    for (i, eqn) in eqns().enumerate() {
        number.insert(eqn.out(), inputs.len() + i);
    }
    let dtype_of = |i: usize| aval(program, program.eqns[step[i]].out()).dtype();
    // What only a sum reads is not stored.
    let is_result = |i: &usize| {
        let mut others = readers.outside(program.eqns[step[*i]].out(), step);
        others.any(|by| sums.iter().all(|(sum, _)| *sum != by))
    };
    let results: Vec<usize> = (0..step.len()).filter(is_result).collect();
    let member_of =
        |sum: usize| number.get(program.eqns[sum].data()[0]).expect(BOUND) - inputs.len();
    let summed: Vec<(usize, Sum)> = sums.iter().map(|(i, sum)| (member_of(*i), *sum)).collect();
    let mut outs: Vec<Aval> = results
        .iter()
        .map(|i| Aval::new(dtype_of(*i), shape))
        .collect();
    outs.extend(
        summed
            .iter()
            .map(|(i, sum)| Aval::new(dtype_of(*i), [sum.len(out.numel())])),
    );
    let is_read = |i: usize| {
        readers
            .outside(program.eqns[step[i]].out(), step)
            .next()
            .is_some()
    };
    let Instructions {
        steps,
        used,
        compiled,
    } = instructions(program, step, &number, inputs.len(), is_read);
    let args: Vec<Place> = used.iter().map(|i| inputs[*i].clone()).collect();
    let layouts: Vec<_> = args.iter().map(|x| (x.dtype(), x.layout.clone())).collect();
    let value = |i: usize| args.len() + i;
    let stored: Vec<_> = results.iter().map(|i| (value(*i), dtype_of(*i))).collect();
    let totals: Vec<_> = summed
        .iter()
        .map(|(i, sum)| (value(*i), dtype_of(*i), *sum))
        .collect();
    let kernel = kernel::group(out.numel(), &layouts, &steps, &stored, &totals);
    let what = match step {
        [i] if sums.is_empty() => What::Op(program.eqns[*i].op),
        _ => What::Group {
            after: None,
            ops: eqns()
                .map(|eqn| eqn.op)
                .chain(sums.iter().map(|(i, _)| program.eqns[*i].op))
                .collect(),
            compiled,
            loops: steps.len(),
        },
    };
    let in_order = args.iter().map(|x| x.layout.is_contiguous()).collect();
    let mut made = epilogue::group(build, what, &args, &outs, results.len(), kernel);
    let draft = build.drafts.last_mut().expect(MEMBERS);
    if draft.followed.is_none() {
        draft.in_order = (results.len(), in_order);
    }
    let totals = made.split_off(results.len());
    for (i, place) in results.iter().zip(made) {
        places.insert(program.eqns[step[*i]].out(), place);
    }
    for ((i, sum), totals) in sums.iter().zip(totals) {
        let var = program.eqns[*i].outs[0];
        let out = aval(program, var);
        let place = match sum {
            Sum::Rows(_) => totals,
            Sum::All | Sum::Columns(_) if totals.layout.numel() == out.numel() => totals,
            Sum::All | Sum::Columns(_) => {
                build.op = program.eqns[*i].op;
                build.join(&totals, &out, kernel::join(out.dtype()))
            }
        };
        places.insert(var, place.with(Layout::contiguous(out.shape())));
    }
}

/// Decides where each value lies.
fn finish(mut build: Build, program: &Program, places: &SecondaryMap<Var, Place>) -> Plan {
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
        tasks.push(Task::new(draft.kernel, args, outs, &needs));
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
