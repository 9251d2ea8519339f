//! Functions of one tensor, element by element.

crate::goldens! {
    neg(x) { -x }
    abs_at_zero(x) { x.sign() * x }
    exp(x) { x.exp() }
    exp_large(x) { x.exp() }
    exp_overflow(x) { x.exp() }
    log_at_zero(x) { x.log() }
    log1p(x) { x.log1p() }
    log10(x) { x.log10() }
    sqrt(x) { x.sqrt() }
    sqrt_near_zero(x) { x.sqrt() }
    rsqrt(x) { x.rsqrt() }
    cbrt(x) { x.cbrt() }
    square(x) { x.square() }
    reciprocal(x) { 1.0 / x }
    sin(x) { x.sin() }
    acos(x) { x.acos() }
    sinh(x) { x.sinh() }
    cosh(x) { x.cosh() }
    tanh_saturated(x) { x.tanh() }
    acosh(x) { x.acosh() }
    sigmoid(x) { x.sigmoid() }
    softplus(x) { x.softplus() }
    relu(x) { x.relu() }
    mish(x) { x.mish() }
    gelu_erf(x) { x.gelu() }
    erf(x) { x.erf() }
    erfc(x) { x.erfc() }
    erfinv(x) { x.erf_inv() }
    lgamma(x) { x.lgamma() }
    xlogx_safe(x) {
        let positive = x.gt(0.0);
        let safe = positive.select(x, x.ones_like());
        positive.select(x * safe.log(), x.zeros_like())
    }
    log_sigmoid(x) { x.log_sigmoid() }
    elu(x) { x.elu(1.0) }
    selu(x) { x.selu() }
    celu(x) { x.celu(0.7) }
}
