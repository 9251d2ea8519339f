//! Values and derivatives of elementwise ops at points where a naive formula fails.
//!
//! The tests evaluate programs with one `f64` for each variable.

use gradloom_ir::ad::{self, Calls};
use gradloom_ir::op::{Eval, NdArray, evaluate};
use gradloom_ir::{Op, Program};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Runs a program of elementwise ops on values of rank 0. A bool is 0 or 1.
fn run(program: &Program, args: &[f64]) -> Vec<f64> {
    let args: Vec<NdArray> = args.iter().map(|x| NdArray::build(&[], |_| *x)).collect();
    let outs = evaluate(program, &args);
    outs.iter().map(|out| out.data[0]).collect()
}

fn parse(text: &str) -> Program {
    text.parse().unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn program(op: Op) -> Option<(Program, usize)> {
    match op.def().eval() {
        Eval::Unary(_) => Some((parse(&format!("(x: f64[]) {{ y = {op} x return y }}")), 1)),
        Eval::Binary(_) => Some((
            parse(&format!(
                "(x: f64[], y: f64[]) {{ z = {op} x, y return z }}"
            )),
            2,
        )),
        Eval::Many(fns) => {
            let n = fns.n_operands();
            let names = &["x", "y", "z", "w"][..n];
            let params: Vec<String> = names.iter().map(|x| format!("{x}: f64[]")).collect();
            let (params, args) = (params.join(", "), names.join(", "));
            Some((
                parse(&format!("({params}) {{ r = {op} {args} return r }}")),
                n,
            ))
        }
        _ => None,
    }
}

/// Returns the value and the derivative with respect to each operand, in forward mode.
fn value_and_slopes(program: &Program, at: &[f64]) -> (f64, Vec<f64>) {
    let slopes = (0..at.len()).map(|i| {
        let forward = ad::jvp(program, &program.params[i..=i], Calls::Joint);
        if !forward.active[0] {
            return 0.0;
        }
        let args: Vec<f64> = at.iter().copied().chain([1.0]).collect();
        run(&forward.program, &args)[1]
    });
    (run(program, at)[0], slopes.collect())
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-14 * b.abs()
}

/// Checks rows of op, operands, value and derivative with respect to each operand.
fn check(rows: &[(&str, &[f64], f64, &[f64])]) {
    for (op, at, value, slopes) in rows {
        let op = Op::from_name(op).unwrap_or_else(|| panic!("there is no op `{op}`"));
        let (program, _) = program(op).expect("an elementwise op");
        let (found, found_slopes) = value_and_slopes(&program, at);
        assert!(
            same(found, *value),
            "{op}{at:?} is {found}, and should be {value}"
        );
        assert!(
            found_slopes.iter().zip(*slopes).all(|(a, b)| same(*a, *b)),
            "the derivative of {op} at {at:?} is {found_slopes:?}, and should be {slopes:?}"
        );
    }
}

#[test]
fn kinks_and_ends_follow_the_conventions() {
    check(&[
        ("abs", &[0.0], 0.0, &[0.0]),
        ("abs", &[-2.0], 2.0, &[-1.0]),
        ("sign", &[0.0], 0.0, &[0.0]),
        ("sign", &[-3.0], -1.0, &[0.0]),
        ("sign", &[NAN], NAN, &[0.0]),
        ("stop_gradient", &[-3.0], -3.0, &[0.0]),
        ("relu", &[0.0], 0.0, &[0.0]),
        ("relu", &[-INF], 0.0, &[0.0]),
        ("relu", &[NAN], NAN, &[0.0]),
        ("sqrt", &[0.0], 0.0, &[INF]),
        ("log", &[0.0], -INF, &[INF]),
        ("rsqrt", &[0.0], INF, &[-INF]),
        ("reciprocal", &[0.0], INF, &[-INF]),
        ("maximum", &[1.5, 1.5], 1.5, &[0.5, 0.5]),
        ("maximum", &[2.0, 1.5], 2.0, &[1.0, 0.0]),
        ("maximum", &[NAN, 1.5], NAN, &[0.0, 0.0]),
        ("maximum", &[1.5, NAN], NAN, &[0.0, 0.0]),
        ("minimum", &[1.5, 1.5], 1.5, &[0.5, 0.5]),
        ("minimum", &[2.0, 1.5], 1.5, &[0.0, 1.0]),
        ("minimum", &[NAN, 1.5], NAN, &[0.0, 0.0]),
        ("minimum", &[1.5, NAN], NAN, &[0.0, 0.0]),
        ("div", &[1.0, 0.0], INF, &[INF, -INF]),
        ("pow", &[0.0, 0.0], 1.0, &[0.0, 0.0]),
        ("pow", &[0.0, 2.0], 0.0, &[0.0, 0.0]),
        ("pow", &[0.0, 1.0], 0.0, &[1.0, 0.0]),
        ("pow", &[0.0, 0.5], 0.0, &[INF, 0.0]),
        ("pow", &[-2.0, 3.0], -8.0, &[12.0, NAN]),
        ("pow", &[2.0, 0.0], 1.0, &[0.0, std::f64::consts::LN_2]),
    ]);
}

#[test]
fn no_digits_are_lost_in_the_tails() {
    // The expected values were computed with 50 digits (mpmath) and rounded once.
    check(&[
        ("sigmoid", &[-800.0], 0.0, &[0.0]),
        (
            "sigmoid",
            &[-30.0],
            9.357622968839299e-14,
            &[9.357622968838423e-14],
        ),
        ("sigmoid", &[800.0], 1.0, &[0.0]),
        (
            "softplus",
            &[-30.0],
            9.357622968839738e-14,
            &[9.357622968839299e-14],
        ),
        ("softplus", &[800.0], 800.0, &[1.0]),
        ("softplus", &[-INF], 0.0, &[0.0]),
        ("expm1", &[1e-12], 1.0000000000005e-12, &[1.000000000001]),
        ("expm1", &[-40.0], -1.0, &[4.248354255291589e-18]),
        ("log1p", &[1e-12], 9.999999999995e-13, &[0.999999999999]),
        (
            "gelu",
            &[-8.0],
            -4.976768459417427e-15,
            &[-3.979607261086796e-14],
        ),
        (
            "gelu_tanh",
            &[-4.0],
            -7.024594819237271e-05,
            &[-0.00033512319712267083],
        ),
        ("gelu", &[0.0], 0.0, &[0.5]),
        ("gelu_tanh", &[0.0], 0.0, &[0.5]),
        (
            "erfc",
            &[6.0],
            2.1519736712498913e-17,
            &[-2.617301239249265e-16],
        ),
        ("tanh", &[20.0], 1.0, &[0.0]),
    ]);
    for op in ["gelu", "gelu_tanh"] {
        let (program, _) = program(Op::from_name(op).unwrap()).unwrap();
        assert_eq!(run(&program, &[-INF])[0], 0.0);
        assert_eq!(run(&program, &[INF])[0], INF);
        assert!(run(&program, &[NAN])[0].is_nan());
    }
}

#[test]
fn slopes_and_curvatures_agree_with_differences() {
    // Central differences of 4th order.
    let difference = |f: &dyn Fn(f64) -> f64, x: f64| {
        let h = 1e-3;
        (8.0 * (f(x + h) - f(x - h)) - (f(x + 2.0 * h) - f(x - 2.0 * h))) / (12.0 * h)
    };
    for &op in Op::ALL {
        let Some((program, n)) = program(op) else {
            continue;
        };
        let (low, high) = op.def().laws().domain;
        for step in 0..7 {
            let point = |offset: f64| low + (high - low) * ((step as f64 + offset) / 7.0);
            let at = [
                point(0.31),
                high - (point(0.77) - low),
                high - (point(0.52) - low),
                point(0.64),
            ];
            let at = &at[..n];
            for i in 0..n {
                let forward = ad::jvp(&program, &program.params[i..=i], Calls::Joint);
                if !forward.active[0] {
                    continue;
                }
                let slope = |x: f64| {
                    let mut args = at.to_vec();
                    args[i] = x;
                    value_and_slopes(&program, &args).1[i]
                };
                let value = |x: f64| {
                    let mut args = at.to_vec();
                    args[i] = x;
                    run(&program, &args)[0]
                };
                let expected = difference(&value, at[i]);
                let found = slope(at[i]);
                assert!(
                    (found - expected).abs() <= 1e-7 * expected.abs().max(1.0),
                    "d{op}/d{i} at {at:?} is {found}, and the difference is {expected}"
                );
                // The second derivative, by forward mode over the forward-mode program.
                let second = ad::jvp(
                    &forward.program,
                    &forward.program.params[i..=i],
                    Calls::Joint,
                );
                let expected = difference(&slope, at[i]);
                let found = if second.active[1] {
                    let args: Vec<f64> = at.iter().copied().chain([1.0, 1.0]).collect();
                    *run(&second.program, &args).last().unwrap()
                } else {
                    0.0
                };
                assert!(
                    (found - expected).abs() <= 1e-7 * expected.abs().max(1.0),
                    "d2{op}/d{i}2 at {at:?} is {found}, and the difference is {expected}"
                );
            }
        }
    }
}

/// Returns the derivative with respect to the parameters with the given indices, one after the other.
fn derivative(program: &Program, order: &[usize], at: &[f64]) -> f64 {
    let mut program = program.clone();
    let mut args = at.to_vec();
    for i in order {
        program = ad::jvp(&program, &program.params[*i..=*i], Calls::Joint).program;
        args.push(1.0);
    }
    *run(&program, &args)
        .last()
        .expect("the last result is a tangent")
}

#[test]
fn derivatives_of_incomplete_functions_in_all_operands_agree_with_differences() {
    let pairs = [
        [0.4, 0.2],
        [0.7, 3.0],
        [2.5, 1.0],
        [9.0, 11.0],
        [30.0, 24.0],
    ];
    let pairs: Vec<Vec<f64>> = pairs.map(|at| at.to_vec()).into();
    let exponents = [[1.3, 0.4], [2.0, 1.0], [3.5, 8.0]];
    let exponents: Vec<Vec<f64>> = exponents.map(|at| at.to_vec()).into();
    let beta = [
        [0.4, 0.7, 0.3],
        [2.0, 3.0, 0.6],
        [9.0, 4.0, 0.5],
        [0.6, 12.0, 0.2],
        [14.0, 20.0, 0.4],
    ];
    let beta: Vec<Vec<f64>> = beta.map(|at| at.to_vec()).into();
    for (text, points) in [
        (
            "(a: f64[], x: f64[]) { y = gammainc a, x return y }",
            &pairs,
        ),
        (
            "(a: f64[], x: f64[]) { y = gammaincc a, x return y }",
            &pairs,
        ),
        (
            "(s: f64[], q: f64[]) { y = zeta s, q return y }",
            &exponents,
        ),
        (
            "(a: f64[], b: f64[], x: f64[]) { y = betainc a, b, x return y }",
            &beta,
        ),
    ] {
        let program = parse(text);
        let n = program.params.len();
        let mut orders: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
        for length in 1..3 {
            let longest: Vec<Vec<usize>> = orders
                .iter()
                .filter(|order| order.len() == length)
                .cloned()
                .collect();
            orders.extend(
                longest
                    .iter()
                    .flat_map(|o| (0..n).map(|i| [&o[..], &[i]].concat())),
            );
        }
        for order in &orders {
            let (last, before) = order.split_last().expect("an order has an index");
            for at in points {
                let h = 1e-3 * at[*last].min(1.0);
                let moved = |by: f64| {
                    let mut at = at.clone();
                    at[*last] += by * h;
                    derivative(&program, before, &at)
                };
                let wide = moved(2.0) - moved(-2.0);
                let expected = (8.0 * (moved(1.0) - moved(-1.0)) - wide) / (12.0 * h);
                let found = derivative(&program, order, at);
                assert!(
                    (found - expected).abs() <= 1e-7 * expected.abs().max(1.0),
                    "{text} by {order:?} at {at:?}: {found} instead of {expected}"
                );
            }
        }
    }
}

#[test]
fn integers_wrap() {
    fn unary(op: Op, x: i32) -> Option<i32> {
        let Eval::Unary(fns) = op.def().eval() else {
            panic!("`{op}` is not unary")
        };
        let mut y = [0];
        (fns.i32?.baseline)(&[x], &mut y);
        Some(y[0])
    }
    fn binary(op: Op, x: i64, y: i64) -> Option<i64> {
        let Eval::Binary(fns) = op.def().eval() else {
            panic!("`{op}` is not binary")
        };
        let mut z = [0];
        (fns.i64?.baseline)(&[x], &[y], &mut z);
        Some(z[0])
    }
    assert_eq!(unary(Op::Neg, i32::MIN), Some(i32::MIN));
    assert_eq!(unary(Op::Abs, i32::MIN), Some(i32::MIN));
    assert_eq!(unary(Op::Square, 65536), Some(0));
    assert_eq!(unary(Op::Sign, -7), Some(-1));
    assert_eq!(unary(Op::Relu, -7), Some(0));
    assert_eq!(unary(Op::Exp, 1), None);
    assert_eq!(binary(Op::Add, i64::MAX, 1), Some(i64::MIN));
    assert_eq!(binary(Op::Sub, i64::MIN, 1), Some(i64::MAX));
    assert_eq!(binary(Op::Mul, i64::MAX, 2), Some(-2));
    assert_eq!(binary(Op::Div, i64::MIN, -1), Some(i64::MIN));
    assert_eq!(binary(Op::Div, -7, 2), Some(-3));
    assert_eq!(binary(Op::Div, 7, 0), Some(0));
    assert_eq!(binary(Op::Maximum, -7, 2), Some(2));
    assert_eq!(binary(Op::Minimum, -7, 2), Some(-7));
    let powers = [
        (3, 4),
        (-2, 63),
        (2, 64),
        (0, 0),
        (5, -1),
        (1, -3),
        (-1, -3),
        (-1, -4),
        (0, -1),
    ];
    let expected = [81, i64::MIN, 0, 1, 0, 1, -1, 1, 0];
    assert_eq!(
        powers.map(|(x, y)| binary(Op::Pow, x, y).unwrap()),
        expected
    );
}

#[test]
fn comparisons_order_numbers_and_bools() {
    let names = ["eq", "ne", "lt", "le", "gt", "ge"];
    let fns = names.map(|name| match Op::from_name(name).map(|op| op.def().eval()) {
        Some(Eval::Compare(fns)) => fns,
        _ => panic!("`{name}` is not a comparison"),
    });
    let of = |x: f64, y: f64| {
        fns.map(|f| {
            let mut z = [255];
            (f.f64.baseline)(&[x], &[y], &mut z);
            z[0]
        })
    };
    assert_eq!(of(1.0, 2.0), [0, 1, 1, 1, 0, 0]);
    assert_eq!(of(2.0, 2.0), [1, 0, 0, 1, 0, 1]);
    assert_eq!(of(NAN, NAN), [0, 1, 0, 0, 0, 0]);
    let bools = fns.map(|f| {
        let mut z = [255];
        (f.bool.baseline)(&[false], &[true], &mut z);
        z[0]
    });
    assert_eq!(bools, [0, 1, 1, 1, 0, 0]);
}
