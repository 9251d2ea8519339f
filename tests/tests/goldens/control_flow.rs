//! Loops and branches.

use gradloom::{DType, Scan, Tensor, cond, fori_loop, scan, while_loop};

crate::goldens! {
    scan_reverse(xs) -> (Tensor, Tensor) {
        let step = |c: &Tensor, x: &Tensor| (0.9 * c + x, c * x);
        Scan::new(step).reverse().call(&Tensor::zeros((), xs.dtype()), xs)
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
        let step = |h: &Tensor, (i, x): &(Tensor, Tensor)| {
            (i.lt(n).select((h + x).tanh(), h), ())
        };
        let turns = Tensor::arange(5, DType::I32);
        scan(step, &Tensor::zeros((), xs.dtype()), &(turns, xs.clone())).0
    }
    logistic_map(r, x) {
        fori_loop(0..6, |_: &Tensor, x: &Tensor| r * x * (1.0 - x), x)
    }
    checkpointed_scan(x, w) {
        let step = |c: &Tensor, (): &()| (w.matmul(c).tanh(), ());
        Scan::new(step).turns(4).checkpoint().call(x, &()).0
    }
    python_loop_unrolled(x) {
        let mut y = x.clone();
        for k in 0..5 {
            y = y.sin() + (k as f64 + 1.0) * 0.1 * x;
        }
        y
    }
    scan_length_zero(h, xs) -> (Tensor, Tensor) {
        let (h, ys) = scan(|h: &Tensor, x: &Tensor| (h * x, h + x), h, xs);
        (&h * &h, ys)
    }
}
