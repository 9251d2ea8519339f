//! A plan: the equations of a simplified program as tasks in the order in which they run, with everything resolved
//! that does not depend on the values: which run in one loop, which views copy nothing, and where each value lies.

mod arena;
mod build;
mod chains;
mod epilogue;
mod explain;
mod finish;
mod gifts;
mod groups;
mod instructions;
mod place;
mod readers;
mod results;
mod steps;
mod times;

pub(crate) use build::{Build, What};
pub(crate) use gifts::{Gifts, Given, given};
pub(crate) use place::Place;

use crate::buffer::{Buffer, afford};
use crate::kernel::{self, KernelFault, Leaf, Needs, Task};
use crate::layout::Layout;
use crate::lower::Lowered;
use crate::spare;
use crate::{Aval, Error, Result};
use build::Eqns;
use finish::finish;
use gifts::Gift;
use gradloom_ir::pass;
use gradloom_ir::{Op, Program, Var};
use smallvec::SmallVec;
use std::sync::Arc;
use steps::steps;

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
    /// The leaves whose buffers may become results.
    gifts: Box<[Gifts]>,
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
        let (build, places) = steps(program, leaves);
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
        given.sort_unstable_by_key(|(gift, _)| gift.result);
        let gifts: SmallVec<[Gift; 8]> = given.iter().map(|(gift, _)| *gift).collect();
        let mut results = Results::new();
        let mut next = 0;
        for (i, &(dtype, len)) in self.needs.results.iter().enumerate() {
            if gifts.get(next).is_some_and(|gift| gift.result == i) {
                results.push(given[next].1.clone());
                next += 1;
                continue;
            }
            let made = spare::buffer(dtype, len);
            results.push(made.map_err(|fault| (self.makers[i], fault))?);
        }
        // The plan is the only owner of its results.
        given.clear();
        let ran = kernel::run(
            &self.tasks,
            &self.needs,
            leaves,
            &self.constants,
            &mut results,
        );
        if let Err(error) = ran {
            let back = |gift: Gift| (gift, results[gift.result].clone());
            given.extend(gifts.into_iter().map(back));
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
        self.whats.get(task).map_or(Op::Identity, op_of).called()
    }

    /// The leaves whose buffers may become results.
    pub(crate) fn gifts(&self) -> &[Gifts] {
        &self.gifts
    }

    /// The number of results.
    pub(crate) fn n_results(&self) -> usize {
        self.outs.len()
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

/// The op that a message about a task names.
fn op_of(what: &What) -> Op {
    match what {
        // It is emitted by the derivative of `cross_entropy` alone.
        What::Op(Op::SoftmaxLessHot) => Op::CrossEntropy,
        What::Op(op) | What::Copy(op) => *op,
        What::Group { ops, .. } => ops.last().copied().unwrap_or(Op::Identity),
        // Of what a chain computes, labels alone are looked at.
        What::Chain(whats) => {
            let mut ops = whats.iter().map(op_of);
            let checked = ops.clone().find(|op| *op == Op::CrossEntropy);
            checked.or_else(|| ops.next_back()).unwrap_or(Op::Identity)
        }
    }
}

fn aval(program: &Program, var: Var) -> Aval {
    Aval::from_ir(program.aval(var))
}

const BOUND: &str = "a variable is bound before it is read";
