//! More convolutions and pools.

use gradloom::Tensor;

crate::goldens! {
    c_1d(x, w) -> Tensor { x.conv_valid(w, 1) }
    c_1d_causal(x, w) -> Tensor { x.conv(w, 1, [2, 0], 1, 1) }
    c_1d_causal_dilated(x, w) -> Tensor { x.conv(w, 1, [4, 0], 2, 1) }
    c_3d(x, w) -> Tensor { x.conv_valid(w, 1) }
    c_3d_same_stride(x, w) -> Tensor { x.conv_same(w, [2, 1, 2]) }
    c_same_stride2(x, w) -> Tensor { x.conv_same(w, 2) }
    c_same_even_kernel(x, w) -> Tensor { x.conv_same(w, 1) }
    c_groups2(x, w) -> Tensor { x.conv(w, 1, 1, 1, 2) }
    c_groups_stride_dilation(x, w) -> Tensor { x.conv(w, [2, 1], [2, 1, 0, 3], [2, 1], 2) }
    c_depthwise_multiplier(x, w) -> Tensor { x.conv(w, 1, .., 1, 2) }
    c_negative_padding(x, w) -> Tensor { x.conv(w, 1, [-1, 0, 0, -1], 1, 1) }
    c_transposed_lhs_dilation(x, w) -> Tensor { x.pad(0, 0, [0, 0, 1, 1], 0.0).conv(w, 1, 2, 1, 1) }
    c_transposed_out_pad(x, w) -> Tensor { x.pad(0, 0, [0, 0, 1, 1], 0.0).conv(w, 1, [1, 2, 1, 2], 1, 1) }
    c_conv_transpose_jax(x, w) -> Tensor { x.conv_transpose(w.swap_axes(0, 1).flip([2, 3]), 2, 0, 1, 1) }
    c_conv_transpose_same(x, w) -> Tensor { x.conv_transpose(w.swap_axes(0, 1).flip(2), 2, .., 1, 1) }
    c_conv_transpose_kernel(x, w) -> Tensor { x.conv_transpose(w, 2, 0, 1, 1) }
    c_nhwc(x, w) -> Tensor {
        x.permute([0, 3, 1, 2]).conv_same(w.permute([3, 2, 0, 1]), 1).permute([0, 2, 3, 1])
    }
    c_zero_batch(x, w) -> Tensor { x.conv_valid(w, 1) }
    c_f64_dilated(x, w) -> Tensor { x.conv(w, 1, 2, 2, 1) }
    c_bias_relu(x, w, b) -> Tensor { (x.conv_same(w, 1) + b.unsqueeze([1, 2])).relu() }
    c_kernel_larger_zero_out(x, w) -> Tensor { x.conv(w, 1, 1, 1, 1) }
    c_int_conv(x, w) -> Tensor { x.conv(w, 1, 1, 1, 1) }
    p_max_overlap(x) -> Tensor { x.max_pool([3, 3], [1, 2], 0) }
    p_max_same(x) -> Tensor { x.max_pool([3, 3], 2, ..) }
    p_max_1d_pad(x) -> Tensor { x.max_pool([3], 2, 1) }
    p_max_3d(x) -> Tensor { x.max_pool([2, 2, 2], 2, 0) }
    p_min_pool(x) -> Tensor { -(-x).max_pool([2, 2], 2, 0) }
    p_max_dilated(x) -> Tensor { x.i((.., .., ..-2)).maximum(x.i((.., .., 2..))) }
    p_max_ties_overlap(x) -> Tensor { x.max_pool([2, 2], 1, 0) }
    p_avg_same_count_valid(x) -> Tensor { x.sum_pool([2, 2], 2, ..) / x.ones_like().sum_pool([2, 2], 2, ..) }
    p_avg_pad_include(x) -> Tensor { x.sum_pool([3, 3], 2, 1) / 9.0 }
    p_lp_pool(x) -> Tensor { x.square().sum_pool([2, 2], 2, 0).sqrt() }
    p_global_max(x) -> Tensor { x.max([2, 3]) }
    p_upsample_bilinear(x) -> Tensor {
        // Each length doubles: weights 3/4 and 1/4, and the edge repeated.
        let up = |x: &Tensor| {
            let n = x.dim(-1);
            let p = x.pad_edge([0, 0, 0, 1], [0, 0, 0, 1]);
            let low = p.i((.., .., .., ..-2)) * 0.25 + x * 0.75;
            let high = p.i((.., .., .., 2..)) * 0.25 + x * 0.75;
            Tensor::stack(&[low, high], -1).reshape([x.dim(0), x.dim(1), x.dim(2), 2 * n])
        };
        up(&up(x).swap_axes(2, 3)).swap_axes(2, 3)
    }
    p_pixel_shuffle(x) -> Tensor {
        x.reshape([1, 2, 2, 1, 2, 3]).permute([0, 3, 4, 1, 5, 2]).reshape([1, 1, 4, 6]).square()
    }
    p_im2col_matmul(x, w) -> Tensor { x.conv_valid(w.reshape([3, 2, 2, 2]), 1) }
    p_cumsum_pool_grad_norm(x) -> Tensor { x.sum_pool([3], 1, [2, 0]) / 3.0 }
}
