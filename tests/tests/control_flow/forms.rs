//! Each form of control flow, in a small function.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;

/// Checks a traced function of one tensor and static arguments.
macro_rules! check_one {
    ($f:ident($x:expr $(, $s:expr)*)) => {
        Companions {
            call: &|x: &Tensor| $f(x $(, $s)*),
            vjp: &|x, ct| {
                let (y, pullback) = $f::vjp(x $(, $s)*);
                (y, pullback(ct))
            },
            jvp: &|x, dx| check_one!(@jvp $f, x, dx $(, $s)*),
        }
        .check(&$x)
    };
    (@jvp $f:ident, $x:ident, $dx:ident) => { $f::jvp($x, $dx) };
    (@jvp $f:ident, $x:ident, $dx:ident $(, $s:expr)+) => { $f::jvp(($x $(, $s)+), $dx) };
}

fn x() -> Tensor {
    noise(&[3], 8)
}

#[traced]
pub(crate) fn labelled(x: &Tensor, rows: usize, limit: usize) -> Tensor {
    let mut h = x.clone();
    let mut seen = 0;
    'rows: for i in 0..rows {
        for j in 0..i + 1 {
            if (i + j) % 3 == 2 {
                continue 'rows;
            }
            h = (h * (0.5 + j as f64)).sin();
            seen += 1;
            if seen > limit {
                break 'rows;
            }
        }
        h += x;
    }
    h
}

#[test]
fn a_labelled_break_leaves_two_loops() {
    for (rows, limit) in [(5, 3), (5, 100), (1, 0), (0, 0)] {
        check_one!(labelled(x(), rows, limit));
    }
}

#[traced]
pub(crate) fn popped(x: &Tensor, n: usize) -> Tensor {
    let mut todo: Vec<usize> = (0..n).collect();
    let mut h = x.cos();
    while let Some(k) = todo.pop() {
        if k == 4 {
            todo.push(1);
            todo.push(0);
        }
        h = (h + x * k as f64).sin();
    }
    h
}

#[test]
fn a_while_let_runs_until_its_pattern_fails() {
    for n in [0, 1, 3, 6] {
        check_one!(popped(x(), n));
    }
}

#[traced]
pub(crate) fn assigned_later(x: &Tensor, n: usize) -> Tensor {
    let scale;
    let h;
    if n > 2 {
        h = x.sin();
        scale = 2.0;
    } else if n == 1 {
        h = x.cos() * x;
        scale = 0.5;
    } else {
        let inner = x.exp();
        h = inner.tanh();
        scale = -1.0;
    }
    let y;
    match n {
        0 => y = h.square(),
        1 | 2 => y = &h * x,
        k if k % 2 == 0 => y = h.tanh() * k as f64,
        _ => y = h,
    }
    y * scale
}

#[test]
fn a_variable_may_be_assigned_in_branches() {
    for n in 0..6 {
        check_one!(assigned_later(x(), n));
    }
}

/// Selects a function.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// The sine.
    Sine,
    /// A power.
    Power {
        /// The exponent.
        exponent: usize,
    },
    /// A polynomial of degree 1.
    Linear(f64, f64),
}

#[traced]
pub(crate) fn by_mode(x: &Tensor, #[fixed] mode: Mode) -> Tensor {
    let y = match mode {
        Mode::Sine => x.sin(),
        Mode::Power { exponent } => {
            let mut y = x.ones_like();
            for _ in 0..exponent {
                y *= x;
            }
            y
        }
        Mode::Linear(a, b) => x * a + b,
    };
    y * x
}

#[test]
fn a_match_on_a_static_enum_selects_a_branch() {
    for mode in [
        Mode::Sine,
        Mode::Power { exponent: 0 },
        Mode::Power { exponent: 3 },
        Mode::Linear(0.5, 2.0),
    ] {
        check_one!(by_mode(x(), mode));
    }
    let y = by_mode::grad(&Tensor::scalar(1.5), Mode::Power { exponent: 3 });
    assert!((y.x.item::<f64>() - 4.0 * 1.5f64.powi(3)).abs() < 1e-13);
}

#[traced]
fn fallible(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    Ok(x.matmul(w).tanh())
}

#[traced]
pub(crate) fn chained(x: &Tensor, w: &Tensor, n: usize) -> Result<Tensor> {
    let mut h = x.clone();
    for i in 0..n {
        h = fallible(&h, w)?;
        if i == 3 {
            return Ok(h * 2.0);
        }
    }
    Ok(h)
}

