use super::attention_jvp::swapped;
use super::class::square;
use super::linalg::{Form, for_each_matrix, product, solve, with_transpose};
use super::nd_array::{Application, NdArray};
use super::{Factorization, Kernel};
use crate::Op;

methods! { cholesky {
    /// The lower triangular matrix `l` with `l l^T = x`, for each matrix of the last two axes.
    ///
    /// The matrices are symmetric and positive definite. Of a matrix that is not symmetric, the
    /// factor is that of the mean of it and its transpose. If that is not positive definite, the
    /// lower triangle of the result is NaN. Takes floats.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[4.0f32, 2.0], [2.0, 10.0]]);
    /// assert_eq!(x.cholesky().to_vec::<f32>(), [2.0, 0.0, 1.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, the matrices are not square, or the dtype is not a float.
    fn cholesky(x: Data);
} }

/// `cholesky x`: the lower triangular `l` with `l l^T = (x + x^T) / 2`.
pub(super) static OP: Factorization = Factorization {
    name: "cholesky",
    methods: METHODS,
    statics: &[],
    results: |rows, columns| Ok(vec![vec![square(rows, columns)?; 2]]),
    // dl = l phi(l^-1 ds l^-T), where phi takes the lower triangle and half of the diagonal, and ds is
    // (dx + dx^T) / 2.
    tangents: |b, eqn, dx| {
        let l = eqn.out();
        let twice = with_transpose(b, dx);
        let left = solve(b, Form::Lower, false, [l, twice]);
        let left = swapped(b, left);
        let both = solve(b, Form::Lower, false, [l, left]);
        let (main, below) = (b.attr(0), b.attr(-1));
        let lower = b.emit(Op::Tril, &[main], &[both]);
        let strict = b.emit(Op::Tril, &[below], &[both]);
        let phi = b.add(lower, strict);
        let quarter = b.scalar(0.25, l);
        let phi = b.mul(phi, quarter);
        vec![Some(product(b, [l, phi], [l, l]))]
    },
    kernel: Kernel::Cholesky,
    samples: &[
        "(x: f64[3, 3]) { y = cholesky x return y }",
        "(x: f64[2, 2, 2]) { y = cholesky x return y }",
        "(x: f64[0, 0]) { y = cholesky x return y }",
        "(x: f64[0, 2, 2]) { y = cholesky x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [y] = for_each_matrix(of, |x| {
        let n = x.len();
        let mut l = vec![vec![0.0; n]; n];
        for i in 0..n {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
                let rest = (x[i][j] + x[j][i]) / 2.0 - known;
                l[i][j] = if i == j { rest.sqrt() } else { rest / l[j][j] };
            }
        }
        [l.concat()]
    });
    y
}
