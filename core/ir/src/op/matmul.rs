use super::class::bilinear;
use super::nd_array::{Application, NdArray, aligned, indices};
use super::{Bilinear, Count, Kernel, Linearity, OpFacts, axes, shape};
use crate::{Dim, Fault, Op, Shape};

methods! { matmul {
    /// Matrix product of `[.., n, k]` and `[.., k, m]`, of shape `[.., n, m]`.
    ///
    /// As in NumPy's `matmul`, the axes before the last two broadcast. A tensor of rank 1 is a row
    /// on the left and a column on the right, and the result does not have that axis. The dtypes
    /// are numbers, promoted by [`DType::promoted`](crate::DType::promoted).
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matmul(Tensor::from([1.0f32, 10.0])).to_vec::<f32>(), [21.0, 43.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a rank is 0, the inner lengths differ, the other axes do not broadcast, or the dtypes
    /// cannot be promoted or are `bool`.
    fn matmul(x: Data + Like, other: Data + Like);
} }

/// `matmul x, y, like x, like y`: the matrix product of the last two axes.
///
/// The axes before them broadcast as in NumPy. A vector on the left is a row and a vector on the
/// right a column; that axis is absent from the result.
///
/// `matmul`, `lhs_t` and `rhs_t` are closed under transposition. For `z = x y` with a cotangent `c`
/// of `z`,
///
/// ```text
/// matmul(x, y) = x y         x <- lhs_t(ct, y)    y <- rhs_t(x, ct)
/// lhs_t(c, y)  = c y^T       c <- matmul(ct, y)   y <- rhs_t(ct, c)
/// rhs_t(x, c)  = x^T c       x <- lhs_t(c, ct)    c <- matmul(x, ct)
/// ```
///
/// each summed over the axes that were broadcast. The `Like` operands of all three are the primal
/// factors `x` and `y`. They give the shapes if an operand is a tangent.
pub(super) static OP: Bilinear = Bilinear {
    name: "matmul",
    statics: &[],
    shape: |_, args| {
        let x = shape::same(&args[0].shape, &args[2].shape)?;
        let y = shape::same(&args[1].shape, &args[3].shape)?;
        product(&x, &y)
    },
    methods: METHODS,
    transpose: [
        |b, eqn, ct| bilinear(b, Op::MatmulLhsT, [ct, eqn.args[1]], eqn),
        |b, eqn, ct| bilinear(b, Op::MatmulRhsT, [eqn.args[0], ct], eqn),
    ],
    kernel: Kernel::Matmul,
    count: Count::Product,
    facts: OpFacts::opaque(axes::MATMUL).linear(Linearity::Each(&[0, 1])),
    samples: &[
        "(x: f64[2, 3], y: f64[3, 4]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[3], y: f64[3, 2]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[2, 3], y: f64[3]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[3], y: f64[3]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[2, 1, 2, 3], y: f64[3, 3, 2]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[3], y: f64[2, 3, 2]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[2, 2, 3], y: f64[3]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[2, 2, 3], y: f64[3, 2]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[2, 0], y: f64[0, 3]) { z = matmul x, y, like x, like y return z }",
        "(x: f64[0, 2], y: f64[2, 3]) { z = matmul x, y, like x, like y return z }",
    ],
};

/// Returns the shape of the product of values with shapes `x` and `y`.
pub(super) fn product(x: &Shape, y: &Shape) -> Result<Shape, Fault> {
    if x.dims().is_some_and(<[Dim]>::is_empty) || y.dims().is_some_and(<[Dim]>::is_empty) {
        return Err(Fault::Rank {
            found: 0,
            expected: "at least 1 on both sides (use `*` to scale)".into(),
        });
    }
    let (Some(x), Some(y)) = (x.dims(), y.dims()) else {
        return Ok(Shape::UNKNOWN);
    };
    let (x_batch, x_matrix) = x.split_at(x.len().saturating_sub(2));
    let (y_batch, y_matrix) = y.split_at(y.len().saturating_sub(2));
    let (rows, left) = match *x_matrix {
        [rows, inner] => (Some(rows), inner),
        _ => (None, x_matrix[0]),
    };
    let (right, columns) = match *y_matrix {
        [inner, columns] => (inner, Some(columns)),
        _ => (y_matrix[0], None),
    };
    if left.differs(right) {
        return Err(Fault::Inner {
            left: left.to_string(),
            right: right.to_string(),
        });
    }
    let batch = shape::broadcast(&x_batch.to_vec().into(), &y_batch.to_vec().into())?;
    let batch = batch.dims().expect("both ranks are known").iter().copied();
    Ok(Shape(Some(batch.chain(rows).chain(columns).collect())))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    products(of, [0, 1, 2])
}

/// Returns the sum of all products of an element of one operand with one of the other.
///
/// Each term of `z = x y` has an index into `x`, `y` and `z`. `roles` says which of them the operands
/// and the result are.
pub(super) fn products(of: &Application<'_>, roles: [usize; 3]) -> NdArray {
    of.sum_of_products(terms(&of.likes[0], &of.likes[1]), roles)
}

/// Returns the indices into `x`, `y` and `x y` of each term of a matrix product.
fn terms(x: &[usize], y: &[usize]) -> Vec<[Vec<usize>; 3]> {
    // A vector is a row on the left and a column on the right.
    let matrix = |shape: &[usize], vector: [usize; 2]| match shape {
        [_] => vector.to_vec(),
        _ => shape.to_vec(),
    };
    let (left, right) = (matrix(x, [1, x[0]]), matrix(y, [y[0], 1]));
    let (left_batch, left) = left.split_at(left.len() - 2);
    let (right_batch, right) = right.split_at(right.len() - 2);
    let rank = left_batch.len().max(right_batch.len());
    let len = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    let batch: Vec<usize> = (0..rank)
        .map(|i| match len(left_batch, i) {
            1 => len(right_batch, i),
            n => n,
        })
        .collect();
    let mut all = Vec::new();
    for b in indices(&batch) {
        for ijp in indices(&[left[0], right[1], left[1]]) {
            let (i, j, p) = (ijp[0], ijp[1], ijp[2]);
            let row: &[usize] = if x.len() > 1 { &[i] } else { &[] };
            let column: &[usize] = if y.len() > 1 { &[j] } else { &[] };
            all.push([
                [&aligned(left_batch, &b)[..], row, &[p]].concat(),
                [&aligned(right_batch, &b)[..], &[p], column].concat(),
                [&b[..], row, column].concat(),
            ]);
        }
    }
    all
}
