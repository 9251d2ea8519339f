//! Matrix products and their transposes.

use super::reduce::unrepeated;
use crate::equation::Equation;
use crate::text::{Contraction, Text, Value};

/// The shapes of the factors of a product as matrices: a vector is a row on the left and a column on the right.
struct Factors {
    /// The lengths of the batch axes that both have.
    batch: Vec<usize>,
    left: Vec<usize>,
    right: Vec<usize>,
}

impl Factors {
    /// Returns the factors of shapes `x` and `y`.
    fn new(x: &[usize], y: &[usize]) -> Factors {
        let left = if x.len() == 1 {
            vec![1, x[0]]
        } else {
            x.to_vec()
        };
        let right = if y.len() == 1 {
            vec![y[0], 1]
        } else {
            y.to_vec()
        };
        let (a, b) = (&left[..left.len() - 2], &right[..right.len() - 2]);
        let rank = a.len().max(b.len());
        let len = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        let batch = |i: usize| match len(a, i) {
            1 => len(b, i),
            n => n,
        };
        Factors {
            batch: (0..rank).map(batch).collect(),
            left,
            right,
        }
    }

    /// Returns the shape of a factor, or of the product, with all batch axes.
    fn with_batch(&self, matrix: [usize; 2]) -> Vec<usize> {
        [&self.batch[..], &matrix].concat()
    }

    /// Returns rows, contracted length and columns.
    fn lens(&self) -> [usize; 3] {
        let [.., m, k] = self.left[..] else {
            unreachable!("a factor is a matrix")
        };
        [m, k, self.right[self.right.len() - 1]]
    }
}

/// Appends the product of matrices with the same batch axes over axis `x` of the first and `y` of the second,
/// counted after the batch axes.
fn product(t: &mut Text, factors: &Factors, x: &Value, y: &Value, [a, b]: [usize; 2]) -> Value {
    let rank = factors.batch.len();
    let batch: Vec<usize> = (0..rank).collect();
    let of = Contraction {
        batch: [&batch, &batch],
        contracted: [&[rank + a], &[rank + b]],
    };
    t.dot(x, y, &of)
}

/// Appends a matrix with all batch axes.
fn spread(t: &mut Text, factors: &Factors, x: &Value, matrix: &[usize]) -> Value {
    let x = t.reshape(x, matrix);
    let last = [matrix[matrix.len() - 2], matrix[matrix.len() - 1]];
    t.spread(&x, &factors.with_batch(last))
}

/// Operands: `x, y, like x, like y`.
pub(super) fn matmul(t: &mut Text, of: &Equation<'_>) -> Value {
    let args = of.promoted(t);
    let (x, y) = (&args[0], &args[1]);
    let factors = Factors::new(&x.shape, &y.shape);
    // Without batch axes on the right, the rows of all matrices on the left are those of one.
    if factors.right.len() == 2 && !factors.batch.is_empty() {
        let [_, k, n] = factors.lens();
        let rows = x.numel().checked_div(k);
        if let Some(rows) = rows.filter(|_| factors.left.len() > 2) {
            let x = t.reshape(x, &[rows, k]);
            let y = t.reshape(y, &[k, n]);
            let none = Factors::new(&x.shape, &y.shape);
            let z = product(t, &none, &x, &y, [1, 0]);
            return t.reshape(&z, of.shape());
        }
    }
    let x = spread(t, &factors, x, &factors.left);
    let y = spread(t, &factors, y, &factors.right);
    let z = product(t, &factors, &x, &y, [1, 0]);
    t.reshape(&z, of.shape())
}

/// Appends a cotangent of the product as matrices.
fn cotangent(t: &mut Text, factors: &Factors, c: &Value) -> Value {
    let [m, _, n] = factors.lens();
    t.reshape(c, &factors.with_batch([m, n]))
}

/// Appends the sum over the batch axes that a factor does not have.
fn without_batch(t: &mut Text, x: &Value, matrix: &[usize], shape: &[usize]) -> Value {
    let x = unrepeated(t, x, matrix);
    t.reshape(&x, shape)
}

/// Operands: `c, y, like x, like y`.
pub(super) fn matmul_lhs_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let args = of.promoted(t);
    let factors = Factors::new(of.shape(), &args[1].shape);
    let c = cotangent(t, &factors, &args[0]);
    let y = spread(t, &factors, &args[1], &factors.right);
    let x = product(t, &factors, &c, &y, [1, 1]);
    without_batch(t, &x, &factors.left, of.shape())
}

/// Operands: `x, c, like x, like y`.
pub(super) fn matmul_rhs_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let args = of.promoted(t);
    let factors = Factors::new(&args[0].shape, of.shape());
    let c = cotangent(t, &factors, &args[1]);
    let x = spread(t, &factors, &args[0], &factors.left);
    let y = product(t, &factors, &x, &c, [0, 0]);
    without_batch(t, &y, &factors.right, of.shape())
}
