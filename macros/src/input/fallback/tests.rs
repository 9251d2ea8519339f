//! The emitted items while a body is being typed.

use crate::traced::expand;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;

fn tokens(source: &str) -> TokenStream {
    source.parse().expect("the test's source is tokens")
}

/// Returns the expansion without the user's item, which need not parse.
fn companions(source: &str) -> syn::File {
    let expansion = expand(TokenStream::new(), tokens(source)).into_iter();
    // The item ends with its body.
    let mut rest = expansion.skip_while(
        |t| !matches!(t, TokenTree::Group(g) if g.delimiter() == proc_macro2::Delimiter::Brace),
    );
    rest.next();
    syn::parse2(rest.collect()).expect("companions parse for every body")
}

/// Returns the signatures of all functions, and the names and generics of all types.
fn interface(file: &syn::File) -> BTreeSet<String> {
    struct Collect(BTreeSet<String>);
    impl<'ast> syn::visit::Visit<'ast> for Collect {
        fn visit_signature(&mut self, sig: &'ast syn::Signature) {
            self.0.insert(sig.to_token_stream().to_string());
        }
        fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
            let generics = &item.generics;
            self.0
                .insert(format!("{} {}", item.ident, generics.to_token_stream()));
        }
        fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
            self.0.insert(item.ident.to_string());
        }
    }
    let mut collect = Collect(BTreeSet::new());
    syn::visit::Visit::visit_file(&mut collect, file);
    // `pull` and the loops of a straight-line function are not part of its interface.
    let inner = |s: &String| s.starts_with("fn pull ") || s.ends_with("loops ()");
    collect.0.retain(|s| !inner(s));
    collect.0
}

const HEADS: [&str; 4] = [
    "fn f(x: &Tensor, w: Tensor, axis: i64) -> Tensor",
    "pub fn f(x: &Tensor, #[nodiff] y: &Tensor) -> (Tensor, Tensor)",
    "fn f(x: &Tensor, model: &Mlp) -> gradloom::Result<Tensor>",
    "pub(crate) fn f<'a, M: Layer + Tree, const N: usize>(x: &'a Tensor, m: &'a M) -> Tensor where M: Sized",
];

const HALF_TYPED: [&str; 14] = [
    "x.",
    "x.matmul(",
    "let y = ",
    "let y = ; x.sin()",
    "let y = x.sin() y.cos()",
    "let",
    "for i in 0..3",
    "for i in x.sin() }",
    "if axis > ",
    "x +",
    "x.sin().",
    "match axis { 1 => x.sin(), 2 => }",
    "let y = x.exp(; y.",
    "x.sin(",
];

/// Returns the text with every bracket closed, because the lexer rejects unbalanced brackets before
/// any macro runs.
fn closed(body: &str) -> String {
    let mut open = Vec::new();
    let mut out = String::new();
    for c in body.chars() {
        let closing = match c {
            '(' => Some(')'),
            '{' => Some('}'),
            '[' => Some(']'),
            _ => None,
        };
        if let Some(closing) = closing {
            open.push(closing);
        } else if ")}]".contains(c) && open.pop_if(|open| *open == c).is_none() {
            continue;
        }
        out.push(c);
    }
    out.extend(open.iter().rev());
    out
}

fn whole(head: &str) -> &'static str {
    match head {
        h if h.contains("Result") => "Ok(x.sin())",
        h if h.contains("(Tensor, Tensor)") => "(x.sin(), x.cos())",
        _ => "x.sin()",
    }
}

#[test]
fn a_half_typed_body_has_the_companions_of_a_complete_one() {
    for head in HEADS {
        let expected = interface(&companions(&format!("{head} {{ {} }}", whole(head))));
        assert!(expected.len() > 5, "{expected:?}");
        for body in HALF_TYPED.map(closed) {
            let source = format!("{head} {{ {body} }}");
            assert_eq!(interface(&companions(&source)), expected, "{source}");
        }
    }
}

