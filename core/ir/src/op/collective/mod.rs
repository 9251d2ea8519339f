//! Collectives: ops on the values that the devices of a mesh have for one variable.
//!
//! Only the program of a [`shard_map`](super::control::shard_map) has them. Their static argument
//! `over` names axes of its mesh. The devices that differ in these axes only are a *group*, in
//! row-major order, and each group works by itself.
//!
//! # Derivatives
//!
//! A value *varies* along the axes of the mesh along which devices may have different values. Along
//! the other axes it is one value that each device holds. So its cotangent is one value, too: that of
//! the whole program, and not one for each device. A value that varies has a cotangent for each
//! device.
//!
//! `pvary` turns a value that is equal on all devices into one that varies, and the derivative needs to
//! see each such place: the cotangents of the devices are added up there. So
//! [`explicit`](super::control::shard_map::explicit) makes all operands of an equation vary along the same
//! axes before a program is differentiated. Then each op has a transpose that does not depend on its
//! neighbours:
//!
//! | op | operand | result | transpose |
//! |---|---|---|---|
//! | `pvary` | equal | varies | `all_reduce[sum]` |
//! | `all_reduce[sum]` | varies | equal | `pvary`, which moves nothing |
//! | `all_gather` | varies | equal | `all_slice`, which moves nothing |
//! | `all_slice` | equal | varies | `all_gather` |
//! | `all_gather[varying]` | varies | varies | `reduce_scatter` |
//! | `reduce_scatter` | varies | varies | `all_gather[varying]` |
//! | `all_to_all` | varies | varies | `all_to_all` with the axes swapped |
//! | `ppermute` | varies | varies | `ppermute` with the pairs reversed |

pub(super) mod all_gather;
pub(super) mod all_reduce;
pub(super) mod all_slice;
pub(super) mod all_to_all;
pub(super) mod axis_index;
pub(super) mod ppermute;
pub(super) mod pvary;
pub(super) mod reduce_scatter;

pub use ppermute::sender;

use super::{
    Count, Diff, Eval, InferRule, Laws, Method, NdArray, OpDef, OpFacts, Operands, not_linear,
    shape,
};
use crate::mesh::MeshAxes;
use crate::{
    Attr, Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var,
};

/// An op on the values of several devices, with one result.
pub struct CollectiveOp {
    /// The name in the text form.
    pub name: &'static str,
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// The number of operands.
    pub operands: Operands,
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The dtype rule.
    pub dtype: InferRule<Option<DType>>,
    /// The derivative.
    pub rule: CollectiveRule,
    /// How the axes along which the result varies differ from those of the operand.
    pub variance: fn(statics: &[Static]) -> Variance,
    /// Returns the number of bytes that a device sends, given those of its operand and the number of
    /// devices of a group, if the devices form a ring.
    pub sent: fn(bytes: u128, n: u128) -> u128,
    /// Returns the result on device `i` of a group from the operands of all of its devices. The definition of
    /// the op.
    pub combine: fn(statics: &[Static], group: &[NdArray], i: usize) -> NdArray,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
}

