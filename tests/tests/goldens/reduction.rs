//! Reductions, and what runs along an axis.

use gradloom::Tensor;

crate::goldens! {
    sum_all(x) { x.sum(..) }
    sum_axis_neg_keepdims(x) { x.sum_keepdims(-1) }
    sum_multi_axes(x) { (x * x).sum([0, 2]) }
    sum_zero_size(x) { x.sum(0) }
    mean_all(x) { x.mean(..) }
    mean_axis_keepdims(x) { x - x.mean_keepdims(1) }
    max_all_ties(x) { x.max(..) }
    max_neg_inf(x) { x.max(1) }
    prod_axis(x) { x.prod(0) }
    prod_one_zero(x) { x.prod(..) }
    prod_empty(x) { x.prod(0) }
    cumsum_zero_size(x) { x.cumsum(1) }
    logsumexp_axis(x) { x.logsumexp(1) }
    logsumexp_large(x) { x.logsumexp(1) }
    any_all(x) -> (Tensor, Tensor, Tensor) { (x.any(1), x.all(0), x.all(..)) }
    var_population(x) { x.var(1, 0) }
    var_unbiased(x) { x.var(0, 1) }
    std_eps(x) { (x.var(-1, 0) + 1e-5).sqrt() }
    var_large_mean(x) { x.var(.., 0) }
    sort(x) { x.sort(-1) }
    median_odd(x) { x.sort(0).slice(2, 3, 1).squeeze(0) }
    trace_sum_diag(x) { x.diagonal(0).sum(..) }
}
