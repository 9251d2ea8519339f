use super::class::square;
use super::linalg::{eliminate, for_each_matrix, log_det_tangents};
use super::nd_array::{Application, NdArray};
use super::{Factorization, Kernel, Method, Param};

/// `sign, log = slogdet x`: the sign of each determinant, and the logarithm of its magnitude.
pub(super) static OP: Factorization = Factorization {
    name: "slogdet",
    methods: &[Method::on_tensor("slogdet", &[Param::Data]).with_results(2)],
    statics: &[],
    results: |rows, columns| square(rows, columns).map(|_| vec![Vec::new(); 2]),
    // dlog = trace(x^-1 dx), and the sign is constant.
    tangents: |b, eqn, dx| vec![None, Some(log_det_tangents(b, eqn.args[0], dx))],
    kernel: Kernel::Slogdet,
    samples: &[
        "(x: f64[3, 3]) { s, y = slogdet x return s, y }",
        "(x: f64[2, 2, 2]) { s, y = slogdet x return s, y }",
        "(x: f64[0, 0]) { s, y = slogdet x return s, y }",
        "(x: f64[0, 2, 2]) { s, y = slogdet x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> [NdArray; 2] {
    for_each_matrix(of, |mut x| {
        let mut none = vec![Vec::new(); x.len()];
        let sign = eliminate(&mut x, &mut none);
        let pivots: Vec<f64> = x.iter().enumerate().map(|(i, row)| row[i]).collect();
        let sign = pivots.iter().fold(sign, |sign, x| sign * x.signum());
        [vec![sign], vec![pivots.iter().map(|x| x.abs().ln()).sum()]]
    })
}
