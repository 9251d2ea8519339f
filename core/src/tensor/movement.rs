//! Ops that split and join tensors.

use super::{Tensor, many, one};
use crate::raise::expect;
use crate::tensor::record::record_many;
use crate::{Aval, IntoStatic};
use gradloom_ir::{Op, Static};

/// Ops that split and join tensors.
///
/// They accept all dtypes and keep the dtype. Negative axes count from the right.
impl Tensor {
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

    /// Splits an axis into `n` parts of equal length, a number that is known at run time.
    ///
    /// If `n` does not divide the length of the axis, all parts but the last have its `n`-th part,
    /// rounded up, and the last one is shorter. There may be less than `n` parts then, as for
    /// `torch.chunk`: a length of 9 has 5 parts for `n = 6`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let parts = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0]).chunks(2, 0);
    /// assert_eq!(parts[0].to_vec::<f32>(), [1.0, 2.0, 3.0]);
    /// assert_eq!(parts[1].to_vec::<f32>(), [4.0, 5.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or `n` is 0.
    #[track_caller]
    pub fn chunks(&self, n: usize, axis: impl IntoStatic) -> Vec<Tensor> {
        let axis = axis.into_static();
        let place = axis.int().and_then(|axis| isize::try_from(axis).ok());
        let in_range =
            |axis: &isize| (-(self.rank() as isize)..self.rank() as isize).contains(axis);
        if let Some(place) = place.filter(in_range)
            && n > 0
            && !self.dim(place).is_multiple_of(n)
        {
            return self.split_every(self.dim(place).div_ceil(n), place);
        }
        many(
            Op::Split,
            vec![Static::All, axis],
            &[self],
            &[self.aval()],
            n,
        )
    }

    /// Splits an axis into parts of length `len`. The last part may be shorter.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let parts = Tensor::from([1.0f32, 2.0, 3.0]).split_every(2, 0);
    /// assert_eq!(parts[1].to_vec::<f32>(), [3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or `len` is 0.
    #[track_caller]
    pub fn split_every(&self, len: usize, axis: isize) -> Vec<Tensor> {
        assert!(len > 0, "split_every: the length of the parts is 0");
        let n = self.dim(axis);
        let sizes = (0..n).step_by(len).map(|at| len.min(n - at));
        self.split_sizes(sizes.collect::<Vec<usize>>(), axis)
    }

    /// Returns the slices along an axis, without that axis. See [`Tensor::unbind`] for a number that is
    /// known at compile time.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let columns = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).unbind_all(1);
    /// assert_eq!(columns[1].to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range.
    #[track_caller]
    pub fn unbind_all(&self, axis: isize) -> Vec<Tensor> {
        match self.dim(axis) {
            0 => Vec::new(),
            n => many(Op::Unbind, vec![Static::Int(axis as i64)], &[self], &[], n),
        }
    }

    /// Returns the slices along the first axis, as [`Tensor::row`] of each index.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let sums: Vec<f32> = x.rows().map(|row| row.sum(..).item()).collect();
    /// assert_eq!(sums, [3.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0.
    #[track_caller]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Tensor> + DoubleEndedIterator {
        self.unbind_all(0).into_iter()
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
    /// If there are no tensors, the axis is out of range, the dtypes cannot be promoted, or two
    /// tensors differ in rank or another axis.
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
    /// If there are no tensors, two differ in shape, the dtypes cannot be promoted, or the axis is
    /// out of range for the result.
    #[track_caller]
    pub fn stack<T: AsRef<Tensor>>(tensors: &[T], axis: impl IntoStatic) -> Tensor {
        let data: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        one(Op::Stack, [axis.into_static()], &data, &[])
    }
}
