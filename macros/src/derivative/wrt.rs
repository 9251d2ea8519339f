//! Determines the parameters with respect to which derivatives are taken.
//!
//! `#[nodiff]` restricts only the public companions of a function: a caller may pass a
//! differentiable value to such a parameter, and its gradient goes through the call. A function
//! whose results have a derivative with respect to a `#[nodiff]` parameter therefore has a second
//! set of derivatives, for callers that request it. The first set costs nothing extra.

use crate::input::{Func, Kind, Param};
use crate::program::{Body, Input, LoweredFlow, LoweredProgram};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::flow::{self, Block};
use gradloom_ir::{Program, SecondaryMap, Var};

/// Parameters that a set of derivatives is taken with respect to, besides those of the public
/// companions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wrt {
    /// Positions of the `#[nodiff]` parameters among them.
    pub(crate) nodiff: Vec<usize>,
    /// Positions in `nodiff` of the parameters that differentiable ops read.
    ///
    /// They must be floats, because the rules of ops are valid for floats only. A traced callee
    /// checks the dtypes itself.
    pub(crate) floats: Vec<usize>,
}

impl Wrt {
    /// Returns the parameters of the public companions.
    pub(crate) fn public() -> Wrt {
        Wrt::default()
    }

    /// Returns the parameters that callers may differentiate, if these are more than the public
    /// ones.
    pub(crate) fn callers(func: &Func, body: &Body) -> Option<Wrt> {
        let Body::Compiled(whole) = body else {
            return None;
        };
        let mut wrt = Wrt::public();
        for (i, _) in func
            .params
            .iter()
            .enumerate()
            .filter(|(_, p)| may_be_asked_for(p))
        {
            let vars = whole.vars(i);
            if !has_derivative(whole, &vars) {
                continue;
            }
            wrt.nodiff.push(i);
            if is_read_by_ops(whole, &vars) {
                wrt.floats.push(i);
            }
        }
        (!wrt.nodiff.is_empty()).then_some(wrt)
    }

    fn takes(&self, input: &Input) -> bool {
        let param = input.source.param();
        input.diff || param.is_some_and(|i| self.nodiff.contains(&i))
    }

    /// Returns the variables of these parameters in a program.
    pub(crate) fn vars(&self, low: &LoweredProgram) -> Vec<Var> {
        let inputs = low.inputs.iter().filter(|i| self.takes(i));
        inputs.map(|i| i.var).collect()
    }

    /// Returns the variables that have a derivative, in all blocks.
    pub(crate) fn active(&self, flowing: &LoweredFlow) -> SecondaryMap<Var, ()> {
        let wrt = flowing.all_inputs().into_iter().filter(|i| self.takes(i));
        let wrt: Vec<Var> = wrt.map(|i| i.var).collect();
        flow::active(&flowing.flow.blocks, &wrt)
    }
}

/// Returns the positions of all parameters that callers may differentiate.
///
/// `callers` is the result of [`Wrt::callers`]. A body traced at run time may differentiate any
/// parameter.
pub(crate) fn asked_for(func: &Func, body: &Body, callers: Option<&Wrt>) -> Vec<usize> {
    let recorded = matches!(body, Body::Recorded(_));
    let more = |i: usize| callers.is_some_and(|wrt| wrt.nodiff.contains(&i));
    let params = func.params.iter().enumerate();
    let params = params.filter(|(i, p)| p.diff || more(*i) || recorded && may_be_asked_for(p));
    params.map(|(i, _)| i).collect()
}

/// Returns whether a parameter is `#[nodiff]` and not annotated with a dtype that is not a float.
fn may_be_asked_for(param: &Param) -> bool {
    let is_traced = matches!(param.kind, Kind::Tensor | Kind::Tree);
    is_traced && !param.diff && param.aval.dtype.is_none_or(|dtype| dtype.is_float())
}

/// Returns whether a result has a derivative with respect to one of `vars`.
fn has_derivative(whole: &LoweredFlow, vars: &[Var]) -> bool {
    let active = flow::active(&whole.flow.blocks, vars);
    whole.flow.results.iter().any(|v| active.contains(*v))
}

/// Returns whether an op other than a call has a derivative with respect to one of `vars`.
fn is_read_by_ops(whole: &LoweredFlow, vars: &[Var]) -> bool {
    let blocks: Vec<Block> = whole.flow.blocks.iter().map(without_calls).collect();
    let active = flow::active(&blocks, vars);
    blocks.iter().any(|block| {
        let bound = block.program.eqns.iter().flat_map(|e| &e.outs);
        let every = Program {
            outs: bound.copied().collect(),
            ..block.program.clone()
        };
        let found = ad::jvp(&every, &block.wrt(&active), Calls::Joint);
        found.active.contains(&true)
    })
}

/// Returns the block with the results of calls turned into parameters.
fn without_calls(block: &Block) -> Block {
    let mut program = block.program.clone();
    let calls = program.eqns.extract_if(.., |e| e.op.is_call());
    let results: Vec<Var> = calls.flat_map(|e| e.outs.to_vec()).collect();
    program.params.extend(results);
    Block {
        program,
        targets: block.targets.clone(),
    }
}
