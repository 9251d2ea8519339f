//! Parts of the rules and definitions of ops of linear algebra.

use super::attention_jvp::swapped;
use super::nd_array::{Application, NdArray};
use crate::{Builder, Op, Var};

/// Solvers of the op `solve`: which elements of the matrix it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All elements.
    General,
    /// The lower triangle.
    Lower,
    /// The upper triangle.
    Upper,
    /// The elements to the left of the diagonal, which is 1.
    UnitLower,
    /// The elements to the right of the diagonal, which is 1.
    UnitUpper,
}

impl Form {
    /// Returns the form with a number.
    pub fn from_number(n: i64) -> Option<Form> {
        use Form::*;
        let all = [General, Lower, Upper, UnitLower, UnitUpper];
        all.get(usize::try_from(n).ok()?).copied()
    }

    /// Emits `da` without the elements that are not read.
    pub(super) fn read(self, b: &mut Builder, da: Var) -> Var {
        let (op, diagonal) = match self {
            Form::General => return da,
            Form::Lower => (Op::Tril, 0),
            Form::Upper => (Op::Triu, 0),
            Form::UnitLower => (Op::Tril, -1),
            Form::UnitUpper => (Op::Triu, 1),
        };
        let diagonal = b.attr(diagonal);
        b.emit(op, &[diagonal], &[da])
    }
}

/// Emits the matrix product of `x` and `y`, which have the shapes of the primal values `likes`.
pub(super) fn product(b: &mut Builder, [x, y]: [Var; 2], likes: [Var; 2]) -> Var {
    b.emit(Op::Matmul, &[], &[x, y, likes[0], likes[1]])
}

/// Emits the solution `x` of `a x = y`, or of `a^T x = y`.
pub(super) fn solve(b: &mut Builder, form: Form, transposed: bool, [a, y]: [Var; 2]) -> Var {
    let statics = [b.attr(form as i64), b.attr(transposed)];
    b.emit(Op::Solve, &statics, &[a, y])
}

/// Emits `x + x^T` for each matrix.
pub(super) fn with_transpose(b: &mut Builder, x: Var) -> Var {
    let transposed = swapped(b, x);
    b.add(x, transposed)
}

/// Emits the main diagonals of `x`, which has the shape of the primal value `like`.
pub(super) fn diagonals(b: &mut Builder, x: Var, like: Var) -> Var {
    let main = b.attr(0);
    b.emit(Op::Diagonal, &[main], &[x, like])
}

/// Emits the identity matrices with a row for each element of the last axis of `s`.
pub(super) fn identities(b: &mut Builder, s: Var) -> Var {
    let (one, main) = (b.attr(1.0), b.attr(0));
    let ones = b.emit(Op::FullLike, &[one], &[s]);
    b.emit(Op::Diag, &[main], &[ones])
}

/// Emits `s` with an axis of length 1 at `axis`.
pub(super) fn unsqueezed(b: &mut Builder, s: Var, axis: i64) -> Var {
    let axis = b.attr(axis);
    b.emit(Op::Unsqueeze, &[axis], &[s])
}

/// Emits `1 / gaps` off the diagonals, and 0 on them. The diagonals of `gaps` are 0.
pub(super) fn inverse_gaps(b: &mut Builder, gaps: Var, identities: Var) -> Var {
    let shifted = b.add(gaps, identities);
    let inverse = b.unary(Op::Reciprocal, shifted);
    b.sub(inverse, identities)
}

/// Emits the traces of `a^-1 da`, the derivatives of `log |det a|`.
pub(super) fn log_det_tangents(b: &mut Builder, a: Var, da: Var) -> Var {
    let change = solve(b, Form::General, false, [a, da]);
    let (change, like) = (diagonals(b, change, a), diagonals(b, a, a));
    let (last, drop) = (b.attr(-1), b.attr(false));
    b.sum(change, like, last, drop)
}

