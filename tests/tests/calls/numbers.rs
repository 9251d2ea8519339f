//! Numbers that change from call to call: they are arguments of the plan, unless they steer the body.

use gradloom::prelude::*;
use gradloom::testing::{check_every_call, op_by_op};
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, log};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns how often calls of a function of this file recorded its body and made a plan.
fn recordings(function: &str) -> u64 {
    let name = format!("calls::numbers::{function}");
    let report = gradloom::report();
    let found = report.functions().iter().find(|f| f.name == name);
    found.map_or(0, |f| f.planned + f.recorded)
}

/// Calls `f` with each number, and checks that each result has the bits of evaluation op by op, also if each call is
/// recorded again. Returns how often `function` was recorded.
#[track_caller]
fn n_recordings<N: Copy, T: Tree>(numbers: &[N], function: &str, f: impl Fn(N) -> T) -> u64 {
    let before = recordings(function);
    let mut n_plans = 0;
    for number in numbers {
        let (y, events) = log(|| {
            let y = f(*number);
            bits(&y);
            y
        });
        assert_eq!(bits(&y), bits(&op_by_op(|| f(*number))));
        let planned = events.iter().filter(|e| e.starts_with("planned"));
        n_plans = n_plans.max(planned.count());
    }
    let n = recordings(function) - before;
    for number in numbers {
        let checked = check_every_call(|| f(*number));
        assert_eq!(bits(&checked), bits(&op_by_op(|| f(*number))));
    }
    n
}

/// Checks that 20 numbers are recorded twice: the first alone, and the second as data.
#[track_caller]
fn is_data<N: Copy, T: Tree>(function: &str, numbers: impl Fn(u32) -> N, f: impl Fn(N) -> T) {
    let numbers: Vec<N> = (0..20).map(numbers).collect();
    assert_eq!(n_recordings(&numbers, function, &f), 2);
    let (_, events) = log(|| numbers.iter().for_each(|n| drop(bits(&f(*n)))));
    let others = events
        .iter()
        .filter(|e| !e.starts_with("hit") && !e.starts_with("ran"));
    assert_eq!(others.count(), 0, "{events:?}");
}

/// Checks that each of 5 numbers is recorded.
#[track_caller]
fn is_in_key<N: Copy, T: Tree>(function: &str, numbers: [N; 5], f: impl Fn(N) -> T) {
    assert_eq!(n_recordings(&numbers, function, &f), 5);
}

fn rate(i: u32) -> f64 {
    0.1 / f64::from(1 + i)
}

#[traced]
fn step(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
    w - g * lr
}

#[test]
fn a_learning_rate_is_data_in_all_companions() {
    for dtype in [DType::F32, DType::F64] {
        let [w, g] = [1, 2].map(|seed| noise(&[3, 4], seed).cast(dtype));
        is_data("step", rate, |lr| step(&w, &g, lr));
        is_data("step::vjp", rate, |lr| {
            let (y, pullback) = step::vjp(&w, &g, lr);
            let (dw, dg) = pullback(&Tensor::ones_like(&y));
            (y, dw, dg)
        });
        is_data("step::jvp", rate, |lr| step::jvp((&w, &g, lr), (&g, &w)));
    }
}

#[test]
fn twenty_learning_rates_have_two_plans() {
    #[traced]
    fn alone(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
        (w - g * lr).tanh().exp() + w
    }
    let [w, g] = [1, 2].map(|seed| noise(&[5, 3], seed));
    let (_, events) = log(|| (0..20).for_each(|i| drop(bits(&alone(&w, &g, rate(i))))));
    let count = |kind: &str| events.iter().filter(|e| e.starts_with(kind)).count();
    assert_eq!((count("planned"), count("hit"), count("ran")), (2, 18, 20));
}

#[traced]
fn loss(w: &Tensor, #[nodiff] x: &Tensor, temperature: f32) -> Tensor {
    (x.matmul(w) / temperature).tanh().square().mean(..)
}

#[test]
fn a_temperature_is_data_of_a_gradient() {
    let (w, x) = (
        noise(&[3, 2], 1).cast(DType::F32),
        noise(&[4, 3], 2).cast(DType::F32),
    );
    let temperature = |i: u32| 1.0f32 + 0.25 * i as f32;
    is_data("loss", temperature, |t| loss(&w, &x, t));
    is_data("loss::value_and_grad", temperature, |t| {
        let (y, grads) = loss::value_and_grad(&w, &x, t);
        (y, grads.w)
    });
}

