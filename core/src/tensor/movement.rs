//! Ops that move elements and compute nothing.

use super::{Tensor, many, one};
use crate::raise::expect;
use crate::tensor::record::record_many;
use crate::{Aval, IntoStatic};
use gradloom_ir::{Op, Static};

/// Ops that move elements.
///
/// Most of them copy nothing. They accept all dtypes and keep the dtype. Negative axes count from
/// the right.
impl Tensor {
    /// Reverses the order of the axes.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.transpose().shape(), [3, 2]);
    /// assert_eq!(x.transpose().to_vec::<f32>(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// ```
    #[track_caller]
    pub fn transpose(&self) -> Tensor {
        one(Op::Transpose, [], &[self], &[])
    }

    /// Alias of [`Tensor::transpose`].
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.transpose()
    }

    /// Permutes the axes: axis `i` of the result is axis `axes[i]` of `self`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.permute([2, 0, 1]).shape(), [4, 2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `axes` is not a permutation of all axes.
    #[track_caller]
    pub fn permute(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Permute, [axes.into_static()], &[self], &[])
    }

    /// Swaps two axes.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.swap_axes(-2, -1).shape(), [2, 4, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range.
    #[track_caller]
    pub fn swap_axes(&self, a: impl IntoStatic, b: impl IntoStatic) -> Tensor {
        one(
            Op::SwapAxes,
            [a.into_static(), b.into_static()],
            &[self],
            &[],
        )
    }

    /// Moves an axis to another position. The other axes keep their order.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.moveaxis(0, -1).shape(), [3, 4, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range.
    #[track_caller]
    pub fn moveaxis(&self, from: impl IntoStatic, to: impl IntoStatic) -> Tensor {
        one(
            Op::Moveaxis,
            [from.into_static(), to.into_static()],
            &[self],
            &[],
        )
    }

    /// Returns the elements, in row-major order, in another shape.
    ///
    /// One length may be -1 and is inferred.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// assert_eq!(x.reshape([2, -1]).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number of elements differs, a length is less than -1, or several lengths are -1.
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoStatic) -> Tensor {
        one(Op::Reshape, [shape.into_static()], &[self], &[self.aval()])
    }

    /// Repeats elements along leading and unit axes to the given shape, as in NumPy broadcasting.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.broadcast_to([2, 2]).to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape of `self` does not broadcast to `shape`.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoStatic) -> Tensor {
        one(Op::BroadcastTo, [shape.into_static()], &[self], &[])
    }

    /// Repeats elements along leading and unit axes to the shape of `like`.
    ///
    /// The elements of `like` are not read.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let (x, y) = (Tensor::from(1.0f32), Tensor::zeros([2, 3], DType::F32));
    /// assert_eq!(x.broadcast_like(&y).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape of `self` does not broadcast to that of `like`.
    #[track_caller]
    pub fn broadcast_like(&self, like: impl AsRef<Tensor>) -> Tensor {
        one(
            Op::BroadcastLike,
            [],
            &[self],
            &[self.aval(), like.as_ref().aval()],
        )
    }

    /// Removes axes of length 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([1, 3, 1], DType::F32);
    /// assert_eq!(x.squeeze(0).shape(), [3, 1]);
    /// assert_eq!(x.squeeze([0, -1]).shape(), [3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, its length is not 1, or `axes` is `..`.
    #[track_caller]
    pub fn squeeze(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Squeeze, [axes.into_static()], &[self], &[])
    }

    /// Inserts axes of length 1. `axes` are their indices in the result.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([3], DType::F32);
    /// assert_eq!(x.unsqueeze(0).shape(), [1, 3]);
    /// assert_eq!(x.unsqueeze([0, -1]).shape(), [1, 3, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range for the result or given twice, or `axes` is `..`.
    #[track_caller]
    pub fn unsqueeze(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Unsqueeze, [axes.into_static()], &[self], &[])
    }

    /// Selects every `steps[i]`-th index of `starts[i]..stops[i]` along each leading axis `i`.
    ///
    /// Axes after those that are given are not sliced.
    ///
    /// A negative start or stop counts from the end, and a stop of `i64::MAX` is the end.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.slice([1], [-1], [2]).to_vec::<f32>(), [1.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a range is not inside of its axis, a step is less than 1, the three lists differ in
    /// length, or they are longer than the rank.
    #[track_caller]
    pub fn slice(
        &self,
        starts: impl IntoStatic,
        stops: impl IntoStatic,
        steps: impl IntoStatic,
    ) -> Tensor {
        let statics = vec![
            starts.into_static(),
            stops.into_static(),
            steps.into_static(),
        ];
        one(Op::Slice, statics, &[self], &[self.aval()])
    }

    /// Splits an axis into `N` equal parts.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let [a, b] = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).split(0);
    /// assert_eq!(b.to_vec::<f32>(), [3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or `N` does not divide its length.
    #[track_caller]
    pub fn split<const N: usize>(&self, axis: impl IntoStatic) -> [Tensor; N] {
        many(
            Op::Split,
            vec![Static::All, axis.into_static()],
            &[self],
            &[self.aval()],
            N,
        )
        .try_into()
        .expect("as many parts as asked for")
    }

    /// Splits an axis into parts of the given lengths.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let parts = Tensor::from([1.0f32, 2.0, 3.0]).split_sizes([1, 2], 0);
    /// assert_eq!(parts[1].to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or the sum of the lengths is not that of the axis.
    #[track_caller]
    pub fn split_sizes(&self, sizes: impl IntoStatic, axis: impl IntoStatic) -> Vec<Tensor> {
        let sizes = sizes.into_static();
        let n = sizes.ints().map_or(1, <[i64]>::len);
        many(
            Op::Split,
            vec![sizes, axis.into_static()],
            &[self],
            &[self.aval()],
            n,
        )
    }

    /// Returns the `N` slices along an axis, without that axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let [a, b] = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).unbind(0);
    /// assert_eq!(a.to_vec::<f32>(), [1.0, 2.0]);
    /// assert_eq!(b.to_vec::<f32>(), [3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or its length is not `N`.
    #[track_caller]
    pub fn unbind<const N: usize>(&self, axis: impl IntoStatic) -> [Tensor; N] {
        many(Op::Unbind, vec![axis.into_static()], &[self], &[], N)
            .try_into()
            .expect("as many parts as asked for")
    }

    /// Concatenates tensors along an axis.
    ///
    /// The lengths of that axis add up; all other axes are equal.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32]));
    /// assert_eq!(Tensor::concat(&[&x, &y], 0).to_vec::<f32>(), [1.0, 2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no tensors, the axis is out of range, or two tensors differ in dtype, rank or
    /// another axis.
    #[track_caller]
    pub fn concat<T: AsRef<Tensor>>(tensors: &[T], axis: impl IntoStatic) -> Tensor {
        let data: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        let likes: Vec<&Aval> = data.iter().map(|x| x.aval()).collect();
        expect(record_many(
            Op::Concat,
            vec![axis.into_static()],
            &data,
            &likes,
            1,
        ))
        .remove(0)
    }

    /// Stacks tensors of one shape along an additional axis. `axis` is its index in the result.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let rows = [Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 4.0])];
    /// assert_eq!(Tensor::stack(&rows, 0).shape(), [2, 2]);
    /// assert_eq!(Tensor::stack(&rows, -1).to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no tensors, two differ in shape or dtype, or the axis is out of range for the
    /// result.
    #[track_caller]
    pub fn stack<T: AsRef<Tensor>>(tensors: &[T], axis: impl IntoStatic) -> Tensor {
        let data: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        one(Op::Stack, [axis.into_static()], &data, &[])
    }
}
