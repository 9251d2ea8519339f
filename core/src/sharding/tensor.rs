//! Tensors that carry their sharding.

use crate::error::ShardingFault;
use crate::param::spec_of;
use crate::raise::expect;
use crate::sharding::ShardingSpec;
use crate::tensor::record::record_one;
use crate::{Result, Tensor};
use gradloom_ir::Op;

/// Returns `x`, placed on the devices of a mesh as the spec says.
///
/// Its values do not change. Inside of a function that is sharded it is a constraint: the devices have this value as
/// the spec says, and so they have its derivative. Another spec later moves the parts again.
///
/// In this process the devices are simulated, and a tensor outside of their programs is stored as a whole: reading it
/// needs no gathering.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// # use gradloom::sharding::{Mesh, ShardingSpec, with_sharding};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"], &[]])?;
/// let x = with_sharding(&Tensor::zeros([4, 3], DType::F32), &rows);
/// assert_eq!(x.sharding(), Some(&rows));
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// If the spec has another number of dims than `x` has axes, or is partial.
#[track_caller]
pub fn with_sharding(x: &Tensor, spec: &ShardingSpec) -> Tensor {
    expect(placed(x, spec, "with_sharding"))
}

pub(super) fn placed(x: &Tensor, spec: &ShardingSpec, call: &'static str) -> Result<Tensor> {
    if !spec.partial().is_empty() {
        let spec = spec.to_string();
        return Err(ShardingFault::Partial { spec }.into_error(call));
    }
    if spec.rank() != x.rank() {
        let fault = ShardingFault::Rank {
            path: "x".to_owned(),
            aval: x.aval().clone(),
            dims: spec.rank(),
            spec: spec.to_string(),
        };
        return Err(fault.into_error(call));
    }
    constrained(x, spec)
}

/// Records the constraint of a spec that fits.
pub(super) fn constrained(x: &Tensor, spec: &ShardingSpec) -> Result<Tensor> {
    record_one(Op::ShardingConstraint, [spec.clone().into()], &[x], &[])
}

impl Tensor {
    /// Returns the tensor, placed on the devices of a mesh: see [`with_sharding`].
    ///
    /// # Panics
    ///
    /// If the spec has another number of dims than the tensor has axes, or is partial.
    #[track_caller]
    pub fn shard(&self, spec: &ShardingSpec) -> Tensor {
        expect(placed(self, spec, "shard"))
    }

    /// Returns the tensor with another placement: see [`with_sharding`].
    ///
    /// # Panics
    ///
    /// If the spec has another number of dims than the tensor has axes, or is partial.
    #[track_caller]
    pub fn reshard(&self, spec: &ShardingSpec) -> Tensor {
        expect(placed(self, spec, "reshard"))
    }

    /// Returns the spec that [`shard`](Tensor::shard), [`reshard`](Tensor::reshard) or [`with_sharding`] gave this
    /// tensor, if one did, or the `out_specs` of a [`sharded`](super::sharded) function. A [`Param`](crate::Param) keeps that
    /// of its value. Results of other ops have none.
    ///
    /// ```
    /// # use gradloom::{DType, Param, Tensor};
    /// # use gradloom::sharding::{Mesh, ShardingSpec, sharded};
    /// # use std::sync::Arc;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let x = Tensor::zeros([4], DType::F32);
    /// let y = sharded(|x: &Tensor| x.sin(), &mesh, None, &rows)(&x);
    /// assert_eq!(y.sharding(), Some(&rows));
    /// assert_eq!(Param::new(y)?.tensor().sharding(), Some(&rows));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sharding(&self) -> Option<&ShardingSpec> {
        spec_of(self)
    }
}
