use super::class::square;
use super::linalg::{eliminate, for_each_matrix};
use super::nd_array::{Application, NdArray};
use super::{Factorization, Kernel};
use crate::{Op, Static};

methods! { det {
    /// The determinant of each matrix of the last two axes. Takes floats.
    ///
    /// That of a matrix without elements is 1. The gradient at a singular matrix is that of the
    /// cofactors, and its own derivatives there are NaN. For large matrices, [`Tensor::slogdet`] does
    /// not overflow.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [0.0, 4.0]]);
    /// assert_eq!(x.det().item::<f32>(), 4.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, the matrices are not square, or the dtype is not a float.
    fn det(x: Data);
} }

/// `det x`: the determinant of each matrix.
pub(super) static OP: Factorization = Factorization {
    name: "det",
    methods: METHODS,
    statics: &[],
    results: |rows, columns| square(rows, columns).map(|_| vec![Vec::new()]),
    // dy = sum(cofactors(x) dx)
    tangents: |b, eqn, dx| {
        let x = eqn.args[0];
        let slopes = b.unary(Op::Cofactors, x);
        let change = b.mul(slopes, dx);
        let (matrix, drop) = (b.attr(Static::Ints(vec![-2, -1])), b.attr(false));
        vec![Some(b.sum(change, x, matrix, drop))]
    },
    kernel: Kernel::Det,
    samples: &[
        "(x: f64[3, 3]) { y = det x return y }",
        "(x: f64[2, 2, 2]) { y = det x return y }",
        "(x: f64[0, 0]) { y = det x return y }",
        "(x: f64[0, 2, 2]) { y = det x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [y] = for_each_matrix(of, |mut x| {
        let mut none = vec![Vec::new(); x.len()];
        let sign = eliminate(&mut x, &mut none);
        let pivots = x.iter().enumerate().map(|(i, row)| row[i]);
        [vec![sign * pivots.product::<f64>()]]
    });
    y
}
