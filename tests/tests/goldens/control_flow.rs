//! Loops and branches.

use gradloom::{DType, Tensor, traced};

#[traced]
fn checkpointed_steps(x: &Tensor, w: &Tensor) -> Tensor {
    let mut c = x.clone();
    #[checkpoint(every = 1)]
    for _ in 0..4 {
        c = w.matmul(&c).tanh();
    }
    c
}

crate::goldens! {
    scan_reverse(xs) -> (Tensor, Tensor) {
        let xs: [Tensor; 5] = xs.unbind(0);
        let mut c = xs[0].zeros_like();
        let mut ys = Vec::new();
        for x in xs.iter().rev() {
            ys.push(&c * x);
            c = 0.9 * c + x;
        }
        ys.reverse();
        (c, Tensor::stack(&ys, 0))
    }
    scan_cumulative_pair(xs) -> (Tensor, Tensor, Tensor) {
        let xs: [Tensor; 4] = xs.unbind(0);
        let (mut a, mut b) = (xs[0].ones_like(), xs[0].zeros_like());
        let mut ys = Vec::new();
        for x in &xs {
            ys.push(&a + &b);
            b = b + &a;
            a = a * x;
        }
        (a, b, Tensor::stack(&ys, 0))
    }
    scan_nested(x, xs) -> (Tensor, Tensor) {
        let xs: [Tensor; 3] = xs.unbind(0);
        let mut c = x.clone();
        let mut ys = Vec::new();
        for x in &xs {
            for _ in 0..3 {
                c = c.sin() * x;
            }
            ys.push(c.clone());
            c = c + x;
        }
        (c, Tensor::stack(&ys, 0))
    }
    newton_sqrt(a) {
        let mut y = a.ones_like();
        for _ in 0..8 {
            y = 0.5 * (&y + a / &y);
        }
        y
    }
    while_forward(x) -> (Tensor, Tensor) {
        let (mut turns, mut y) = (0, x.clone());
        while y.item::<f32>() < 100.0 {
            y = y * x;
            turns += 1;
        }
        (Tensor::full([], turns, DType::I32), y)
    }
    cond_guards_domain(x) {
        if x.item::<f32>() > 0.0 { x.log() * x } else { 0.0 * x }
    }
    masked_rnn_lengths(xs, #[nodiff] n) {
        let xs: [Tensor; 5] = xs.unbind(0);
        let mut h = xs[0].zeros_like();
        for (i, x) in xs.iter().enumerate() {
            h = n.gt(i as i64).select((&h + x).tanh(), h);
        }
        h
    }
    logistic_map(r, x) {
        let mut x = x.clone();
        for _ in 0..6 {
            x = r * &x * (1.0 - &x);
        }
        x
    }
    checkpointed_scan(x, w) {
        checkpointed_steps(x, w)
    }
    python_loop_unrolled(x) {
        let mut y = x.clone();
        for k in 0..5 {
            y = y.sin() + (k as f64 + 1.0) * 0.1 * x;
        }
        y
    }
    scan_length_zero(h, xs) -> (Tensor, Tensor) {
        // No iteration runs.
        let ys = xs.full_like(0.0);
        (h * h, ys)
    }
}