#[test]
fn the_question_mark_operator_leaves_a_loop() {
    let args = (noise(&[2, 3], 1), noise(&[3, 3], 2));
    for n in [0, 2, 7] {
        Companions {
            call: &|(x, w): &(Tensor, Tensor)| chained(x, w, n).unwrap(),
            vjp: &|(x, w), ct| {
                let (y, pullback) = chained::vjp(x, w, n).unwrap();
                (y, pullback(ct))
            },
            jvp: &|(x, w), (dx, dw)| chained::jvp((x, w, n), (dx, dw)).unwrap(),
        }
        .check(&args);
    }
    let narrow = noise(&[3, 2], 3);
    assert!(chained(&args.0, &narrow, 1).is_ok());
    assert!(chained(&args.0, &narrow, 2).is_err());
    assert!(chained::vjp(&args.0, &narrow, 2).is_err());
    assert!(chained::jvp((&args.0, &narrow, 2), (&args.0, &narrow)).is_err());
}

#[traced]
fn both(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (x * y, x.sin())
}

#[traced]
pub(crate) fn broken_off(x: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let mut i = 0;
    let mut pair: (Tensor, Tensor) = loop {
        h = h.sin();
        if i == n {
            break both(&h, x);
        }
        if i == 2 {
            break (h.clone(), x.clone());
        }
        i += 1;
    };
    for _ in 0..n {
        pair = both(&pair.0, &pair.1);
    }
    let (a, b) = 'found: {
        if n == 1 {
            break 'found both(x, &pair.0);
        }
        both(&pair.1, x)
    };
    {
        let mut x = a.cos();
        if n > 1 {
            x = x * &b;
        }
        h = h + x;
    }
    h * a * b * pair.0
}

#[test]
fn a_fallible_call_with_several_results_leaves_a_loop() {
    for n in 0..4 {
        check_one!(broken_off(x(), n));
    }
}

#[traced]
pub(crate) fn compound(x: &Tensor, n: usize) -> Tensor {
    let mut a = x.clone();
    let mut b = x.cos();
    let mut unread = x.sin();
    for i in (0..2 * n).rev().step_by(2) {
        a += &b;
        b *= 0.5;
        b -= &a;
        a /= b.square() + 1.0 + i as f64;
        unread *= &a;
    }
    a * b
}

#[test]
fn compound_assignments_are_carried_through_loops() {
    for n in [0, 1, 4] {
        check_one!(compound(x(), n));
    }
}

/// Computes `x^n` by repeated squaring.
#[traced]
pub(crate) fn power(x: &Tensor, n: usize) -> Tensor {
    let mut state = (x.ones_like(), x.clone());
    let mut rest = n;
    loop {
        if rest == 0 {
            break state.0;
        }
        let (done, base) = state;
        let next = base.square();
        state = if rest % 2 == 1 {
            (done * base, next)
        } else {
            (done, next)
        };
        rest /= 2;
    }
}

#[test]
fn a_power_by_squaring_has_the_derivative_of_the_power() {
    for n in [0usize, 1, 2, 5, 12] {
        check_one!(power(x(), n));
        let got = power::grad(&Tensor::scalar(0.9), n).x.item::<f64>();
        let expected = n as f64 * 0.9f64.powi(n as i32 - 1);
        assert!((got - expected).abs() < 1e-13, "{got} and {expected}");
    }
}

#[traced]
pub(crate) fn closures(x: &Tensor, n: usize) -> Tensor {
    let wave = |t: &Tensor, by: f64| (t * by).sin() + x;
    let mut h = x.clone();
    for i in 0..n {
        h = wave(&h, 0.5 + i as f64);
        h = (|t: &Tensor| t.tanh() * 0.5)(&h);
    }
    wave(&h, 0.25)
}

#[test]
fn closures_are_called_in_place() {
    for n in [0, 1, 3] {
        check_one!(closures(x(), n));
        check_one!(inner_locals(x(), n));
    }
}

#[traced]
pub(crate) fn inner_locals(x: &Tensor, n: usize) -> Tensor {
    let wave = |t: &Tensor| t.sin() * x;
    let twice = |t: &Tensor, k: usize| {
        let mut u = wave(t);
        for _ in 1..k {
            u = &u + wave(&u);
        }
        u
    };
    let mut h = x.clone();
    for i in 0..n {
        h = twice(&h, i) + wave(x);
    }
    h
}

