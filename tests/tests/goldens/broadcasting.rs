//! Operands of different shapes.

use gradloom::Tensor;

crate::goldens! {
    bc_scalar_matrix(a, x) { a * x + a }
    bc_trailing(x, y) { x - y * y }
    bc_len1_vector(x, y) { x * y }
    bc_zero_rows(x, y) { x + y }
    bc_zero_times_scalar_sum(x, a) { (x * a).sum(..) + a }
    bc_broadcast_to(x) {
        x.broadcast_to([2, 3, 4]) * Tensor::arange(24, x.dtype()).reshape([2, 3, 4])
    }
    bc_pow(x, p) { x.pow(p) }
    bc_max_ties(x, y) { x.maximum(y) }
    bc_rank0_rank0(x, y) { x * y + x / y }
    bc_rank5(x, y) { x * y }
    bc_bias_reuse(x, b) { (x + b) * b.tanh() }
}
