//! Plans: a simplified program as a list of tasks in execution order.
//!
//! A plan resolves everything that does not depend on the values of elements: the ops that run in
//! one loop, the views that need no copy, and the memory of each value.

mod arena;
pub(crate) mod cache;
mod chains;
mod consumers;
mod control;
mod donation;
mod epilogue;
mod explain;
mod groups;
mod instructions;
pub(crate) mod limit;
mod liveness;
pub(crate) mod lru;
mod memory_plan;
pub(crate) mod numbers;
mod places;
mod results;
mod spmd;
mod steps;

use crate::backend::TaskKind;
pub(crate) use donation::{DonationSet, Donations, donate};
pub(crate) use gradloom_kernels::task;

use crate::backend::Eqns;
use crate::recycle;
use crate::{Aval, Error, Result};
use donation::Donation;
use gradloom_ir::op::Fails;
use gradloom_ir::pass;
use gradloom_ir::{Op, Program, Var};
use gradloom_kernels::KernelFault;
use gradloom_kernels::memory::Layout;
use gradloom_kernels::memory::buffer::{Buffer, afford};
use gradloom_kernels::task::{BufferSizes, Leaf, Region, Task};
use gradloom_kernels::timeline::{self, SliceKind};
use memory_plan::assign_memory;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;
use steps::steps;

/// Program with the avals of its like parameters.
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// Avals of the parameters that follow the leaves.
    pub(crate) likes: Vec<Aval>,
}

/// Computes some results from some leaves.
pub(crate) struct Plan {
    tasks: Box<[Task]>,
    /// Description of each task.
    kinds: Box<[TaskKind]>,
    /// Equations of each task. The first of several tasks for one equation has it.
    eqns: Box<[Eqns]>,
    needs: BufferSizes,
    constants: Box<[Buffer]>,
    outs: Box<[Out]>,
    /// True if output `i` is the buffer of result `i` for all outputs.
    is_plain: bool,
    /// Possible donations: leaves whose buffers may become results.
    donations: Box<[DonationSet]>,
    /// Index of the first donation set whose leaves are intact after an error.
    first_safe: usize,
    /// Task that makes each result.
    makers: Box<[usize]>,
    n_equations: usize,
    /// Memory limit that the plan was made for.
    limit: usize,
    /// Program of the plan, if the limit has changed it.
    limited: Option<Box<limit::Limited>>,
}

/// Leaves of a run of a plan.
pub(crate) type PlanLeaves<'a> = SmallVec<[Leaf<'a>; 16]>;

/// Buffers that a run fills.
type ResultBuffers = SmallVec<[Arc<Buffer>; 16]>;

/// Output of a plan: an unchanged leaf, or a buffer that the plan fills.
///
/// Several outputs may share one.
#[derive(Clone, Copy)]
enum Out {
    Leaf(u32),
    Result(u32),
}

impl Plan {
    /// Simplifies `lowered` and plans it, for the memory limit that is set.
    pub(crate) fn new(lowered: &Lowered) -> Plan {
        let program = pass::to_plan(lowered.program.clone());
        let leaves = &program.params[..program.params.len() - lowered.likes.len()];
        let avals = leaves.iter().map(|leaf| aval(&program, *leaf));
        let leaves: Vec<_> = avals
            .map(|aval| (aval.numel(), Layout::contiguous(aval.shape())))
            .collect();
        match limit::limit() {
            usize::MAX => Plan::of(&program, &leaves),
            limit => {
                let steps = pass::fuse(&program);
                let plan = Plan::of_steps(&program, &steps, &leaves);
                let plan = match plan.held() > limit {
                    true => plan.within(limit, &program, &steps, &leaves),
                    false => plan,
                };
                Plan { limit, ..plan }
            }
        }
    }

    /// Plans a program without a memory limit.
    ///
    /// `leaves` has the number of elements and the layout of each of the first parameters.
    pub(crate) fn of(program: &Program, leaves: &[(usize, Layout)]) -> Plan {
        Plan::of_steps(program, &pass::fuse(program), leaves)
    }

    /// Plans a program whose equations run in these steps.
    fn of_steps(program: &Program, of: &[Vec<usize>], leaves: &[(usize, Layout)]) -> Plan {
        let start = timeline::is_on().then(Instant::now);
        let (build, places) = steps(program, of, leaves);
        let plan = assign_memory(build, program, &places);
        if let Some(start) = start {
            let equations = program.eqns.len();
            let kind = SliceKind::Planning { equations };
            timeline::note("make a plan", kind, start, Instant::now());
        }
        plan
    }

    /// Returns the program that was planned, which is made again of the one before simplification.
    pub(crate) fn program(&self, source: &Program) -> Program {
        match &self.limited {
            Some(limited) => limited.program.clone(),
            None => pass::to_plan(source.clone()),
        }
    }

    /// Returns whether the plan was made for the memory limit that is set.
    pub(crate) fn is_for_limit(&self) -> bool {
        self.limit == limit::limit()
    }

    /// Returns the number of equations of the simplified program.
    pub(crate) fn n_steps(&self) -> usize {
        self.n_equations
    }

