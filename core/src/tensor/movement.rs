//! Ops that move elements and compute nothing.

use super::{Tensor, many, one};
use crate::record::{apply, expect};
use crate::{Aval, IntoStatic};
use gradloom_ir::{Op, Static};

/// Movement. No element is computed, and most of these copy nothing. An axis below 0 counts from the right.
impl Tensor {
    /// The axes in reverse order.
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

    /// The same as [`Tensor::transpose`].
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.transpose()
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.permute([2, 0, 1]).shape(), [4, 2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `axes` is not an order of all axes.
    #[track_caller]
    pub fn permute(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Permute, [axes.into_static()], &[self], &[])
    }

    /// Two axes exchanged.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.swap_axes(-2, -1).shape(), [2, 4, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis.
    #[track_caller]
    pub fn swap_axes(&self, a: impl IntoStatic, b: impl IntoStatic) -> Tensor {
        one(
            Op::SwapAxes,
            [a.into_static(), b.into_static()],
            &[self],
            &[],
        )
    }

    /// An axis moved to another place; the others keep their order.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.moveaxis(0, -1).shape(), [3, 4, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis.
    #[track_caller]
    pub fn moveaxis(&self, from: impl IntoStatic, to: impl IntoStatic) -> Tensor {
        one(
            Op::Moveaxis,
            [from.into_static(), to.into_static()],
            &[self],
            &[],
        )
    }

    /// The elements in row-major order in another shape. One length may be -1: it is inferred.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// assert_eq!(x.reshape([2, -1]).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number of elements is another.
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoStatic) -> Tensor {
        one(Op::Reshape, [shape.into_static()], &[self], &[self.aval()])
    }

    /// Repeated along new or unit axes to a shape.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.broadcast_to([2, 2]).to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape does not broadcast to `shape`.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoStatic) -> Tensor {
        one(Op::BroadcastTo, [shape.into_static()], &[self], &[])
    }

    /// Repeated along new or unit axes to the shape of another tensor, whose values are not read.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let (x, y) = (Tensor::from(1.0f32), Tensor::zeros([2, 3], DType::F32));
    /// assert_eq!(x.broadcast_like(&y).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape does not broadcast to that of `like`.
    #[track_caller]
    pub fn broadcast_like(&self, like: impl AsRef<Tensor>) -> Tensor {
        one(
            Op::BroadcastLike,
            [],
            &[self],
            &[self.aval(), like.as_ref().aval()],
        )
    }

    /// Without axes of length 1.
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
    /// If one of `axes` does not have length 1.
    #[track_caller]
    pub fn squeeze(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Squeeze, [axes.into_static()], &[self], &[])
    }

    /// With new axes of length 1, which count in the result.
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
    /// If one of `axes` is no axis of the result.
    #[track_caller]
    pub fn unsqueeze(&self, axes: impl IntoStatic) -> Tensor {
        one(Op::Unsqueeze, [axes.into_static()], &[self], &[])
    }

    /// Every `steps[i]`-th index of `starts[i]..stops[i]` of each leading axis; the axes after those named are whole.
    ///
    /// A start or stop below 0 counts from the end, and a stop of `i64::MAX` is the end.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.slice([1], [-1], [2]).to_vec::<f32>(), [1.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a range does not lie inside its axis, or a step is below 1.
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

    /// `N` equal parts along an axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let [a, b] = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).split(0);
    /// assert_eq!(b.to_vec::<f32>(), [3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `N` does not divide the length of the axis.
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

    /// Parts of given lengths along an axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let parts = Tensor::from([1.0f32, 2.0, 3.0]).split_sizes([1, 2], 0);
    /// assert_eq!(parts[1].to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the lengths do not add up to that of the axis.
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

    /// The `N` slices of length 1 along an axis, without that axis.
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
    /// If the length of the axis is not `N`.
    #[track_caller]
    pub fn unbind<const N: usize>(&self, axis: impl IntoStatic) -> [Tensor; N] {
        many(Op::Unbind, vec![axis.into_static()], &[self], &[], N)
            .try_into()
            .expect("as many parts as asked for")
    }

    /// Tensors after each other along an axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32]));
    /// assert_eq!(Tensor::concat(&[&x, &y], 0).to_vec::<f32>(), [1.0, 2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no tensor, or two differ in dtype or in another axis.
    #[track_caller]
    pub fn concat<T: AsRef<Tensor>>(tensors: &[T], axis: impl IntoStatic) -> Tensor {
        let data: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        let likes: Vec<&Aval> = data.iter().map(|x| x.aval()).collect();
        expect(apply(
            Op::Concat,
            vec![axis.into_static()],
            &data,
            &likes,
            1,
        ))
        .remove(0)
    }

    /// Tensors of one shape along a new axis, which counts in the result.
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
    /// If there is no tensor, or two differ in shape or dtype.
    #[track_caller]
    pub fn stack<T: AsRef<Tensor>>(tensors: &[T], axis: impl IntoStatic) -> Tensor {
        let data: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        one(Op::Stack, [axis.into_static()], &data, &[])
    }
}
