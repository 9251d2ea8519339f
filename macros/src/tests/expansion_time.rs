//! Measures the duration and the length of expansions.
//!
//! `cargo test --release -p gradloom-macros expansion_time -- --nocapture` prints both. Only the
//! length is asserted, because it does not depend on the machine.

use crate::traced::expand;
use proc_macro2::TokenStream;
use std::time::Instant;

/// Functions of a variable number of ops, each of which exercises a different part of the macro.
const FORMS: &[(&str, &str, &str)] = &[
    ("locals", "x: &Tensor", "let a# = a@.tanh();"),
    ("shadowed", "x: &Tensor", "let a0 = a0.exp() ;"),
    (
        "broadcast",
        "x: &Tensor, w: &Tensor",
        "let a# = a@.sin() * w;",
    ),
    (
        "statics",
        "x: &Tensor, n: usize",
        "let a# = a@.sum(n + #) ;",
    ),
    (
        "host values",
        "x: &Tensor",
        "let n# = a@.dim(0); let a# = a@.cos();",
    ),
    ("places", "x: &Tensor, m: &Model", "let a# = a@ * &m.w[#];"),
    ("calls", "x: &Tensor", "let a# = net::dense(&a@, #);"),
    (
        "methods",
        "x: &Tensor, m: &Model",
        "let a# = m.layers[#].run(&a@);",
    ),
];

fn source(params: &str, step: &str, n: usize) -> TokenStream {
    let steps = (1..=n).map(|i| {
        step.replace('#', &i.to_string())
            .replace('@', &(i - 1).to_string())
    });
    let (steps, last) = (
        steps.collect::<String>(),
        if step.contains("a#") { n } else { 0 },
    );
    let text = format!("fn f({params}) -> Tensor {{ let a0 = x.sin(); {steps} a{last} }}");
    text.parse().expect("the source is tokens")
}

/// Returns the milliseconds that an expansion takes, and the length of its text in bytes.
fn measure(params: &str, step: &str, n: usize) -> (f64, usize) {
    let source = source(params, step, n);
    let start = Instant::now();
    let tokens = expand(TokenStream::new(), source);
    let took = start.elapsed();
    let text = tokens.to_string();
    assert!(!text.contains("compile_error"));
    (1e3 * took.as_secs_f64(), text.len())
}

#[test]
fn expansions_grow_linearly_with_the_number_of_ops() {
    println!(
        "ms (KiB)      {:>15} {:>15} {:>15}",
        "10 ops", "100 ops", "1000 ops"
    );
    for (name, params, step) in FORMS {
        let found = [10, 100, 1_000].map(|n| measure(params, step, n));
        let show = found.map(|(ms, bytes)| format!("{ms:.2} ({})", bytes / 1024));
        println!("{name:13} {:>15} {:>15} {:>15}", show[0], show[1], show[2]);
        // Ten times the ops may give thirteen times the bytes, because the numbers get a digit
        // longer.
        let [_, (_, b), (_, c)] = found;
        assert!(
            c < 13 * b,
            "{name}: {c} bytes for 1,000 ops, {b} bytes for 100"
        );
    }
}
