//! Host code behind ops: the rules of custom functions, which run when an equation is recorded.

use crate::error::CustomFault;
use crate::{Result, Tensor};
use gradloom_ir::{Aval, Code, Fault, HostCode, Op, Static};
use std::any::Any;
use std::sync::Arc;

/// One call of a custom function: its rules, with the context that they read.
///
/// Tensors are physical. `active` lists the inputs with a derivative.
pub(crate) trait Rules: Send + Sync {
    /// Returns the name and the number of the call.
    fn name(&self) -> String;
    /// Returns whether the results are to be computed by `batch`.
    fn is_of_lanes(&self) -> bool;
    /// Returns the tangents of the results that are floats.
    fn tangents(&self, of: &RuleCall<'_>, dx: &[Tensor]) -> Result<Vec<Tensor>>;
    /// Returns the cotangents of the active inputs, given those of the results that are floats.
    fn cotangents(&self, of: &RuleCall<'_>, cts: &[Tensor]) -> Result<Vec<Tensor>>;
    /// Returns the results for all lanes. The inputs that are marked have a first axis of lanes.
    fn batch(&self, x: &[Tensor], lanes: &[bool], n: usize) -> Result<Vec<Tensor>>;
    /// Drops the context. `at` is the place of the call that asks for it.
    fn release(&self, at: &'static std::panic::Location<'static>);
}

/// Values of a call of a custom function.
pub(crate) struct RuleCall<'a> {
    pub(crate) x: &'a [Tensor],
    pub(crate) y: &'a [Tensor],
    pub(crate) active: &'a [usize],
}

/// The code of a `custom` op.
#[derive(Clone)]
pub(crate) struct CallCode(pub(crate) Arc<dyn Rules>);

impl HostCode for CallCode {
    fn name(&self) -> String {
        self.0.name()
    }

    /// The values of the op are operands, so plans are shared by all calls.
    fn key(&self) -> Option<u64> {
        None
    }

    fn infer(&self, _: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        unreachable!("the rule of the op returns the avals of its operands")
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the rules of a `custom` op with these static arguments.
pub(crate) fn rules_of(statics: &[Static]) -> Option<&Arc<dyn Rules>> {
    let code = statics.first()?.code()?;
    Some(&code.downcast::<CallCode>()?.0)
}

/// Returns the static arguments of a `custom` op with these rules and number of results.
pub(crate) fn statics_of(code: impl HostCode, n_outs: usize) -> [Static; 2] {
    [Code::new(code).into(), Static::Int(n_outs as i64)]
}

/// Runs the rule of an op on host code that is never a value of the graph. The rule records ops.
pub(super) fn run_rule(op: Op, statics: &[Static], data: &[&Tensor]) -> Result<Vec<Tensor>> {
    let Some(rules) = rules_of(statics) else {
        return Err(CustomFault::Parsed.into_error(statics[0].to_string()));
    };
    let n_outs = statics[1].int().unwrap_or(0) as usize;
    let positions = statics[2].ints().unwrap_or_default();
    if op == Op::CustomLanes {
        let x: Vec<Tensor> = data[n_outs..].iter().map(|x| (*x).clone()).collect();
        let lanes: Vec<bool> = (0..x.len())
            .map(|i| positions.contains(&(i as i64)))
            .collect();
        let n = statics[3].int().unwrap_or(0) as usize;
        return rules.batch(&x, &lanes, n);
    }
    let active: Vec<usize> = positions.iter().map(|i| *i as usize).collect();
    let data: Vec<Tensor> = data.iter().map(|x| (*x).clone()).collect();
    // The number of the last operands: there is one for each result that is a float, or active input.
    let n_linear = match op {
        Op::CustomTangent => active.len(),
        _ => {
            let is_float = |y: &&Tensor| y.dtype().is_float();
            let n_of = |n: &usize| {
                let y = data.len().checked_sub(n_outs + n);
                y.map_or(0, |y| data[y..][..n_outs].iter().filter(is_float).count())
            };
            (0..=n_outs).find(|n| n_of(n) == *n).unwrap_or(n_outs)
        }
    };
    let (known, linear) = data.split_at(data.len() - n_linear);
    let (x, y) = known.split_at(known.len() - n_outs);
    let active = &active;
    let call = RuleCall { x, y, active };
    match op {
        Op::CustomTangent => rules.tangents(&call, linear),
        _ => rules.cotangents(&call, linear),
    }
}
