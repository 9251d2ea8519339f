//! Loops and branches.

use gradloom::{Tensor, cond, fori_loop, scan, traced, while_loop};

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
        let step = |(a, b): &(Tensor, Tensor), x: &Tensor| ((a * x, b + a), a + b);
        let first = xs.select_index(0, 0);
        let ((a, b), ys) = scan(step, &(first.ones_like(), first.zeros_like()), xs);
        (a, b, ys)
    }
    scan_nested(x, xs) -> (Tensor, Tensor) {
        let step = |c: &Tensor, x: &Tensor| {
            let inner = fori_loop(0..3, |_: &Tensor, c: &Tensor| c.sin() * x, c);
            (&inner + x, inner)
        };
        scan(step, x, xs)
    }
    newton_sqrt(a) {
        fori_loop(0..8, |_: &Tensor, y: &Tensor| 0.5 * (y + a / y), &a.ones_like())
    }
    while_forward(x) -> (Tensor, Tensor) {
        while_loop(
            |(_, y): &(Tensor, Tensor)| y.lt(y.full_like(100.0)),
            |(turns, y): &(Tensor, Tensor)| (turns + 1, y * x),
            &(Tensor::from(0i32), x.clone()),
        )
    }
    cond_guards_domain(x) {
        cond(&x.gt(x.zeros_like()), |x: &Tensor| x.log() * x, |x: &Tensor| 0.0 * x, x)
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
        fori_loop(0..6, |_: &Tensor, x: &Tensor| r * x * (1.0 - x), x)
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
