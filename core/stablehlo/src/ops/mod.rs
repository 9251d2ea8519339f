//! The StableHLO form of each op.
//!
//! Each op has a function of its name in one of the files of this module, or is [`decomposed`] into ops
//! that have one. A new op does not compile without.

/// Defines the functions of ops that are one operation on the same type.
macro_rules! direct {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(t: &mut Text, of: &Equation<'_>) -> Value {
            t.same($op, &[of.x()])
        }
    )*};
}

mod constants;
mod control;
mod convolution;
mod devices;
mod elementwise;
mod formula;
mod incomplete;
mod indexing;
mod linalg;
mod matmul;
mod movement;
mod order;
mod pool;
mod random;
mod reduce;
mod scan;
mod special;

use crate::ExportError;
use crate::equation::Equation;
use crate::text::{Text, Value};
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

impl<const N: usize> From<[Value; N]> for Lowered {
    fn from(values: [Value; N]) -> Lowered {
        Lowered(Ok(values.into()))
    }
}

impl From<Results> for Lowered {
    fn from(results: Results) -> Lowered {
        Lowered(results)
    }
}

pub(crate) use devices::sharding;

/// Appends a program and returns its results.
pub(crate) fn program(t: &mut Text, program: &Program, args: &[Value]) -> Results {
    let params = program.params.iter().copied().zip(args.iter().cloned());
    let mut values: SecondaryMap<Var, Value> = params.collect();
    let find = |values: &SecondaryMap<Var, Value>, vars: &[Var]| -> Vec<Value> {
        let value = |var: &Var| values.get(*var).cloned();
        let all: Option<Vec<Value>> = vars.iter().map(value).collect();
        all.expect("a variable is bound before it is read")
    };
    for eqn in &program.eqns {
        let args = find(&values, &eqn.args);
        let outs = equation(t, program, eqn, args)?;
        values.extend(eqn.outs.iter().copied().zip(outs));
    }
    Ok(find(&values, &program.outs))
}

/// Appends an equation and returns its results.
fn equation(t: &mut Text, program: &Program, eqn: &Eqn, args: Vec<Value>) -> Results {
    let of = Equation::new(program, eqn, args)?;
    match eqn.op.def().eval() {
        Eval::Control(_) => control::lower(t, &of),
        Eval::Collective => devices::collective(t, &of),
        Eval::Call => Err(ExportError::Call {
            op: eqn.op,
            callee: of.statics[0].to_string().replace('`', ""),
        }),
        _ => {
            let outs = primitive(t, &of)?;
            debug_assert!(
                outs.iter()
                    .zip(&of.outs)
                    .all(|(x, y)| x.element == y.element && x.shape == y.shape),
                "`{}` gives {outs:?}",
                of.op
            );
            Ok(outs)
        }
    }
}

macro_rules! lower_ops {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        fn primitive(t: &mut Text, of: &Equation<'_>) -> Results {
            use {constants::*, convolution::*, devices::sharding_constraint, elementwise::*, incomplete::*, indexing::*, linalg::*, matmul::*, movement::*};
            use {order::*, pool::*, random::*, reduce::*, scan::*, special::*};
            use {
                decomposed as attention, decomposed as attention_jvp, decomposed as attention_lse,
                decomposed as attention_vjp, decomposed as cross_entropy,
                decomposed as cross_entropy_grad, decomposed as inv_std, decomposed as layer_norm,
                decomposed as log_softmax, decomposed as log_softmax_jvp,
                decomposed as log_softmax_vjp, decomposed as logsumexp, decomposed as norm_jvp,
                decomposed as norm_vjp, decomposed as normalize, decomposed as normalize_t,
                decomposed as rms_norm, decomposed as searchsorted, decomposed as segment_sum,
                decomposed as segment_sum_t, decomposed as softmax, decomposed as softmax_t,
                decomposed as stddev, decomposed as var,
            };
            use {no_form as betainc_dab, no_form as gammainc_da};
            let lowered: Lowered = match of.op {
                $(Op::$op => $name(t, of).into(),)*
                op => unreachable!("`{op}` runs programs or is a call"),
            };
            lowered.0
        }
    };
}

gradloom_ir::for_each_op!(lower_ops);

/// Refuses a derivative in a parameter of a function that loops until it converges.
fn no_form(_: &mut Text, of: &Equation<'_>) -> Results {
    Err(ExportError::NoForm {
        op: of.op,
        reason: "it is a derivative in a parameter",
    })
}

/// Appends the simpler ops that a composite op is made of.
fn decomposed(t: &mut Text, of: &Equation<'_>) -> Results {
    let mut b = Builder::new();
    let params: Vec<Var> = of
        .eqn
        .args
        .iter()
        .map(|arg| b.param(of.program.aval(*arg).clone()))
        .collect();
    let statics: Vec<Static> = of.statics.clone();
    let eqn = Eqn {
        outs: [].into(),
        op: of.op,
        attrs: statics.into_iter().map(|value| b.attr(value)).collect(),
        args: params[..].into(),
    };
    let decompose = of.op.def().facts().decompose.expect("the op is composite");
    let outs = decompose(&mut b, &eqn).expect("the lengths are known");
    program(t, &b.finish(params, outs), &of.args)
}
