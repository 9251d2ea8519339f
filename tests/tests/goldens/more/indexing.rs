//! More elements at indices.

use gradloom::{RangeStep, Tensor};

crate::goldens! {
    i_take_axis1(x, #[nodiff] i) -> Tensor { x.take(i, 1) }
    i_take_axis_neg_dup(x, #[nodiff] i) -> Tensor { x.take(i, -1).square() }
    i_negative_index(x, #[nodiff] i) -> Tensor { x.i(i) * 2.0 }
    i_take_clip(x, #[nodiff] i) -> Tensor { x.take(i.clamp(0, 3), 0) }
    i_take_wrap(x, #[nodiff] i) -> Tensor { x.take(i.mod_floor(4), 0) }
    i_take_fill(x, #[nodiff] i) -> Tensor {
        let inside = i.ge(0) & i.lt(4);
        inside.unsqueeze(1).select(x.take(i.clamp(0, 3), 0), 0.0)
    }
    i_take_scalar_index(x, #[nodiff] i) -> Tensor { x.i(i).square() }
    i_pairs(x, #[nodiff] i, #[nodiff] j) -> Tensor { x.i((i, j)) }
    i_pairs_broadcast(x, #[nodiff] i, #[nodiff] j) -> Tensor { x.i((&i.unsqueeze(1), &j.unsqueeze(0))).square() }
    i_middle_tensor(x, #[nodiff] i) -> Tensor { x.i((.., i, 1..)) }
    i_separated_tensors(x, #[nodiff] i, #[nodiff] j) -> Tensor { x.i((i, .., j)) }
    i_scalar_and_tensor(x, #[nodiff] i) -> Tensor { x.i((1, i)) + x.i((i, 0)) }
    i_take_along_axis0(x, #[nodiff] i) -> Tensor { x.take_along_axis(i, 0) }
    i_take_along_neg(x, #[nodiff] i) -> Tensor { x.take_along_axis(i, -1).square() }
    i_argsort_gather(x) -> Tensor { x.take_along_axis(x.argsort(0), 0) * x }
    i_at_mul(x, u, #[nodiff] i) -> Tensor { x.set(i, x.i(i) * u) }
    i_at_max(x, u, #[nodiff] i) -> Tensor { x.scatter_max(i, u, 0) }
    i_at_min_dup(x, u, #[nodiff] i) -> Tensor { x.scatter_min(i, u, 0) }
    i_at_add_pairs(x, u, #[nodiff] i, #[nodiff] j) -> Tensor { x.add_at((i, j), u) }
    i_at_set_pairs(x, u, #[nodiff] i, #[nodiff] j) -> Tensor { x.set((i, j), u) * x }
    i_at_set_column(x, u) -> Tensor { x.set((.., 1), u).square() }
    i_at_slice_add_step(x, u) -> Tensor { x.add_at((..).by(2), u) * x }
    i_at_out_of_range_drop(x, u, #[nodiff] i) -> Tensor {
        let inside = i.ge(0) & i.lt(4);
        x.scatter_add(i.clamp(0, 3), inside.select(u, 0.0), 0)
    }
    i_at_negative(x, u, #[nodiff] i) -> Tensor { x.set(i, u) }
    i_scatter_axis1(x, u, #[nodiff] i) -> Tensor { x.scatter_add(i, u, 1) }
    i_dyn_slice_clamp(x, #[nodiff] s) -> Tensor { x.dynamic_slice(Tensor::stack(&[s, s], 0), [2, 2]).square() }
    i_dyn_update_clamp(x, u, #[nodiff] s) -> Tensor {
        x.dynamic_update_slice(Tensor::stack(&[s, &s.zeros_like()], 0), u)
    }
    i_dyn_index_axis1(x, #[nodiff] s) -> Tensor { x.i((.., s)).square() }
    i_segment_max(x, #[nodiff] s) -> Tensor {
        Tensor::full([3], f64::NEG_INFINITY, x.dtype()).scatter_max(s, x, 0)
    }
    i_segment_min_empty(x, #[nodiff] s) -> Tensor {
        Tensor::full([4], f64::INFINITY, x.dtype()).scatter_min(s, x, 0)
    }
    i_segment_prod(x, #[nodiff] s) -> Tensor {
        let own = s.one_hot(3, x.dtype()).gt(0.0);
        own.select(x.unsqueeze(1), 1.0).prod(0)
    }
    i_segment_mean(x, #[nodiff] s) -> Tensor {
        x.segment_sum(s, 3) / x.ones_like().segment_sum(s, 3).maximum(1.0)
    }
    i_segment_softmax(x, #[nodiff] s) -> Tensor {
        let m = Tensor::full([3], f64::NEG_INFINITY, x.dtype()).scatter_max(s, x, 0);
        let e = (x - m.stop_gradient().i(s)).exp();
        &e / e.segment_sum(s, 3).i(s)
    }
    i_top_k_axis0(x) -> Tensor { x.top_k(2, 0).square() }
    i_top_k_indices_ties(x) -> (Tensor, Tensor) {
        (x.top_k(3, -1), x.top_k_indices(3, -1).cast(gradloom::DType::I32))
    }
    i_bottom_k(x) -> Tensor { -(-x).top_k(2, 1) }
    i_one_hot_out_of_range(t) -> Tensor { t.one_hot(4, gradloom::DType::F64) }
    i_one_hot_axis0(#[nodiff] t, x) -> Tensor { (t.one_hot(4, x.dtype()).t() * x).sum(0) }
    i_interp(x, xp, fp) -> Tensor {
        let at = (xp.searchsorted(x) - 1).clamp(0, 2);
        let (x0, x1) = (xp.i(&at), xp.i(&(&at + 1)));
        let (y0, y1) = (fp.i(&at), fp.i(&(&at + 1)));
        y0.lerp(y1, ((x - &x0) / (x1 - &x0)).clamp(0.0, 1.0))
    }
    i_where_nonzero_size(x) -> Tensor {
        let n = Tensor::arange(6, gradloom::DType::I64);
        let keys = x.gt(0.0).select(&n, 6).sort(0).i(..4);
        x.i(keys.lt(6).select(&keys, 0)).square()
    }
    i_embedding_mean(e, #[nodiff] t) -> Tensor { e.i(t).mean(1) }
    i_gather_nd(x, #[nodiff] ij) -> Tensor {
        let [i, j] = ij.unbind(-1);
        x.i((&i, &j))
    }
    i_bool_mask_select(x, #[nodiff] m) -> Tensor {
        let count = m.cast(x.dtype()).sum(..).maximum(1.0);
        m.unsqueeze(1).select(x, 0.0).sum(0) / count
    }
    i_int_table(t, i) -> [Tensor; 3] { [t.i(i), t.take(i.flip(0), 0), t.add_at(i, 5)] }
    i_gather_f64(x, #[nodiff] i) -> Tensor { (x.i(i) * x.i(i.flip(0))).sum(..) }
    i_gather_rows_batched(x, #[nodiff] i) -> Tensor { x.take_along_axis(i.unsqueeze(-1), 1) }
    i_permute_columns(x, #[nodiff] p) -> Tensor { x.i((.., p)).matmul(x.i((p, ..))) }
    i_scatter_zero_rows(x, u, #[nodiff] i) -> Tensor { x.scatter_add(i, u, 0) }
    i_take_f64_rank0_out(x, #[nodiff] i) -> Tensor { x.i((i, -1)) * x.i((0, i)) }
}
