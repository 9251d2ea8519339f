//! More loops and branches.

use gradloom::{Scan, Tensor, Vmap, cond, fori_loop, grad, map, scan, switch, while_loop};

crate::goldens! {
    f_scan_no_xs(x) -> (Tensor, Tensor) {
        Scan::new(|c: &Tensor, (): &()| (c.sin() + 0.1, c.clone())).turns(4).call(x, &())
    }
    f_scan_two_carries(a, b, xs) -> (Tensor, Tensor, Tensor, Tensor) {
        let step = |(a, b): &(Tensor, Tensor), x: &Tensor| {
            let a = (a + x).tanh();
            let b = b * 0.9 + a.sum(..);
            ((a.clone(), b.clone()), (&a * &b, b))
        };
        let ((a, b), (u, v)) = scan(step, &(a.clone(), b.clone()), xs);
        (a, b, u, v)
    }
    f_scan_reverse_two_xs(h, xs, ys) -> (Tensor, Tensor) {
        let step = |c: &Tensor, (x, y): &(Tensor, Tensor)| (0.5 * c + x * y, c * y);
        Scan::new(step).reverse().call(h, &(xs.clone(), ys.clone()))
    }
    f_scan_length_one(h, xs) -> (Tensor, Tensor) {
        scan(|c: &Tensor, x: &Tensor| (c * x, c + x), h, xs)
    }
    f_scan_int_counter(x) -> Tensor {
        let step = |(i, y): &(Tensor, Tensor), (): &()| {
            ((i + 1, y * 0.5 + i.cast(y.dtype())), ())
        };
        let ((_, y), ()) = Scan::new(step).turns(5).call(&(Tensor::from(0i32), x.clone()), &());
        y
    }
    f_scan_closure_weight(w, h, xs) -> Tensor {
        scan(|h: &Tensor, x: &Tensor| ((w.matmul(h) + x).tanh(), h.sum(..)), h, xs).1
    }
    f_fori_in_scan(x, xs) -> Tensor {
        let step = |c: &Tensor, t: &Tensor| {
            let turn = |i: &Tensor, y: &Tensor| y * 0.9 + t.sin() * (i.cast(t.dtype()) + 1.0);
            let c = fori_loop(0..3, turn, c);
            (c.clone(), c.square())
        };
        scan(step, x, xs).1
    }
    f_fori_index(x) -> Tensor {
        let turn = |i: &Tensor, s: &Tensor| s + x.i(i) * (i.cast(x.dtype()) + 1.0);
        fori_loop(0..4, turn, &Tensor::zeros([], x.dtype()))
    }
    f_fori_update(x) -> Tensor {
        let turn = |i: &Tensor, y: &Tensor| y.set(i, y.i(&(i - 1)) * 0.5 + y.i(i));
        fori_loop(1..5, turn, x)
    }
    f_fori_zero_trips(x) -> Tensor { fori_loop(3..3, |_: &Tensor, y: &Tensor| y * 2.0, &(x * x)) }
    f_while_jvp(x) -> Tensor {
        let state = (Tensor::from(0i64), x.clone());
        let body = |(i, y): &(Tensor, Tensor)| (i + 1, y.sin() * x);
        while_loop(|(i, _): &(Tensor, Tensor)| i.lt(4), body, &state).1
    }
    f_while_collatz(n) -> Tensor {
        let body = |(n, k): &(Tensor, Tensor)| {
            let even = n.mod_floor(2).eq(0);
            (even.select(n / 2, 3 * n + 1), k + 1)
        };
        while_loop(|(n, _): &(Tensor, Tensor)| n.ne(1), body, &(n.clone(), n.zeros_like())).1
    }
    f_while_bool_state(x) -> Tensor {
        let body = |(x, _): &(Tensor, Tensor)| (x * 0.5, x.lt(1.0));
        while_loop(|(_, b): &(Tensor, Tensor)| !b, body, &(x.clone(), Tensor::from(false))).0
    }
    f_cond_vmap(#[nodiff] p, x) -> Tensor { cond(p, |x: &Tensor| x.sin(), |x: &Tensor| x.square(), x) }
    f_cond_two_operands(#[nodiff] p, x, y) -> (Tensor, Tensor) {
        cond(
            &p.gt(0.0),
            |(x, y): &(Tensor, Tensor)| (x * y, x.clone()),
            |(x, y): &(Tensor, Tensor)| (x + y, y.clone()),
            &(x.clone(), y.clone()),
        )
    }
    f_cond_closure(#[nodiff] i, x, w) -> Tensor { cond(&i.gt(1), |(): &()| x * w, |(): &()| x - w, &()) }
    f_switch(#[nodiff] i, x) -> Tensor {
        switch(i, &[&|x: &Tensor| x.clone(), &|x: &Tensor| x.exp(), &|x: &Tensor| x * x], x)
    }
    f_switch_clamps(#[nodiff] i, x) -> Tensor {
        switch(i, &[&|x: &Tensor| x.clone(), &|x: &Tensor| x.exp(), &|x: &Tensor| x * x], x)
    }
    f_cond_in_scan(xs) -> (Tensor, Tensor) {
        let step = |c: &Tensor, x: &Tensor| {
            let next = cond(&x.gt(0.0), |c: &Tensor| c + (-x).exp(), |c: &Tensor| c * 0.5, c);
            (next, c.clone())
        };
        scan(step, &Tensor::ones([], xs.dtype()), xs)
    }
    f_map(xs) -> Tensor { map(|x: &Tensor| x.sum(..) * x, xs) }
    f_map_pair(a, b) -> Tensor {
        map(|(a, b): &(Tensor, Tensor)| a.matmul(b), &(a.clone(), b.clone()))
    }
    f_scan_matrix_power(a) -> Tensor {
        fori_loop(0..4, |_: &Tensor, c: &Tensor| c.matmul(a), &Tensor::eye(2, a.dtype()))
    }
    f_scan_emit_only(xs) -> Tensor { scan(|(): &(), x: &Tensor| ((), x.square()), &(), xs).1 }
    f_early_stop_masked(x) -> Tensor {
        let step = |_: &Tensor, (x, done): &(Tensor, Tensor)| {
            let next = 0.5 * (x + 2.0 / x);
            let stop = done | (&next - x).abs().lt(1e-3);
            (done.select(x, next), stop)
        };
        fori_loop(0..6, step, &(x.clone(), Tensor::from(false))).0
    }
    f_power_iteration(a, v) -> Tensor {
        let step = |_: &Tensor, v: &Tensor| {
            let v = a.matmul(v);
            &v / v.norm(..)
        };
        let v = fori_loop(0..5, step, v);
        v.matmul(a).matmul(&v)
    }
    f_checkpoint_scan_pair(h, xs, w) -> (Tensor, Tensor) {
        let step = |c: &Tensor, x: &Tensor| {
            let h = (w.matmul(c) + x).tanh();
            (h.clone(), h.sum(..))
        };
        Scan::new(step).checkpoint().call(h, xs)
    }
    f_scan_zero_batch(h, xs) -> (Tensor, Tensor) {
        scan(|h: &Tensor, x: &Tensor| ((h + x).tanh(), h * x), h, xs)
    }
    f_scan_of_grad(w, xs) -> Tensor {
        let step = |w: &Tensor, x: &Tensor| {
            let g = grad(|w: &Tensor| (w * x - 1.0).square().sum(..))(w);
            (w - 0.1 * g, ())
        };
        scan(step, w, xs).0
    }
    f_vmap_of_scan(x) -> Tensor {
        let row = |r: &Tensor| {
            scan(|c: &Tensor, v: &Tensor| (c * 0.5 + v, c.clone()), &Tensor::zeros([], r.dtype()), r).1
        };
        Vmap::new(row).in_axes(1).out_axes(1).call(x)
    }
    f_fibonacci_int(a) -> Tensor {
        fori_loop(0..10, |_: &Tensor, (a, b): &(Tensor, Tensor)| (b.clone(), a + b), &(a.clone(), a + 1)).0
    }
    f_bisection_int_float(a) -> Tensor {
        let step = |_: &Tensor, (lo, hi): &(Tensor, Tensor)| {
            let mid = 0.5 * (lo + hi);
            let up = (&mid * &mid).lt(a);
            (up.select(&mid, lo), up.select(hi, &mid))
        };
        fori_loop(0..8, step, &(a.zeros_like(), a + 1.0)).1
    }
}
