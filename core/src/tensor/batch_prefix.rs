//! Batch prefixes: leading axes of a tensor that ops do not see.
//!
//! A tensor with a prefix refers to its *physical* tensor, which has all axes and no prefix. Only this file
//! and the transforms know both. What is recorded is always an op on physical tensors, so programs and
//! plans never contain a prefix.

use super::replay::{Bound, bind_shapes, replay_bound};
use super::{Tensor, record};
use crate::error::PrefixFault;
use crate::graph::value::{OpData, Shared, ValueSource};
use crate::raise::{expect, raise};
use crate::{Aval, Result};
use gradloom_ir::batch::batch;
use gradloom_ir::{Builder, Op, Program, Static, pass};

/// Batch prefixes.
///
/// The first [`batch_dims`](Tensor::batch_dims) axes of a tensor may be a *batch prefix*. The *physical*
/// shape has all axes. The *logical* shape, [`Tensor::shape`], has those after the prefix, and each op acts on
/// them, for each element of the prefix:
///
/// ```
/// # use gradloom::{DType, Tensor};
/// let x = Tensor::zeros([5, 3, 4], DType::F32).incr_batch_dims();
/// assert_eq!((x.batch_shape(), x.shape()), (&[5][..], &[3, 4][..]));
/// assert_eq!(x.aval().to_string(), "f32[5 | 3, 4]");
/// let y = x.sum(0);
/// assert_eq!((y.batch_dims(), y.physical_shape()), (1, &[5, 4][..]));
/// ```
///
/// The result has as many batch axes as the operand that has most. Prefixes are aligned at their last axis.
/// Corresponding lengths are equal, or one is 1 and is repeated; an operand without a prefix is shared. Reading
/// and printing give all elements, in the order of the physical shape.
impl Tensor {
    /// Returns the number of axes of the batch prefix.
    pub fn batch_dims(&self) -> usize {
        self.aval().batch_dims()
    }

    /// Returns the lengths of the axes of the batch prefix.
    pub fn batch_shape(&self) -> &[usize] {
        self.aval().batch_shape()
    }

    /// Returns the lengths of all axes: those of the batch prefix, and then those of [`Tensor::shape`].
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([5, 3, 4], DType::F32);
    /// assert_eq!(x.physical_shape(), x.shape());
    /// assert_eq!(x.incr_batch_dims().physical_shape(), [5, 3, 4]);
    /// ```
    pub fn physical_shape(&self) -> &[usize] {
        self.aval().physical_shape()
    }

    /// Makes the first logical axis the last axis of the batch prefix. Nothing is copied.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).incr_batch_dims();
    /// let sums = x.sum(..);
    /// assert!(sums.shape().is_empty());
    /// assert_eq!(sums.decr_batch_dims().to_vec::<f32>(), [3.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the logical shape has no axis.
    #[track_caller]
    pub fn incr_batch_dims(&self) -> Tensor {
        if self.rank() == 0 {
            let aval = self.aval().clone();
            raise(PrefixFault::NoAxis { aval }.into_error("incr_batch_dims"));
        }
        self.with_batch_dims(self.batch_dims() + 1)
    }

    /// Makes the last axis of the batch prefix the first logical axis. Nothing is copied.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([5, 3, 4], DType::F32).incr_batch_dims();
    /// assert_eq!(x.decr_batch_dims().shape(), [5, 3, 4]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no batch prefix.
    #[track_caller]
    pub fn decr_batch_dims(&self) -> Tensor {
        match self.batch_dims().checked_sub(1) {
            Some(n) => self.with_batch_dims(n),
            None => {
                let aval = self.aval().clone();
                raise(PrefixFault::NoPrefix { aval }.into_error("decr_batch_dims"))
            }
        }
    }

    /// Moves a *physical* axis to the front of the batch prefix, which gets one axis more.
    ///
    /// Logical axis `i` is physical axis `x.batch_dims() + i`. Negative axes count from the right. If the axis is
    /// in the prefix, it moves to the front, and the first logical axis becomes the last of the prefix.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([3, 4, 5], DType::F32).move_axis_to_batch_dims(-1);
    /// assert_eq!(x.physical_shape(), [5, 3, 4]);
    /// assert_eq!((x.batch_dims(), x.shape()), (1, &[3, 4][..]));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis, or if the logical shape has no axis.
    #[track_caller]
    pub fn move_axis_to_batch_dims(&self, axis: isize) -> Tensor {
        let method = "move_axis_to_batch_dims";
        let aval = || self.aval().clone();
        let Some(from) = index(axis, self.physical_shape().len()) else {
            raise(PrefixFault::NoPhysicalAxis { axis, aval: aval() }.into_error(method))
        };
        if self.rank() == 0 {
            raise(PrefixFault::NoAxis { aval: aval() }.into_error(method));
        }
        let moved = expect(moved(&self.physical(), from, 0));
        moved.with_batch_dims(self.batch_dims() + 1)
    }

