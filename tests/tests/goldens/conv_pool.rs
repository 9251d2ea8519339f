//! Convolution and pooling.

crate::goldens! {
    conv2d_valid(x, w) { x.conv_valid(w, 1) }
    conv2d_same(x, w) { x.conv_same(w, 1) }
    conv2d_stride_leftover(x, w) { x.conv_valid(w, 2) }
    conv2d_dilated(x, w) { x.conv(w, 1, 0, 2, 1) }
    conv2d_depthwise(x, w) { x.conv(w, 1, [1, 0, 0, 1], 1, 3) }
    conv2d_1x1(x, w) { x.conv_valid(w, 1) }
    maxpool2x2(x) { x.max_pool([2, 2], 2, 0) }
    maxpool_ties(x) { x.max_pool([2, 2], 2, 0) }
    avgpool2x2(x) { x.avg_pool([2, 2], 2, 0) }
    global_avgpool_sq(x) { (x * x).mean([2, 3]) }
    upsample_nearest(x) { x.upsample([2, 2]).square() }
}
