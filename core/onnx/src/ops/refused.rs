//! Ops without an ONNX form, with the reasons.

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value};

macro_rules! refused {
    ($($reason:literal: $($name:ident)*;)*) => {$($(
        pub(super) fn $name(_: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
            of.refused($reason)
        }
    )*)*};
}

refused! {
    "ONNX has no such function": erf_inv erfcx ndtri lgamma digamma polygamma i0 i0e i1 i1e exp1 expi spence atan2 gcd
        nextafter expn gammainc gammaincc zeta betainc;
    "1 - erf(x) would lose the small values": erfc;
    "ONNX does not read the sign of NaN": signbit;
    "ONNX shifts unsigned integers only": shift_left shift_right;
    "ONNX has no factorisations of matrices": solve cholesky inv qr eigh svd pinv slogdet;
    "ONNX accumulates sums only": cumprod cummax cummin cumlogsumexp recurrence;
    "random numbers of ONNX are not those of a key; make them an argument":
        fold_in random_bits random_uniform random_normal random_bernoulli random_permutation;
    "it is part of a derivative, and ONNX models are for inference":
        attention_jvp attention_vjp cross_entropy_grad log_softmax_jvp log_softmax_vjp softmax_t norm_jvp norm_vjp
        normalize_t segment_sum_t matmul_lhs_t matmul_rhs_t conv_weight_t max_pool_jvp max_pool_vjp sum_pool_t
        gammainc_da gamma_density betainc_dab beta_density zeta_ds select_index_t slice_t dynamic_slice_t pad_zeros_t upsample_t shift cofactors;
}