/// A matrix: a list of rows.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Returns the matrices in the last two axes of an operand.
pub(super) fn matrices(x: &NdArray) -> Vec<Matrix> {
    let [.., rows, columns] = x.shape[..] else {
        unreachable!("the shape rule wants two axes")
    };
    let n: usize = x.shape[..x.shape.len() - 2].iter().product();
    let row = |m: usize, i: usize| x.data[(m * rows + i) * columns..][..columns].to_vec();
    (0..n)
        .map(|m| (0..rows).map(|i| row(m, i)).collect())
        .collect()
}

/// Returns the results, given those for one matrix as elements in row-major order.
pub(super) fn for_each_matrix<const N: usize>(
    of: &Application<'_>,
    one: impl Fn(Matrix) -> [Vec<f64>; N],
) -> [NdArray; N] {
    let all: Vec<[Vec<f64>; N]> = matrices(of.x()).into_iter().map(one).collect();
    std::array::from_fn(|k| NdArray {
        shape: of.outs[k].clone(),
        data: all.iter().flat_map(|parts| parts[k].clone()).collect(),
    })
}

/// Returns the transpose of a matrix with `columns` columns.
pub(super) fn transposed(a: &Matrix, columns: usize) -> Matrix {
    (0..columns)
        .map(|j| a.iter().map(|row| row[j]).collect())
        .collect()
}

/// Eliminates below the diagonal of `a` with pivots, and does the same to `b`.
///
/// Returns the sign of the permutation. The pivots are on the diagonal of `a`.
pub(super) fn eliminate(a: &mut Matrix, b: &mut Matrix) -> f64 {
    let mut sign = 1.0;
    for k in 0..a.len() {
        let best = (k..a.len()).fold(k, |best, i| {
            if a[i][k].abs() > a[best][k].abs() {
                i
            } else {
                best
            }
        });
        if best != k {
            sign = -sign;
            a.swap(k, best);
            b.swap(k, best);
        }
        for i in k + 1..a.len() {
            let factor = a[i][k] / a[k][k];
            for m in [&mut *a, &mut *b] {
                let pivot = m[k].clone();
                for (x, p) in m[i].iter_mut().zip(pivot) {
                    *x -= factor * p;
                }
            }
        }
    }
    sign
}

/// Returns `a^-1 b`.
pub(super) fn solved(mut a: Matrix, mut b: Matrix) -> Matrix {
    eliminate(&mut a, &mut b);
    for i in (0..a.len()).rev() {
        for column in 0..b[i].len() {
            let known: f64 = (i + 1..a.len()).map(|j| a[i][j] * b[j][column]).sum();
            b[i][column] = (b[i][column] - known) / a[i][i];
        }
    }
    b
}

/// Returns the eigenvalues of a symmetric matrix, ascending, and its eigenvectors as rows.
pub(super) fn eigen(mut a: Matrix) -> (Vec<f64>, Matrix) {
    let n = a.len();
    let mut v: Matrix = (0..n)
        .map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect())
        .collect();
    // Jacobi's method: each rotation makes one element off the diagonal 0.
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let half = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = half.signum() / (half.abs() + half.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                let rotate = |m: &mut Matrix| {
                    let (above, below) = m.split_at_mut(q);
                    for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                    }
                };
                rotate(&mut a);
                a = transposed(&a, n);
                rotate(&mut a);
                rotate(&mut v);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i][i].total_cmp(&a[j][j]));
    let vectors = order.iter().map(|&i| with_sign(v[i].clone()));
    (order.iter().map(|&i| a[i][i]).collect(), vectors.collect())
}

/// Returns a vector or its negative: the first element of at least half the largest magnitude is
/// positive.
fn with_sign(v: Vec<f64>) -> Vec<f64> {
    let largest = v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let first = v.iter().find(|x| x.abs() >= largest / 2.0);
    match first.is_some_and(|x| *x < 0.0) {
        true => v.into_iter().map(|x| -x).collect(),
        false => v,
    }
}
