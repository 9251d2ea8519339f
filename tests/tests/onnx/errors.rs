//! Programs without an ONNX form, and constants that do not fit, are named errors.

use gradloom_ir::Program;
use gradloom_onnx::{Elements, export, write};

fn program(text: &str) -> Program {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> String {
    let error = export(&program(text), "f", &[]).expect_err("the program has no ONNX form");
    error.to_string()
}

#[test]
fn ops_without_a_form_are_named_with_the_reason() {
    assert_eq!(
        error("(x: f32[2]) { y = lgamma x return y }"),
        "`lgamma` has no ONNX form: ONNX has no such function"
    );
    assert_eq!(
        error("(x: i64[2], n: i64[2]) { y = pow x, n return y }"),
        "`pow` has no ONNX form: runtimes compute the power of integers in floats"
    );
    assert_eq!(
        error("(x: f64[2]) { y = pad_zeros[low=[0], high=[0], interior=[1]] x, like x return y }"),
        "`pad_zeros` has no ONNX form: ONNX does not pad between elements"
    );
    assert_eq!(
        error("(x: f64[2]) { z = call[callee=`layer`] x return z }"),
        "`call` has no ONNX form: it calls a function whose program is not part of this one; export a trace"
    );
    assert_eq!(
        error(
            "(n: i32[], x: f64[], ct: f64[]) { a = while_back[cond_forward_backward=<(n: i32[], x: f64[]) { zero = full[shape=[], value=0, dtype=i32] c = gt n, zero return c } | (n: i32[], x: f64[]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one y = mul x, x return m, y, x } | (x: f64[], ct: f64[]) { a = mul ct, x return a }>, consts=0, carry=2] n, x, ct return a }"
        ),
        "`while_back` has no ONNX form: it is part of a derivative, and ONNX models are for inference"
    );
}

#[test]
fn what_is_not_known_is_named() {
    assert_eq!(
        error("(x: f32[B, 3]) { y = exp x return y }"),
        "a parameter is `f32[B, 3]`, expected numbers as lengths; export a trace"
    );
    assert_eq!(
        error("(x: f64[2]) { y = sum[axes=`axes`, keepdims=false] x, like x return y }"),
        "`axes` of `sum` is the host expression `axes`, which is known only at run time; export a trace"
    );
}

#[test]
fn constants_that_do_not_fit_are_named() {
    let program = program("(x: f32[2], w: f32[2]) { y = mul x, w return y }");
    let failed = |constants: &[(usize, Elements<'_>)]| {
        export(&program, "f", constants)
            .expect_err("the constants do not fit")
            .to_string()
    };
    assert_eq!(
        failed(&[(1, Elements::F32(&[1.0]))]),
        "the constant for `w` has 1 elements of f32, expected those of f32[2]"
    );
    assert_eq!(
        failed(&[(1, Elements::I32(&[1, 2]))]),
        "the constant for `w` has 2 elements of i32, expected those of f32[2]"
    );
    let w = Elements::F32(&[1.0, 2.0]);
    assert_eq!(
        failed(&[(2, w)]),
        "a constant is given for parameter 2, twice or out of range: there are 2 parameters"
    );
    assert_eq!(
        failed(&[(1, w), (1, w)]),
        "a constant is given for parameter 1, twice or out of range: there are 2 parameters"
    );
    let path = std::env::temp_dir().join("gradloom-no-such-folder/model.onnx");
    let error = write(&path, &program, "f", &[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot write `"), "{error}");
}
