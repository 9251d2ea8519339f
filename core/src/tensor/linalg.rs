//! Factorisations with several results.

use super::{Tensor, many};
use gradloom_ir::Op;

/// Returns the `N` results of an op on matrices.
#[track_caller]
fn factors<const N: usize>(op: Op, x: &Tensor) -> [Tensor; N] {
    let parts = many(op, Vec::new(), &[x], &[], N).try_into();
    parts.expect("as many results as asked for")
}

/// Factorisations of the matrices in the last two axes. The axes before them are a batch.
///
/// They take floats.
impl Tensor {
    /// Returns `q` and `r`, for each matrix of the last two axes: the matrix is `q r`.
    ///
    /// The columns of `q` are orthonormal, and `r` is upper triangular. For matrices of shape `[m, n]`,
    /// `q` has shape `[m, k]` and `r` has shape `[k, n]`, where `k` is the less of `m` and `n`. The signs
    /// are those of LAPACK. The derivative takes linearly independent columns, the first `k` of them.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[3.0f64, 1.0], [4.0, 2.0]]);
    /// let (q, r) = x.qr();
    /// assert!((r.to_vec::<f64>()[0].abs() - 5.0).abs() < 1e-12);
    /// assert!((q.matmul(&r) - x).abs().max(..).item::<f64>() < 1e-12);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, or the dtype is not a float.
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let [q, r] = factors(Op::Qr, self);
        (q, r)
    }

    /// Returns the eigenvalues and eigenvectors of symmetric matrices, of the last two axes.
    ///
    /// The eigenvalues are ascending. The eigenvectors are the columns of a matrix. The first element
    /// of at least half the largest magnitude of each is positive. Of a matrix that is not symmetric,
    /// the mean of it and its transpose is taken. The derivatives of eigenvectors of equal eigenvalues
    /// are infinite or NaN. All results are NaN if an element is NaN or infinite.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let (w, v) = Tensor::from([[1.0f64, 0.0], [0.0, -3.0]]).eigh();
    /// assert_eq!(w.to_vec::<f64>(), [-3.0, 1.0]);
    /// assert_eq!(v.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, the matrices are not square, or the dtype is not a float.
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let [w, v] = factors(Op::Eigh, self);
        (w, v)
    }

    /// Returns `u`, `s` and `vt`, for each matrix of the last two axes: the matrix is `u diag(s) vt`.
    ///
    /// The singular values `s` are descending. The columns of `u` and the rows of `vt` are orthonormal.
    /// For matrices of shape `[m, n]`, `u` has shape `[m, k]`, `s` has shape `[k]` and `vt` has shape
    /// `[k, n]`, where `k` is the less of `m` and `n`. The signs of the rows of `vt` are those of
    /// [`Tensor::eigh`]. The derivatives of vectors of equal singular values are infinite or NaN. All
    /// results are NaN if an element is NaN or infinite.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[3.0f64, 0.0], [0.0, -5.0]]);
    /// let (u, s, vt) = x.svd();
    /// assert!((&s - Tensor::from([5.0f64, 3.0])).abs().max(..).item::<f64>() < 1e-12);
    /// assert!((u.matmul(s.diag(0)).matmul(&vt) - x).abs().max(..).item::<f64>() < 1e-12);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, or the dtype is not a float.
    #[track_caller]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        let [u, s, vt] = factors(Op::Svd, self);
        (u, s, vt)
    }

    /// Returns the sign of the determinant of each matrix of the last two axes, and the logarithm of its
    /// magnitude.
    ///
    /// Those of a singular matrix are 0 and negative infinity. The sign is a constant for derivatives.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let (sign, log) = Tensor::from([[0.0f64, 1.0], [1.0, 0.0]]).slogdet();
    /// assert_eq!((sign.item::<f64>(), log.item::<f64>()), (-1.0, 0.0));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes, the matrices are not square, or the dtype is not a float.
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let [sign, log] = factors(Op::Slogdet, self);
        (sign, log)
    }
}
