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
}
