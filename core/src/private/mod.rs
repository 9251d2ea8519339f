//! Interface for code that the macro generates. It is not public: it changes with the macro.

#![allow(missing_docs)]

mod again;
mod at;
mod check;
mod constant;
mod leaf;
mod leaves;
mod listing;
mod maybe;
mod product;
mod pull;
mod recorded;
mod residual;
mod tangent;

pub use check::*;

pub use crate::annotation::{
    Annotation, Annotations, Expected, Length, check_arguments, check_call, check_results,
};
pub use crate::call::facts::{Callees, Fact, Facts, Marker, Slot, Text, callees};
pub use crate::call::known::{
    Answers, No, Probe, Spot, chunks, either, item, n_yes, nearest, some, unmarked,
};
pub use crate::call::{
    CallKey, Cotangents, Function, Param, Pullback, Recording, Results, Same, Site,
    Static as StaticArg, Whole, Words, argument_fits, begin, global_fits, impure_call as impure,
    kept_by_site, names, recorded as record_call, recorded_impure as record_impure, unkept,
};
pub use crate::kernel::{Fused, FusedTable, Loop};
pub use crate::record::catch;
/// Used by functions whose bodies are recorded at run time.
pub use crate::transform::{jvp as trace_jvp, replay, vjp as trace_vjp};
pub use crate::{Aval, Cost, DType, Error, Formula, Point, Tensor, Term, Traced, Tree, Work};
pub use again::*;
pub use at::*;
pub use constant::{Constant, kind_of};
pub use gradloom_ir::Static;
/// Scalar functions of ops, used by compiled loops.
pub use gradloom_ir::op::element;
pub use gradloom_maths as maths;
pub use leaf::*;
pub use leaves::*;
pub use listing::Listing;
pub use maybe::*;
pub use product::*;
pub use pull::*;
pub use recorded::*;
pub use residual::*;
pub use tangent::*;

use crate::record::{apply, expect, one, plain};
use crate::statics::IntoStatic;
use gradloom_ir::Op;

/// Returns the cotangent of a parameter, in the structure of `like`.
pub fn pulled_back<T: Tree>(like: &T, cotangents: &mut Cotangents, param: usize) -> T {
    cotangents.of(like, param)
}

/// Runs a body, which may return early.
pub fn run<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Traits that add an argument to a key, or take a result out of a call, depending on its type.
///
/// Method resolution selects the first trait that applies to the type.
pub mod by_type {
    pub use crate::call::known::{
        AllKnown, ByKind, Holds, HoldsNothing, IsMarked, IsNotMarked, NotAllKnown, OwnDeref,
        OwnPlain, Peels, PeelsNothing, RefDeref, RefPlain, Seen, Yields, YieldsNothing,
    };
    pub use crate::call::{
        ByClone, BySize, ByTree, ByWords, Mutable, NoShape, NoTree, NoWhole, OfWhole, OwnedBytes,
        OwnedWords, ShapeOfTree, Unknown,
    };
}

/// Traits that select how a constant is hashed.
pub mod by_kind {
    pub use super::constant::{ByName, ByValue};
}

/// Converts the user's expression to a static argument.
pub fn statik(value: impl IntoStatic) -> Static {
    value.into_static()
}

/// Panics with `error` at the caller's line.
#[track_caller]
pub fn raise(error: Error) -> ! {
    crate::record::raise(error)
}

macro_rules! op_functions {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        /// Ops with data operands only.
        pub mod op {
            use super::*;
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<const D: usize>(data: [&Tensor; D]) -> Tensor {
                    expect(plain(Op::$op, &data))
                }
            )*
        }

        /// Ops with static arguments and `Like` operands.
        pub mod op_with {
            use super::*;
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<const S: usize, const D: usize, const L: usize>(
                    statics: [&Static; S],
                    data: [&Tensor; D],
                    likes: [&Aval; L],
                ) -> Tensor {
                    expect(one(Op::$op, statics.map(Clone::clone), &data, &likes))
                }
            )*
        }

        /// Ops with several results.
        pub mod op_many {
            use super::*;
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<const N: usize, const S: usize, const D: usize, const L: usize>(
                    statics: [&Static; S],
                    data: [&Tensor; D],
                    likes: [&Aval; L],
                ) -> [Tensor; N] {
                    let outs = expect(apply(Op::$op, statics.map(Clone::clone), &data, &likes, N));
                    outs.try_into().expect("`apply` returns `N` results")
                }
            )*
        }
    };
}

gradloom_ir::for_each_op!(op_functions);
