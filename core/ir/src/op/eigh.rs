use super::attention_jvp::swapped;
use super::class::square;
use super::linalg::{
    diagonals, eigen, for_each_matrix, identities, inverse_gaps, product, transposed, unsqueezed,
    with_transpose,
};
use super::nd_array::{Application, NdArray};
use super::{Factorization, Kernel, Method, Param};

/// `w, v = eigh x`: the eigenvalues `w`, ascending, and the eigenvectors of `(x + x^T) / 2`.
///
/// The eigenvectors are the columns of `v`.
pub(super) static OP: Factorization = Factorization {
    name: "eigh",
    methods: &[Method::on_tensor("eigh", &[Param::Data]).with_results(2)],
    statics: &[],
    results: |rows, columns| {
        let n = square(rows, columns)?;
        Ok(vec![vec![n], vec![n, n]])
    },
    // With c = v^T ds v and ds = (dx + dx^T) / 2: dw is the diagonal of c, and
    // dv[:, j] = sum over i of v[:, i] c[i, j] / (w[j] - w[i]), without i = j.
    tangents: |b, eqn, dx| {
        let (x, w, v) = (eqn.args[0], eqn.outs[0], eqn.outs[1]);
        let twice = with_transpose(b, dx);
        let right = product(b, [twice, v], [x, v]);
        let vt = swapped(b, v);
        let c = product(b, [vt, right], [vt, v]);
        let half = b.scalar(0.5, w);
        let c = b.mul(c, half);
        let [row, column] = [-2, -1].map(|axis| unsqueezed(b, w, axis));
        let (gaps, one) = (b.sub(row, column), identities(b, w));
        let inverse = inverse_gaps(b, gaps, one);
        let turned = b.mul(c, inverse);
        let dv = product(b, [v, turned], [v, v]);
        vec![Some(diagonals(b, c, v)), Some(dv)]
    },
    kernel: Kernel::Eigh,
    samples: &[
        "(x: f64[3, 3]) { w, v = eigh x return w, v }",
        "(x: f64[2, 2, 2]) { w, v = eigh x return w, v }",
        "(x: f64[1, 1]) { w, v = eigh x return w, v }",
        "(x: f64[0, 0]) { w, v = eigh x return w, v }",
        "(x: f64[0, 2, 2]) { w, v = eigh x return w }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> [NdArray; 2] {
    for_each_matrix(of, |x| {
        let n = x.len();
        let mean = |i: usize, j: usize| (x[i][j] + x[j][i]) / 2.0;
        let (w, v) = eigen(
            (0..n)
                .map(|i| (0..n).map(|j| mean(i, j)).collect())
                .collect(),
        );
        [w, transposed(&v, n).concat()]
    })
}
