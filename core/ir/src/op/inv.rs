use super::class::square;
use super::linalg::{for_each_matrix, product, solved};
use super::nd_array::{Application, NdArray, truth};
use super::{Factorization, Kernel};

methods! { inv {
    /// The inverse of each matrix of the last two axes. Takes floats.
    ///
    /// The elements of the inverse of a singular matrix are infinite or NaN. To multiply by an
    /// inverse, [`Tensor::solve`] is faster and more accurate.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[2.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(x.inv().to_vec::<f32>(), [0.5, 0.0, 0.0, 0.25]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, the matrices are not square, or the dtype is not a float.
    fn inv(x: Data);
} }

/// `inv x`: the inverse of each matrix.
pub(super) static OP: Factorization = Factorization {
    name: "inv",
    methods: METHODS,
    statics: &[],
    results: |rows, columns| Ok(vec![vec![square(rows, columns)?; 2]]),
    // dy = -y dx y
    tangents: |b, eqn, dx| {
        let (x, y) = (eqn.args[0], eqn.out());
        let right = product(b, [dx, y], [x, y]);
        let both = product(b, [y, right], [y, y]);
        vec![Some(b.neg(both))]
    },
    kernel: Kernel::Inv,
    samples: &[
        "(x: f64[3, 3]) { y = inv x return y }",
        "(x: f64[2, 2, 2]) { y = inv x return y }",
        "(x: f64[0, 0]) { y = inv x return y }",
        "(x: f64[0, 2, 2]) { y = inv x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [y] = for_each_matrix(of, |x| {
        let n = x.len();
        let row = |i| (0..n).map(|j| truth(i == j)).collect();
        let identity = (0..n).map(row).collect();
        [solved(x, identity).concat()]
    });
    y
}
