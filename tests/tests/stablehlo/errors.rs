//! Programs without a StableHLO form are named errors.

use gradloom_ir::{Aval, DType, Program, ad};
use gradloom_stablehlo::{ExportError, export, export_donating, specialise};

fn error(text: &str) -> String {
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let error = export(&program, "f").expect_err("the program has no StableHLO form");
    error.to_string()
}

#[test]
fn lengths_that_are_names_are_refused_and_replaced() {
    let text = "(x: f32[B, 3]) { y = exp x return y }";
    assert_eq!(
        error(text),
        "a parameter is `f32[B, 3]`: StableHLO wants numbers; give the types of the parameters to `specialise`"
    );
    let program: Program = text.parse().unwrap();
    let special = specialise(&program, &[Aval::new(DType::F32, &[2, 3])]).unwrap();
    assert!(export(&special, "f").unwrap().contains("tensor<2x3xf32>"));
    let found = specialise(&program, &[]).expect_err("a type is missing");
    assert_eq!(
        found,
        ExportError::Arity {
            found: 0,
            expected: 1
        }
    );
    let refused = specialise(&program, &[Aval::new(DType::Bool, &[2, 3])]);
    assert!(matches!(refused, Err(ExportError::Refused(_))));
}

#[test]
fn a_donated_argument_is_a_parameter() {
    let program: Program = "(x: f32[3]) { y = exp x return y }".parse().unwrap();
    let error = export_donating(&program, "f", &[0, 1]).expect_err("there is one parameter");
    assert_eq!(
        error.to_string(),
        "argument 1 is donated, and the number of parameters is 1"
    );
}

#[test]
fn derivatives_in_parameters_of_distributions_are_refused_by_their_names() {
    assert_eq!(
        error("(a: f64[2], x: f64[2], n: f64[]) { y = gammainc_da a, x, n return y }"),
        "`gammainc_da` has no StableHLO form: it is a derivative in a parameter"
    );
    assert_eq!(
        error("(a: f64[2], x: f64[2], n: f64[]) { y = gamma_density a, x, n return y }"),
        "`gamma_density` has no StableHLO form: its order is not the constant 0, so it is a derivative in a parameter"
    );
    // The second derivative in `x` has the order `max(0 - 1, 0)`.
    let program: Program = "(a: f64[2], x: f64[2]) { y = gammainc a, x return y }"
        .parse()
        .unwrap();
    let slope = |program: &Program| {
        let x = program.params[1];
        ad::jvp(program, &[x], ad::Calls::Joint).program
    };
    let second = slope(&slope(&program));
    assert!(second.to_string().contains("maximum"));
    export(&second, "f").unwrap();
}

#[test]
fn host_code_is_refused_by_its_name() {
    assert_eq!(
        error(
            "(y: f64[2], x: f64[2], dy: f64[2]) { z = custom_tangent[code=`square#1`, outs=1, active=[0]] y, x, dy return z }"
        ),
        "`custom_tangent` runs the host code `square#1`, which has no program"
    );
    assert_eq!(
        error("(x: f64[2]) { z = call[callee=`layer`] x return z }"),
        "`call` calls `layer`, whose program is not part of this one; export a trace"
    );
    assert_eq!(
        error("(x: f64[2]) { y = sum[axes=`axes`, keepdims=false] x, like x return y }"),
        "`axes` of `sum` is the host expression `axes`, which is known only at run time; export a trace"
    );
    assert_eq!(
        error(
            "(b: f64[2], dx: f64[2]) { dy = custom_lin[backward=<(b: f64[2], ct: f64[2]) { p = mul ct, b return p }>, consts=0, saved=1] b, dx return dy }"
        ),
        "`custom_lin` has no forward form: export its transpose"
    );
}

#[test]
fn a_collective_outside_of_a_shard_map_is_refused() {
    assert_eq!(
        error("(x: f64[2]) { y = axis_index[over={d: 2}] return y }"),
        "`axis_index` is not in a `shard_map`"
    );
}

#[test]
fn meshes_of_different_sizes_are_refused() {
    let constraint =
        |mesh: &str| format!("sharding_constraint[spec=mesh {mesh} sharding<@m, [{{\"a\"}}]>]");
    let two = constraint("@m <[\"a\"=2]>");
    let four = constraint("@m <[\"a\"=4]>");
    assert_eq!(
        error(&format!(
            "(x: f64[8]) {{ y = {two} x z = {four} y return z }}"
        )),
        "the meshes @m <[\"a\"=2]> and @m <[\"a\"=4]> have different numbers of devices, and XLA divides a program over one"
    );
}
