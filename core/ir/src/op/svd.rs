use super::attention_jvp::swapped;
use super::linalg::{
    diagonals, eigen, for_each_matrix, identities, inverse_gaps, product, unsqueezed,
    with_transpose,
};
use super::nd_array::{Application, NdArray, dot};
use super::{Factorization, Kernel, Method, Param};
use crate::{Builder, Dim, Op, Var};

/// `u, s, vt = svd x`: `x = u diag(s) vt` with orthonormal columns `u` and rows `vt`.
///
/// The singular values `s` are descending, as many as the matrix has rows or columns, whichever are
/// fewer.
pub(super) static OP: Factorization = Factorization {
    name: "svd",
    methods: &[Method::on_tensor("svd", &[Param::Data]).with_results(3)],
    statics: &[],
    results: |rows, columns| {
        let k = match (rows.known(), columns.known()) {
            (Some(m), Some(n)) => Dim::Known(m.min(n)),
            _ if rows == columns => rows,
            _ => Dim::Unknown,
        };
        Ok(vec![vec![rows, k], vec![k], vec![k, columns]])
    },
    // With c = u^T dx v and f[i, j] = 1 / (s[j]^2 - s[i]^2), 0 on the diagonal: ds is the diagonal of c,
    // du = u (f (c s + (c s)^T)) and dv = v (f (s c + (s c)^T)), plus the parts that u and v do not span. A square of
    // s might overflow, so f is the product of 1 / (s[j] - s[i]) and 1 / (s[j] + s[i]).
    tangents: |b, eqn, dx| {
        let (x, [u, s, vt]) = (eqn.args[0], [eqn.outs[0], eqn.outs[1], eqn.outs[2]]);
        let (ut, v) = (swapped(b, u), swapped(b, vt));
        let left = product(b, [ut, dx], [ut, x]);
        let c = product(b, [left, v], [vt, v]);
        let one = identities(b, s);
        let [row, column] = [-2, -1].map(|axis| unsqueezed(b, s, axis));
        let (sum, difference) = (b.add(row, column), b.sub(row, column));
        let inverse = inverse_gaps(b, difference, one);
        let along = b.mul(sum, one);
        let sum = b.sub(sum, along);
        let inverse_sum = inverse_gaps(b, sum, one);
        let turned = |b: &mut Builder, factor: Var, basis: Var| {
            let share = b.mul(factor, inverse_sum);
            let shared = b.mul(c, share);
            let both = with_transpose(b, shared);
            let both = b.mul(both, inverse);
            product(b, [basis, both], [basis, one])
        };
        let (mut du, mut dv) = (turned(b, row, u), turned(b, column, v));
        let dims = b.aval(x).shape.dims();
        let lens =
            dims.and_then(|dims| Some((dims[dims.len() - 2].known()?, dims.last()?.known()?)));
        // Square factors span everything.
        if lens.is_none_or(|(m, n)| m > n) {
            let outside = outside(b, [dx, x], [v, u], [one, row]);
            du = b.add(du, outside);
        }
        if lens.is_none_or(|(m, n)| m < n) {
            let (dxt, xt) = (swapped(b, dx), swapped(b, x));
            let outside = outside(b, [dxt, xt], [u, v], [one, row]);
            dv = b.add(dv, outside);
        }
        let ds = diagonals(b, c, one);
        vec![Some(du), Some(ds), Some(swapped(b, dv))]
    },
    kernel: Kernel::Svd,
    samples: &[
        "(x: f64[3, 3]) { u, s, v = svd x return u, s, v }",
        "(x: f64[2, 3, 2]) { u, s, v = svd x return u, s, v }",
        "(x: f64[2, 3]) { u, s, v = svd x return u, s, v }",
        "(x: f64[2, 0]) { u, s, v = svd x return u, s, v }",
        "(x: f64[0, 2, 2]) { u, s, v = svd x return s }",
    ],
};

/// Emits `(dx right - left left^T dx right) / s`: the change of `left` that it does not span.
///
/// `s` is a row.
fn outside(b: &mut Builder, [dx, x]: [Var; 2], [right, left]: [Var; 2], [one, s]: [Var; 2]) -> Var {
    let change = product(b, [dx, right], [x, right]);
    let lt = swapped(b, left);
    let along = product(b, [lt, change], [lt, left]);
    let inside = product(b, [left, along], [left, one]);
    let rest = b.sub(change, inside);
    let inverse = b.unary(Op::Reciprocal, s);
    b.mul(rest, inverse)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> [NdArray; 3] {
    let n = of.x().shape[of.rank() - 1];
    for_each_matrix(of, |x| {
        // The eigenvectors of x^T x are the right singular vectors.
        let column = |j: usize| x.iter().map(|row| row[j]).collect::<Vec<_>>();
        let columns: Vec<Vec<f64>> = (0..n).map(column).collect();
        let gram = |i: usize| columns.iter().map(|c| dot(&columns[i], c)).collect();
        let (squares, vectors) = eigen((0..n).map(gram).collect());
        let kept = (0..n).rev().take(x.len().min(n));
        let s: Vec<f64> = kept.clone().map(|j| squares[j].sqrt()).collect();
        let vt: Vec<Vec<f64>> = kept.map(|j| vectors[j].clone()).collect();
        let u = |row: &Vec<f64>| {
            let of_row: Vec<f64> = s.iter().zip(&vt).map(|(s, v)| dot(row, v) / s).collect();
            of_row
        };
        [x.iter().flat_map(u).collect(), s.clone(), vt.concat()]
    })
}
