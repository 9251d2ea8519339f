//! More functions of two tensors.

use gradloom::Tensor;

crate::goldens! {
    b_hypot(x, y) -> Tensor { x.hypot(y) }
    b_logaddexp_inf(x, y) -> Tensor { x.logaddexp(y) }
    b_logaddexp(x, y) -> Tensor { x.logaddexp(y) }
    b_logaddexp2(x, y) -> Tensor {
        let ln2 = std::f64::consts::LN_2;
        (x * ln2).logaddexp(y * ln2) / ln2
    }
    b_copysign(x, y) -> Tensor { (1.0 / y).lt(0.0).select(-x.abs(), x.abs()) }
    b_xlogy(x, y) -> Tensor { x.xlogy(y) }
    b_xlog1py(x, y) -> Tensor { x.xlog1py(y) }
    b_rem_int(x, y) -> [Tensor; 4] { [x.rem(y), x.mod_floor(y), x / y, (x - x.mod_floor(y)) / y] }
    b_floor_divide_float(x, y) -> Tensor { (x / y).floor() + x }
    b_divmod_grad(x, y) -> (Tensor, Tensor) { (x.mod_floor(y), (x / y).floor()) }
    b_pow_neg_base(x) -> Tensor { x.pow(3.0) + x.pow(2.0) }
    b_pow_scalar_base(y) -> Tensor { y.full_like(2.0).pow(y) }
    b_pow_int(x, y) -> Tensor { x.pow(y) }
    b_max_nan(x, y) -> [Tensor; 4] {
        [
            x.maximum(y),
            x.minimum(y),
            x.is_nan().select(y, y.is_nan().select(x, x.maximum(y))),
            x.is_nan().select(y, y.is_nan().select(x, x.minimum(y))),
        ]
    }
    b_clamp_ties(x) -> Tensor { x.maximum(-1.0).minimum(1.0) }
    b_clip_numbers(x) -> Tensor { x.clamp(-0.5, 0.75) * x }
    b_atan2_zero(x, y) -> Tensor { x.atan2(y) }
    b_where_scalar(#[nodiff] c, x) -> Tensor { c.select(x, 3.0) * c.select(1.5, x) }
    b_where_broadcast(#[nodiff] c, x, y) -> Tensor { c.select(x, y) }
    b_where_nan_branch_value(x) -> Tensor { x.gt(0.0).select(x.gt(0.0).select(x, 1.0).log(), x * 2.0) }
    b_bit_shifts(x, y) -> [Tensor; 3] {
        // The bits that an arithmetic shift fills are cleared.
        let mask = !(x.full_like(-1) << (x.full_like(32) - y));
        [x << y, x >> y, y.eq(0).select(x, (x >> y) & mask)]
    }
    b_bits_i64(x, y) -> [Tensor; 4] { [x & y, x | y, x ^ y, x << 40] }
    b_compare_int_mixed(x, y) -> [Tensor; 3] { [x.lt(y), x.eq(y), x.ge(y)] }
    b_logical(x, y) -> [Tensor; 3] { [x.gt(0.0) & y.gt(0.0), x.gt(0.0) ^ y.gt(0.0), !x.gt(y)] }
    b_heaviside_isclose(x, y) -> [Tensor; 3] {
        let close = (x - y).abs().le(1e-8 + 1e-5 * y.abs());
        let step = x.eq(0.0).select(0.5, x.gt(0.0).cast(x.dtype()));
        [step, close, (x - y).abs().le(1e-3)]
    }
    b_smooth_abs_diff(x, y) -> Tensor { ((x - y).square() + 1e-6).sqrt() }
    b_squared_difference_int_float(x, #[nodiff] n) -> Tensor { (x - n.cast(x.dtype())).square() / 3.0 }
    b_betainc_free_beta(a, b) -> Tensor { a.lgamma() + b.lgamma() - (a + b).lgamma() }
    b_gcd_free_int_mod_pow(x) -> Tensor { (x * x * x).mod_floor(7) }
    b_nextafter(x, y) -> Tensor { x.nextafter(y) }
    b_sub_rank0_f64(x, y) -> Tensor { (x - y) / (x + y) }
}
