//! More dtypes.

use gradloom::{DType, Tensor};

crate::goldens! {
    d_cast_float_int(x) -> [Tensor; 4] {
        [x.cast(DType::I32), x.cast(DType::I64), x.cast(DType::Bool), x.cast(DType::F64)]
    }
    d_cast_int_wrap(x) -> [Tensor; 3] { [x.cast(DType::I32), x.cast(DType::F32), x.cast(DType::Bool)] }
    d_cast_saturate(x) -> Tensor { x.cast(DType::I32) }
    d_cast_chain_grad(x) -> Tensor { (x.cast(DType::F32).cast(DType::F64) * x).sum(..) }
    d_i64_mean_var(x) -> [Tensor; 2] {
        let x = x.cast(DType::F64);
        [x.mean(0), x.var(0, 0)]
    }
    d_bool_sum_prod(b) -> [Tensor; 4] {
        let n = b.cast(DType::I64);
        [n.sum(..), n.sum(0), n.prod(1), b.cast(DType::F64).mean(..)]
    }
    d_bool_compare(a, b) -> [Tensor; 4] { [a.eq(b), a.ne(b), a & !b, a.select(b, b.ones_like())] }
    d_bool_order(a, b) -> [Tensor; 5] { [a.lt(b), a.le(b), a.maximum(b), a.max(..), b.min(..)] }
    d_int_minmax_clip(x) -> [Tensor; 5] {
        [x.clamp(-1, 2), x.minimum(0), x.cumprod(0), x.sort(0), x.argmax(..)]
    }
    d_i64_shift_big(x) -> [Tensor; 4] { [x << 33, x >> 2, x * 3037000500i64, -x] }
    d_i32_overflow_sum(x) -> [Tensor; 4] { [x + 1, x * 2, x.sum(..), x.cumsum(0)] }
    d_f64_exp_log_chain(x) -> Tensor { (x.exp() + 1e-12).log() - x.expm1() + (x * x).log1p() }
    d_f64_lgamma_erf(x) -> Tensor { x.lgamma() + x.erf() }
    d_f64_reductions(x) -> [Tensor; 4] { [x.prod(0), x.logsumexp(1), x.std(.., 0), x.cumsum(1)] }
    d_f64_gather_scatter(x, #[nodiff] i) -> Tensor { x.add_at(i, x.i(i).sin()) }
    d_f64_attention(q, k, v) -> Tensor { q.attention(k, v) }
    d_mixed_where_cast(x, y) -> Tensor {
        let x = x.cast(DType::F64);
        x.gt(y).select(&x, y)
    }
    d_f32_accumulate_f64(x) -> Tensor { x.cast(DType::F64).square().sum(..).cast(DType::F32) }
    d_f32_denormal(x) -> [Tensor; 2] { [x * 0.5, x + x] }
    d_f64_extremes(x) -> [Tensor; 2] { [x.exp(), (-x.abs()).exp().log1p()] }
    d_f64_pool(x) -> Tensor { x.max_pool([2], 1, 0) }
    d_int_div_zero_free(x, y) -> Tensor { x / y * 2 + x.rem(y) }
    d_arange_float(x) -> Tensor {
        x * (Tensor::arange(4, x.dtype()) * 0.5 + 0.5) + Tensor::linspace(0.0, 1.0, 4, x.dtype())
    }
}
