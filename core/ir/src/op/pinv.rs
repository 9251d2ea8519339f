use super::attention_jvp::swapped;
use super::linalg::{eigen, for_each_matrix, product};
use super::nd_array::{Application, NdArray, dot};
use super::{Factorization, Kernel};
use crate::StaticKind;

methods! { pinv {
    /// The pseudo-inverse of each matrix of the last two axes, by its singular values. Takes floats.
    ///
    /// `[.., m, n]` gives `[.., n, m]`. Singular values up to `rcond` times the largest one count as 0.
    /// The derivative holds the number of the others constant. All elements are NaN if an element of
    /// the matrix is NaN or infinite.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[2.0f64], [0.0]]);
    /// assert_eq!(x.pinv(1e-12).to_vec::<f64>(), [0.5, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are fewer than two axes, or the dtype is not a float.
    fn pinv(x: Data, rcond: Static);
} }

/// `pinv[rcond] x`: the pseudo-inverse of each matrix, `v s^-1 u^T` of its singular values and vectors.
///
/// Singular values up to `rcond` times the largest one are left out.
pub(super) static OP: Factorization = Factorization {
    name: "pinv",
    methods: METHODS,
    statics: &[StaticKind::Epsilon.named("rcond")],
    results: |rows, columns| Ok(vec![vec![columns, rows]]),
    // dy = -y dx y + y y^T dx^T (1 - x y) + (1 - y x) dx^T y^T y (Golub, Pereyra: The differentiation
    // of pseudo-inverses and nonlinear least squares problems whose variables separate, 1973).
    tangents: |b, eqn, dx| {
        let (x, y) = (eqn.args[0], eqn.out());
        let (dxt, xt, yt) = (swapped(b, dx), swapped(b, x), swapped(b, y));
        let dims = b.aval(x).shape.dims();
        let lens =
            dims.and_then(|dims| Some((dims[dims.len() - 2].known()?, dims.last()?.known()?)));
        // The products are no larger than the smaller side of the matrix.
        let [middle, rows, rows_inside, columns, columns_inside] = match lens {
            Some((m, n)) if m < n => {
                let (xy, yty) = (product(b, [x, y], [x, y]), product(b, [yt, y], [yt, y]));
                let change = product(b, [dx, y], [x, y]);
                let swapped_change = swapped(b, change);
                let rows = product(b, [y, swapped_change], [y, xy]);
                let columns = product(b, [dxt, yty], [xt, yty]);
                let along = product(b, [x, columns], [x, y]);
                [
                    product(b, [y, change], [y, xy]),
                    rows,
                    product(b, [rows, xy], [y, xy]),
                    columns,
                    product(b, [y, along], [y, xy]),
                ]
            }
            _ => {
                let (yx, yyt) = (product(b, [y, x], [y, x]), product(b, [y, yt], [y, yt]));
                let change = product(b, [y, dx], [y, x]);
                let swapped_change = swapped(b, change);
                let rows = product(b, [yyt, dxt], [yyt, xt]);
                let along = product(b, [rows, x], [y, x]);
                let columns = product(b, [swapped_change, y], [yx, y]);
                [
                    product(b, [change, y], [yx, y]),
                    rows,
                    product(b, [along, y], [yx, y]),
                    columns,
                    product(b, [yx, columns], [yx, y]),
                ]
            }
        };
        let (rows, columns) = (b.sub(rows, rows_inside), b.sub(columns, columns_inside));
        let outside = b.add(rows, columns);
        vec![Some(b.sub(outside, middle))]
    },
    kernel: Kernel::Pinv,
    samples: &[
        "(x: f64[3, 3]) { y = pinv[rcond=1e-9] x return y }",
        "(x: f64[2, 3, 2]) { y = pinv[rcond=1e-9] x return y }",
        "(x: f64[2, 3]) { y = pinv[rcond=1e-9] x return y }",
        "(x: f64[2, 0]) { y = pinv[rcond=1e-9] x return y }",
        "(x: f64[0, 2, 2]) { y = pinv[rcond=1e-9] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [m, n] = [2, 1].map(|i| of.x().shape[of.rank() - i]);
    let rcond = of.number(0);
    let [y] = for_each_matrix(of, |x| {
        // The eigenvectors of x^T x are the right singular vectors.
        let column = |j: usize| x.iter().map(|row| row[j]).collect::<Vec<_>>();
        let columns: Vec<Vec<f64>> = (0..n).map(column).collect();
        let gram = |i: usize| columns.iter().map(|c| dot(&columns[i], c)).collect();
        let (squares, vectors) = eigen((0..n).map(gram).collect());
        let least = squares
            .last()
            .map_or(0.0, |largest| largest * rcond * rcond);
        let mut y = vec![0.0; n * m];
        for k in (n - m.min(n)..n).filter(|k| squares[*k] > least) {
            for (at, y) in y.iter_mut().enumerate() {
                *y += vectors[k][at / m] * dot(&x[at % m], &vectors[k]) / squares[k];
            }
        }
        [y]
    });
    y
}
