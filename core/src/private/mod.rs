//! Interface for code that the macro generates. It is not public: it changes with the macro.

#![allow(missing_docs)]

mod check;
mod constant;
mod facts;
mod inline;
mod items;
mod lanes;
mod listing;
mod loops;
mod optional;
mod recorded;
mod residual;
#[cfg(feature = "trace")]
mod shadow;
mod step;
mod tangent;

pub use check::*;

pub use crate::{
    __add_to_key as add_to_key, __answers as answers, __arguments as arguments,
    __begin as begin_call, __cached as cached, __check_all_floats as check_all_floats,
    __grads as grads, __if_declared as if_declared, __lanes as lanes, __levels as levels,
    __loops as loops, __own_facts as own_facts, __pullback as pullback, __register as register,
    __residual_tree as residual_tree, __sizes as sizes, __unconfirmed as unconfirmed,
    __unkeyed as unkeyed,
};

pub use crate::annotation::{
    Annotation, Annotations, DimSplit, Expected, Length, check_arguments, check_call,
    check_results, place_argument, place_result,
};
pub use crate::call::companion_pullback::*;
pub use crate::call::facts::{
    CalleeSlot, Callees, Fact, Facts, Marker, NoFacts, OwnFacts, Text, callees,
};
pub use crate::call::known::{
    Answers, Made, NotTraced, Probe, Spot, both, chunks, either, item, n_yes, nearest, some,
    some_jacobian, traced_function, unmarked, untraced,
};
pub use crate::call::leaf::*;
pub use crate::call::leaf_range::*;
pub use crate::call::leaves::*;
pub use crate::call::traits::{
    TraitCallee, TraitMethod, enter_impl, function_pair, is_method_of_trait, note_function,
    note_method, trait_function, trait_method, untraced_method,
};
pub use crate::call::{
    CallPullback, CallRecording, CallResults, CallSite, Cotangents, OpaqueResult, begin,
    recorded as record_call, recorded_impure as record_impure, why_not_cached, why_not_keyed,
};
#[cfg(feature = "trace")]
pub use crate::dump::{
    PointArg, TracePoint, TracePointOfRef, UntracedPoint, enter_function, is_tracing, point_loop,
    suspend,
};
pub use crate::function::{Function, Param};
pub use crate::graph::recording::{impure_call as impure, note_fit, runs_bodies};
pub use crate::raise::catch;
/// Used by functions whose bodies are recorded at run time.
pub use crate::transform::{
    RuleSite, TransformSite, VmapAxes, jvp as trace_jvp, replay, vjp as trace_vjp, with_jvp,
    with_vjp,
};
pub use crate::tree::key::{
    CallKey, ComparableStatic, Static as StaticArg, Words, argument_fits, first_reason,
    global_fits, kept_by_site,
};
pub use crate::{Aval, Cost, DType, Error, Formula, Point, Tensor, Term, Traced, Tree};
pub use constant::{Constant, kind_of};
pub use facts::*;
pub use gradloom_ir::Static;
/// Scalar functions of ops, used by compiled loops.
pub use gradloom_ir::op::element;
pub use gradloom_kernels::elementwise::compiled_loops::{FusedLoop, FusedTable};
pub use gradloom_kernels::gemm::{product_f32, product_f64};
pub use gradloom_kernels::turn_loop::TurnValues;
pub use gradloom_kernels::{
    __fused_table as fused_table, __loop_of as loop_of, __loop_of_many as loop_of_many,
    __turn_loop as turn_loop,
};
pub use gradloom_maths as maths;
pub use inline::*;
pub use items::*;
pub use lanes::*;
pub use listing::Listing;
pub use optional::*;
pub use recorded::*;
pub use residual::*;
#[cfg(feature = "trace")]
pub use shadow::*;
pub use step::*;
pub use tangent::*;

use crate::raise::expect;
use crate::statics::{IntoStatic, NumberArg};
pub use crate::tensor::compose::{
    DotPlan, bit_mask, column, convolved, counts, delete_place, dot_plan, doubling_steps,
    exponent_bits, fraction, highest, insert_place, joined_axes, kron_lens, largest, lowest,
    matrix_lens, n_points, padded_axes, padding, pairs, segment_lens, shrink_bound, slice_lens,
    slope_len, square_len, tile_lens, update_axis, vector_axis, with_last,
};
pub use crate::tensor::contract::einsum_lengths;
use crate::tensor::record::{record_elementwise, record_many, record_one};
use gradloom_ir::Op;

/// Returns zeros in the structure of a tree: the cotangent of an argument without a derivative.
pub fn zero_cotangent<T: Tree>(like: &T) -> T {
    crate::tree::zeros(like)
}

/// Returns the cotangent of a parameter, in the structure of `like`.
pub fn pulled_back<T: Tree>(like: &T, cotangents: &mut Cotangents, param: usize) -> T {
    cotangents.of(like, param)
}

/// Returns a tensor by reference; `x` may be a reference itself.
#[inline]
pub fn lent(x: &Tensor) -> &Tensor {
    x
}

/// Runs a body, which may return early.
pub fn run<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Traits that add an argument to a key, or take a result out of a call, depending on its type.
///
/// Method resolution selects the first trait that applies to the type.
pub mod by_type {
    pub use super::inline::{LocatedPart, PartWithoutPlace, SkippedPart, TreeOperand};
    pub use crate::call::known::{
        ArcOfCustom, ElementOf, ForeignMade, ForeignMutable, ForeignReference, FullyKnownClass,
        IsMarked, IsNotMarked, IteratedItem, KeyedClass, KnownClass, KnownReference, MovedValue,
        NoElement, NoItem, NoTarget, NoTree, NotCustom, OtherMade, OwnDeref, OwnPlain, OwnTree,
        PartlyKnownClass, PathOwner, PointerTarget, RefDeref, RefOfCustom, RefPlain, RefTree,
        SpotValue, StandardMade, UnkeyedClass,
    };
    pub use crate::call::{NoResultShape, NonTreeResult, TreeResult, TreeResultShape};
    pub use crate::tree::key::{
        ByClone, BySize, ByTree, ByWords, MissingTree, MutableStatic, OwnedBytes, OwnedWords,
        UnknownStatic,
    };
}

/// Traits that select how a constant is hashed.
pub mod by_kind {
    pub use super::constant::{ByName, ByValue};
}

/// Converts the user's expression to a static argument.
pub fn static_arg(value: impl IntoStatic) -> Static {
    value.into_static()
}

/// Converts a number that is an operand of a tensor.
pub fn number_arg(value: impl NumberArg) -> Static {
    value.into_number()
}

pub use crate::tensor::{index_after, index_number};

/// Panics with `error` at the caller's line.
#[track_caller]
pub fn raise(error: Error) -> ! {
    crate::raise::raise(error)
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
                    expect(record_elementwise(Op::$op, &data))
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
                    expect(record_one(Op::$op, statics.map(Clone::clone), &data, &likes))
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
                    let outs = expect(record_many(Op::$op, statics.map(Clone::clone), &data, &likes, N));
                    outs.try_into().expect("`record_many` returns `N` results")
                }
            )*
        }
    };
}

gradloom_ir::for_each_op!(op_functions);
