//! Steps of a rank: segments that it computes, and exchanges between them.

use crate::error::MpiError;
use crate::exchange::Exchange;
use crate::lower::{RankProgram, index_in};
use crate::world::World;
use gradloom::trace::ProgramPlan;
use gradloom::{Aval, Tensor, evaluate};
use gradloom_ir::mesh::MeshAxes;
use gradloom_ir::op::collective::{over, sender};
use gradloom_ir::pass::{DeviceStep, segments};
use gradloom_ir::{Eqn, Op, Program, SecondaryMap, Static, Var};
use mpi::topology::SimpleCommunicator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The program of a rank as steps. All ranks take them together.
#[derive(Default)]
pub(crate) struct Steps {
    params: Vec<Var>,
    steps: Vec<Step>,
    outs: Vec<Var>,
    /// Values of the last parameters: captured tensors, and places of the rank.
    fixed: Vec<Tensor>,
}

struct Step {
    work: Work,
    args: Vec<Var>,
    outs: Vec<Var>,
    avals: Vec<Aval>,
    /// Values that no later step reads.
    dead: Vec<Var>,
}

enum Work {
    Segment(Box<ProgramPlan>),
    Exchange {
        exchange: Exchange,
        /// All groups, as lists of ranks.
        groups: Vec<Vec<usize>>,
        /// The communicator of the group of this rank, once ranks have agreed on the program.
        comm: Option<Rc<SimpleCommunicator>>,
    },
}

/// Failure of a rank while it runs its steps.
pub(crate) type Failure = std::thread::Result<gradloom::Error>;

const BOUND: &str = "a variable is bound before it is read";

impl Steps {
    /// Plans the program of a rank, which has these captured tensors. `devices` has the rank at each position.
    pub(crate) fn new(
        of: &RankProgram,
        captured: Vec<Tensor>,
        devices: &[usize],
        position: usize,
    ) -> Result<Steps, MpiError> {
        let (program, device_steps) = segments(&of.program);
        let mut steps: Vec<Step> = Vec::new();
        // Exchanges since the last segment do not depend on each other.
        let mut first = 0;
        for step in &device_steps {
            match step {
                DeviceStep::Segment(segment) => {
                    steps.push(Step {
                        args: segment.params.clone(),
                        outs: segment.outs.clone(),
                        avals: segment.outs.iter().map(|out| aval(segment, *out)).collect(),
                        work: Work::Segment(Box::new(ProgramPlan::new(segment)?)),
                        dead: Vec::new(),
                    });
                    first = steps.len();
                }
                DeviceStep::Collective(eqn) => {
                    let step = exchange(&program, eqn, &of.mesh, devices, position);
                    match steps[first..].iter_mut().find(|other| other.takes(&step)) {
                        Some(other) => other.append(step),
                        None => steps.push(step),
                    }
                }
            }
        }
        for step in &steps {
            step.check_size(&program)?;
        }
        note_dead(&mut steps, &program.outs);
        let places = of
            .places
            .iter()
            .map(|place| place.value(&of.mesh, position));
        Ok(Steps {
            params: program.params,
            outs: program.outs,
            fixed: captured.into_iter().chain(places).collect(),
            steps,
        })
    }

    /// Makes the communicators. All ranks have to call it together.
    pub(crate) fn connect(&mut self, world: &World) {
        for step in &mut self.steps {
            if let Work::Exchange { groups, comm, .. } = &mut step.work {
                *comm = Some(world.group(std::mem::take(groups)));
            }
        }
    }

    /// Takes all steps, and returns the results.
    ///
    /// If this rank fails, it goes on with zeros, so that no other rank waits for it. Its results are then worthless, and
    /// so are those of the others.
    pub(crate) fn run(&self, args: &[Tensor]) -> (Vec<Tensor>, Option<Failure>) {
        let mut failure = None;
        let mut values: SecondaryMap<Var, Tensor> = SecondaryMap::new();
        let read = attempt(&mut failure, || {
            evaluate(&args.to_vec()).map(|()| args.to_vec())
        });
        let args = read.unwrap_or_else(|| args.iter().map(|x| zeros(x.aval())).collect());
        let args = args.into_iter().chain(self.fixed.iter().cloned());
        values.extend(self.params.iter().copied().zip(args));
        for step in &self.steps {
            let args = step
                .args
                .iter()
                .map(|x| values.get(*x).expect(BOUND).clone());
            let args: Vec<Tensor> = args.collect();
            let outs = match &step.work {
                Work::Segment(plan) => {
                    let outs = match failure {
                        None => attempt(&mut failure, || plan.run(&args)),
                        Some(_) => None,
                    };
                    outs.unwrap_or_else(|| step.avals.iter().map(zeros).collect())
                }
                Work::Exchange { exchange, comm, .. } => {
                    let comm = comm.as_ref().expect("ranks have agreed on the program");
                    exchange.run(comm, &args, &step.avals)
                }
            };
            values.extend(step.outs.iter().copied().zip(outs));
            for dead in &step.dead {
                values.remove(*dead);
            }
        }
        let outs = self
            .outs
            .iter()
            .map(|x| values.get(*x).expect(BOUND).clone());
        (outs.collect(), failure)
    }
}

