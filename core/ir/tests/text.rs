//! The text form round-trips, and syntax errors tell the position and the reason.

use gradloom_ir::{Aval, Builder, Op, Program};

#[track_caller]
fn round_trip(text: &str) {
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let printed = program.to_string();
    let again: Program = printed.parse().unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again.to_string(), printed);
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(text.parse::<Program>().unwrap_err().to_string(), message);
}

#[test]
fn every_sample_round_trips() {
    for op in Op::ALL.iter().chain(Op::CONTROL) {
        for sample in op.def().laws().samples {
            round_trip(sample);
        }
    }
}

#[test]
fn names_avals_and_statics_round_trip() {
    round_trip("() { return }");
    round_trip("(v0, x: ?[..], y: f32[B, ?, 3]) { h = mul x, y return h, v0 }");
    round_trip(
        "(x) { y = scalar[value=-0.0] like x z = scalar[value=nan:7ff8000000000001] like x return y, z }",
    );
    round_trip("(x) { y = sum[axes=`axis + 1`, keepdims=true] x, like x return y }");
    round_trip("(x) { y = sum[axes=[-1, 0], keepdims=false] x, like x return y }");
}

#[test]
fn user_names_that_the_text_form_reserves_get_an_underscore() {
    let mut b = Builder::new();
    let vars: Vec<_> = ["v1", "like", "return", "x", "x"]
        .iter()
        .map(|name| {
            let v = b.param(Aval::UNKNOWN);
            b.name(v, name);
            v
        })
        .collect();
    let program = b.finish(vars.clone(), vars);
    assert_eq!(
        program.to_string(),
        "(v1_, like_, return_, x, x_1) {\n  return v1_, like_, return_, x, x_1\n}"
    );
    round_trip(&program.to_string());
}

#[test]
fn syntax_errors_tell_the_position_and_the_reason() {
    refused("(x { return x }", "1:4: expected `,` or `)`, found `{`");
    refused(
        "(x) {\n  y = tahn x\n  return y\n}",
        "2:7: there is no op `tahn`",
    );
    refused(
        "(x) { y = add x return y }",
        "1:15: `add` does not take 1 operands",
    );
    refused(
        "(x) { y = sum[axis=0, keepdims=true] x, like x return y }",
        "1:15: expected the static argument `axes` of `sum`, found `axis`",
    );
    refused(
        "(x) { y = sum[axes=zero, keepdims=true] x, like x return y }",
        "1:20: `zero` is not a value of a static argument",
    );
    refused(
        "(x) { y = sum[axes=0, keepdims=true] x, x return y }",
        "1:38: `sum` takes 1 values (`x`) and then 1 shapes (`like x`)",
    );
    refused("(x: f8[2]) { return x }", "1:5: there is no dtype `f8`");
    refused(
        "(x) { return x } tail",
        "1:18: expected the end, found `tail`",
    );
}
