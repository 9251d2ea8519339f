//! Ops on the values of several devices, inside of [`shard_map`](super::shard_map).

use crate::error::ShardingFault;
use crate::graph::recording;
use crate::raise::expect;
use crate::sharding::Reduction;
use crate::sharding::context;
use crate::tensor::record::record_many;
use crate::{Result, Tensor};
use gradloom_ir::mesh::MeshAxes;
use gradloom_ir::{Op, Static};

/// Names of one or several axes of a mesh: `"data"`, `["data", "model"]`.
///
/// The devices that differ in these axes only are a *group*, in row-major order of the axes.
pub trait MeshAxisNames {
    /// Returns the names.
    fn names(&self) -> Vec<&str>;
}

impl MeshAxisNames for str {
    fn names(&self) -> Vec<&str> {
        vec![self]
    }
}

impl<T: AsRef<str>> MeshAxisNames for [T] {
    fn names(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<T: AsRef<str>, const N: usize> MeshAxisNames for [T; N] {
    fn names(&self) -> Vec<&str> {
        self[..].names()
    }
}

impl<T: MeshAxisNames + ?Sized> MeshAxisNames for &T {
    fn names(&self) -> Vec<&str> {
        (**self).names()
    }
}

/// Records a collective on `x`.
fn record(
    call: &'static str,
    op: Op,
    x: &Tensor,
    axes: &impl MeshAxisNames,
    statics: impl FnOnce(MeshAxes) -> Result<Vec<Static>>,
) -> Result<Tensor> {
    // A cached plan would not know the mesh of another call.
    recording::impure_call();
    let group = context::group(call, &axes.names())?;
    let x = context::on_devices(call, x)?;
    Ok(record_many(op, statics(group)?, &[&x], &[], 1)?.remove(0))
}

/// Marks a value that is equal on a group as one that each device has for itself. The derivative of a part of the
/// function then counts it once for each device.
fn own(call: &'static str, x: &Tensor, axes: &impl MeshAxisNames) -> Result<Tensor> {
    record(call, Op::Pvary, x, axes, |group| Ok(vec![group.into()]))
}

fn axis_static(axis: isize) -> Static {
    Static::Int(axis as i64)
}

/// Returns the sum, maximum, minimum or product of the values of a group, element by element.
///
/// All devices of the group get the same tensor, of the same shape and dtype. Integers wrap. Sums and products take
/// numbers; maxima and minima take bools, too, and are NaN if an element is.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, Reduction, ShardingSpec, all_reduce, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let total = |x: &Tensor| all_reduce(&x.sum(..), "data", Reduction::Sum);
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(shard_map(total, &mesh, rows, None)(&x).item::<f32>(), 10.0);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis, an axis is given twice, or the
/// reduction does not take the dtype.
#[track_caller]
pub fn all_reduce(x: &Tensor, axes: impl MeshAxisNames, reduction: Reduction) -> Tensor {
    expect(try_all_reduce("all_reduce", x, &axes, reduction))
}

fn try_all_reduce(
    call: &'static str,
    x: &Tensor,
    axes: &impl MeshAxisNames,
    reduction: Reduction,
) -> Result<Tensor> {
    let statics = |group: MeshAxes| Ok(vec![reduction.into(), group.into()]);
    let y = record(call, Op::AllReduce, x, axes, statics)?;
    own(call, &y, axes)
}

/// Returns the mean of the values of a group, element by element. Takes floats.
///
/// All devices of the group get the same tensor, of the same shape and dtype.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, pmean, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let mean = |x: &Tensor| pmean(&x.mean(..), "data");
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(shard_map(mean, &mesh, rows, None)(&x).item::<f32>(), 2.5);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// As [`all_reduce`], or if `x` is not a float.
#[track_caller]
pub fn pmean(x: &Tensor, axes: impl MeshAxisNames) -> Tensor {
    let run = || {
        if !x.dtype().is_float() {
            let aval = x.aval().clone();
            return Err(ShardingFault::NotAFloat { aval }.into_error("pmean"));
        }
        let n = context::group("pmean", &axes.names())?.n_devices();
        let sum = try_all_reduce("pmean", x, &axes, Reduction::Sum)?;
        Ok(sum / n as f64)
    };
    expect(run())
}

/// Returns the values of a group, one after the other along an axis.
///
/// All devices of the group get the same tensor. The length of the axis is multiplied by the number of devices.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, all_gather, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let whole = |x: &Tensor| all_gather(&(x * 2.0), "data", 0);
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(shard_map(whole, &mesh, rows, None)(&x).to_vec::<f32>(), [2.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis, an axis is given twice, or `axis` is out of
/// range.
#[track_caller]
pub fn all_gather(x: &Tensor, axes: impl MeshAxisNames, axis: isize) -> Tensor {
    let statics = |group: MeshAxes| Ok(vec![axis_static(axis), group.into(), true.into()]);
    expect(record("all_gather", Op::AllGather, x, &axes, statics))
}

/// Returns the part that a device has of the sum of the values of its group.
///
/// The length of the axis is divided by the number of devices. Integers wrap.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, reduce_scatter, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let columns = ShardingSpec::split(&mesh, &[&[], &["data"]])?;
/// let sums = |x: &Tensor| reduce_scatter(x, "data", 1);
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = shard_map(sums, &mesh, rows, columns)(&x);
/// assert_eq!(y.to_vec::<f32>(), [4.0, 6.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// As [`all_gather`], or if the devices cannot divide the axis equally, or `x` is a `bool`.
#[track_caller]
pub fn reduce_scatter(x: &Tensor, axes: impl MeshAxisNames, axis: isize) -> Tensor {
    let statics = |group: MeshAxes| Ok(vec![axis_static(axis), group.into()]);
    expect(record(
        "reduce_scatter",
        Op::ReduceScatter,
        x,
        &axes,
        statics,
    ))
}

/// Cuts each value of a group along the axis `split`, and returns the parts that belong to a device, one after the
/// other along the axis `concat`.
///
/// The length of `split` is divided by the number of devices, and that of `concat` is multiplied by it.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, all_to_all, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let columns = ShardingSpec::split(&mesh, &[&[], &["data"]])?;
/// // The same matrix: divided by rows, then by columns.
/// let turned = |x: &Tensor| all_to_all(x, "data", 1, 0);
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = shard_map(turned, &mesh, rows, columns)(&x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// As [`all_gather`], or if the devices cannot divide the axis `split` equally.
#[track_caller]
pub fn all_to_all(x: &Tensor, axes: impl MeshAxisNames, split: isize, concat: isize) -> Tensor {
    let statics = |group: MeshAxes| Ok(vec![axis_static(split), axis_static(concat), group.into()]);
    expect(record("all_to_all", Op::AllToAll, x, &axes, statics))
}

/// Returns the value of the device that sends to this one, and zeros if none does.
///
/// `pairs` lists the positions in the group of a device that sends and the one that receives. A device sends to one
/// device at most, and receives from one at most.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, ppermute, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("ring", 3)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["ring"]])?;
/// let shifted = |x: &Tensor| ppermute(x, "ring", &[(0, 1), (1, 2)]);
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let y = shard_map(shifted, &mesh, rows.clone(), rows)(&x);
/// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 2.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis, an axis is given twice, the group lacks a
/// position, or a position occurs twice on one side of the pairs.
#[track_caller]
pub fn ppermute(x: &Tensor, axes: impl MeshAxisNames, pairs: &[(usize, usize)]) -> Tensor {
    let ends = pairs
        .iter()
        .flat_map(|(from, to)| [*from as i64, *to as i64]);
    let ends: Vec<i64> = ends.collect();
    let statics = |group: MeshAxes| Ok(vec![ends.into(), group.into()]);
    expect(record("ppermute", Op::Ppermute, x, &axes, statics))
}

/// Returns the value of the device at position `root` of a group, on all of its devices.
///
/// It is an [`all_gather`] of which one part stays, so it takes every dtype and keeps every bit.
///
/// ```
/// # use gradloom::Tensor;
/// # use gradloom::sharding::{Mesh, ShardingSpec, broadcast, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let last = |x: &Tensor| broadcast(x, "data", 1);
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(shard_map(last, &mesh, rows, None)(&x).to_vec::<f32>(), [3.0, 4.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis, an axis is given twice, or the group lacks
/// the position.
#[track_caller]
pub fn broadcast(x: &Tensor, axes: impl MeshAxisNames, root: usize) -> Tensor {
    let run = || {
        let n = context::group("broadcast", &axes.names())?.n_devices();
        if root >= n {
            return Err(ShardingFault::NoPosition { position: root, n }.into_error("broadcast"));
        }
        let statics = |group: MeshAxes| Ok(vec![axis_static(0), group.into(), true.into()]);
        let row = x.unsqueeze(0);
        let all = record("broadcast", Op::AllGather, &row, &axes, statics)?;
        Ok(all.i(root))
    };
    expect(run())
}

/// Returns the position of the device in its group, an `i64` of rank 0.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// # use gradloom::sharding::{Mesh, ShardingSpec, axis_index, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let numbered = |x: &Tensor| x + axis_index("data").cast(DType::F32);
/// let x = Tensor::from([0.0f32, 0.0, 0.0, 0.0]);
/// let y = shard_map(numbered, &mesh, rows.clone(), rows)(&x);
/// assert_eq!(y.to_vec::<f32>(), [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis or an axis is given twice.
#[track_caller]
pub fn axis_index(axes: impl MeshAxisNames) -> Tensor {
    recording::impure_call();
    expect(context::position("axis_index", &axes.names()))
}

/// Returns the number of devices of a group.
///
/// # Panics
///
/// Outside of [`shard_map`](super::shard_map), or if the mesh lacks an axis or an axis is given twice.
#[track_caller]
pub fn axis_size(axes: impl MeshAxisNames) -> usize {
    recording::impure_call();
    expect(context::group("axis_size", &axes.names())).n_devices()
}
