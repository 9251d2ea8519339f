//! Functions that differ in one place have different texts, and renaming a local does not change
//! the text.

use super::Digest;
use crate::input;
use crate::input::args::Args;
use crate::report::Errors;
use proc_macro2::{Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// Returns the digest of a function, or `None` if the macro refuses its signature.
fn digest(source: &TokenStream) -> Option<Digest> {
    let mut func: syn::ItemFn = syn::parse2(source.clone()).ok()?;
    let mut errors = Errors::default();
    let parsed = input::signature(&func.vis, &func.attrs, &mut func.sig, None, &mut errors);
    if !errors.is_empty() {
        return None;
    }
    Some(Digest::new(&parsed, &func.block, &Args::default()))
}

fn digest_of(source: &str) -> Digest {
    let tokens = source.parse().expect("the source has tokens");
    digest(&tokens).expect("the source is a function")
}

/// Functions that together use every construct that the digest handles.
const SOURCES: [&str; 5] = [
    "fn dense(#[shape(f32; B, 3)] x: &Tensor, #[nodiff] w: &Tensor, #[fixed] mode: Mode, n: usize) -> Tensor {
        let k = 3.0;
        #[save]
        let h = x.matmul(w).sum([0, 1]) * k;
        let g = h.reshape([2, -1]) + SCALE * helper(n);
        (g - &h).tanh() / limits::LOW
    }",
    "fn looped(m: &Model, x: &Tensor, n: usize) -> (Tensor, Tensor) {
        let mut y = x.clone();
        #[checkpoint(every = 4)]
        for (i, layer) in m.layers.iter().enumerate() {
            if i % 2 == 0 && n > 1 { y = layer.forward(&y); } else { y = y.relu(); }
        }
        let last = |a: &Tensor, b: &Tensor| a.maximum(b) - b;
        (last(&y, x), y.cast(DType::F64))
    }",
    "fn matched(x: &Tensor, mode: Mode, list: &[usize]) -> Tensor {
        let y = match (mode, list) {
            (Mode::Fast, [first, ..]) if *first > 0 => x.sum(*first),
            (Mode::Slow { axis, keep: other } , _) => x.mean(axis).sum(other),
            (_, &[]) => return x.exp(),
            _ => inner::net(x, &x)?,
        };
        while let Some(z) = list.first() { println!(\"{z} of {}\", list.len()); break; }
        y.stop_gradient()
    }",
    "fn closures(x: &Tensor, scale: f64) -> Tensor {
        const HALF: f64 = 0.5;
        fn double(v: f64) -> f64 { v * 2.0 }
        let parts = vec![x.sin(), x.cos()];
        let all = Part { first: double(scale), second: HALF, scale };
        let Part { first, second: s, .. } = all;
        parts.iter().fold(x * first, |acc, part| acc + part.scale(s))
    }",
    "fn statics<const N: usize>(x: &Tensor, r: std::ops::Range<usize>) -> Tensor {
        let [a, b] = x.split::<2>(0);
        let t = (r.start..r.end).map(|i| i as f64 * 1.5).sum::<f64>();
        let u = unsafe { COUNT };
        assert!(N > 1, \"too few\");
        -(a.pow(2) * t + &b[..u] & !b.gt(0.0))
    }",
];

/// Returns copies of the tokens with one token changed, for every token that can be changed.
fn mutations(tokens: &TokenStream) -> Vec<TokenStream> {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    let mut replace = |i: usize, with: Vec<TokenTree>| {
        let (before, after) = (&trees[..i], &trees[i + 1..]);
        found.push(
            before
                .iter()
                .cloned()
                .chain(with)
                .chain(after.iter().cloned())
                .collect(),
        );
    };
    for (i, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Literal(_) => replace(i, vec![Literal::i64_unsuffixed(91).into()]),
            TokenTree::Ident(_) => {
                replace(i, vec![Ident::new("changed", Span::call_site()).into()]);
            }
            TokenTree::Punct(punct) => {
                let other = match punct.as_char() {
                    '+' => '-',
                    '-' => '+',
                    '*' => '/',
                    '/' => '*',
                    '<' => '>',
                    '>' => '<',
                    '&' => '*',
                    '!' => '-',
                    '%' => '*',
                    _ => continue,
                };
                let other = Punct::new(other, punct.spacing());
                replace(i, vec![other.into()]);
            }
            TokenTree::Group(group) => {
                for inner in mutations(&group.stream()) {
                    replace(i, vec![Group::new(group.delimiter(), inner).into()]);
                }
                // Duplicates each part of a list or a block.
                replace(
                    i,
                    vec![tree.clone(), Punct::new('?', Spacing::Alone).into()],
                );
            }
        }
    }
    found
}

