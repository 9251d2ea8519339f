//! More rearrangements.
#![allow(clippy::reversed_empty_ranges)] // A range with a negative step runs down.

use gradloom::{NewAxis, RangeStep, Rest, Tensor};

crate::goldens! {
    m_moveaxis(x) -> Tensor { x.moveaxis(0, -1) * 2.0 }
    m_swapaxes_neg(x) -> Tensor { x.swap_axes(-1, -3).square() }
    m_tile(x) -> Tensor { x.tile([2, 1, 3]).square() }
    m_repeat_axis(x) -> Tensor { x.repeat(3, 0) * Tensor::arange(6, x.dtype()).unsqueeze(1) }
    m_repeat_counts(x) -> Tensor { x.take(Tensor::from([0i64, 2, 2]), 0).square() }
    m_stack_last(x, y) -> Tensor { Tensor::stack(&[x, y, &(x * y)], -1) }
    m_concat_neg(x, y) -> Tensor { Tensor::concat(&[x, y], -1) }
    m_concat_ints(x, y) -> Tensor { Tensor::concat(&[x, y], 1) }
    m_split_sizes(x) -> Vec<Tensor> {
        x.split_sizes([1, 3, 2], -1).iter().map(|p| p.square()).collect()
    }
    m_unstack(x) -> [Tensor; 3] {
        let [a, b, c] = x.unbind(1);
        [a.sin(), b.sin(), c.sin()]
    }
    m_pad_reflect(x) -> Tensor { x.pad_reflect([1, 2], [1, 0]).square() }
    m_pad_edge_wrap(x) -> (Tensor, Tensor) {
        (x.pad_edge([2], [2]) * Tensor::arange(8, x.dtype()), x.pad_wrap([1], [3]))
    }
    m_pad_symmetric(x) -> Tensor { Tensor::concat(&[&x.i(..2).flip(0), x, &x.i(-1..)], 0).square() }
    m_pad_int(x) -> Tensor { x.pad([0, 2], [1, 0], 0, -7) }
    m_pad_tensor_value(x, v) -> Tensor {
        let kept = x.pad(1, 0, 1, 0.0);
        let inside = x.ones_like().pad(1, 0, 1, 0.0);
        inside.gt(0.0).select(kept, v).square()
    }
    m_pad_negative_interior(x) -> Tensor { x.pad([-1, 1], [2, -1], [2, 0], 1.5) }
    m_flip_both(x) -> Tensor { x.flip(..) * Tensor::arange(6, x.dtype()).reshape([2, 3]) }
    m_rot90(x) -> Tensor { x.t().flip(0).square() }
    m_roll_neg_two_axes(x) -> Tensor { x.roll(-1, 0).roll(2, 1) * x }
    m_roll_flat(x) -> Tensor { x.reshape([-1]).roll(2, 0).reshape([2, 3]) * x }
    m_tril_batched_neg(x) -> Tensor { x.tril(-1) - x.triu(2) }
    m_diag_offset(x) -> Tensor { x.diag(-1).square() + 1.0 }
    m_diagonal_offset_axes(x) -> Tensor { x.permute([1, 0, 2]).diagonal(1).square() }
    m_slice_reverse_step(x) -> Tensor { x.i(((..).by(-2), (3..0).by(-1))) * 2.0 }
    m_slice_ellipsis_newaxis(x) -> Tensor { x.i((Rest, NewAxis, 1..)) * x.i((0, Rest, ..1)).i((Rest, NewAxis)) }
    m_slice_empty(x) -> Tensor { Tensor::concat(&[x.i(2..2) * 3.0, x.i(1..)], 0) }
    m_reshape_rank0(x) -> Tensor { x.reshape(()).pow(3) }
    m_reshape_zero(x) -> Tensor { x.reshape([0, 4]) * 2.0 }
    m_ravel_transpose(x) -> Tensor { x.t().reshape(-1) * Tensor::arange(6, x.dtype()) }
    m_transpose_rank4(x) -> Tensor { x.permute([3, 1, 0, 2]).reshape([4, -1]).square() }
    m_squeeze_all(x) -> Tensor { x.squeeze([0, 2]).square() }
    m_meshgrid(x, y) -> Tensor {
        let grid = Tensor::meshgrid(&[x, y]);
        &grid[0] * &grid[1]
    }
    m_kron(a, b) -> Tensor {
        (a.unsqueeze([1, 3]) * b.unsqueeze([0, 2])).reshape([4, 6])
    }
    m_space_to_depth(x) -> Tensor { x.reshape([1, 2, 2, 2, 2]).permute([0, 2, 4, 1, 3]).reshape([4, 2, 2]).square() }
    m_windows(x) -> Tensor { Tensor::stack(&[x.i(0..3), x.i(1..4), x.i(2..5), x.i(3..6)], 0).square() }
    m_block(a, b) -> Tensor {
        Tensor::concat(&[Tensor::concat(&[a, b], 1), Tensor::concat(&[b, a], 1)], 0)
    }
    m_vander(x) -> Tensor { Tensor::stack(&[x.ones_like(), x.clone(), x.square(), x.pow(3)], 1) }
    m_toeplitz(c) -> Tensor {
        let n = Tensor::arange(4, gradloom::DType::I64);
        c.take((n.unsqueeze(1) - &n).abs(), 0).matmul(c)
    }
    m_fill_diagonal(x) -> Tensor {
        let eye = Tensor::eye(3, gradloom::DType::Bool);
        eye.select(9.0, x).square()
    }
    m_bool_int_flip(b, i) -> [Tensor; 4] { [b.flip(0), i.roll(1, 1), i.t(), i.tile([1, 2])] }
}
