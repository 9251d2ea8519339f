//! Control flow: ops that run programs, which are static arguments.
//!
//! The parameters and results of these programs have known shapes and dtypes, and determine those of
//! the operands and results of the op.
//!
//! In forward mode the tangents travel beside the values: a loop on values and tangents replaces the
//! loop on values. Reverse mode needs a part that is linear in the tangents and can be transposed.
//! A `scan` and a `switch` return what that part reads from the first part; `while` and `checkpoint`
//! run again.

pub(crate) mod body;
pub(crate) mod checkpoint;
mod custom;
mod custom_code;
pub(crate) mod links;
pub(crate) mod prune;
pub(crate) mod scan;
pub mod shard_map;
pub(crate) mod sharded;
pub(crate) mod switch;
mod while_back;
pub(crate) mod while_loop;

pub use body::inline;
pub use custom_code::lanes as kernel_lanes;
pub use scan::Parts as ScanParts;
pub(crate) use scan::unroll;
pub use shard_map::Parts as ShardMapParts;
pub use sharded::Parts as ShardedParts;
pub use switch::branches;
pub use while_back::Parts as WhileBackParts;
pub use while_loop::Parts as WhileParts;

pub(super) static SCAN: scan::Scan = scan::Scan;
pub(super) static WHILE: while_loop::While = while_loop::While;
pub(super) static WHILE_BACK: while_back::WhileBack = while_back::WhileBack;
pub(super) static SWITCH: switch::Switch = switch::Switch;
pub(super) static CHECKPOINT: checkpoint::Checkpoint = checkpoint::Checkpoint;
pub(super) static CUSTOM_JVP: custom::CustomJvp = custom::CustomJvp;
pub(super) static CUSTOM_VJP: custom::CustomVjp = custom::CustomVjp;
pub(super) static CUSTOM_LIN: custom::CustomLin = custom::CustomLin;
pub(super) static CUSTOM: custom_code::Custom = custom_code::Custom;
pub(super) static CUSTOM_TANGENT: custom_code::CustomTangent = custom_code::CustomTangent;
pub(super) static CUSTOM_COTANGENT: custom_code::CustomCotangent = custom_code::CustomCotangent;
pub(super) static CUSTOM_LANES: custom_code::CustomLanes = custom_code::CustomLanes;
pub(super) static SHARD_MAP: shard_map::ShardMap = shard_map::ShardMap;
pub(super) static SHARDED: sharded::Sharded = sharded::Sharded;
pub(super) static HOST_KERNEL: custom_code::HostKernel = custom_code::HostKernel;

use crate::{Aval, Builder, Dim, Eqn, Fault, Program, Shape, Static, Var};

/// The rules that an op that runs programs has beside those of all ops.
pub trait Control: Sync {
    /// Returns the avals of the results.
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault>;

    /// Returns whether the op has a transpose.
    fn is_reversible(&self) -> bool {
        true
    }

    /// Returns whether the op has a forward mode.
    fn is_forward(&self) -> bool {
        true
    }
}

