//! More parts of neural networks.

use gradloom::{DType, Tensor};

crate::goldens! {
    n_softmax_rank0_last(x) -> Tensor { (x - x.logsumexp_keepdims([0, 1])).exp() }
    n_softmax_neg_inf(x) -> Tensor { x.softmax(-1) }
    n_softmax_where(x, #[nodiff] m) -> Tensor { x.softmax_where(m, -1) }
    n_softmax_temperature(x, t) -> Tensor { (x / t).softmax(0) }
    n_log_softmax_axis1_rank3(x) -> Tensor { x.log_softmax(1) }
    n_layer_norm_two_axes(x, g, b) -> Tensor { x.normalize([-2, -1], 1e-5) * g + b }
    n_group_norm(x, g, b) -> Tensor { x.group_norm(2, g, b, 1e-5) }
    n_instance_norm(x, g, b) -> Tensor { x.instance_norm(g, b, 1e-3) }
    n_batch_norm_eval(x, g, b, #[nodiff] m, #[nodiff] v) -> Tensor { x.batch_norm_eval(g, b, m, v, 1e-5) }
    n_batch_norm_2d_running(x, g, b, rm) -> (Tensor, Tensor) {
        (x.batch_norm(g, b, 1e-5), 0.9 * rm + 0.1 * x.mean(0))
    }
    n_weight_norm(v, g, x) -> Tensor { x.matmul(g * v / v.norm(0)) }
    n_cross_entropy_soft(x, p) -> Tensor { x.soft_cross_entropy(p.softmax(-1)) }
    n_cross_entropy_weighted(x, #[nodiff] t, #[nodiff] w) -> Tensor { x.cross_entropy_with(t, w, 0.0, -1) }
    n_cross_entropy_ignore(x, #[nodiff] t) -> Tensor {
        x.cross_entropy_with(t, Tensor::ones([3], x.dtype()), 0.0, -1)
    }
    n_cross_entropy_seq(x, #[nodiff] t) -> Tensor { x.cross_entropy(t) }
    n_focal(x, #[nodiff] t) -> Tensor {
        let p = x.sigmoid();
        let q = t.gt(0.5).select(&p, 1.0 - &p);
        (-(1.0 - &q).square() * q.log()).mean(..)
    }
    n_bce_pos_weight(x, #[nodiff] t) -> Tensor {
        -(3.0 * t * x.log_sigmoid() + (1.0 - t) * (-x).log_sigmoid()).mean(..)
    }
    n_huber(x, t) -> Tensor { x.huber_loss(t, 1.0) }
    n_hinge(x, #[nodiff] t) -> Tensor { (1.0 - t * x).relu().mean(..) }
    n_kl_gauss(m, s) -> Tensor { 0.5 * (s.exp() + m.square() - 1.0 - s).sum(..) }
    n_kl_div(x, p) -> Tensor { x.log_softmax(-1).kl_div(p).sum(-1) }
    n_log_cosh(x, t) -> Tensor { ((x - t).logaddexp(t - x) - 2f64.ln()).mean(..) }
    n_cosine(x, y) -> Tensor { x.cosine_similarity(y, -1, 1e-8) }
    n_triplet(a, p, n) -> Tensor {
        ((a - p).square().sum(-1) - (a - n).square().sum(-1) + 1.0).maximum(0.0).mean(..)
    }
    n_contrastive(a, b) -> Tensor {
        let a = a / a.norm_keepdims(1);
        let b = b / b.norm_keepdims(1);
        let s = a.matmul(b.t()) / 0.5;
        -(s.log_softmax(1).diagonal(0) + s.log_softmax(0).diagonal(0)).mean(..) / 2.0
    }
    n_mha(x, wq, wk, wv, wo) -> Tensor {
        let heads = |w: &Tensor| x.matmul(w).reshape([4, 2, 2]).permute([1, 0, 2]);
        let (q, k, v) = (heads(wq), heads(wk), heads(wv));
        q.attention(&k, &v).permute([1, 0, 2]).reshape([4, 4]).matmul(wo)
    }
    n_attention_padding_mask(q, k, v, #[nodiff] m) -> Tensor { q.masked_attention(k, v, m) }
    n_attention_bias(q, k, v, b) -> Tensor { (q.matmul(k.t()) / 3f64.sqrt() + b).softmax(-1).matmul(v) }
    n_attention_gqa(q, k, v) -> Tensor { q.attention(k.repeat(2, 0), v.repeat(2, 0)) }
    n_attention_window(q, k, v) -> Tensor {
        let i = Tensor::arange(5, DType::I64);
        let d = i.unsqueeze(1) - i.unsqueeze(0);
        q.masked_attention(k, v, d.ge(0) & d.lt(2))
    }
    n_alibi(q, k, v) -> Tensor {
        let i = Tensor::arange(4, q.dtype());
        let s = q.matmul(k.t()) - 0.5 * (i.unsqueeze(1) - i.unsqueeze(0)).abs();
        s.softmax(-1).matmul(v)
    }
    n_glu_variants(x) -> [Tensor; 4] {
        let [a, b] = x.split(-1);
        [&a * b.sigmoid(), &a * b.silu(), &a * b.gelu_tanh(), x.glu(-1)]
    }
    n_maxout(x) -> Tensor { x.reshape([2, 3, 2]).max(-1) }
    n_prelu(x, a) -> Tensor { x.leaky_relu(a) }
    n_dropout_scaled(x, #[nodiff] u) -> Tensor { x * u.lt(0.75).cast(x.dtype()) / 0.75 }
    n_sinusoidal(x) -> Tensor {
        let rates = Tensor::full([2], 100.0, x.dtype()).pow(Tensor::arange(2, x.dtype()) / 2.0);
        let p = Tensor::arange(4, x.dtype()).unsqueeze(1) / rates;
        x + Tensor::concat(&[p.sin(), p.cos()], -1)
    }
    n_rope_half(x, th) -> Tensor { x.rotary_half(Tensor::arange(3, x.dtype()).unsqueeze(1) * th) }
    n_embedding_tied(e, #[nodiff] t) -> Tensor { e.i(t).matmul(e.t()).log_softmax(-1) }
    n_moe_top1(x, wg, we) -> Tensor {
        let g = x.matmul(wg).softmax(-1);
        let i = g.argmax(-1);
        let y = Tensor::einsum("bi,bio->bo", &[x, &we.i(&i)]);
        y * g.take_along_axis(i.unsqueeze(1), 1)
    }
    n_normalize_l2(x) -> Tensor { x / x.norm_keepdims(-1).maximum(1e-12) }
    n_ctc_free_ranking(s, #[nodiff] y) -> Tensor {
        let d = s.unsqueeze(1) - s.unsqueeze(0);
        let sign = (y.unsqueeze(1) - y.unsqueeze(0)).sign();
        (-d * sign).softplus().mean(..)
    }
    n_gumbel_softmax_given(l, #[nodiff] u) -> Tensor { ((l - (-u.log()).log()) / 0.7).softmax(-1) }
    n_standardize(x) -> Tensor { x.normalize(0, 1e-3) }
}