#[traced]
fn annealed(x: &Tensor, step: usize) -> Tensor {
    let progress = step as f64 / 20.0;
    x * progress - x.sum(0) * (step + 1)
}

#[test]
fn a_step_counter_is_data() {
    let x = noise(&[3, 2], 1);
    is_data("annealed", |i| i as usize, |step| annealed(&x, step));
    is_data(
        "annealed::jvp",
        |i| i as usize,
        |step| annealed::jvp((&x, step), &x),
    );
}

#[traced]
fn adam(m: &Tensor, v: &Tensor, lr: f64, beta: f64, step: i32) -> Tensor {
    let first = 1.0 - beta.powi(step);
    let second = 1.0 - (0.999f64).powi(step);
    (m / first) * -lr / ((v / second).sqrt() + 1e-8)
}

#[test]
fn numbers_computed_from_several_numbers_are_data() {
    let (m, v) = (noise(&[6], 1), noise(&[6], 2).square());
    let schedule = |i: u32| 0.1 * 0.97f64.powi(i as i32);
    is_data(
        "adam",
        |i| i,
        |i| adam(&m, &v, schedule(i), 0.9, 1 + i as i32),
    );
    // One of the numbers changes after the others have.
    let before = recordings("adam");
    let two = [0.8, 0.7, 0.6, 0.5].map(|beta| (adam(&m, &v, 0.1, beta, 3), beta));
    for (y, beta) in two {
        assert_eq!(bits(&y), bits(&op_by_op(|| adam(&m, &v, 0.1, beta, 3))));
    }
    assert!(recordings("adam") - before <= 2);
}

#[traced]
fn assigned(x: &Tensor, a: f64, b: f64) -> Tensor {
    let mut y = x.clone();
    for _ in 0..3 {
        y *= a;
        y = b - y;
    }
    y
}

#[test]
fn operands_of_binary_methods_are_data() {
    #[traced]
    fn powered(x: &Tensor, p: f64) -> Tensor {
        x.pow(p) * x.gt(p).select(x, 0.5) + x.maximum(p)
    }
    let x = noise(&[3, 3], 1).abs();
    is_data("powered", |i| f64::from(i) * 0.25, |p| powered(&x, p));
}

#[test]
fn two_numbers_that_change_at_once_or_alternately_are_data() {
    let x = noise(&[4], 1);
    is_data("assigned", |i| i, |i| assigned(&x, rate(i), f64::from(i)));
    is_data(
        "assigned::vjp",
        |i| i,
        |i| {
            let (y, pullback) = assigned::vjp(&x, rate(i), f64::from(i));
            pullback(&y)
        },
    );
    #[traced]
    fn alternating(x: &Tensor, a: f64, b: f64) -> Tensor {
        x * a + b
    }
    for i in 0..20 {
        let (a, b) = (rate(i / 2), f64::from(i.div_ceil(2)));
        let y = alternating(&x, a, b);
        assert_eq!(bits(&y), bits(&op_by_op(|| alternating(&x, a, b))));
    }
    assert!(recordings("alternating") <= 4, "{}", gradloom::report());
}

#[traced]
fn equal_operands(x: &Tensor, a: f64, b: f64) -> Tensor {
    x * a + x / b + x * 0.5
}

#[test]
fn numbers_that_are_equal_for_a_while_are_told_apart() {
    let x = noise(&[4], 1);
    let pairs = [
        (0.5, 0.5),
        (0.25, 0.25),
        (0.75, 0.25),
        (0.5, 1.5),
        (0.5, 0.5),
        (2.0, 0.125),
    ];
    n_recordings(&pairs, "equal_operands", |(a, b)| equal_operands(&x, a, b));
}

#[traced]
fn clipped(x: &Tensor, scale: f64) -> Tensor {
    if scale > 0.5 { x * scale } else { x - scale }
}

#[traced]
fn along(x: &Tensor, axis: usize) -> Tensor {
    x.sum(axis) * axis
}

#[traced]
fn repeated(x: &Tensor, n: usize) -> Tensor {
    let mut y = x * n;
    for i in 0..n {
        y += x * i;
    }
    y
}

#[traced]
fn shadowed(x: &Tensor, lr: f64) -> Tensor {
    let y = x * lr;
    let lr = lr.floor() as usize;
    y.sum(lr)
}