/// Facts about shapes in the first iteration do not hold in later ones.
#[traced]
pub(crate) fn shifted(#[shape(3)] x: &Tensor, n: usize) -> Tensor {
    let (mut a, mut b, mut c) = (x.clone(), x.clone(), x.clone());
    let (mut d, mut e, mut f) = (x.clone(), x.clone(), x.clone());
    for _ in 0..n {
        (f, e, d) = (e.clone(), d.clone(), c.clone());
        (c, b) = (b.clone(), a.clone());
        a = Tensor::concat(&[&a, x], 0);
    }
    let g = if n < 6 { f * x } else { f.sin() };
    let late;
    match n {
        0 => late = x.clone(),
        1 => late = Tensor::concat(&[x, x, x], 0),
        _ => late = x.reshape([3, 1]),
    }
    let h = if n == 0 { &late + x } else { late.sum(..) * x };
    h + g.sum(..) + a.sum(..) * b.sum(..) + c.square().sum(..) * d.sum(..) * e.sum(..)
}

#[traced]
pub(crate) fn shaped_later(#[shape(3)] x: &Tensor, n: usize) -> Tensor {
    let late;
    match n {
        0 => late = x.sum(..).reshape([1]),
        1 => late = x.reshape([3]) * 2.0,
        _ => late = x.clone(),
    }
    let mut in_loop;
    loop {
        in_loop = x.sum(..).reshape([1]);
        if n == 2 {
            break;
        }
        in_loop = x.clone();
        if n == 3 {
            break;
        }
        in_loop = in_loop * 2.0;
        break;
    }
    let in_block;
    'b: {
        in_block = x.sum(..).reshape([1]);
        if n == 1 {
            break 'b;
        }
    }
    (late + x) * (in_loop + x) * (in_block + x)
}

#[test]
fn shapes_may_change_between_iterations() {
    for n in 0..8 {
        check_one!(shifted(x(), n));
        check_one!(shaped_later(x(), n));
    }
}

#[traced]
pub(crate) fn early(x: &Tensor, n: usize) -> (Tensor, Tensor) {
    let a = x.sin();
    if n == 0 {
        return (a, x.clone());
    }
    let mut h = a.exp();
    for i in 0..10 {
        if i == n {
            let b = &h * x;
            return (h, b);
        }
        if i == 5 {
            break;
        }
        h = (h + &a).cos();
    }
    (a, h)
}

#[test]
fn a_return_in_a_loop_leaves_the_function() {
    for n in [0, 1, 4, 7] {
        check_one!(early(x(), n));
    }
}

/// The branch depends on values, so the derivative is that of the branch taken.
#[traced]
pub(crate) fn rescaled(x: &Tensor, limit: f64) -> Tensor {
    let mut y = x.clone();
    let mut halvings = 0;
    while y.square().sum(..).item::<f64>() > limit && halvings < 20 {
        y = y * 0.5;
        halvings += 1;
    }
    if halvings == 0 { y.exp() } else { y.sin() }
}

#[test]
fn a_condition_on_a_value_takes_the_derivative_of_its_branch() {
    for limit in [0.0, 0.01, 0.5, 100.0] {
        check_one!(rescaled(x() * 3.0, limit));
    }
    let four = Tensor::scalar(4.0);
    // 4 is halved twice, until its square is at most 1.
    let got = rescaled::grad(&four, 1.0).x.item::<f64>();
    assert!((got - 0.25 * 1.0f64.cos()).abs() < 1e-15);
}

#[traced]
pub(crate) fn counted_down(x: &Tensor, mut n: usize) -> Tensor {
    let mut h = x.clone();
    while n > 0 {
        n -= 1;
        h = match n % 3 {
            0 => h.sin(),
            1 | 2 => h * (x + n as f64),
            _ => unreachable!("{n} has another remainder"),
        };
    }
    h
}

#[test]
fn a_static_parameter_may_change() {
    for n in [0, 1, 5] {
        check_one!(counted_down(x(), n));
    }
}

#[traced]
fn cell(w: &Tensor, h: &Tensor, x: &Tensor) -> Tensor {
    (h * w + x).tanh()
}

#[traced]
fn masked(x: &Tensor) -> Tensor {
    let keep = x.ones_like() * 0.5;
    let turn = |h: &Tensor, (x, k): &(Tensor, Tensor)| {
        let next = cell(x, h, x) * k;
        (next.clone(), next)
    };
    let (_, all) = gradloom::scan(turn, &x.i(0), &(x.clone(), keep));
    all
}

#[traced]
fn nested_pairs(x: &Tensor) -> Tensor {
    let pairs = |(a, (b, c)): &(Tensor, (Tensor, Tensor))| cell(a, b, c);
    vmap(pairs)(&(x.clone(), (x * 2.0, x.sin())))
}

/// A pattern behind a reference binds references, which a traced callee takes.
#[test]
fn closures_pass_parts_of_tuples_to_traced_functions() {
    check_one!(masked(noise(&[4], 1)));
    check_one!(nested_pairs(noise(&[4], 2)));
}
