//! More functions of one tensor.

use gradloom::Tensor;

crate::goldens! {
    u_sin_large(x) -> Tensor { x.sin() + (2.0 * x).cos() }
    u_tan(x) -> Tensor { x.tan() }
    u_asin_edge(x) -> Tensor { x.asin() }
    u_atan_large(x) -> Tensor { x.atan() }
    u_asinh(x) -> Tensor { x.asinh() }
    u_atanh(x) -> Tensor { x.atanh() }
    u_expm1_small(x) -> Tensor { x.expm1() }
    u_log1p_edge(x) -> Tensor { x.log1p() }
    u_log2_exp2(x) -> Tensor { x.log2() + (-x).exp2() }
    u_tanh_f64(x) -> Tensor { x.tanh() }
    u_sqrt_zero(x) -> Tensor { x.sqrt() }
    u_rsqrt_zero(x) -> Tensor { x.rsqrt() }
    u_reciprocal_inf(x) -> Tensor { 1.0 / x }
    u_round_half(x) -> (Tensor, Tensor, Tensor, Tensor) { (x.round(), x.floor(), x.ceil(), x.trunc()) }
    u_round_2_decimals(x) -> Tensor { (x * 100.0).round() / 100.0 + x }
    u_sign(x) -> Tensor { x.sign() }
    u_silu_swish_beta(x) -> Tensor { x * (1.7 * x).sigmoid() }
    u_gelu_tanh(x) -> Tensor { x.gelu_tanh() }
    u_gelu_extreme(x) -> Tensor { x.gelu() }
    u_relu6(x) -> Tensor { x.relu6() }
    u_leaky_relu(x) -> Tensor { x.leaky_relu(0.1) }
    u_hard_swish(x) -> Tensor { x.hard_swish() + x.hard_sigmoid() + x.hard_tanh() }
    u_soft_sign(x) -> Tensor { x.softsign() }
    u_squareplus(x) -> Tensor { x.squareplus(4.0) }
    u_log_sigmoid_extreme(x) -> Tensor { x.log_sigmoid() }
    u_softplus_extreme(x) -> Tensor { x.softplus() }
    u_sigmoid_extreme(x) -> Tensor { x.sigmoid() }
    u_digamma(x) -> Tensor { x.digamma() }
    u_lgamma_f64(x) -> Tensor { x.lgamma() }
    u_lgamma_negative(x) -> Tensor { x.lgamma() }
    u_erf_inv_f64(x) -> Tensor { x.erf_inv() }
    u_erfc_tail(x) -> Tensor { x.erfc() }
    u_ndtr(x) -> Tensor { 0.5 * (-x / 2f64.sqrt()).erfc() }
    u_log_ndtr(x) -> Tensor { (0.5 * (-x / 2f64.sqrt()).erfc()).log() }
    u_ndtri(p) -> Tensor { 2f64.sqrt() * (2.0 * p - 1.0).erf_inv() }
    u_entr(x) -> Tensor { -x.xlogy(x) }
    u_logit(p) -> Tensor { p.logit() }
    u_sinc(x) -> Tensor {
        let y = x * std::f64::consts::PI;
        x.ne(0.0).safe_select(&y, 1.0, |y| y.sin() / y, 1.0)
    }
    u_deg2rad(x) -> Tensor { (x * (std::f64::consts::PI / 180.0)).sin() }
    u_gamma(x) -> Tensor { x.lgamma().exp() }
    u_nan_to_num(x) -> Tensor {
        let y = x.is_nan().select(x.full_like(0.5), x);
        let y = y.eq(f64::INFINITY).select(9.0, &y);
        y.eq(f64::NEG_INFINITY).select(-9.0, &y)
    }
    u_is_special(x) -> [Tensor; 5] {
        [x.is_nan(), x.is_infinite(), x.is_finite(), x.eq(f64::INFINITY), x.signbit()]
    }
    u_i0e(x) -> Tensor { x.i0e() }
    u_i1(x) -> Tensor { x.i1() }
    u_abs_rank0(x) -> Tensor { x.abs().pow(1.5) }
    u_cbrt_negative_f64(x) -> Tensor { x.cbrt() }
    u_int_neg_abs(x) -> [Tensor; 5] { [-x, x.abs(), x.sign(), x * x, !x] }
    u_polygamma2(x) -> Tensor { x.polygamma(2.0) }
    u_exp_chain_zero_size(x) -> Tensor { x.sin().exp() + (x * x).log1p() }
    u_log_negative(x) -> Tensor { x.log() }
    u_power_fraction(x) -> Tensor { x.pow(2.5) + x.pow(-1.5) + x.pow(0.5) }
    u_pow_negative_int(x) -> Tensor { x.pow(-2) }
    u_pow_neg_base_even(x) -> Tensor { x.pow(4) - x.pow(5) }
}