#[test]
fn a_number_that_also_steers_the_body_is_part_of_the_key() {
    let x = noise(&[2, 3, 2], 1);
    is_in_key("clipped", [0.1, 0.7, 0.3, 0.9, 0.5], |scale| {
        clipped(&x, scale)
    });
    for axis in [0, 1, 2] {
        assert_eq!(
            along(&x, axis).shape(),
            op_by_op(|| along(&x, axis)).shape()
        );
        assert_eq!(bits(&along(&x, axis)), bits(&op_by_op(|| along(&x, axis))));
    }
    is_in_key("repeated", [0, 1, 2, 3, 4], |n| repeated(&x, n));
    is_in_key("shadowed", [0.25, 1.5, 2.25, 1.75, 0.5], |lr| {
        shadowed(&x, lr)
    });
}

#[traced]
fn scaled(x: &Tensor, by: f64) -> Tensor {
    x * by
}

#[traced]
fn added(x: &Tensor, n: i64) -> Tensor {
    x + n
}

/// Returns the dtype and the bits of a tensor, or the message of the panic.
fn outcome(f: impl FnOnce() -> Tensor) -> Result<(DType, Vec<Vec<u64>>), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let y = f();
        (y.dtype(), bits(&y))
    }));
    outcome.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a panic has a message")).to_owned(),
    })
}

#[test]
fn a_number_takes_the_dtype_of_the_tensor_beside_it() {
    let x = Tensor::from([1.5f64, -0.0, f64::INFINITY]);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool] {
        let x = match dtype.is_float() {
            true => x.cast(dtype),
            false => Tensor::from([1i64, 0, 1]).cast(dtype),
        };
        let factors: Vec<f64> = match dtype {
            DType::Bool => vec![1.0, 0.0, 1.0],
            _ => vec![
                0.1,
                2.0,
                -0.0,
                0.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e-310,
                1e300,
            ],
        };
        for by in factors.iter().chain(&factors) {
            let found = outcome(|| scaled(&x, *by));
            let want = outcome(|| op_by_op(|| scaled(&x, *by)));
            assert_eq!(found, want, "{by} beside {dtype}");
        }
    }
}

#[test]
fn negative_zero_and_nan_are_values_of_one_plan() {
    #[traced]
    fn doubled(x: &Tensor, by: f64) -> Tensor {
        (x + by) * by
    }
    let x = Tensor::from([1.5f64, -0.0, 2.0]);
    let values = [0.5, 0.0, -0.0, f64::NAN, f64::INFINITY, -1.0, 5e-324];
    for by in values {
        assert_eq!(bits(&doubled(&x, by)), bits(&op_by_op(|| doubled(&x, by))));
    }
    assert_eq!(recordings("doubled"), 2);
}

#[test]
fn a_huge_integer_is_refused_where_the_body_refuses_it() {
    let x = Tensor::from([1i32, 2]);
    for n in [1, 2, 3] {
        assert_eq!(added(&x, n).to_vec::<i32>(), [1 + n as i32, 2 + n as i32]);
    }
    for n in [1i64 << 40, i64::MAX, i64::MIN] {
        let refused = outcome(|| added(&x, n));
        let text = refused.as_ref().unwrap_err();
        assert!(text.contains("is not a value of i32"), "{text}");
        assert_eq!(refused, outcome(|| op_by_op(|| added(&x, n))));
        assert_eq!(
            added(&x.cast(DType::F64), n).to_vec::<f64>(),
            [1.0 + n as f64, 2.0 + n as f64]
        );
        let wide = added(&Tensor::from([0i64]), n);
        assert_eq!(wide.to_vec::<i64>(), [n]);
    }
    assert_eq!(added(&x, 4).to_vec::<i32>(), [5, 6]);
}

#[traced]
fn overflowing(x: &Tensor, n: u8) -> Tensor {
    x * f64::from(2u8) + (n + 250) as f64
}

#[test]
fn arithmetic_that_overflows_panics_in_the_body() {
    let x = noise(&[2], 1);
    for n in [1u8, 2, 3, 4, 5] {
        assert_eq!(
            bits(&overflowing(&x, n)),
            bits(&op_by_op(|| overflowing(&x, n)))
        );
    }
    if cfg!(debug_assertions) {
        let text = outcome(|| overflowing(&x, 6)).unwrap_err();
        assert!(text.contains("overflow"), "{text}");
    }
    assert_eq!(
        bits(&overflowing(&x, 4)),
        bits(&op_by_op(|| overflowing(&x, 4)))
    );
}

