//! More models.

use gradloom::{DType, NewAxis, Scan, Tensor, fori_loop, grad, hessian, scan, vmap};

crate::goldens! {
    lstm_cell_scan(xs, h, c, w, u, b) -> (Tensor, Tensor, Tensor) {
        let step = |(h, c): &(Tensor, Tensor), x: &Tensor| {
            let [i, g, f, o] = (x.matmul(w) + h.matmul(u) + b).split(0);
            let c = (f + 1.0).sigmoid() * c + i.sigmoid() * g.tanh();
            let h = o.sigmoid() * c.tanh();
            ((h.clone(), c), h)
        };
        let ((h, c), hs) = scan(step, &(h.clone(), c.clone()), xs);
        (h, c, hs)
    }
    transformer_block(x, g1, g2, wqkv, wo, w1, b1, w2) -> Tensor {
        let [q, k, v] = (x.normalize(-1, 1e-5) * g1).matmul(wqkv).split(-1);
        let q = q.reshape([3, 2, 2]).permute([1, 0, 2]);
        let k = k.reshape([3, 2, 2]).permute([1, 0, 2]);
        let v = v.reshape([3, 2, 2]).permute([1, 0, 2]);
        let a = q.causal_attention(&k, &v).permute([1, 0, 2]).reshape([3, 4]);
        let x = x + a.matmul(wo);
        let h = (x.normalize(-1, 1e-5) * g2).matmul(w1) + b1;
        &x + h.gelu_tanh().matmul(w2)
    }
    gp_nll(x, y, ls, s) -> Tensor {
        let d = x.i((.., NewAxis)) - x.i((NewAxis, ..));
        let k = (-0.5 * (d / ls).square()).exp() + s.square() * Tensor::eye(4, x.dtype());
        let c = k.cholesky();
        let a = c.solve_lower(y);
        0.5 * a.matmul(&a) + c.diagonal(0).log().sum(..) + 2.0 * (2.0 * std::f64::consts::PI).ln()
    }
    linear_regression_normal_eq(x, y) -> Tensor {
        (x.t().matmul(x) + 0.1 * Tensor::eye(2, x.dtype())).solve(x.t().matmul(y))
    }
    hmm_forward(pi, a, b, #[nodiff] obs) -> Tensor {
        let (la, lb) = (a.log_softmax(-1), b.log_softmax(-1));
        let step = |al: &Tensor, o: &Tensor| {
            ((al.unsqueeze(1) + &la).logsumexp(0) + lb.i((.., o)), ())
        };
        let first = pi.log_softmax(-1) + lb.i((.., &obs.i(0)));
        scan(step, &first, &obs.i(1..)).0.logsumexp(..)
    }
    gcn_layer(x, w, #[nodiff] src, #[nodiff] dst) -> Tensor {
        let m = x.matmul(w).i(src);
        let degree = Tensor::ones([6], x.dtype()).segment_sum(dst, 4);
        (m.segment_sum(dst, 4) / degree.maximum(1.0).unsqueeze(1)).tanh()
    }
    gat_layer(x, w, a, #[nodiff] src, #[nodiff] dst) -> Tensor {
        let h = x.matmul(w);
        let e = (h.i(src).matmul(a.i(0)) + h.i(dst).matmul(a.i(1))).leaky_relu(0.2).exp();
        let z = e.segment_sum(dst, 3);
        ((e / z.i(dst)).unsqueeze(1) * h.i(src)).segment_sum(dst, 3)
    }
    skipgram_neg(u, v, #[nodiff] c, #[nodiff] p, #[nodiff] n) -> Tensor {
        let pos = (u.i(c) * v.i(p)).sum(-1);
        let neg = Tensor::einsum("bd,bkd->bk", &[u.i(c), v.i(n)]);
        -(pos.log_sigmoid() + (-neg).log_sigmoid().sum(-1)).mean(..)
    }
    real_nvp(x, w, b) -> Tensor {
        let [x1, x2] = x.split(1);
        let [s, t] = (x1.matmul(w) + b).tanh().split(1);
        let y = x2 * s.exp() + t;
        let z = Tensor::concat(&[x1, y], 1);
        -0.5 * (&z * &z).sum(1) + s.sum(1)
    }
    pendulum_verlet(q, p) -> (Tensor, Tensor) {
        let (mut q, mut p) = (q.clone(), p.clone());
        for _ in 0..10 {
            p -= 0.05 * q.sin();
            q += 0.1 * &p;
            p -= 0.05 * q.sin();
        }
        (q, p)
    }
    heat_equation_1d(u, k) -> Tensor {
        let step = |_: &Tensor, u: &Tensor| {
            let p = u.pad_edge([1], [1]);
            u + k * (p.i(2..) - 2.0 * u + p.i(..-2))
        };
        fori_loop(0..5, step, u)
    }
    wave_equation_roll(u, v) -> (Tensor, Tensor) {
        let step = |(u, v): &(Tensor, Tensor), (): &()| {
            let v = v + 0.1 * (u.roll(1, 0) - 2.0 * u + u.roll(-1, 0));
            let u = u + 0.1 * &v;
            let e = (&u * &u).sum(..);
            ((u, v), e)
        };
        let ((u, _), e) = Scan::new(step).turns(4).call(&(u.clone(), v.clone()), &());
        (u, e)
    }
    sinkhorn(c) -> Tensor {
        let k = (-c / 0.5).exp();
        let (mut u, mut v) = (Tensor::ones([3], c.dtype()), Tensor::ones([4], c.dtype()));
        for _ in 0..6 {
            u = (1.0 / 3.0) / k.matmul(&v);
            v = 0.25 / k.t().matmul(&u);
        }
        (u.unsqueeze(1) * k * v.unsqueeze(0) * c).sum(..)
    }
    soft_kmeans(x, c) -> Tensor {
        let step = |_: &Tensor, c: &Tensor| {
            let d = (x.unsqueeze(1) - c.unsqueeze(0)).square().sum(-1);
            let r = (-d).softmax(1);
            r.t().matmul(x) / r.sum(0).unsqueeze(1)
        };
        fori_loop(0..3, step, c)
    }
    dqn_loss(w, #[nodiff] wt, #[nodiff] s, #[nodiff] a, #[nodiff] r, #[nodiff] s2, #[nodiff] d) -> Tensor {
        let q = s.matmul(w).take_along_axis(a.unsqueeze(1), 1).squeeze(1);
        let y = (r + 0.9 * (1.0 - d) * s2.matmul(wt).max(-1)).stop_gradient();
        q.huber_loss(y, 1.0).mean(..)
    }
    reinforce_baseline_gae(lg, #[nodiff] a, #[nodiff] r, v) -> Tensor {
        let next = Tensor::concat(&[v.i(1..), Tensor::zeros([1], v.dtype())], 0);
        let step = |c: &Tensor, (r, v, n): &(Tensor, Tensor, Tensor)| {
            let c = r + 0.9 * n - v + 0.9 * 0.95 * c;
            (c.clone(), c)
        };
        let first = Tensor::zeros([], v.dtype());
        let (_, adv) = Scan::new(step).reverse().call(&first, &(r.clone(), v.clone(), next));
        let lp = -lg.cross_entropy_rows(a);
        0.5 * adv.square().mean(..) - (lp * adv.stop_gradient()).mean(..)
    }
    autoencoder_conv_transpose(x, k, d) -> Tensor {
        let h = x.conv_valid(k, 2).relu();
        let y = h.conv_transpose(d.swap_axes(0, 1).flip([2, 3]), 2, 0, 1, 1);
        y.sigmoid().mse(x)
    }
    cnn_batchnorm_pool(x, k, g, b, w, #[nodiff] t) -> Tensor {
        let h = x.conv_same(k, 1).batch_norm(g, b, 1e-5).relu().avg_pool([2, 2], 2, 0);
        h.reshape([2, -1]).matmul(w).cross_entropy(t)
    }
    selective_ssm(u, dt, a, b, c) -> Tensor {
        let dt = dt.softplus();
        let da = (-dt.unsqueeze(1) * a.exp().unsqueeze(0)).exp();
        let db = b * (dt * u).unsqueeze(1);
        (db.recurrence(da, 0) * c).sum(-1)
    }
    linear_attention(q, k, v) -> Tensor {
        let (q, k) = (q.elu(1.0) + 1.0, k.elu(1.0) + 1.0);
        let s = (k.unsqueeze(2) * v.unsqueeze(1)).cumsum(0);
        let z = k.cumsum(0);
        Tensor::einsum("td,tde->te", &[&q, &s]) / (&q * z).sum_keepdims(-1)
    }
    moe_topk_dispatch(x, wg, we) -> Tensor {
        let g = x.matmul(wg);
        let i = g.top_k_indices(2, -1);
        let p = g.take_along_axis(&i, -1).softmax(-1);
        let y = Tensor::einsum("bd,bkde->bke", &[x, &we.i(&i)]);
        (p.unsqueeze(-1) * y.tanh()).sum(1)
    }
    ising_mean_field(j, h) -> Tensor {
        let step = |_: &Tensor, m: &Tensor| ((j + j.t()).matmul(m) + h).tanh();
        let m = fori_loop(0..6, step, &h.zeros_like());
        m.sum(..) + m.matmul(j).matmul(&m)
    }
    poisson_glm(w, x, #[nodiff] y) -> Tensor {
        let eta = x.matmul(w);
        (eta.exp() - y * &eta + (y + 1.0).lgamma()).mean(..)
    }
    student_t_nll(x, m, s, n) -> Tensor {
        let half = (n + 1.0) / 2.0;
        let z = (x - m) / s;
        let c = half.lgamma() - (n / 2.0).lgamma() - 0.5 * (n * std::f64::consts::PI).log() - s.log();
        -(c - half * (z.square() / n).log1p()).sum(..)
    }
    dirichlet_entropy(a) -> Tensor {
        let total = a.sum(..);
        a.lgamma().sum(..) - total.lgamma() + (&total - 3.0) * total.digamma()
            - ((a - 1.0) * a.digamma()).sum(..)
    }
    quaternion_rotate(q, v) -> Tensor {
        let q = q / q.norm(..);
        let (w, u) = (q.i(0), q.i(1..));
        let t = 2.0 * u.cross(v, -1);
        v + w * &t + u.cross(&t, -1)
    }
    viterbi_scores(e, t) -> (Tensor, Tensor) {
        let step = |s: &Tensor, e: &Tensor| {
            let m = s.unsqueeze(1) + t;
            (m.max(0) + e, m.argmax(0))
        };
        scan(step, &e.i(0), &e.i(1..))
    }
    bicubic_kernel_interp(y, x) -> Tensor {
        let i = x.floor();
        let t = x - &i;
        let i = i.cast(DType::I64);
        let a = y.i((&i - 1).clamp(0, 4));
        let b = y.i(i.clamp(0, 4));
        let c = y.i((&i + 1).clamp(0, 4));
        let d = y.i((&i + 2).clamp(0, 4));
        let cubic = 3.0 * (&b - &c) + &d - &a;
        let square = 2.0 * &a - 5.0 * &b + 4.0 * &c - &d;
        &b + 0.5 * &t * (&c - &a + &t * (square + &t * cubic))
    }
    @plain {
        logistic_regression_newton(w, x, t) {
            let loss = |w: &Tensor| {
                let eta = x.matmul(w);
                (eta.softplus() - t * &eta).mean(..) + 0.5 * (w * w).sum(..)
            };
            w - hessian(loss)(w).solve(grad(loss)(w))
        }
        pinn_heat_residual(w1, b1, w2, p) {
            let u = |p: &Tensor| (p.matmul(w1) + b1).tanh().matmul(w2);
            let residual = |p: &Tensor| grad(u)(p).i(1) - 0.3 * hessian(u)(p).i((0, 0));
            vmap(residual)(p).square().mean(..)
        }
        adamw_two_steps(w, x, t) {
            let loss = |w: &Tensor| (x.matmul(w) - t).square().mean(..);
            let (mut w, mut m, mut v) = (w.clone(), w.zeros_like(), w.zeros_like());
            for k in 1..3 {
                let g = grad(loss)(&w);
                m = 0.9 * m + 0.1 * &g;
                v = 0.999 * v + 0.001 * g.square();
                let (mh, vh) = (&m / (1.0 - 0.9f64.powi(k)), &v / (1.0 - 0.999f64.powi(k)));
                w = w * (1.0 - 0.01 * 0.1) - 0.1 * mh / (vh.sqrt() + 1e-8);
            }
            w
        }
    }
}
