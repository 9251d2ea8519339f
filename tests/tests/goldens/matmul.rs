//! Matrix products.

use gradloom::Tensor;

crate::goldens! {
    mm(a, b) { a.matmul(b) }
    vm(x, a) { x.matmul(a) }
    bmm(a, b) { a.matmul(b) }
    bmm_broadcast(a, b) { a.matmul(b) }
    mm_left_shared(a, b) { a.matmul(b) }
    mv_batched(a, x) { a.matmul(x) }
    mm_zero_inner(a, b) { a.matmul(b) }
    mm_zero_rows(a, b) { a.matmul(b) }
    mm_transposed_operands(a, b) { a.t().matmul(b.t()) }
    bilinear_form(x, a, y) { x.matmul(a).matmul(y) }
    matrix_power3(a) { a.matmul(a).matmul(a) }
    mm_strided_operands(a, b) { a.slice(0, 5, 2).flip(1).matmul(b.slice(1, 4, 2).t()) }
    einsum_diag(a) { Tensor::einsum("ii->i", &[a]) }
    dot_general_batch(a, b) { a.dot_general(b, (&[2], &[1]), (&[0], &[2])) }
}