#[traced]
fn overflowing_local(x: &Tensor, n: u8) -> Tensor {
    let k = n + 250;
    let y = x * n as f64;
    if x.dim(0) > 5 { y / k as f64 } else { y }
}

#[test]
fn a_local_that_overflows_panics_in_a_body_that_does_not_use_it() {
    let x = noise(&[2], 1);
    for n in [1u8, 2, 3, 4, 5] {
        assert_eq!(
            bits(&overflowing_local(&x, n)),
            bits(&op_by_op(|| overflowing_local(&x, n)))
        );
    }
    assert_eq!(recordings("overflowing_local"), 2);
    let found = outcome(|| overflowing_local(&x, 6));
    assert_eq!(found, outcome(|| op_by_op(|| overflowing_local(&x, 6))));
    assert_eq!(found.is_err(), cfg!(debug_assertions));
}

#[derive(Clone, Tree)]
struct Model {
    w: Tensor,
    #[tree(skip)]
    rate: f64,
}

#[traced]
fn decayed(model: &Model, by: f64) -> Tensor {
    &model.w * model.rate - &model.w * by
}

#[test]
fn a_number_in_a_skipped_field_is_part_of_the_key() {
    let w = noise(&[3], 1);
    let model = |rate| Model { w: w.clone(), rate };
    is_in_key("decayed", [0.1, 0.2, 0.3, 0.4, 0.5], |rate| {
        decayed(&model(rate), 0.5)
    });
    let model = model(0.7);
    is_data("decayed", rate, |by| decayed(&model, by));
}

#[traced]
fn two_steps(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
    step(&step(w, g, lr), g, lr * 0.5)
}

#[test]
fn a_number_that_is_passed_on_gives_the_results_of_the_body() {
    let [w, g] = [1, 2].map(|seed| noise(&[3, 4], seed));
    let rates: Vec<f64> = (0..6).map(rate).collect();
    n_recordings(&rates, "two_steps", |lr| two_steps(&w, &g, lr));
    n_recordings(&rates, "two_steps::vjp", |lr| {
        let (y, pullback) = two_steps::vjp(&w, &g, lr);
        pullback(&y)
    });
}

#[traced]
fn jittered(x: &Tensor, key: Key, step: u32) -> Tensor {
    x + key.fold_in(step).normal([3], DType::F64)
}

#[test]
fn the_number_of_a_key_is_data() {
    let x = noise(&[3], 1);
    is_data("jittered", |i| i, |i| jittered(&x, Key::new(7), i));
    let big = [0, u32::MAX, 1 << 31, 5];
    assert_eq!(
        n_recordings(&big, "jittered", |i| jittered(&x, Key::new(7), i)),
        0
    );
}

#[test]
fn a_number_is_data_for_each_shape() {
    #[traced]
    fn of_shape(x: &Tensor, by: f64) -> Tensor {
        x / by
    }
    for round in 0..4 {
        for n in 1..6 {
            let (x, by) = (noise(&[n], 1), f64::from(round * 10) + n as f64);
            assert_eq!(
                bits(&of_shape(&x, by)),
                bits(&op_by_op(|| of_shape(&x, by)))
            );
        }
    }
    assert_eq!(recordings("of_shape"), 10);
}

#[traced]
fn saturated(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
    w * (1.0 - lr) - g * lr.min(0.1)
}

#[traced]
fn warmed_up(w: &Tensor, g: &Tensor, step: usize) -> Tensor {
    w * 0.999f64.powi(step as i32) - g * (step as f64 / 3.0).min(1.0)
}

/// A number that is the same in two recordings beside one that differs: no check of a call may fail.
#[test]
fn numbers_that_saturate() {
    let (w, g) = (Tensor::from([1.0f32]), Tensor::from([2.0f32]));
    for _ in 0..20 {
        for lr in [0.5, 0.3, 0.05] {
            let checked = check_every_call(|| saturated(&w, &g, lr));
            assert_eq!(bits(&checked), bits(&op_by_op(|| saturated(&w, &g, lr))));
        }
        for step in [3, 4, 5] {
            let checked = check_every_call(|| warmed_up(&w, &g, step));
            assert_eq!(bits(&checked), bits(&op_by_op(|| warmed_up(&w, &g, step))));
        }
    }
}