/// Functions with equal texts differ only in the names of locals.
///
/// If a mutation changes a token that binds or refers to a local, the texts may be equal only if
/// all other tokens are.
#[test]
fn functions_that_differ_in_one_place_have_different_texts() {
    for source in SOURCES {
        let tokens: TokenStream = source.parse().expect("the source has tokens");
        let original = digest(&tokens).expect("the source is a function");
        let (mut seen, mut n) = (BTreeMap::new(), 0);
        seen.insert(original.text, source.to_owned());
        for mutation in mutations(&tokens) {
            // Some mutations do not parse, and the function's name is not part of its text.
            let Some(mutated) = digest(&mutation) else {
                continue;
            };
            let written = mutation.to_string();
            if written.starts_with("fn changed") {
                continue;
            }
            n += 1;
            let before = seen.insert(mutated.text.clone(), written.clone());
            if let Some(before) = before {
                assert_eq!(
                    locals_renamed(&before),
                    locals_renamed(&written),
                    "{}",
                    mutated.text
                );
            }
        }
        assert!(n > 40, "{n} mutations of {source}");
    }
}

/// Returns the source with all bound names, and `changed`, replaced by `_`: an unused binding may
/// have any name.
fn locals_renamed(source: &str) -> String {
    let tokens: TokenStream = source.parse().expect("the source parsed as tokens before");
    let func: syn::ItemFn =
        syn::parse2(tokens.clone()).expect("the source parsed as a function before");
    struct Bound(Vec<String>);
    impl<'ast> syn::visit::Visit<'ast> for Bound {
        fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
            self.0.push(pat.ident.to_string());
        }
    }
    let mut bound = Bound(vec!["changed".to_owned()]);
    syn::visit::Visit::visit_item_fn(&mut bound, &func);
    fn replace(tokens: TokenStream, bound: &[String]) -> String {
        let words = tokens.into_iter().map(|token| match token {
            TokenTree::Ident(ident) if bound.contains(&ident.to_string()) => "_".to_owned(),
            TokenTree::Group(group) => {
                format!("{:?} {}", group.delimiter(), replace(group.stream(), bound))
            }
            other => other.to_string(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
    replace(tokens, &bound.0)
}

#[test]
fn renaming_a_local_does_not_change_the_text() {
    let pairs = [
        ("let k = 3.0; x * k", "let factor = 3.0; x * factor"),
        (
            "let h = x.exp(); let h = &h + &h; h",
            "let a = x.exp(); let b = &a + &a; b",
        ),
        (
            "let f = |a: &Tensor| a + x; f(x)",
            "let g = |b: &Tensor| b + x; g(x)",
        ),
        (
            "let mut y = x.exp(); for i in 0..3 { y = y * i; } y",
            "let mut z = x.exp(); for k in 0..3 { z = z * k; } z",
        ),
        (
            "let [a, b] = x.split(0); a * b",
            "let [p, q] = x.split(0); p * q",
        ),
        (
            "let all = vec![x.sin()]; f(&all)",
            "let list = vec![x.sin()]; f(&list)",
        ),
        ("let k = x; Part { k }", "let h = x; Part { k: h }"),
        (
            "match x { Some(a) | Other(a) if a > 0 => a, b => b }",
            "match x { Some(p) | Other(p) if p > 0 => p, q => q }",
        ),
        (
            "if let Some(a) = x { a } else { x }",
            "if let Some(b) = x { b } else { x }",
        ),
    ];
    for (a, b) in pairs {
        let [a, b] =
            [a, b].map(|body| digest_of(&format!("fn f(x: &Tensor) -> Tensor {{ {body} }}")).text);
        assert_eq!(a, b);
    }
    let parameter = digest_of("fn f(weights: &Tensor) -> Tensor { weights * weights }");
    assert_eq!(
        parameter.text,
        digest_of("fn g(w: &Tensor) -> Tensor { w * w }").text
    );
}

#[test]
fn names_that_are_not_certainly_locals_change_the_text() {
    let pairs = [
        ("let k = k; x * k", "let h = h; x * h"),
        ("let g = g(x); g", "let h = h(x); h"),
        (
            "let (a, b) = (x, y); show!(a)",
            "let (b, a) = (x, y); show!(a)",
        ),
        (
            "let (a, b) = (x, y); format!(\"{a}\")",
            "let (b, a) = (x, y); format!(\"{a}\")",
        ),
        ("{ let k = 1; } x * k", "{ let h = 1; } x * h"),
        ("let f = |a| a; f(a)", "let f = |b| b; f(b)"),
        ("let (a, b) = (x.a, x.b); a", "let (a, b) = (x.b, x.a); a"),
        ("let a = x; a.a()", "let b = x; b.b()"),
        ("if let Some(a) = x {} a", "if let Some(b) = x {} b"),
    ];
    for (a, b) in pairs {
        let [a, b] =
            [a, b].map(|body| digest_of(&format!("fn f(x: &Tensor) -> Tensor {{ {body} }}")).text);
        assert_ne!(a, b);
    }
}

#[test]
fn constants_that_a_function_mentions_are_found() {
    let digest = digest_of(
        "fn f(x: &Tensor) -> Tensor {
            const OWN: f64 = 1.0;
            let N = 3;
            let y = x * SCALE + vec![limits::LOW; f64::DIGITS];
            y * OWN * N * Mode::Fast * unsafe { COUNT } * Self::GAIN * MAKE(1)
        }",
    );
    let names = digest.constants.iter().map(input::text).collect::<Vec<_>>();
    assert_eq!(names, ["SCALE", "limits::LOW", "f64::DIGITS"]);
}
