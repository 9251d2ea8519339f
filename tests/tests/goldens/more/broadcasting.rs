//! More shapes that broadcast.

use gradloom::{NewAxis, Tensor};

crate::goldens! {
    bc_outer_sum(x, y) -> Tensor { x.i((.., NewAxis)) * y.i((NewAxis, ..)) + x.i((.., NewAxis)) }
    bc_three_way(a, b, c) -> Tensor { a * b + c }
    bc_where_rank3(#[nodiff] c, x) -> Tensor { c.unsqueeze(1).select(x, -x) }
    bc_broadcast_in_dim(x) -> Tensor { x.unsqueeze(1).broadcast_to([2, 3, 4]) }
    bc_zero_inner(x, y) -> Tensor { x * y }
    bc_len1_sum_keepdims(x) -> Tensor { x / x.sum_keepdims([0, 2]) }
    bc_atan2(x, y) -> Tensor { x.atan2(y) }
    bc_pow_scalar_tensor(x, p) -> Tensor { x.pow(p) }
    bc_min_ties_row(x, y) -> Tensor { x.minimum(y) }
    bc_arrays_list(x, y) -> Tensor { Tensor::stack(&[x.broadcast_to([3, 2]), y.broadcast_to([3, 2])], 0) }
    bc_rank0_tensor_compare(a, x) -> Tensor { x.gt(a).select(x, a).sum(..) }
    bc_mean_subtract_f64(x, y) -> Tensor { (x - x.mean(0)) * (y - y.mean_keepdims(1)) }
}
