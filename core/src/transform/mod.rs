//! Transforms of closures: derivatives in forward and reverse mode, nested to any order.
//!
//! A transform runs the closure once on fresh values and extracts the program between them and the
//! results from the graph. It differentiates the program with the rules of `gradloom_ir`, and
//! replays the derivative on the caller's tensors.

mod associative_scan;
mod control;
mod custom;
mod forward_level;
mod grad;
mod jacobian;
mod jacobian_tree;
mod jvp;
mod lane_axes;
mod lanes_program;
mod linear;
mod loss;
mod outcome;
mod trace;
mod vjp;
mod vmap;

pub use crate::tensor::replay::replay;
pub(crate) use crate::tensor::replay::{Bound, Env, replay_bound};
pub use associative_scan::{AssociativeScan, associative_scan};
pub use control::{
    Checkpoint, LoopIndex, Scan, checkpoint, cond, fori_loop, map, scan, switch, while_loop,
};
pub(crate) use control::{Traced, physical, trace as trace_body, without_shapes};
pub(crate) use custom::custom_on_stand_ins;
pub use custom::{RuleSite, custom_jvp, custom_vjp, with_jvp, with_vjp};
pub use forward_level::ForwardLevel;
pub use grad::{grad, hvp, value_and_grad};
pub use jacobian::{hessian, jacfwd, jacrev};
pub use jacobian_tree::{JacobianRows, JacobianTree};
pub(crate) use jvp::joint_of;
pub use jvp::jvp;
pub use lane_axes::{LaneAxes, VmapAxes};
pub use linear::{Pushforward, linear_transpose, linearize};
pub use loss::Loss;
pub use outcome::{Outcome, TransformSite};
pub(crate) use trace::{
    AbstractTrace, DependentGraph, LeafFunction, ScopeGuard, Trace, captured_by, cut, cut_behind,
    cut_to_nodes, cut_to_params, on_leaves, pending, stand_in, stand_in_of, stand_ins,
    trace_abstract, trace_leaves,
};
pub(crate) use vjp::{LeafPullback, pull_back, pullback_of};
pub use vjp::{Pullback, vjp};
pub(crate) use vmap::vmap_leaves;
pub use vmap::{Vmap, vmap};

use crate::error::{ControlFault, CustomFault};
use crate::{Error, Result};
use gradloom_ir::ad::{self, Lacking};
use gradloom_ir::{Op, Program};

/// Returns an error if an op of a program has no reverse mode.
pub(crate) fn check_reversible(program: &Program) -> Result<()> {
    match ad::irreversible(program) {
        Some(found) => Err(no_rule(found, ControlFault::Irreversible, "while_loop")),
        None => Ok(()),
    }
}

/// Returns an error if an op of a program has no forward mode.
fn check_forward(program: &Program) -> Result<()> {
    match ad::reverse_only(program) {
        Some(found) => Err(no_rule(found, ControlFault::ReverseOnly, "custom_vjp")),
        None => Ok(()),
    }
}

/// Returns the error for an op that lacks the rule of a mode: `fault`, unless it is a kernel of the user.
fn no_rule(found: Lacking<'_>, fault: ControlFault, by: &'static str) -> Error {
    let Some(kernel) = found.kernel else {
        return fault.into_error(by);
    };
    let fault = match found.op {
        Op::HostKernel => CustomFault::NoDerivative,
        _ => CustomFault::ReverseOnly,
    };
    fault.into_error(kernel.get().name())
}