/// Implements `OpDef` for an op that runs programs.
macro_rules! control_op {
    ($ty:ident, $name:literal, $statics:expr, $batch:expr, $samples:expr) => {
        impl $crate::op::OpDef for $ty {
            fn name(&self) -> &'static str {
                $name
            }
            fn operands(&self) -> $crate::op::Operands {
                $crate::op::Operands::Any
            }
            fn statics(&self) -> &'static [$crate::StaticArg] {
                const { $statics }
            }
            fn shape(
                &self,
                statics: &[$crate::Static],
                args: &[&$crate::Aval],
                _: usize,
            ) -> Result<Vec<$crate::Shape>, $crate::Fault> {
                let outs = $crate::op::Control::infer(self, statics, args)?;
                Ok(outs.into_iter().map(|out| out.shape).collect())
            }
            fn dtype(
                &self,
                _: &[$crate::Static],
                _: &[&$crate::Aval],
            ) -> Result<Option<$crate::DType>, $crate::Fault> {
                Ok(None)
            }
            fn methods(&self) -> Vec<$crate::op::Method> {
                Vec::new()
            }
            fn diff(&self) -> $crate::op::Diff {
                $crate::op::Diff::Linear
            }
            fn jvp(
                &self,
                _: &mut $crate::Builder,
                _: &$crate::Eqn,
                _: &[Option<$crate::Var>],
            ) -> Vec<Option<$crate::Var>> {
                unreachable!("`ad::control` has the rule")
            }
            fn transpose(
                &self,
                _: &mut $crate::Builder,
                _: &$crate::Eqn,
                _: &[Option<$crate::Var>],
                _: &[bool],
            ) -> Vec<Option<$crate::Var>> {
                unreachable!("`ad::control` has the rule")
            }
            fn eval(&self) -> $crate::op::Eval {
                $crate::op::Eval::Control(&$ty)
            }
            fn count(&self) -> $crate::op::Count {
                $crate::op::Count::Unknown
            }
            fn facts(&self) -> &$crate::op::OpFacts {
                const { &$crate::op::OpFacts::opaque($crate::op::axes::opaque($batch)) }
            }
            fn laws(&self) -> $crate::op::Laws {
                $crate::op::Laws::new((0.5, 1.5), const { $samples })
            }
        }
    };
}
use control_op;

/// Returns the programs among the static arguments of an equation.
pub(crate) fn programs(b: &Builder, eqn: &Eqn) -> Vec<Program> {
    let programs = b.static_of(eqn.attrs[0]).programs();
    programs.expect("the op runs programs").to_vec()
}

/// Returns static argument `i`, a number that is not negative.
pub(crate) fn count(statics: &[Static], i: usize) -> usize {
    statics[i].int().map_or(0, |n| n as usize)
}

/// Returns the avals of variables.
pub(crate) fn avals(program: &Program, vars: &[Var]) -> Vec<Aval> {
    vars.iter().map(|v| program.aval(*v).clone()).collect()
}

/// Returns the aval of all slices along a new axis 0.
pub(crate) fn stacked(one: &Aval, len: usize) -> Aval {
    let dims = one.shape.dims();
    Aval {
        dtype: one.dtype,
        shape: Shape(dims.map(|dims| [&[Dim::Known(len)][..], dims].concat().into())),
    }
}

/// Returns an error if the operands cannot have the avals that the programs take, which are known.
fn check_args(args: &[&Aval], expected: &[Aval]) -> Result<(), Fault> {
    check_number(args.len(), expected.len())?;
    let mut pairs = args.iter().zip(expected).enumerate();
    pairs.try_for_each(|(i, (found, expected))| {
        let what = format!("operand {}", i + 1);
        if expected.dtype.is_none() || expected.shape.known().is_none() {
            return Err(Fault::Length {
                what: format!("{what} of a program"),
                found: expected.to_string(),
                expected: "a known dtype and shape".into(),
            });
        }
        check_aval(&what, found, expected)
    })
}

/// Returns an error unless there are as many operands as the programs take.
fn check_number(found: usize, expected: usize) -> Result<(), Fault> {
    match found == expected {
        true => Ok(()),
        false => Err(Fault::Arity {
            found,
            expected: format!("{expected} operands"),
        }),
    }
}

/// Returns an error if a value cannot have the aval that is expected.
fn check_aval(what: &str, found: &Aval, expected: &Aval) -> Result<(), Fault> {
    let dtypes = found.dtype.is_some() && expected.dtype.is_some() && found.dtype != expected.dtype;
    let shapes = match (found.shape.dims(), expected.shape.dims()) {
        (Some(a), Some(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.differs(*b)),
        _ => false,
    };
    match dtypes || shapes {
        true => Err(Fault::Length {
            what: what.to_owned(),
            found: found.to_string(),
            expected: expected.to_string(),
        }),
        false => Ok(()),
    }
}
