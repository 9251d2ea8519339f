//! The ONNX form of each op.
//!
//! Each op has a function of its name in one of the files of this module, is [`decomposed`] into ops that have one, or
//! is in a list of ops without a form, with the reason. A new op does not compile without.

mod control;
mod elementwise;
mod indexing;
mod movement;
mod reduce;
mod refused;
mod windows;

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value};
use gradloom_ir::op::Eval;
use gradloom_ir::{Builder, Eqn, Op, Program, SecondaryMap, Static, Var};

/// Results of an equation.
type Results = Result<Vec<Value>, ExportError>;

/// Result of the function of an op.
struct Lowered(Results);

impl From<Value> for Lowered {
    fn from(value: Value) -> Lowered {
        Lowered(Ok(vec![value]))
    }
}

impl From<Vec<Value>> for Lowered {
    fn from(values: Vec<Value>) -> Lowered {
        Lowered(Ok(values))
    }
}

impl From<Results> for Lowered {
    fn from(results: Results) -> Lowered {
        Lowered(results)
    }
}

impl From<Result<Value, ExportError>> for Lowered {
    fn from(result: Result<Value, ExportError>) -> Lowered {
        Lowered(result.map(|value| vec![value]))
    }
}

/// Appends a program and returns its results.
pub(crate) fn program(g: &mut Graph, program: &Program, args: &[Value]) -> Results {
    let params = program.params.iter().copied().zip(args.iter().cloned());
    let mut values: SecondaryMap<Var, Value> = params.collect();
    let find = |values: &SecondaryMap<Var, Value>, vars: &[Var]| -> Vec<Value> {
        let all: Option<Vec<Value>> = vars.iter().map(|var| values.get(*var).cloned()).collect();
        all.expect("a variable is bound before it is read")
    };
    for eqn in &program.eqns {
        let args = find(&values, &eqn.args);
        let outs = equation(g, program, eqn, args)?;
        values.extend(eqn.outs.iter().copied().zip(outs));
    }
    Ok(find(&values, &program.outs))
}

/// Appends an equation and returns its results.
fn equation(g: &mut Graph, program: &Program, eqn: &Eqn, args: Vec<Value>) -> Results {
    let of = Equation::new(program, eqn, args)?;
    match of.op.def().eval() {
        Eval::Control(_) => control::lower(g, &of),
        Eval::Collective => of.refused("it works on the values of several devices"),
        Eval::Call => {
            of.refused("it calls a function whose program is not part of this one; export a trace")
        }
        _ => {
            let mark = g.n_nodes();
            let outs = primitive(g, &of)?;
            let types = outs.iter().map(|x| (x.dtype, &x.shape));
            debug_assert!(
                types.eq(of.outs.iter().map(|(dtype, shape)| (*dtype, shape))),
                "`{}` gives {outs:?}, expected {:?}",
                of.op,
                of.outs
            );
            // Runtimes refuse some ops without elements.
            if outs.iter().all(|x| x.numel() == 0) {
                g.truncate(mark);
                let empty = outs.iter().map(|x| g.full(x.dtype, 0i64, &x.shape));
                return Ok(empty.collect());
            }
            Ok(outs)
        }
    }
}

macro_rules! lower_ops {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        fn primitive(g: &mut Graph, of: &Equation<'_>) -> Results {
            use {elementwise::*, indexing::*, movement::*, reduce::*, refused::*, windows::*};
            use {
                decomposed as attention, decomposed as attention_lse, decomposed as cross_entropy,
                decomposed as inv_std, decomposed as logsumexp, decomposed as normalize,
                decomposed as rms_norm, decomposed as searchsorted, decomposed as segment_sum,
                decomposed as stddev, decomposed as var,
            };
            let lowered: Lowered = match of.op {
                $(Op::$op => $name(g, of).into(),)*
                op => unreachable!("`{op}` runs programs or is a call"),
            };
            lowered.0
        }
    };
}

gradloom_ir::for_each_op!(lower_ops);

/// Appends the simpler ops that a composite op is made of.
fn decomposed(g: &mut Graph, of: &Equation<'_>) -> Results {
    let mut b = Builder::new();
    let avals = of.eqn.args.iter().map(|arg| of.program.aval(*arg).clone());
    let params: Vec<Var> = avals.map(|aval| b.param(aval)).collect();
    let statics: Vec<Static> = of.statics.clone();
    let eqn = Eqn {
        outs: [].into(),
        op: of.op,
        attrs: statics.into_iter().map(|value| b.attr(value)).collect(),
        args: params[..].into(),
    };
    let decompose = of.op.def().facts().decompose.expect("the op is composite");
    let outs = decompose(&mut b, &eqn).expect("the lengths are known");
    program(g, &b.finish(params, outs), &of.args)
}
