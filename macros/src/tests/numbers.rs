//! Number parameters that are only operands of arithmetic with tensors.

use crate::traced::body_of;

/// Checks the parameters of a function, and the operands that are computed from them.
#[track_caller]
fn check(params: &str, body: &str, expected: &[(u64, &str)]) {
    let source = format!("fn f(x: &Tensor, {params}) -> Tensor {{ {body} }}");
    let (body, errors) = body_of(&source);
    assert!(errors.is_empty(), "{errors:?}");
    let values = body.numbers().values;
    let found = values.iter().map(|value| {
        let text = value
            .tokens
            .to_string()
            .replace(":: core :: primitive :: ", "");
        (value.params, text.replace(" :: ", "::"))
    });
    let found: Vec<(u64, String)> = found.collect();
    let expected = expected
        .iter()
        .map(|(set, text)| (*set, (*text).to_owned()));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn operands_of_tensors_are_values() {
    check("lr: f64", "x - x * lr", &[(1, "lr")]);
    check("lr: f64", "let mut y = x * lr; y /= lr; y", &[(1, "lr")]);
    check("a: f32, b: f32", "b - x.sin() * a", &[(1, "a"), (2, "b")]);
    check(
        "lr: f64",
        "let y = x * lr; for _ in 0..3 { y = y.sin() * lr; } y",
        &[(1, "lr")],
    );
    check("p: f64", "x.abs().pow(p).maximum(p)", &[(1, "p")]);
    check(
        "n: usize",
        "if x.dim(0) > 2 { x * n } else { x.sin() }",
        &[(1, "n")],
    );
}

#[test]
fn arithmetic_on_numbers_is_part_of_a_value() {
    check("beta: f64", "x * (1.0 - beta)", &[(1, "(1.0 - beta)")]);
    check(
        "n: usize",
        "x * (n + 1)",
        &[(1, "usize::checked_add (n , 1) ?")],
    );
    check("n: u8", "x / n as f32", &[(1, "(n as f32)")]);
    check(
        "beta: f64, n: i32",
        "let c = 2.0; let t = beta.powi(n); x / (1.0 - t * c)",
        &[(3, "(1.0 - ((beta) . powi (n) * 2.0))")],
    );
    check(
        "lr: f64, beta: f64, step: i32",
        "let first = 1.0 - beta.powi(step); let second = 1.0 - (0.999f64).powi(step); (x / first) * -lr / ((x / second).sqrt() + 1e-8)",
        &[
            (1, "(- lr)"),
            (4, "(1.0 - (0.999f64) . powi (step))"),
            (6, "(1.0 - (beta) . powi (step))"),
        ],
    );
    check(
        "n: u8",
        "let k = n + 9; let y = x * n as f64; if y.dim(0) > 2 { y / k as f64 } else { y }",
        &[
            (1, "(u8::checked_add (n , 9) ? as f64)"),
            (1, "(n as f64)"),
            (1, "{ let _ = u8::checked_add (n , 9) ? ; true }"),
        ],
    );
    check("n: i32", "x * -n", &[(1, "i32::checked_neg (n) ?")]);
}

#[test]
fn a_number_with_another_use_is_no_value() {
    for body in [
        "x.sum(n) * n",
        "if n > 3 { x * n } else { x.sin() }",
        "let mut y = x * n; for _ in 0..n { y = y.sin(); } y",
        "x.reshape([n, -1]) * n",
        "let k = n; let y = x * k; y.sum(k)",
        "let y = x * n; assert!(y.dim(0) > 2, \"{n}\"); y",
        "let y = x * n; let n = 2; y.sum(n)",
        "dense(x, n) * n",
        "x * (n + x.dim(0))",
        "let c = 300; x * (n + (c as usize))",
    ] {
        check("n: usize", body, &[]);
    }
    check("n: &f64", "x * n", &[]);
    check("n: u128", "x * (n as f64)", &[]);
    check("a: f64, n: usize", "x.sum(n) * a * n", &[(1, "a")]);
    check(
        "a: f64, n: usize",
        "x.sum(n) * (a * n as f64)",
        &[(1, "(a * (n as f64))")],
    );
}

#[test]
fn the_number_of_a_key_is_a_value() {
    check(
        "key: Key, n: u32",
        "x + key.fold_in(n).normal(x.shape(), x.dtype())",
        &[(1, "n")],
    );
    check(
        "n: u32",
        "x + Key::new(0).fold_in(n).normal(x.shape(), x.dtype())",
        &[],
    );
}
