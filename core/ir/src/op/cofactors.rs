use super::attention_jvp::swapped;
use super::class::square;
use super::linalg::{
    Form, eliminate, for_each_matrix, log_det_tangents, product, solve, unsqueezed,
};
use super::nd_array::{Application, NdArray};
use super::{Factorization, Kernel};
use crate::Static;

/// `cofactors x`: the derivatives of the determinant of each matrix by its elements.
///
/// They are finite at a singular matrix. For others they are `det(x) x^-T`.
pub(super) static OP: Factorization = Factorization {
    name: "cofactors",
    methods: &[],
    statics: &[],
    results: |rows, columns| Ok(vec![vec![square(rows, columns)?; 2]]),
    // dy = trace(x^-1 dx) y - x^-T dx^T y, for a regular matrix
    tangents: |b, eqn, dx| {
        let (x, y) = (eqn.args[0], eqn.out());
        let trace = log_det_tangents(b, x, dx);
        let trace = unsqueezed(b, trace, -1);
        let trace = unsqueezed(b, trace, -1);
        let (matrix, keep) = (b.attr(Static::Ints(vec![-2, -1])), b.attr(true));
        let like = b.sum(x, x, matrix, keep);
        let whole = b.broadcast(trace, like, y);
        let first = b.mul(whole, y);
        let turned = swapped(b, dx);
        let right = product(b, [turned, y], [x, y]);
        let second = solve(b, Form::General, true, [x, right]);
        vec![Some(b.sub(first, second))]
    },
    kernel: Kernel::Cofactors,
    samples: &[
        "(x: f64[3, 3]) { y = cofactors x return y }",
        "(x: f64[2, 2, 2]) { y = cofactors x return y }",
        "(x: f64[0, 0]) { y = cofactors x return y }",
        "(x: f64[0, 2, 2]) { y = cofactors x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [y] = for_each_matrix(of, |x| {
        let n = x.len();
        let minor = |i: usize, j: usize| {
            let rows = (0..n).filter(|row| *row != i);
            let others = |row: usize| (0..n).filter(|k| *k != j).map(|k| x[row][k]).collect();
            let mut rest: Vec<Vec<f64>> = rows.map(others).collect();
            let mut none = vec![Vec::new(); rest.len()];
            let sign = eliminate(&mut rest, &mut none);
            let pivots = rest.iter().enumerate().map(|(i, row)| row[i]);
            sign * pivots.product::<f64>() * if (i + j).is_multiple_of(2) { 1.0 } else { -1.0 }
        };
        [(0..n * n).map(|at| minor(at / n, at % n)).collect()]
    });
    y
}
