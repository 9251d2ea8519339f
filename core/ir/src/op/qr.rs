use super::attention_jvp::swapped;
use super::linalg::{Form, for_each_matrix, product, solve};
use super::nd_array::{Application, NdArray, truth};
use super::{Factorization, Kernel, Method, Param};
use crate::{Fault, Op};

/// `q, r = qr x`: `x = q r` with orthonormal columns `q` and an upper triangular `r`.
///
/// The signs are those of Householder's reflections.
pub(super) static OP: Factorization = Factorization {
    name: "qr",
    methods: &[Method::on_tensor("qr", &[Param::Data]).with_results(2)],
    results: |rows, columns| match (rows.known(), columns.known()) {
        (Some(m), Some(n)) if m < n => Err(Fault::Length {
            what: "the number of rows".into(),
            found: m.to_string(),
            expected: format!("at least {n}, the number of columns"),
        }),
        _ => Ok(vec![vec![rows, columns], vec![columns, columns]]),
    },
    // With c = q^T dx r^-1, and w its lower triangle without the diagonal, minus the transpose of that:
    // dq = q (w - c) + dx r^-1 and dr = (c - w) r.
    tangents: |b, eqn, dx| {
        let (q, r) = (eqn.outs[0], eqn.outs[1]);
        let dx = swapped(b, dx);
        let right = solve(b, Form::Upper, true, [r, dx]);
        let right = swapped(b, right);
        let qt = swapped(b, q);
        let c = product(b, [qt, right], [qt, q]);
        let below = b.attr(-1);
        let lower = b.emit(Op::Tril, &[below], &[c]);
        let upper = swapped(b, lower);
        let w = b.sub(lower, upper);
        let rest = b.sub(c, w);
        let inside = product(b, [q, rest], [q, r]);
        let dq = b.sub(right, inside);
        vec![Some(dq), Some(product(b, [rest, r], [r, r]))]
    },
    kernel: Kernel::Qr,
    samples: &[
        "(x: f64[3, 3]) { q, r = qr x return q, r }",
        "(x: f64[2, 3, 2]) { q, r = qr x return q, r }",
        "(x: f64[3, 1]) { q, r = qr x return r }",
        "(x: f64[2, 0]) { q, r = qr x return q, r }",
        "(x: f64[0, 2, 2]) { q, r = qr x return q }",
    ],
};

/// Adds a multiple of a vector to another.
fn add_scaled(to: &mut [f64], scale: f64, v: &[f64]) {
    for (to, v) in to.iter_mut().zip(v) {
        *to += scale * v;
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> [NdArray; 2] {
    let n = of.x().shape[of.rank() - 1];
    for_each_matrix(of, |x| {
        let m = x.len();
        let mut r = x;
        let row = |i| (0..m).map(|j| truth(i == j)).collect();
        let mut q: Vec<Vec<f64>> = (0..m).map(row).collect();
        for k in 0..n.min(m.saturating_sub(1)) {
            // A column that is zero below the diagonal stays as it is.
            if (k + 1..m).all(|i| r[i][k] == 0.0) {
                continue;
            }
            let norm = (k..m).map(|i| r[i][k] * r[i][k]).sum::<f64>().sqrt();
            let mut v: Vec<f64> = (0..m).map(|i| if i < k { 0.0 } else { r[i][k] }).collect();
            v[k] += norm.copysign(v[k]);
            let length: f64 = v.iter().map(|x| x * x).sum();
            // r -= 2 v (v^T r) / v^T v, and q -= 2 (q v) v^T / v^T v.
            let mut along = vec![0.0; n];
            for (v, row) in v.iter().zip(&r) {
                add_scaled(&mut along, *v, row);
            }
            for (v, row) in v.iter().zip(&mut r) {
                add_scaled(row, -2.0 * v / length, &along);
            }
            for row in &mut q {
                let along: f64 = row.iter().zip(&v).map(|(q, v)| q * v).sum();
                add_scaled(row, -2.0 * along / length, &v);
            }
        }
        let upper = |i: usize| {
            let r = &r;
            (0..n).map(move |j| if i <= j { r[i][j] } else { 0.0 })
        };
        [
            q.iter().flat_map(|row| row[..n].to_vec()).collect(),
            (0..n).flat_map(upper).collect(),
        ]
    })
}
