//! Loops that end when a value is accurate enough.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;

/// Computes the square root by Newton's method.
#[traced]
pub(crate) fn square_root(a: &Tensor, eps: f64) -> Tensor {
    let mut x = a * 0.5 + 0.5;
    let mut steps = 0;
    while steps < 50 {
        let next = (&x + a / &x) * 0.5;
        let change = (&next - &x).item::<f64>().abs();
        x = next;
        if change < eps {
            break;
        }
        steps += 1;
    }
    x
}

#[test]
fn newton_s_method_has_the_derivative_of_the_root() {
    for a in [0.3f64, 2.0, 17.0] {
        let x = Tensor::scalar(a);
        let (y, grads) = square_root::value_and_grad(&x, 1e-9);
        assert!((y.item::<f64>() - a.sqrt()).abs() < 1e-14 * a.sqrt());
        let expected = 0.5 / a.sqrt();
        let got = grads.a.item::<f64>();
        assert!((got - expected).abs() < 1e-13, "{got} and {expected}");
        let (_, dy) = square_root::jvp((&x, 1e-9), &Tensor::scalar(3.0));
        assert!((dy.item::<f64>() - 3.0 * expected).abs() < 1e-13);
    }
}

/// Solves `x^3 + p x = q` by Newton's method, for positive `p`.
#[traced]
pub(crate) fn cubic_root(p: &Tensor, q: &Tensor) -> Tensor {
    let mut x = q * 0.5;
    let mut residual = x.square() * &x + p * &x - q;
    while residual.item::<f64>().abs() > 1e-8 {
        let slope = x.square() * 3.0 + p;
        x -= &residual / slope;
        residual = x.square() * &x + p * &x - q;
    }
    // One more step makes the derivative as accurate as the value.
    let slope = x.square() * 3.0 + p;
    &x - residual / slope
}

#[test]
fn a_root_has_the_derivative_of_the_implicit_function() {
    for (p, q) in [(1.0f64, 2.5), (0.7, -4.0), (3.0, 0.1)] {
        let args = (Tensor::scalar(p), Tensor::scalar(q));
        let (x, grads) = cubic_root::value_and_grad(&args.0, &args.1);
        let x = x.item::<f64>();
        assert!((x.powi(3) + p * x - q).abs() < 1e-13);
        // (3 x^2 + p) dx + x dp - dq = 0
        let slope = 3.0 * x * x + p;
        let (dp, dq) = (grads.p.item::<f64>(), grads.q.item::<f64>());
        assert!((dp + x / slope).abs() < 1e-12, "{dp}");
        assert!((dq - 1.0 / slope).abs() < 1e-12, "{dq}");
    }
}

