//! Plans of ops that run programs: each program has a plan of its own, which the kernel runs.

use super::{Out, Plan, aval, spmd};
use crate::Aval;
use crate::backend::cpu::Equation;
use crate::backend::{BodyKinds, HostKernel, TaskBuilder, TaskKind, View};
use gradloom_ir::op::control::{ScanParts, WhileBackParts, WhileParts, branches, kernel_lanes};
use gradloom_ir::{DType, Op, Program, pass};
use gradloom_kernels::body::{Body, BodyOut};
use gradloom_kernels::control;
use gradloom_kernels::memory::Layout;
use gradloom_kernels::task::Prepared;

/// Lowers an equation whose op runs programs, and returns its results.
pub(super) fn lower(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let args: Vec<View> = of.args.iter().map(|x| b.contiguous(x)).collect();
    let args: Vec<&View> = args.iter().collect();
    let mut scratch = Vec::new();
    let mut bodies = Vec::new();
    let mut body = |role: &'static str, program: &Program| {
        let PlannedBody { body, tasks } = body(program);
        bodies.push(BodyKinds { role, tasks });
        body
    };
    let kernel = match of.op {
        Op::Scan => {
            let parts = ScanParts::of(of.statics);
            let body = body("turn", parts.body);
            if let (true, [turn]) = (body.runs_all_turns(), &mut bodies[..]) {
                turn.role = "all turns";
            }
            scratch.extend(scratch_of(&body, parts.consts, &of.outs[..parts.carry]));
            let sizes = control::Scan {
                turns: parts.turns,
                consts: parts.consts,
                carry: parts.carry,
                reverse: parts.reverse,
            };
            control::scan(body, sizes)
        }
        Op::While => {
            let parts = WhileParts::of(of.statics);
            let (cond, body) = (body("condition", parts.cond), body("turn", parts.body));
            scratch.extend(scratch_of(&body, parts.consts, of.outs));
            scratch.push(Aval::new(DType::Bool, []));
            control::repeat_while(cond, body, parts.consts)
        }
        Op::WhileBack => {
            let parts = WhileBackParts::of(of.statics);
            let cond = body("condition", parts.cond);
            let forward = body("turn forward", parts.forward);
            let backward = body("turn backward", parts.backward);
            let outs = parts.forward.outs.iter();
            let outs: Vec<Aval> = outs.map(|v| aval(parts.forward, *v)).collect();
            let (states, taped) = outs.split_at(parts.carry);
            let taped = taped.iter().map(|aval| (aval.dtype(), aval.numel()));
            let taped: Vec<_> = taped.collect();
            scratch.extend(states.iter().cloned());
            let first = parts.consts + taped.len();
            scratch.extend(scratch_of(&backward, first, of.outs));
            scratch.extend(scratch_of(&forward, parts.consts, states));
            scratch.push(Aval::new(DType::Bool, []));
            control::there_and_back(cond, forward, backward, [parts.consts, parts.carry], taped)
        }
        Op::Switch => {
            let branches = branches(of.statics).iter();
            control::switch(branches.map(|branch| body("branch", branch)).collect())
        }
        Op::Checkpoint => {
            let mut program = branches(of.statics)[0].clone();
            program.outs.truncate(of.outs.len());
            control::once(body("body", &program))
        }
        Op::CustomJvp | Op::CustomVjp => control::once(body("body", &branches(of.statics)[0])),
        Op::ShardMap => spmd::kernel(of.statics),
        Op::Sharded => control::once(body("each device", &spmd::divided(of.statics))),
        Op::Custom => return of.args[..of.outs.len()].to_vec(),
        Op::HostKernel => host_kernel(of),
        op => unreachable!("`{op}` is only transposed"),
    };
    let outs = [of.outs, &scratch].concat();
    let mut made = b.kernels(&args, &outs, kernel);
    if let Some(task) = b.drafts.last_mut() {
        task.what = match of.op {
            Op::HostKernel => {
                let code = of.statics[0].code().map(|code| code.get().name());
                TaskKind::Host(code.unwrap_or_default())
            }
            op => TaskKind::Control(op, bodies),
        };
    }
    made.truncate(of.outs.len());
    made
}

/// Returns a kernel of the user, which runs for each lane.
fn host_kernel(of: &Equation<'_>) -> Prepared {
    let code = of.statics[0]
        .code()
        .and_then(|code| code.downcast::<HostKernel>());
    let code = code.expect("the rule of the op refuses other code");
    let lanes = kernel_lanes(of.statics);
    let one = |shape: &[usize]| shape[lanes.len()..].to_vec();
    let args = of.args.iter().map(|x| one(x.shape())).collect();
    let outs = of.outs.iter().map(|y| one(y.shape())).collect();
    code.prepared(args, outs, lanes.iter().product())
}

/// Returns the scratch for each state of a loop, whose states are operands of `body` from `first` on.
fn scratch_of(body: &Body, first: usize, states: &[Aval]) -> Vec<Aval> {
    let of_state = |(i, state): (usize, &Aval)| {
        let len = match body.can_reuse(first + i, i) {
            true => 0,
            false => state.numel(),
        };
        Aval::new(state.dtype(), [len])
    };
    states.iter().enumerate().map(of_state).collect()
}

/// A body with the description of its tasks.
pub(super) struct PlannedBody {
    pub(super) body: Body,
    tasks: Vec<TaskKind>,
}

pub(super) fn body(program: &Program) -> PlannedBody {
    let program = pass::to_plan(program.clone());
    let leaves = program.params.iter().map(|param| {
        let aval = aval(&program, *param);
        (aval.numel(), Layout::contiguous(aval.shape()))
    });
    Plan::of(&program, &leaves.collect::<Vec<_>>()).into_body()
}

impl Plan {
    fn into_body(self) -> PlannedBody {
        let names = (0..self.tasks.len()).map(|task| self.name(task)).collect();
        let outs = self.outs.iter().map(|out| match *out {
            Out::Leaf(i) => BodyOut::Leaf(i),
            Out::Result(i) => BodyOut::Result(i),
        });
        let outs = outs.collect();
        let body = Body::new(
            self.tasks,
            names,
            self.needs,
            self.constants,
            outs,
            self.donations,
        );
        PlannedBody {
            body,
            tasks: self.kinds.into_vec(),
        }
    }
}