    /// Moves an axis of the batch prefix to position `logical_destination` of the logical shape.
    ///
    /// The prefix gets one axis less. Negative axes count from the right: of the prefix, and of the logical
    /// shape of the result.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 5, 3, 4], DType::F32).incr_batch_dims().incr_batch_dims();
    /// let y = x.move_axis_from_batch_dims(0, 2);
    /// assert_eq!(y.physical_shape(), [5, 3, 4, 2]);
    /// assert_eq!((y.batch_dims(), y.shape()), (1, &[3, 4, 2][..]));
    /// ```
    ///
    /// # Panics
    ///
    /// If the prefix has no such axis, or the destination is not an axis of the result.
    #[track_caller]
    pub fn move_axis_from_batch_dims(
        &self,
        batch_axis: isize,
        logical_destination: isize,
    ) -> Tensor {
        let method = "move_axis_from_batch_dims";
        let aval = || self.aval().clone();
        let n = self.batch_dims();
        let Some(from) = index(batch_axis, n) else {
            let (axis, aval) = (batch_axis, aval());
            raise(PrefixFault::NoBatchAxis { axis, aval }.into_error(method))
        };
        let Some(to) = index(logical_destination, self.rank() + 1) else {
            let (axis, aval) = (logical_destination, aval());
            raise(PrefixFault::NoDestination { axis, aval }.into_error(method))
        };
        let moved = expect(moved(&self.physical(), from, n - 1 + to));
        moved.with_batch_dims(n - 1)
    }

    /// Returns the value that has the elements.
    pub(crate) fn physical_value(&self) -> &Shared {
        self.0.physical().unwrap_or(&self.0)
    }

    /// Returns the tensor with all axes and no batch prefix.
    pub(crate) fn physical(&self) -> Tensor {
        Tensor::of(self.physical_value())
    }

    /// Returns the same physical tensor with a prefix of `n` axes.
    pub(crate) fn with_batch_dims(&self, n: usize) -> Tensor {
        let physical = self.physical_value();
        if n == 0 {
            return Tensor::of(physical);
        }
        let aval = Aval::batched(self.dtype(), physical.aval.shape(), n);
        Tensor::new(&aval, ValueSource::Prefixed(Shared::clone(physical)))
    }

    /// Returns the tensor with the batch prefix of `like`, whose logical shape it has: it is repeated.
    pub(crate) fn repeated_over(self, like: &Aval) -> Tensor {
        if self.batch_shape() == like.batch_shape() {
            return self;
        }
        let physical = expect(repeated_to(&self.physical(), like.physical_shape()));
        physical.with_batch_dims(like.batch_dims())
    }

    /// Returns the tensor as a cotangent of a value with the aval `of`, whose logical shape it has.
    ///
    /// It is summed over the batch axes that share the value, and repeated if all elements have the same
    /// cotangent.
    pub(crate) fn as_cotangent_of(self, of: &Aval) -> Tensor {
        if self.batch_shape() == of.batch_shape() {
            return self;
        }
        expect(summed(&self, of)).repeated_over(of)
    }

    /// Returns the tensor with this batch prefix, in which the first element has it and the others have zeros.
    pub(crate) fn at_first(&self, prefix: &[usize]) -> Tensor {
        match self.batch_shape() == prefix {
            true => self.clone(),
            false => expect(at_first(self, prefix)),
        }
    }
}

#[cold]
fn at_first(x: &Tensor, prefix: &[usize]) -> Result<Tensor> {
    let missing = prefix.len() - x.batch_dims();
    let mut physical = unsqueezed(&x.physical(), (0..missing).collect())?;
    for (axis, len) in prefix.iter().enumerate() {
        let mut shape = physical.shape().to_vec();
        if shape[axis] != *len {
            let rest = len.checked_sub(shape[axis]);
            let fault = || {
                PrefixFault::Empty {
                    aval: x.aval().clone(),
                }
                .into_error("vjp")
            };
            shape[axis] = rest.ok_or_else(fault)?;
            let zeros = Tensor::zeros(shape, x.dtype());
            let (axis, avals) = (Static::Int(axis as i64), [physical.aval(), zeros.aval()]);
            physical = record::record_one(Op::Concat, [axis], &[&physical, &zeros], &avals)?;
        }
    }
    Ok(physical.with_batch_dims(prefix.len()))
}

