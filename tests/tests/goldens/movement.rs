//! Tensors rearranged, cut and put together.

use gradloom::Tensor;

crate::goldens! {
    transpose_2d(x) { x.t() * Tensor::arange(12, x.dtype()).reshape([4, 3]) }
    reshape(x) { x.reshape([2, 6]) * Tensor::arange(6, x.dtype()) }
    squeeze_expand(x) { x.squeeze(1).unsqueeze([0, 2]).pow(3.0) }
    concat_axis0(x, y) { Tensor::concat(&[x, y, x], 0).square() }
    split3(x) -> (Tensor, Tensor, Tensor) {
        let [a, b, c] = x.split(1);
        (a * 1.0, b * 2.0, c * 3.0)
    }
    split_unused_piece(x) {
        let [_, y, _] = x.split(0);
        y.square()
    }
    transpose_roundtrip(x) { x.permute([1, 2, 0]).permute([2, 0, 1]) - x }
    slice_basic(x) { x.slice([1, 0], [3, 2], [1, 1]).square() }
    slice_negative(x) { x.slice([-2, 0], [4, -1], [1, 1]) + x.slice([0, 1], [2, 3], [1, 1]) }
    slice_strided(x) { x.slice(0, 4, 2).flip(1) * 3.0 }
    pad_constant(x) { x.pad([1, 0], [0, 2], 0, 0.5).square() }
    pad_interior_negative(x) { x.pad([-1, 0], [1, 0], [0, 1], 0.0) }
    flip(x) { x.flip(1) * Tensor::arange(4, x.dtype()) }
    roll(x) { x.roll(2, 1) * x }
    tril_triu(x) { x.tril(0).square() + x.triu(1) * 3.0 }
    diag_embed(x) { x.diag(0).matmul(x.diag(0)) }
}