/// The derivative of a [`CollectiveOp`].
#[derive(Clone, Copy)]
pub enum CollectiveRule {
    /// Zero, for the given reason.
    Zero(&'static str),
    /// The op is linear: its tangent is the op itself.
    Linear {
        /// Emits the cotangent of the operand.
        transpose: fn(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var,
    },
    /// The tangent is that of the rule, and the transpose is for static arguments with which the op is
    /// linear.
    Tangent {
        /// Emits the tangent of the result.
        tangent: fn(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var,
        /// Emits the cotangent of the operand.
        transpose: fn(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var,
    },
}

/// How the axes along which the result of a collective varies differ from those of its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variance {
    /// The operand varies along the axes of the group, and the result, too.
    Keeps,
    /// The operand varies along the axes of the group, and the result does not.
    Drops,
    /// The operand is equal along the axes of the group, and the result varies.
    Adds,
}

/// Returns the axes of the groups of a collective.
///
/// # Panics
///
/// If the static arguments are those of another op.
pub fn over(op: Op, statics: &[Static]) -> &MeshAxes {
    let at = op.static_at(StaticKind::Mesh);
    let axes = at.and_then(|at| statics[at].mesh());
    axes.expect("a collective has the axes of its groups")
}

/// Returns the number of devices of a group, static argument `i`.
fn size(statics: &[Static], i: usize) -> usize {
    statics[i].mesh().map_or(1, MeshAxes::n_devices)
}

/// The static argument for the axes of the groups.
const OVER: StaticArg = StaticKind::Mesh.named("over");

/// Returns the number of bytes that a device sends in a ring of `n` devices, if each of the other devices gets a part
/// of its operand.
fn sent_parts(bytes: u128, n: u128) -> u128 {
    (n - 1) * bytes.div_ceil(n)
}

/// Returns the dims with the length of an axis multiplied by `n`.
fn times(dims: &mut [Dim], axis: usize, n: usize) {
    let product = |dim: Dim| match dim {
        Dim::Known(len) => Some(Dim::Known(len.checked_mul(n)?)),
        dim => Some(dim.poly()?.times(&crate::Poly::constant(n as i128))?.into()),
    };
    dims[axis] = product(dims[axis]).unwrap_or(Dim::Unknown);
}

/// Returns the dims with an axis divided in `n` equal parts.
fn divided(dims: &mut [Dim], axis: usize, n: usize) -> Result<(), Fault> {
    dims[axis] = match dims[axis] {
        Dim::Known(len) if len.is_multiple_of(n) => Dim::Known(len / n),
        Dim::Known(len) => {
            return Err(Fault::Parts {
                asked: format!("{n} equal parts"),
                len: len.to_string(),
            });
        }
        dim => {
            let part = || dim.poly()?.exact_div(n as i128);
            part().map_or(Dim::Unknown, Dim::from)
        }
    };
    Ok(())
}

/// Applies a change to the dims of the operand along the axis of static argument 0.
fn changed(
    statics: &[Static],
    args: &[&Aval],
    change: impl FnOnce(&mut [Dim], usize) -> Result<(), Fault>,
) -> Result<Shape, Fault> {
    let Some(dims) = args[0].shape.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    let Some(axis) = shape::known_axis(&statics[0], dims.len())? else {
        return Ok(Shape::from(vec![Dim::Unknown; dims.len()]));
    };
    let mut dims = dims.to_vec();
    change(&mut dims, axis)?;
    Ok(Shape::from(dims))
}

/// Returns static argument `i` of an op, an axis of a value.
fn axis(statics: &[Static], i: usize, x: &NdArray) -> usize {
    let axis = shape::known_axis(&statics[i], x.shape.len());
    axis.ok().flatten().expect("the shape rule checks the axis")
}

/// Returns part `i` of `n` equal parts of an array along an axis.
fn part(x: &NdArray, axis: usize, i: usize, n: usize) -> NdArray {
    let mut shape = x.shape.clone();
    shape[axis] /= n;
    let first = i * shape[axis];
    NdArray::build(&shape, |mut index| {
        index[axis] += first;
        x.get(&index)
    })
}

/// Returns arrays of one shape, one after the other along an axis.
fn joined(parts: &[NdArray], axis: usize) -> NdArray {
    let len = parts[0].shape[axis];
    let mut shape = parts[0].shape.clone();
    shape[axis] *= parts.len();
    NdArray::build(&shape, |mut index| {
        let from = &parts[index[axis] / len];
        index[axis] %= len;
        from.get(&index)
    })
}

/// Emits `all_reduce[sum]`.
pub(crate) fn sum(b: &mut Builder, x: Var, over: Attr) -> Var {
    let sum = b.attr(crate::sharding::Reduction::Sum);
    b.emit(Op::AllReduce, &[sum, over], &[x])
}

impl OpDef for CollectiveOp {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        self.operands
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        (self.dtype)(statics, args)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        match self.rule {
            CollectiveRule::Zero(why) => Diff::Zero(why),
            CollectiveRule::Linear { .. } | CollectiveRule::Tangent { .. } => Diff::Linear,
        }
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let Some(dx) = dx.first().copied().flatten() else {
            return vec![None];
        };
        vec![match self.rule {
            CollectiveRule::Zero(_) => None,
            CollectiveRule::Linear { .. } => Some(b.emit_on(eqn.op, eqn, dx)[0]),
            CollectiveRule::Tangent { tangent, .. } => Some(tangent(b, eqn, dx)),
        }]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![match self.rule {
            CollectiveRule::Zero(_) => not_linear(self),
            CollectiveRule::Linear { transpose } | CollectiveRule::Tangent { transpose, .. } => {
                cts[0].map(|ct| transpose(b, eqn, ct))
            }
        }]
    }
    fn eval(&self) -> Eval {
        Eval::Collective
    }
    fn count(&self) -> Count {
        self.count
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    /// The samples of `shard_map` are those of the collectives, which need several devices.
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), &[])
    }
}