/// Returns the sum over the batch axes that `of` does not have, or has with length 1.
#[cold]
fn summed(x: &Tensor, of: &Aval) -> Result<Tensor> {
    let (own, n) = (x.batch_shape(), of.batch_dims());
    let extra = own.len().saturating_sub(n);
    let is_summed =
        |i: &usize| *i < extra || own[*i] != 1 && of.batch_shape()[i + n - own.len()] == 1;
    let summed: Vec<i64> = (0..own.len()).filter(is_summed).map(|i| i as i64).collect();
    if summed.is_empty() {
        return Ok(x.clone());
    }
    let statics = [summed.into(), Static::Bool(true)];
    let physical = x.physical();
    let sum = record::record_one(Op::Sum, statics, &[&physical], &[physical.aval()])?;
    let sum = squeezed(&sum, (0..extra).collect())?;
    Ok(sum.with_batch_dims(own.len() - extra))
}

/// Returns the cotangents with equal batch prefixes, or `None` if theirs are equal.
///
/// They may be those of values with different prefixes, and their sum is wanted. One without a prefix counts
/// once, so the first element of the prefix gets it, and the others get zeros.
pub(crate) fn alike(cts: &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>> {
    let given = || cts.iter().flatten();
    let first = given().next()?.batch_shape();
    if given().all(|ct| ct.batch_shape() == first) {
        return None;
    }
    let prefix = expect(common_prefix(Op::Add, &given().collect::<Vec<_>>()));
    let cts = cts.iter();
    Some(cts.map(|ct| Some(ct.as_ref()?.at_first(&prefix))).collect())
}

/// Repeats a physical tensor to a shape.
fn repeated_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    record::record_one(Op::BroadcastTo, [numbers(shape)], &[x], &[])
}

fn numbers(all: &[usize]) -> Static {
    let all: Vec<i64> = all.iter().map(|n| *n as i64).collect();
    all.into()
}

/// Returns the index of an axis that may be negative.
fn index(axis: isize, n: usize) -> Option<usize> {
    let from_left = if axis < 0 { axis + n as isize } else { axis };
    usize::try_from(from_left).ok().filter(|axis| *axis < n)
}

fn moved(x: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    if from == to {
        return Ok(x.clone());
    }
    let axes = [from, to].map(|axis| Static::Int(axis as i64));
    record::record_one(Op::Moveaxis, axes, &[x], &[])
}

/// Returns a tensor with axes of length 1 at these positions.
fn unsqueezed(x: &Tensor, axes: Vec<usize>) -> Result<Tensor> {
    match axes.is_empty() {
        true => Ok(x.clone()),
        false => record::record_one(Op::Unsqueeze, [numbers(&axes)], &[x], &[]),
    }
}

/// Returns a tensor without these axes, whose length is 1.
fn squeezed(x: &Tensor, axes: Vec<usize>) -> Result<Tensor> {
    match axes.is_empty() {
        true => Ok(x.clone()),
        false => record::record_one(Op::Squeeze, [numbers(&axes)], &[x], &[]),
    }
}

/// Records an op on operands some of which have a batch prefix, for each element of the prefix.
#[cold]
pub(super) fn record_batched(
    op: Op,
    more: Option<&OpData>,
    data: &[&Tensor],
    n_outs: usize,
) -> Result<Vec<Tensor>> {
    let prefix = common_prefix(op, data)?;
    let outs = match op.elementwise(data.len(), data[0].dtype()) {
        Some(_) if more.is_none() => vec![elementwise(op, data)?],
        _ => by_rule(op, more, data, n_outs, &prefix)?,
    };
    let n = prefix.len();
    Ok(outs.iter().map(|out| out.with_batch_dims(n)).collect())
}