#[test]
fn a_half_typed_body_is_emitted_unchanged_and_only_rustc_reports_it() {
    for head in HEADS {
        for body in HALF_TYPED.map(closed) {
            let source = format!("{head} {{ {body} }}");
            if syn::parse_str::<syn::ItemFn>(&source).is_ok() {
                continue;
            }
            let expansion = expand(TokenStream::new(), tokens(&source)).to_string();
            let text = tokens(&format!("{{ {body} }}")).to_string();
            assert!(expansion.contains(&text), "{source}: {expansion}");
            assert!(
                !expansion.contains("compile_error"),
                "{source}: {expansion}"
            );
            assert!(!expansion.contains("nodiff"), "{source}: {expansion}");
        }
    }
}

#[test]
fn errors_in_the_signature_are_reported_despite_a_half_typed_body() {
    let source = "fn f(x: &Tensor, #[nodif] y: &Tensor) -> Tensor { x. }";
    let expansion = expand(TokenStream::new(), tokens(source)).to_string();
    assert_eq!(expansion.matches("compile_error").count(), 1, "{expansion}");
    assert!(
        expansion.contains("did you mean `#[nodiff]`"),
        "{expansion}"
    );
    assert!(expansion.contains("fn vjp"), "{expansion}");
}

#[test]
fn attributes_of_the_macro_are_removed_from_a_half_typed_body() {
    let source = "fn f(x: &Tensor) -> Tensor { { #[save] let y = x.sin(); } #[recompute] let z = x.cos(); #[allow(unused)] let a = 1; z. }";
    let expansion = expand(TokenStream::new(), tokens(source)).to_string();
    let body = tokens("{ { let y = x.sin(); } let z = x.cos(); #[allow(unused)] let a = 1; z. }");
    assert!(expansion.contains(&body.to_string()), "{expansion}");
}

#[test]
fn one_half_typed_method_leaves_the_other_methods_alone() {
    let imp = |body: &str| {
        format!(
            "impl<M: Layer> Block<M> {{
                /// Makes one.
                pub fn new(m: M) -> Self {{ Block {{ m }} }}
                const N: usize = 2;
                pub fn forward(&self, x: &Tensor) -> Tensor {{ {body} }}
                fn other(&self, x: &Tensor) -> Tensor {{ x.sin() }}
            }}"
        )
    };
    let expand = |source: &str| expand(TokenStream::new(), tokens(source));
    // The expansion of an impl block parses once the half-typed body is replaced.
    let emptied = |body: &str, parsed: &str| {
        let text = expand(&imp(body)).to_string();
        let (body, parsed) = (tokens(body).to_string(), tokens(parsed).to_string());
        let text = text.replacen(&format!("{{ {body} }}"), &format!("{{ {parsed} }}"), 1);
        syn::parse_file(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    // The function of a body that is set aside is an implementation detail.
    let interface = |file: &syn::File| {
        let mut all = interface(file);
        all.retain(|item| !item.starts_with("fn __traced_forward_body"));
        all
    };
    let expected = interface(&emptied("x.cos()", "x.cos()"));
    assert!(
        expected.iter().any(|s| s.starts_with("fn other_vjp")),
        "{expected:?}"
    );
    for body in HALF_TYPED.map(closed) {
        assert_eq!(interface(&emptied(&body, "x.cos()")), expected, "{body}");
        let file = emptied(&body, "x.cos()").to_token_stream().to_string();
        // The other method is still differentiated at compile time.
        assert!(
            file.contains("x.sin()") || file.contains("x . sin ()"),
            "{file}"
        );
        assert!(!file.contains("compile_error"), "{file}");
    }
}

#[test]
fn items_without_a_function_are_not_taken_for_half_typed_ones() {
    for source in [
        "fn f();",
        "struct S { x: }",
        "impl S { fn f( }",
        "fn (x: &Tensor) { x. }",
    ]
    .map(closed)
    {
        assert!(super::function(tokens(&source)).is_none(), "{source}");
        assert!(super::methods(tokens(&source)).is_none(), "{source}");
    }
}
