//! Small models and simulations.

use gradloom::{DType, Tensor, grad, traced};
use std::f64::consts::PI;

/// The right side of the Lorenz equations.
#[traced]
fn lorenz(u: &Tensor, p: &Tensor) -> Tensor {
    let [x, y, z] = u.unbind(0);
    let [a, b, c] = p.unbind(0);
    Tensor::stack(&[a * (&y - &x), &x * (b - &z) - &y, &x * &y - c * &z], 0)
}

crate::goldens! {
    mlp_loss(#[nodiff] x, #[nodiff] t, w1, b1, w2, b2) {
        let h = (x.matmul(w1) + b1).tanh();
        (h.matmul(w2) + b2).cross_entropy(t)
    }
    cnn_loss(x, #[nodiff] t, k1, k2, w, b) {
        let h = x.conv_same(k1, 1).relu().max_pool([2, 2], 2, 0);
        let h = h.conv_valid(k2, 1).relu();
        (h.reshape([2, -1]).matmul(w) + b).cross_entropy(t)
    }
    resnet_block(x, k1, k2, g) {
        let h = x.conv_same(k1, 1).normalize([0, 2, 3], 1e-5);
        let h = h.silu().conv_same(k2, 1).normalize([0, 2, 3], 1e-5);
        (x + g.unsqueeze([1, 2]) * h).silu()
    }
    gru_step(x, h, w, u) {
        let [ar, az, an] = x.matmul(w).split(-1);
        let [br, bz, bn] = h.matmul(u).split(-1);
        let (r, z) = ((ar + br).sigmoid(), (az + bz).sigmoid());
        let n = (an + r * bn).tanh();
        (1.0 - &z) * n + z * h
    }
    black_scholes_f32(s0, k, t, r, s) {
        let d1 = ((s0 / k).log() + (r + 0.5 * s * s) * t) / (s * t.sqrt());
        let d2 = &d1 - s * t.sqrt();
        let p1 = 0.5 * (1.0 + (d1 / 2f64.sqrt()).erf());
        let p2 = 0.5 * (1.0 + (d2 / 2f64.sqrt()).erf());
        s0 * p1 - k * (-r * t).exp() * p2
    }
    vae_elbo(x, e, we, wd) {
        let [mu, lv] = x.matmul(we).split(1);
        let z = &mu + (0.5 * &lv).exp() * e;
        let reconstruction = (x - z.matmul(wd)).square().sum(1);
        let kl = -0.5 * (1.0 + &lv - mu.square() - lv.exp()).sum(1);
        (reconstruction + kl).mean(..)
    }
    gmm_log_likelihood(x, al, mu, ls) {
        let d = (x.unsqueeze(1) - mu) * (-ls).exp();
        let lp = al - al.logsumexp(0) - ls.sum(1) - 0.5 * (&d * &d).sum(-1);
        lp.logsumexp(1).sum(..) - 5.0 * 2.0 * 0.5 * (2.0 * PI).ln()
    }
    policy_gradient_ppo(lg, #[nodiff] a, #[nodiff] old, #[nodiff] adv) {
        let lp = lg.log_softmax(-1).take_along_axis(a.unsqueeze(1), 1).squeeze(1);
        let ratio = (lp - old).exp();
        -(&ratio * adv).minimum(ratio.clamp(0.8, 1.2) * adv).mean(..)
    }
    neural_ode_rk4(y, w1, w2) {
        let h = 0.1;
        let mut y = y.clone();
        for _ in 0..10 {
            let k1 = y.matmul(w1).tanh().matmul(w2);
            let k2 = (&y + h / 2.0 * &k1).matmul(w1).tanh().matmul(w2);
            let k3 = (&y + h / 2.0 * &k2).matmul(w1).tanh().matmul(w2);
            let k4 = (&y + h * &k3).matmul(w1).tanh().matmul(w2);
            y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
        }
        y
    }
    gpt2_tiny(#[nodiff] tok, wte, wpe, ln, wqkv, wo, w1, w2) {
        let labels = tok.slice(1, 6, 1);
        let mut x = wte.take(tok.slice(0, 5, 1), 0) + wpe;
        for l in 0..2 {
            let scale = ln.slice(2 * l, 2 * l + 1, 1).squeeze(0);
            let h = x.normalize(-1, 1e-5) * scale;
            let qkv = h.matmul(wqkv.slice(l, l + 1, 1).squeeze(0));
            let [q, k, v] = qkv.reshape([5, 3, 2, 3]).permute([1, 2, 0, 3]).unbind(0);
            let heads = q.causal_attention(&k, &v).swap_axes(0, 1).reshape([5, 6]);
            x += heads.matmul(wo.slice(l, l + 1, 1).squeeze(0));
            let scale = ln.slice(2 * l + 1, 2 * l + 2, 1).squeeze(0);
            let h = (x.normalize(-1, 1e-5) * scale).matmul(w1.slice(l, l + 1, 1).squeeze(0));
            x += h.gelu_tanh().matmul(w2.slice(l, l + 1, 1).squeeze(0));
        }
        let h = x.normalize(-1, 1e-5) * ln.slice(4, 5, 1).squeeze(0);
        h.matmul(wte.t()).cross_entropy(labels)
    }
    rosenbrock_f64(x) {
        let (a, b) = (x.slice(0, -1, 1), x.slice(1, 6, 1));
        (100.0 * (b - a.square()).square() + (1.0 - a).square()).sum(..)
    }
    rosenbrock_minimum(x) {
        let (a, b) = (x.slice(0, -1, 1), x.slice(1, 4, 1));
        (100.0 * (b - a.square()).square() + (1.0 - a).square()).sum(..)
    }
    lorenz_sensitivity(u, p) {
        let h = 0.01;
        let mut u = u.clone();
        for _ in 0..40 {
            let k1 = lorenz(&u, p);
            let k2 = lorenz(&(&u + h / 2.0 * &k1), p);
            let k3 = lorenz(&(&u + h / 2.0 * &k2), p);
            let k4 = lorenz(&(&u + h * &k3), p);
            u += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
        }
        u
    }
    kalman_filter_nll(zs, q, r) {
        let a = Tensor::from([[1.0f64, 0.1], [0.0, 1.0]]);
        let mut m = Tensor::zeros([2], zs.dtype());
        let mut p = Tensor::eye(2, zs.dtype());
        let mut total = Tensor::zeros([], zs.dtype());
        let zs: [Tensor; 8] = zs.unbind(0);
        for z in zs {
            m = a.matmul(&m);
            p = a.matmul(&p).matmul(a.t()) + q * Tensor::eye(2, z.dtype());
            let y = z - m.slice(0, 1, 1).squeeze(0);
            let row = p.slice(0, 1, 1).squeeze(0);
            let s = row.slice(0, 1, 1).squeeze(0) + r;
            let gain = p.slice([0, 0], [2, 1], [1, 1]).squeeze(1) / &s;
            total += 0.5 * ((2.0 * PI * &s).log() + &y * &y / &s);
            m += &gain * y;
            p -= gain.unsqueeze(1) * row;
        }
        total
    }
    nbody_energy(x, m) {
        let r = ((x.unsqueeze(1) - x).square().sum(-1) + 1e-2).sqrt();
        let u = -(m.unsqueeze(1) * m) / r;
        let pairs = Tensor::ones([5, 5], DType::Bool).tril(-1);
        pairs.select(&u, u.zeros_like()).sum(..)
    }
    bundle_adjustment(cam, x, w, feat) {
        let r = cam.slice(0, 3, 1);
        let centre = cam.slice(3, 6, 1);
        let focal = cam.slice(6, 7, 1).squeeze(0);
        let x0 = cam.slice(7, 9, 1);
        let [rad0, rad1] = cam.slice(9, 11, 1).unbind(0);
        let th = r.square().sum(..).sqrt();
        let k = r / &th;
        let v = x - centre;
        let p = &v * th.cos() + k.cross(&v, 0) * th.sin() + &k * k.matmul(&v) * (1.0 - th.cos());
        let q = p.slice(0, 2, 1) / p.slice(2, 3, 1);
        let n = q.square().sum(..);
        let q = q * (1.0 + rad0 * &n + rad1 * &n * &n);
        w * (q * focal + x0 - feat)
    }
    @plain {
        mlp_sgd_steps(w, x, t, lr) -> (Tensor, Tensor) {
            let loss = |w: &Tensor| (x.matmul(w).tanh() - t).square().mean(..);
            let mut w = w.clone();
            for _ in 0..3 {
                w = &w - lr * grad(loss)(&w);
            }
            let last = loss(&w);
            (w, last)
        }
        mlp_adam_step(w, m, v, x, t) -> (Tensor, Tensor, Tensor) {
            let g = grad(|w: &Tensor| (x.matmul(w).tanh() - t).square().mean(..))(w);
            let m = 0.9 * m + 0.1 * &g;
            let v = 0.999 * v + 0.001 * &g * &g;
            let mh = &m / (1.0 - 0.9f64.powi(3));
            let vh = &v / (1.0 - 0.999f64.powi(3));
            (w - 0.01 * mh / (vh.sqrt() + 1e-8), m, v)
        }
        nbody_leapfrog(x, v) -> (Tensor, Tensor) {
            let energy = |x: &Tensor| {
                let r = ((x.unsqueeze(1) - x).square().sum(-1) + 1e-2).sqrt();
                -(1.0 / r).tril(-1).sum(..)
            };
            let h = 0.05;
            let (mut x, mut v) = (x.clone(), v.clone());
            for _ in 0..3 {
                v -= 0.5 * h * grad(energy)(&x);
                x += h * &v;
                v -= 0.5 * h * grad(energy)(&x);
            }
            (x, v)
        }
    }
}
