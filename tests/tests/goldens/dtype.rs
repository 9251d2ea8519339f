//! Dtypes other than `f32`.

use gradloom::{DType, Tensor};

crate::goldens! {
    f64_matmul(a, b) { a.matmul(b) }
    f64_softmax(x) { x.softmax(-1) }
    f64_layer_norm(x) { x.normalize(-1, 1e-5) }
    f64_precision_probe(x) { x.sin() * (1e-9 * x).exp() + 0.1 }
    f64_conv2d(x, w) { x.conv_same(w, 1) }
    f64_scan_rnn(h, xs, w) {
        let mut h = h.clone();
        let xs: [Tensor; 6] = xs.unbind(0);
        for x in xs {
            h = (w.matmul(&h) + x).tanh();
        }
        h
    }
    i32_arithmetic(x, y) -> [Tensor; 6] {
        [x + y, x - y, x * y, x.abs(), -x, x.maximum(y)]
    }
    i64_large(x, y) -> (Tensor, Tensor, Tensor) { (x + y, x * y, x.sum(..)) }
    i32_reductions(x) -> [Tensor; 5] {
        [x.sum(0), x.prod(1), x.max(..), x.min(0), x.cumsum(1)]
    }
    mixed_f32_f64_inputs(x, y) { x.cast(DType::F64) * y }
    bool_mask_mean(x, #[nodiff] m) {
        let count = m.cast(x.dtype()).sum(..);
        m.select(x, x.zeros_like()).sum(..) / count.maximum(1.0)
    }
    negative_zero(x) -> [Tensor; 5] { [x + 0.0, -x, x * 0.0, x.abs(), x.abs().sqrt()] }
    i32_bitwise(x, y) -> [Tensor; 6] { [x & y, x | y, x ^ y, !x, x << 2, x >> 1] }
    bool_logic(a, b) -> [Tensor; 5] {
        [a & b, a | b, a ^ b, !a, a.cast(DType::I32) + b.cast(DType::I32)]
    }
}