/// Returns the result, or notes the error or the panic.
fn attempt<T>(failure: &mut Option<Failure>, f: impl FnOnce() -> gradloom::Result<T>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => *failure = Some(Ok(error)),
        Err(panic) => *failure = Some(Err(panic)),
    }
    None
}

/// Returns zeros with elements.
fn zeros(aval: &Aval) -> Tensor {
    let zeros = Tensor::zeros(aval.shape().to_vec(), aval.dtype());
    evaluate(&zeros).expect("zeros of a size that was computed before");
    zeros
}

fn aval(program: &Program, var: Var) -> Aval {
    let aval = program.aval(var);
    let shape = aval.shape.known().expect("all shapes are known");
    Aval::new(aval.dtype.expect("all dtypes are known"), shape)
}

/// Returns the step of a collective.
fn exchange(
    program: &Program,
    eqn: &Eqn,
    mesh: &MeshAxes,
    devices: &[usize],
    position: usize,
) -> Step {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let group = over(eqn.op, &statics);
    let along = mesh.positions(group).expect("the group is one of the mesh");
    let ranks = |group: Vec<usize>| group.into_iter().map(|at| devices[at]).collect();
    let exchange = match eqn.op {
        Op::AllReduce => Exchange::Reduce(statics[0].reduce().expect("a reduction")),
        Op::AllGather => Exchange::Gather,
        Op::ReduceScatter => Exchange::ReduceScatter,
        Op::AllToAll => Exchange::AllToAll,
        Op::Ppermute => {
            let own = index_in(mesh, group, position);
            let from = |to: usize| sender(&statics[0], to);
            let to = (0..group.n_devices()).find(|to| from(*to) == Some(own));
            Exchange::Permute {
                from: from(own).map(|from| from as i32),
                to: to.map(|to| to as i32),
            }
        }
        op => unreachable!("`lower` leaves no `{op}`"),
    };
    Step {
        work: Work::Exchange {
            exchange,
            groups: mesh.groups(&along).into_iter().map(ranks).collect(),
            comm: None,
        },
        args: eqn.args.to_vec(),
        outs: eqn.outs.to_vec(),
        avals: vec![aval(program, eqn.out())],
        dead: Vec::new(),
    }
}

impl Step {
    /// Returns whether one message can do the work of two reductions.
    fn takes(&self, other: &Step) -> bool {
        let key = |step: &Step| match &step.work {
            Work::Exchange {
                exchange: Exchange::Reduce(by),
                groups,
                ..
            } => Some((*by, groups.clone(), step.avals[0].dtype())),
            _ => None,
        };
        let n: usize = self.avals.iter().chain(&other.avals).map(Aval::numel).sum();
        key(self).is_some_and(|own| key(other) == Some(own)) && n <= i32::MAX as usize
    }

    fn append(&mut self, other: Step) {
        self.args.extend(other.args);
        self.outs.extend(other.outs);
        self.avals.extend(other.avals);
    }

    /// Returns an error if MPI cannot count the elements of a message.
    fn check_size(&self, program: &Program) -> Result<(), MpiError> {
        let sent = self.args.iter().map(|x| aval(program, *x).numel()).sum();
        let got = self.avals.iter().map(Aval::numel).sum();
        let elements = usize::max(sent, got);
        match &self.work {
            Work::Exchange { .. } if elements > i32::MAX as usize => {
                Err(MpiError::TooLarge { elements })
            }
            _ => Ok(()),
        }
    }
}

/// Lists the values that are read last, or only made, in each step.
fn note_dead(steps: &mut [Step], outs: &[Var]) {
    let mut read: SecondaryMap<Var, ()> = outs.iter().map(|out| (*out, ())).collect();
    for step in steps.iter_mut().rev() {
        for var in step.args.iter().chain(&step.outs) {
            if read.insert(*var, ()).is_none() {
                step.dead.push(*var);
            }
        }
    }
}