/// Returns the lengths of the prefix of the result.
fn common_prefix(op: Op, data: &[&Tensor]) -> Result<Vec<usize>> {
    let mut prefix: Vec<usize> = Vec::new();
    for x in data {
        let own = x.batch_shape();
        let missing = own.len().saturating_sub(prefix.len());
        prefix.splice(..0, std::iter::repeat_n(1, missing));
        let skipped = prefix.len() - own.len();
        for (i, len) in own.iter().enumerate().filter(|(_, len)| **len != 1) {
            let common = &mut prefix[skipped + i];
            if *common != 1 && common != len {
                // Positions are those from the end, where prefixes are aligned.
                let at = own.len() - i;
                let has = |y: &&&Tensor| y.batch_shape().iter().nth_back(at - 1) == Some(common);
                let left = data.iter().find(has).expect("an operand has the length");
                let lens = [*common, *len];
                let [left, right] = [left, x].map(|x| x.aval().clone());
                return Err(PrefixFault::Lengths { lens, left, right }.into_error(op.called()));
            }
            *common = *len;
        }
    }
    Ok(prefix)
}

/// Records an elementwise op: the axes of broadcasting, aligned from the right, are those of the prefix.
fn elementwise(op: Op, data: &[&Tensor]) -> Result<Tensor> {
    let rank = data.iter().map(|x| x.rank()).max().unwrap_or(0);
    let aligned = |x: &&Tensor| match x.batch_dims() {
        0 => Ok((*x).clone()),
        n => unsqueezed(&x.physical(), (n..n + rank - x.rank()).collect()),
    };
    let aligned = data.iter().map(aligned).collect::<Result<Vec<Tensor>>>()?;
    record::record_elementwise(op, &aligned.iter().collect::<Vec<_>>())
}

/// Records an op by its rule of batching, which is applied for each axis of the prefix, the last one first.
fn by_rule(
    op: Op,
    more: Option<&OpData>,
    data: &[&Tensor],
    n_outs: usize,
    prefix: &[usize],
) -> Result<Vec<Tensor>> {
    let n = prefix.len();
    let (mut bound, mut differs) = (Vec::new(), Vec::new());
    for x in data {
        // A batch axis of length 1 stands for a value that is shared.
        let own = |axis: usize| axis.checked_sub(n - x.batch_dims());
        let is_shared = |axis: usize| own(axis).is_none_or(|i| x.batch_shape()[i] != prefix[axis]);
        let dropped = (0..n).filter(|axis| is_shared(*axis)).filter_map(own);
        let dropped = squeezed(&x.physical(), dropped.collect())?;
        bound.push(Bound::Tensor(dropped));
        differs.push((0..n).map(|axis| !is_shared(axis)).collect::<Vec<bool>>());
    }
    let likes: &[Aval] = more.map_or(&[], |more| &more.likes);
    bound.extend(likes.iter().cloned().map(Bound::Aval));
    let mut program = one_equation(op, more, data, n_outs);
    let mut missing = vec![Vec::new(); n_outs];
    for axis in (0..n).rev() {
        let each = differs.iter().map(|differs| differs[axis]);
        let each: Vec<bool> = each.chain(likes.iter().map(|_| false)).collect();
        let fault = |op: Op| PrefixFault::NoRule.into_error(op.called());
        let all = batch(&program, &each, prefix[axis]).map_err(fault)?;
        program = all.program;
        for (missing, each) in missing.iter_mut().zip(all.each) {
            missing.extend((!each).then_some(axis));
        }
    }
    let program = pass::simplify(program);
    bind_shapes(&program, &mut bound);
    let outs = replay_bound(&program, &bound)?.into_iter().zip(missing);
    let whole = outs.map(|(out, missing)| {
        let out = out.tensor();
        if missing.is_empty() {
            return Ok(out.clone());
        }
        let out = unsqueezed(out, missing.into_iter().rev().collect())?;
        let shape = [prefix, &out.shape()[n..]].concat();
        repeated_to(&out, &shape)
    });
    whole.collect()
}

/// Returns the program of an op on one element of the prefix.
fn one_equation(op: Op, more: Option<&OpData>, data: &[&Tensor], n_outs: usize) -> Program {
    let mut b = Builder::new();
    let likes = more.map_or(&[][..], |more| &more.likes);
    let avals = data.iter().map(|x| x.aval()).chain(likes);
    let params: Vec<_> = avals.map(|aval| b.param(aval.to_ir())).collect();
    let statics = more.map_or(&[][..], |more| &more.statics);
    let attrs: Vec<_> = statics.iter().map(|value| b.attr(value.clone())).collect();
    let outs = b.emit_many(op, &attrs, &params, n_outs);
    b.finish(params, outs)
}