    /// Computes the results and appends them to `results`. Calls `after` with the index of each task that ran.
    ///
    /// Each fills its buffer in row-major order.
    ///
    /// # Errors
    ///
    /// If a kernel fails or memory is short. Then `results` and the donated buffers in `given` are
    /// unchanged.
    pub(crate) fn run(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Donations,
        results: &mut Vec<Option<Arc<Buffer>>>,
        after: impl FnMut(usize),
    ) -> Result<()> {
        let ran = self.try_run(leaves, given, results, after);
        ran.map_err(|(task, fault)| Error::of_kernel(self.name(task), fault))
    }

    /// Does the same as [`run`](Self::run), but returns errors with the index of the failed task.
    pub(crate) fn try_run(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Donations,
        all: &mut Vec<Option<Arc<Buffer>>>,
        after: impl FnMut(usize),
    ) -> Result<(), (usize, KernelFault)> {
        afford(self.needs.arena).map_err(|fault| (self.largest(), fault))?;
        given.sort_unstable_by_key(|(donation, _)| donation.result);
        let donations: SmallVec<[Donation; 8]> =
            given.iter().map(|(donation, _)| *donation).collect();
        let mut results = ResultBuffers::new();
        let mut next = 0;
        for (i, &(dtype, len)) in self.needs.results.iter().enumerate() {
            if donations
                .get(next)
                .is_some_and(|donation| donation.result == i)
            {
                results.push(given[next].1.clone());
                next += 1;
                continue;
            }
            let made = recycle::take_buffer(dtype, len);
            results.push(made.map_err(|fault| (self.makers[i], fault))?);
        }
        // Without these clones, `results` holds the only handles to the buffers.
        given.clear();
        let ran = task::run(
            &self.tasks,
            &self.needs,
            leaves,
            &self.constants,
            &mut results,
            after,
        );
        if let Err(error) = ran {
            let back = |donation: Donation| (donation, results[donation.result].clone());
            given.extend(donations.into_iter().map(back));
            return Err(error);
        }
        if self.is_plain {
            all.extend(results.into_iter().map(Some));
            return Ok(());
        }
        let out = |out: &Out| match *out {
            Out::Leaf(i) => match leaves[i as usize] {
                Leaf::Held(buffer) => buffer.clone(),
                Leaf::Donated(_) => unreachable!("a leaf that is a result is not donated"),
            },
            Out::Result(i) => results[i as usize].clone(),
        };
        all.extend(self.outs.iter().map(out).map(Some));
        Ok(())
    }

    /// Returns the name of the op that an error message about a task names.
    fn name(&self, task: usize) -> &'static str {
        let op = self.kinds.get(task).map_or(Op::Identity, op_of);
        match op.def().methods().len() {
            // The methods of one op may do different things.
            2.. => op.def().name(),
            _ => op.called(),
        }
    }

    /// Returns the possible donations. Their leaves are intact after an error.
    pub(crate) fn donations(&self) -> &[DonationSet] {
        &self.donations[self.first_safe..]
    }

    /// Returns the number of results.
    pub(crate) fn n_results(&self) -> usize {
        self.outs.len()
    }

    /// Returns the size of all results in bytes.
    fn result_bytes(&self) -> usize {
        let results = self.needs.results.iter();
        let results = results.map(|(dtype, len)| len.saturating_mul(dtype.size()));
        results.fold(0, usize::saturating_add)
    }

    /// Returns the number of elements that the tasks read and write.
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

    /// Returns the size of the arena in bytes.
    #[cfg(test)]
    pub(crate) fn arena(&self) -> usize {
        self.needs.arena
    }

    /// Returns whether the plan only copies: all results are leaves or views of them.
    #[cfg(test)]
    pub(crate) fn only_moves(&self) -> bool {
        self.kinds
            .iter()
            .all(|what| matches!(what, TaskKind::Copy(_)))
    }

    /// Returns the task with the largest result.
    fn largest(&self) -> usize {
        let bytes = |task: &Task| task.outs().iter().map(Region::bytes).max();
        let tasks = self.tasks.iter().enumerate();
        tasks.max_by_key(|(_, t)| bytes(t)).map_or(0, |(i, _)| i)
    }
}

/// Returns the op that an error message about a task names.
fn op_of(what: &TaskKind) -> Op {
    match what {
        TaskKind::Op(op) | TaskKind::Copy(op) | TaskKind::Control(op, _) => {
            match op.def().facts().fails {
                Fails::Labels(named) => named,
                Fails::Never | Fails::IntegerBy(_) => *op,
            }
        }
        TaskKind::Host(_) => Op::HostKernel,
        TaskKind::Group { ops, .. } => ops.last().copied().unwrap_or(Op::Identity),
        // In a chain, only kernels that check labels can fail.
        TaskKind::Chain(kinds) => {
            let mut ops = kinds.iter().map(op_of);
            let checks = |op: &Op| matches!(op.def().facts().fails, Fails::Labels(_));
            let checked = ops.clone().find(checks);
            checked.or_else(|| ops.next_back()).unwrap_or(Op::Identity)
        }
    }
}

fn aval(program: &Program, var: Var) -> Aval {
    Aval::from_ir(program.aval(var))
}

const BOUND: &str = "a variable is bound before it is read";
