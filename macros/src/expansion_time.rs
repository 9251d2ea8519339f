//! How long an expansion takes: `cargo test --release -p gradloom-macros expansion_time -- --ignored --nocapture` prints it.

use crate::traced::expand;
use proc_macro2::TokenStream;
use std::time::Instant;

/// Functions of some number of ops, each of which makes another part of the macro work.
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

/// The milliseconds of the shortest of a few expansions: the others waited for something.
fn time(params: &str, step: &str, n: usize, runs: usize) -> f64 {
    let once = || {
        let source = source(params, step, n);
        let start = Instant::now();
        let tokens = expand(TokenStream::new(), source);
        let took = start.elapsed();
        assert!(!tokens.to_string().contains("compile_error"));
        took
    };
    let shortest = (0..runs).map(|_| once()).min().expect("it runs");
    1e3 * shortest.as_secs_f64()
}

#[test]
#[ignore = "it measures time"]
fn expansion_time_grows_with_the_number_of_ops_and_not_faster() {
    println!(
        "{:12} {:>9} {:>9} {:>9} ms",
        "", "10 ops", "100 ops", "1000 ops"
    );
    for (name, params, step) in FORMS {
        let [a, b, mut c] =
            [(10, 5), (100, 3), (1_000, 1)].map(|(n, runs)| time(params, step, n, runs));
        if c > 40.0 * b {
            c = c.min(time(params, step, 1_000, 3));
        }
        println!("{name:12} {a:9.2} {b:9.2} {c:9.2}");
        // Ten times as much in a linear expansion, a hundred times in a quadratic one.
        assert!(c < 40.0 * b, "{name}: {c} ms for 1,000 ops, {b} ms for 100");
    }
}
