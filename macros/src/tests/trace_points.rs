//! Trace points of the feature `trace`: they are emitted on request only, here and in `emit::shadow`.

use crate::emit::shadow::IN_TEST;
use crate::traced::expand;
use proc_macro2::TokenStream;
use quote::ToTokens;

fn expansion(source: &str) -> TokenStream {
    let source: TokenStream = source.parse().expect("the test's source is tokens");
    expand(TokenStream::new(), source)
}

/// Returns the expansion with trace points.
fn with_points(source: &str) -> TokenStream {
    IN_TEST.set(true);
    let tokens = expansion(source);
    IN_TEST.set(false);
    tokens
}

/// Returns the names of the points in the user's body, in order.
fn points(body: &str) -> Vec<String> {
    let source = format!(
        "fn f(x: &Tensor, y: &Tensor, n: usize, list: &Vec<Tensor>) -> Tensor {{ {body} }}"
    );
    let text = with_points(&source).to_string();
    // The companions contain no points, but copies of the body without them.
    let points = text.split("trace_point (\"").skip(1);
    let names = points.filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// S3.26: the user writes no code, and the companions have none either.
#[test]
fn a_body_has_a_scope_points_and_counters() {
    let source = "fn f(x: &Tensor, n: usize) -> Tensor {
        let mut h = x.sin();
        for _ in 0..n { h = h.exp(); }
        h
    }";
    let file: syn::File = syn::parse2(with_points(source)).expect("an expansion is a file");
    let user = file.items[0].to_token_stream();
    let user = prettyplease::unparse(&syn::parse_quote!(#user));
    insta::assert_snapshot!(user, @r#"
    #[allow(dead_code)]
    fn f(x: &Tensor, n: usize) -> Tensor {
        let recording = ::gradloom::__private::cached!(
            | results | results.tensor(); new "::f", [0 leaf "x" x, 1 number "n" & n]
        );
        let y: Tensor = {
            ::gradloom::__private::register!(f::__reverse_loops, f::__forward_loops);
            fn __traced_body(x: &Tensor, n: usize) -> Tensor {
                let _scope = ::gradloom::__private::enter_function("f");
                let mut h = x.sin();
                {
                    use ::gradloom::__private::{
                        TracePoint as _, TracePointOfRef as _, UntracedPoint as _,
                    };
                    (&&&::gradloom::__private::PointArg(&h))
                        .trace_point("h", (::core::file!(), 2, 17));
                }
                {
                    let mut turns = ::gradloom::__private::point_loop();
                    for _ in 0..n {
                        turns.next();
                        h = h.exp();
                        {
                            use ::gradloom::__private::{
                                TracePoint as _, TracePointOfRef as _, UntracedPoint as _,
                            };
                            (&&&::gradloom::__private::PointArg(&h))
                                .trace_point("h", (::core::file!(), 3, 25));
                        }
                    }
                }
                h
            }
            __traced_body(x, n)
        };
        recording.end(y)
    }
    "#);
}

/// S3.4: without the feature, nothing is emitted.
#[test]
fn nothing_is_emitted_unless_it_is_asked_for() {
    let text = expansion("fn f(x: &Tensor) -> Tensor { let h = x.sin(); h.exp() }").to_string();
    for word in [
        "trace_point",
        "enter_function",
        "point_loop",
        "is_tracing",
        "suspend",
    ] {
        assert!(!text.contains(word), "{word}");
    }
}

/// The type of a point must be known, or rustc could not select its code.
#[test]
fn points_are_values_that_are_computed_from_tensors() {
    for (body, wanted) in [
        ("let h = x.sin(); h", &["h"][..]),
        ("let h = x * 2.0 + y; let g = &h - x; h + g", &["h", "g"]),
        (
            "let (a, b) = (x.sin(), n + 1); let c = a * b as f64; c",
            &["a", "c"],
        ),
        ("let (a, b) = pair(x); a + b", &["a", "b"]),
        ("let h: Tensor = made(n); h", &["h"]),
        ("let n = n + 1; let m = 3; x * (n + m) as f64", &[]),
        ("let s = list.iter().sum(); x + s", &[]),
        ("let v = x.to_vec(); x * last(v)", &[]),
        ("let unused = x.sin(); let _h = x.cos(); x.exp()", &[]),
        ("let h; h = x.sin(); h", &[]),
        (
            "let mut h = x.clone(); h = h.sin(); h += y; h",
            &["h", "h", "h"],
        ),
        ("let h = match n { 0 => one(), _ => x.sin() }; h", &["h"]),
        ("let h = if n > 1 { one() } else { x.cos() }; h", &["h"]),
        ("let h = { let t = x.sin(); t }; h", &["t", "h"]),
        ("let h = { let t = n + 1; t }; x * h as f64", &[]),
        ("let p = Pair { a: x.sin(), n }; p.a", &["p"]),
        (
            "let p = (x.sin(), x.cos()); let q = (x.sin(), n); p.0 * q.0",
            &["p"],
        ),
        ("let f = |x| { let y = x * 2; y }; x * f(n) as f64", &[]),
        ("let h = if n > 1 { x.sin() } else { x.cos() }; h", &["h"]),
        ("for x in 0..n { let y = x * 2; go(y); } x.sin()", &[]),
        (
            "fn g(x: &Tensor) -> Tensor { let h = x.sin(); h } x.cos()",
            &[],
        ),
        (
            "let m = list.iter().fold(0, |a, b| a + b.rank()); x * m as f64",
            &[],
        ),
    ] {
        assert_eq!(points(body), wanted, "{body}");
    }
}
