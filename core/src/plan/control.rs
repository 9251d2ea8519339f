//! Plans of ops that run programs: each program has a plan of its own, which the kernel runs.

use super::{Out, Plan, aval, spmd};
use crate::Aval;
use crate::backend::HostKernel;
use crate::backend::cpu::Equation;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::op::control::{ScanParts, WhileBackParts, WhileParts, branches, kernel_lanes};
use gradloom_ir::{DType, Op, Program, pass};
use gradloom_kernels::control;
use gradloom_kernels::memory::Layout;
use gradloom_kernels::task::{Body, BodyOut, Prepared};

/// Lowers an equation whose op runs programs, and returns its results.
pub(super) fn lower(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let args: Vec<View> = of.args.iter().map(|x| b.contiguous(x)).collect();
    let args: Vec<&View> = args.iter().collect();
    let mut scratch = Vec::new();
    let kernel = match of.op {
        Op::Scan => {
            let parts = ScanParts::of(of.statics);
            scratch.extend(of.outs[..parts.carry].iter().map(twice));
            let sizes = control::Scan {
                turns: parts.turns,
                consts: parts.consts,
                carry: parts.carry,
                reverse: parts.reverse,
            };
            control::scan(body(parts.body), sizes)
        }
        Op::While => {
            let parts = WhileParts::of(of.statics);
            scratch.extend(of.outs.iter().map(twice));
            scratch.push(Aval::new(DType::Bool, []));
            control::repeat_while(body(parts.cond), body(parts.body), parts.consts)
        }
        Op::WhileBack => {
            let parts = WhileBackParts::of(of.statics);
            scratch.extend(of.outs.iter().map(twice));
            let states = &parts.forward.outs[..parts.carry];
            scratch.extend(states.iter().map(|v| twice(&aval(parts.forward, *v))));
            scratch.push(Aval::new(DType::Bool, []));
            let taped = parts.forward.outs[parts.carry..].iter().map(|v| {
                let aval = aval(parts.forward, *v);
                (aval.dtype(), aval.numel())
            });
            let taped = taped.collect();
            let [cond, forward, backward] = [parts.cond, parts.forward, parts.backward].map(body);
            control::there_and_back(cond, forward, backward, [parts.consts, parts.carry], taped)
        }
        Op::Switch => control::switch(branches(of.statics).iter().map(body).collect()),
        Op::Checkpoint => {
            let mut program = branches(of.statics)[0].clone();
            program.outs.truncate(of.outs.len());
            control::once(body(&program))
        }
        Op::CustomJvp | Op::CustomVjp => control::once(body(&branches(of.statics)[0])),
        Op::ShardMap => spmd::kernel(of.statics),
        Op::Sharded => control::once(body(&spmd::divided(of.statics))),
        Op::Custom => return of.args[..of.outs.len()].to_vec(),
        Op::HostKernel => host_kernel(of),
        op => unreachable!("`{op}` is only transposed"),
    };
    let outs = [of.outs, &scratch].concat();
    let mut made = b.kernels(&args, &outs, kernel);
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

/// Returns the memory of a state before and after a turn.
fn twice(state: &Aval) -> Aval {
    Aval::new(state.dtype(), [2 * state.numel()])
}

pub(super) fn body(program: &Program) -> Body {
    let program = pass::simplify(program.clone());
    let leaves = program.params.iter().map(|param| {
        let aval = aval(&program, *param);
        (aval.numel(), Layout::contiguous(aval.shape()))
    });
    Plan::of(&program, &leaves.collect::<Vec<_>>()).into_body()
}

impl Plan {
    fn into_body(self) -> Body {
        let names = (0..self.tasks.len()).map(|task| self.name(task)).collect();
        let outs = self.outs.iter().map(|out| match *out {
            Out::Leaf(i) => BodyOut::Leaf(i),
            Out::Result(i) => BodyOut::Result(i),
        });
        let outs = outs.collect();
        Body::new(self.tasks, names, self.needs, self.constants, outs)
    }
}
