//! More reductions, scans and orders.

use gradloom::{DType, Tensor};

crate::goldens! {
    r_sum_axes_keepdims(x) -> Tensor { x.square().sum_keepdims([-1, 0]) }
    r_mean_neg2(x) -> Tensor { x.mean(-2) }
    r_mean_f64_all_keepdims(x) -> Tensor { x * x.mean_keepdims(..) }
    r_max_axis_ties_keepdims(x) -> Tensor { x.max_keepdims(1) }
    r_min_ties(x) -> Tensor { x.min(0) }
    r_max_nan(x) -> [Tensor; 4] { [x.max(1), x.min(1), x.argmax(1), x.argmin(1)] }
    r_nanmax_nansum(x) -> [Tensor; 2] {
        [x.is_nan().select(0.0, x).sum(1), x.is_nan().select(f64::NEG_INFINITY, x).max(1)]
    }
    r_argmax_flat_ties(x) -> [Tensor; 3] { [x.argmax(..), x.argmin(..), x.argmax_keepdims(-1)] }
    r_argmax_int_bool(x, b) -> [Tensor; 3] { [x.argmax(0), b.argmax(1), x.argmin(1)] }
    r_prod_two_zeros(x) -> Tensor { x.prod(..) }
    r_prod_two_zeros_hvp(x) -> Tensor { x.prod_keepdims(1) }
    r_prod_int64(x) -> [Tensor; 4] {
        [x.prod(..), x.sum_keepdims(0), x.max(1), x.cast(DType::F64).mean(1)]
    }
    r_cumsum_reverse(x) -> Tensor { x.cumsum_reverse(0) * x }
    r_cumsum_negative_axis_f64(x) -> Tensor { x.cumsum(-2) }
    r_cumsum_flat(x) -> Tensor { x.reshape(-1).cumsum(0) }
    r_cumprod_zero(x) -> Tensor { x.cumprod(0) }
    r_cumprod_axis(x) -> Tensor { x.cumprod(0) }
    r_cumprod_reverse(x) -> Tensor { x.cumprod_reverse(1) }
    r_cummax(x) -> Tensor { x.cummax(0) }
    r_cummin_reverse(x) -> Tensor { x.flip(1).cummin(1).flip(1) }
    r_cumlogsumexp(x) -> Tensor { x.cumlogsumexp(0) }
    r_cumlogsumexp_reverse(x) -> Tensor { x.flip(1).cumlogsumexp(1).flip(1) }
    r_cumsum_int_bool(x, b) -> [Tensor; 2] { [x.cumsum(1), b.cast(DType::I32).cumsum(0)] }
    r_var_axes_keepdims(x) -> Tensor { x.var_keepdims([0, 2], 1) }
    r_std(x) -> Tensor { x.std(0, 0) + x.std(0, 1) }
    r_logsumexp_neg_inf(x) -> Tensor { x.logsumexp(1) }
    r_logsumexp_neg_inf_grad(x) -> Tensor { x.logsumexp(1) }
    r_logsumexp_keepdims_axes(x) -> Tensor { x - x.logsumexp_keepdims([0, 1]) }
    r_logsumexp_weights(x, b) -> Tensor { (x + b.log()).logsumexp(-1) }
    r_norms(x) -> [Tensor; 4] { [x.norm(..), x.norm(1), x.norm_l1(0), x.norm_max(1)] }
    r_norm_l3(x) -> Tensor { x.abs().pow(3.0).sum(-1).cbrt() }
    r_count_nonzero(x) -> [Tensor; 3] {
        let count = |c: Tensor| c.cast(DType::I64);
        [count(x.ne(0.0)).sum(..), count(x.gt(0.0)).sum(0), count(x.gt(0.5)).sum(..)]
    }
    r_any_all_axes(x) -> [Tensor; 3] { [x.any([0, 2]), x.all_keepdims(-1), x.any(..)] }
    r_any_all_empty(x) -> [Tensor; 2] { [x.any(0), x.all(0)] }
    r_median_even(x) -> Tensor { x.median(1) }
    r_quantile(x) -> Tensor { x.quantile(0.3, 0) }
    r_quantile_several(x) -> Tensor {
        Tensor::stack(&[x.quantile(0.1, 0), x.quantile(0.5, 0), x.quantile(0.9, 0)], 0)
    }
    r_sort_axis0_desc(x) -> Tensor { x.sort_descending(0) * Tensor::arange(4, x.dtype()).unsqueeze(1) }
    r_sort_nan_inf(x) -> [Tensor; 2] { [x.sort(0), x.argsort(0)] }
    r_sort_int_bool(x, b) -> [Tensor; 3] { [x.sort(0), x.argsort(1), b.sort(0)] }
    r_argsort_stable_desc(x) -> [Tensor; 2] { [x.argsort(0), x.argsort_descending(0)] }
    r_sort_two_keys(a, b) -> [Tensor; 2] {
        let i = b.argsort(0);
        let i = i.take(a.take(&i, 0).argsort(0), 0);
        [a.take(&i, 0), b.take(&i, 0)]
    }
    r_sort_key_value(k, v) -> Tensor { v.take(k.argsort(0), 0) * v }
    r_lexsort(a, b) -> Tensor {
        let i = a.argsort(0);
        i.take(b.take(&i, 0).argsort(0), 0)
    }
    r_weighted_average(x, w) -> Tensor { (x * w).sum(1) / w.sum(..) }
    r_ptp(x) -> Tensor { x.max(0) - x.min(0) }
    r_cov(x) -> Tensor {
        let d = x - x.mean_keepdims(1);
        d.matmul(d.t()) / 4.0
    }
    r_corrcoef(x) -> Tensor {
        let d = x - x.mean_keepdims(1);
        let c = d.matmul(d.t()) / 4.0;
        let s = c.diagonal(0).sqrt();
        c / (s.unsqueeze(1) * s.unsqueeze(0))
    }
    r_trapezoid(y, x) -> Tensor { ((x.i(1..) - x.i(..-1)) * (y.i(1..) + y.i(..-1)) / 2.0).sum(..) }
    r_diff(x) -> Tensor {
        let d = x.i((.., 1..)) - x.i((.., ..-1));
        d.i((.., 1..)) - d.i((.., ..-1))
    }
    r_convolve(x, k) -> Tensor {
        x.unsqueeze([0, 1]).conv(k.flip(0).unsqueeze([0, 1]), 1, 2, 1, 1).squeeze([0, 1])
    }
    r_convolve_same(x, k) -> Tensor { x.unsqueeze([0, 1]).conv_same(k.flip(0).unsqueeze([0, 1]), 1).squeeze([0, 1]) }
    r_bincount(#[nodiff] x, w) -> Tensor { w.segment_sum(x, 5) }
    r_bincount_int(x) -> Tensor { x.cast(DType::I64).ones_like().segment_sum(x, 5) }
    r_histogram(x) -> Tensor {
        let edges = Tensor::arange(3, x.dtype()) - 1.0;
        let bin = x.unsqueeze(1).ge(edges).cast(DType::I64).sum(1);
        bin.ones_like().segment_sum(&bin, 4)
    }
    r_reduce_window_1d(x) -> Tensor { x.sum_pool([3], 1, 1) }
    r_mean_empty(x) -> Tensor { x.mean(0) }
    r_max_zero_other_axis(x) -> Tensor { x.max(1) }
    r_geometric_mean(x) -> Tensor { x.log().mean(-1).exp() }
    r_where_arg(x, #[nodiff] m) -> [Tensor; 3] {
        let count = m.cast(x.dtype()).sum(1);
        let kept = m.select(x, 0.0);
        [kept.sum(..), kept.sum(1) / count, m.select(x, -9.0).max(1)]
    }
    r_associative_scan_affine(a, b) -> Tensor { b.recurrence(a, 0) }
    r_linear_recurrence_2d(a, b) -> Tensor { b.recurrence(a, 1) }
}
