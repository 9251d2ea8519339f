//! Parts of neural networks.

use gradloom::Tensor;

crate::goldens! {
    softmax(x) { x.softmax(-1) }
    softmax_axis0_large(x) { x.softmax(0) }
    softmax_masked(x, #[nodiff] m) { m.select(x, x.full_like(-1e9)).softmax(-1) }
    log_softmax(x) { x.log_softmax(-1) }
    log_softmax_extreme(x) { x.log_softmax(-1) }
    layer_norm(x, g, b) { x.layer_norm(g, b, 1e-5) }
    rms_norm(x, g) { x.rms_norm(g, 1e-6) }
    batch_norm_train(x, g, b) {
        x.normalize([0, 2, 3], 1e-5) * g.unsqueeze([1, 2]) + b.unsqueeze([1, 2])
    }
    cross_entropy_int(x, #[nodiff] t) { x.cross_entropy(t) }
    cross_entropy_smoothed(x, #[nodiff] t) {
        let p = t.one_hot(3, x.dtype()) * 0.9 + 0.1 / 3.0;
        -(p * x.log_softmax(-1)).sum(-1)
    }
    cross_entropy_extreme(x, #[nodiff] t) { x.cross_entropy(t) }
    bce_with_logits(x, #[nodiff] t) {
        (x.relu() - x * t + (-x.abs()).exp().log1p()).mean(..)
    }
    sdpa_causal(q, k, v) { q.causal_attention(k, v) }
    dropout_given_mask(x, #[nodiff] m) { m.select(x / 0.75, x.zeros_like()) }
    l2_regularised_loss(w, #[nodiff] x, #[nodiff] t) {
        let error = x.matmul(w).tanh() - t;
        error.square().mean(..) + 0.01 * (w * w).sum(..)
    }
    rotary(x) {
        let positions = Tensor::arange(3, x.dtype()).unsqueeze(1);
        let rates = Tensor::full([], 10.0, x.dtype()).pow(-Tensor::arange(2, x.dtype()));
        let a = positions * rates;
        let (u, v) = (x.slice([0, 0], [3, 4], [1, 2]), x.slice([0, 1], [3, 4], [1, 2]));
        let (cos, sin) = (a.cos(), a.sin());
        Tensor::stack(&[&u * &cos - &v * &sin, &u * &sin + &v * &cos], -1).reshape([3, 4])
    }
}