/// Solves `x + sin x = level` by bisection, to an accuracy of `eps`.
#[traced]
pub(crate) fn bisection(level: &Tensor, width: &Tensor, eps: f64) -> Tensor {
    let mut low = level - width;
    let mut high = level + width * 2.0;
    for _ in 0..60 {
        let middle = (&low + &high) * 0.5;
        let height = &middle + middle.sin() - level;
        if (&high - &low).item::<f64>() < eps {
            return middle - height * 0.5;
        }
        if height.item::<f64>() > 0.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    level.clone()
}

#[test]
fn a_bisection_that_returns_early_has_the_derivative_of_its_result() {
    for (level, width, eps) in [(1.0, 1.7, 0.3), (0.4, 1.3, 0.02), (2.2, 0.9, 9.0)] {
        let args = (Tensor::scalar(level), Tensor::scalar(width));
        Companions {
            call: &|(a, w): &(Tensor, Tensor)| bisection(a, w, eps),
            vjp: &|(a, w), ct| {
                let (y, pullback) = bisection::vjp(a, w, eps);
                (y, pullback(ct))
            },
            jvp: &|(a, w), (da, dw)| bisection::jvp((a, w, eps), (da, dw)),
        }
        .check(&args);
    }
}

/// Takes one step of the classical Runge-Kutta method for `y' = rate y`.
#[traced]
fn runge_kutta(y: &Tensor, rate: &Tensor, h: f64) -> Tensor {
    let k1 = y * rate;
    let k2 = (y + &k1 * (0.5 * h)) * rate;
    let k3 = (y + &k2 * (0.5 * h)) * rate;
    let k4 = (y + &k3 * h) * rate;
    y + (k1 + (k2 + k3) * 2.0 + k4) * (h / 6.0)
}

/// Integrates `y' = rate y` from time 0 to 1, with step sizes chosen from the error.
#[traced]
pub(crate) fn adaptive(start: &Tensor, rate: &Tensor, eps: f64) -> Tensor {
    let mut y = start.clone();
    let mut t = 0.0;
    let mut h = 0.7;
    while t < 1.0 {
        if t + h > 1.0 {
            h = 1.0 - t;
        }
        let whole = runge_kutta(&y, rate, h);
        let half = runge_kutta(&y, rate, h * 0.5);
        let halves = runge_kutta(&half, rate, h * 0.5);
        let error = (&halves - &whole).abs().max(..).item::<f64>();
        if error > eps {
            h *= 0.5;
            continue;
        }
        t += h;
        y = halves;
        if error < eps / 64.0 {
            h *= 2.0;
        }
    }
    y
}

#[test]
fn an_adaptive_integration_has_the_derivatives_of_the_exponential() {
    let (start, rate) = (Tensor::from([1.5f64, -0.5]), Tensor::from([2.0f64, -1.0]));
    let (y, pullback) = adaptive::vjp(&start, &rate, 1e-9);
    let ct = Tensor::from([0.7f64, 1.1]);
    let (ct_start, ct_rate) = pullback(&ct);
    let exact = &start * rate.exp();
    let near = |a: &Tensor, b: &Tensor| {
        let far = (a - b).abs().max(..).item::<f64>();
        assert!(far < 1e-6, "{a} and {b}");
    };
    near(&y, &exact);
    near(&ct_start, &(&ct * rate.exp()));
    near(&ct_rate, &(&ct * &exact));
    let (_, dy) = adaptive::jvp((&start, &rate, 1e-9), (&ct, &ct));
    near(&dy, &(&ct * rate.exp() + &ct * &exact));
}

/// Combines up to `width` rows of scores, and skips rows whose sum is more than `margin` below the
/// best so far.
#[traced]
pub(crate) fn beam(scores: &Tensor, steps: &Tensor, n: usize, width: usize, margin: f64) -> Tensor {
    let mut total = scores.slice([0], [1], [1]).squeeze(0);
    let mut best = total.sum(..).item::<f64>();
    let mut kept = 0;
    for i in 1..n {
        let row = scores.slice([i], [i + 1], [1]).squeeze(0) * steps;
        let score = row.sum(..).item::<f64>();
        if score < best - margin {
            continue;
        }
        best = best.max(score);
        total = (total + row.tanh()) * 0.5;
        kept += 1;
        if kept == width {
            break;
        }
    }
    total * (kept as f64 + 1.0)
}

#[test]
fn a_beam_skips_sums_too_far_from_the_best() {
    let scores = gradloom_tests::noise(&[6, 3], 4) * 2.0;
    let args = (scores, Tensor::from([1.0f64, 0.5, 2.0]));
    for (n, width, margin) in [
        (6, 2, 0.5),
        (6, 9, 1.5),
        (6, 9, 100.0),
        (1, 2, 0.5),
        (4, 1, -0.3),
    ] {
        Companions {
            call: &|(s, t): &(Tensor, Tensor)| beam(s, t, n, width, margin),
            vjp: &|(s, t), ct| {
                let (y, pullback) = beam::vjp(s, t, n, width, margin);
                (y, pullback(ct))
            },
            jvp: &|(s, t), (ds, dt)| beam::jvp((s, t, n, width, margin), (ds, dt)),
        }
        .check(&args);
    }
}
