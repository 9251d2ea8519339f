//! Snapshot tests of programs, expansions and messages for given source text.
//!
//! `INSTA_UPDATE=always cargo test -p gradloom-macros` writes the snapshots.

mod expansion_time;
mod generated;
mod methods;
mod mutations;
mod numbers;
mod trace_points;

use crate::derivative::programs;
use crate::program::Body;
use crate::traced::{body_of, expand};
use proc_macro2::TokenStream;

/// Returns the program of a function, the reason why it is recorded, or its errors.
///
/// Passes and derivatives are tested in `gradloom-ir`; only a few functions show all steps.
fn program(name: &str, source: &str) -> String {
    let (body, errors) = body_of(source);
    if !errors.is_empty() {
        return errors.join("\n");
    }
    match body {
        Body::Compiled(flow) => {
            let Some(low) = flow.straight() else {
                return format!("flow: {}\n", flow.text());
            };
            let all = ["dense", "call", "save_and_recompute"].contains(&name);
            let programs = programs(low)
                .into_iter()
                .filter(|(step, _)| all || *step == "lowered");
            programs
                .map(|(step, program)| format!("{step}: {program}\n"))
                .collect()
        }
        Body::Recorded(reason) => format!("recorded: {reason}"),
    }
}

fn expansion(args: &str, source: &str) -> String {
    let parse = |text: &str| {
        text.parse::<TokenStream>()
            .expect("the test's source is tokens")
    };
    let tokens = expand(parse(args), parse(source));
    let file = syn::parse2(tokens).expect("an expansion is a file");
    prettyplease::unparse(&file)
}

fn check_program(name: &str, source: &str) {
    insta::with_settings!({ description => source, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, program(name, source));
    });
}

/// Functions with bodies that are straight-line, and with bodies that are not.
pub(crate) const FORMS: &[(&str, &str)] = &[
    (
        "dense",
        "fn f(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor { let h = x.matmul(w) + b; h.tanh() }",
    ),
    (
        "lengths that are host values",
        "fn f(#[shape(B, T, 3 * D)] x: &Tensor, n: usize) -> Tensor { let (b, t) = (x.dim(0), x.dim(1)); let d = x.shape()[2] / 3; let parts = x.reshape([b, t, 3, d]); let heads = parts.reshape([b * t, n, -1]); let flat = heads.reshape(&[-1, 3 * x.dim(-1) / 3]); let mut k = 2; k += 1; flat.reshape([k, -1]) }",
    ),
    (
        "dims that are sums and products",
        "fn f(#[shape(2 * B, T - 1)] x: &Tensor, #[shape(B + B, (T + 1) * B, _)] y: &Tensor) -> Tensor { let z = x.reshape([-1]); z.sum(..) * y }",
    ),
    (
        "shadowing",
        "fn f(x: &Tensor) -> Tensor { let x = x.sin(); let x = x.exp(); { let x = x.neg(); x } * x }",
    ),
    (
        "assignment",
        "fn f(x: &Tensor) -> Tensor { let mut h = x.clone(); h = h.sin(); h += x; h *= 2.0; h -= 1.0; h /= x; h }",
    ),
    (
        "patterns",
        "fn f(x: &Tensor) -> Tensor { let (a, _) = (x.sin(), x.cos()); let [p, q] = a.split(0); let (s, (t, u)) = (p, (q, x)); s * t + u }",
    ),
    (
        "tuple_result",
        "fn f(x: &Tensor, y: Tensor) -> (Tensor, (Tensor, Tensor)) { let z = x * &y; (z.sum(..), (z, x.clone())) }",
    ),
    (
        "numbers",
        "fn f(x: &Tensor, a: f32, n: usize) -> Tensor { let c = -0.5; (1.0 - x * a) / (n + 1) as f32 + c + 0.1f32 }",
    ),
    (
        "statics",
        "fn f(x: &Tensor, axis: i64, dims: &[usize]) -> Tensor { let last = axis + 1; x.sum(last).mean([0, -1]).max(..).reshape(dims).broadcast_to([2, 3]) }",
    ),
    (
        "readers",
        "fn f(x: &Tensor, n: usize) -> Tensor { let h = x.exp(); let k = h.dim(0) * n; let (a, b) = (h.rank(), k + 1); x.reshape([k, b]) * (a as f32) }",
    ),
    (
        "dead_but_read",
        "fn f(x: &Tensor) -> Tensor { let h = x.matmul(x); x.reshape((h.dim(0), -1)) }",
    ),
    (
        "places",
        "fn f(model: &Mlp, x: &Tensor, i: usize) -> Tensor { let m = model; x.matmul(&m.layers[0].w) + &m.layers[i].b * m.scale + &m.layers[i + 1].b }",
    ),
    (
        "tree_pattern",
        "fn f(pair: &(Tensor, Tensor)) -> Tensor { let (a, b) = pair; a * b + &pair.0 }",
    ),
    (
        "call",
        "fn f(x: &Tensor, w: &Tensor) -> Tensor { let h = net::dense(x, w, 3, \"tanh\"); h.sin() }",
    ),
    (
        "call_of_several",
        "fn f(x: &Tensor) -> Tensor { let (a, (b, c)) = parts(x, x.dim(0)); a * b + c }",
    ),
    (
        "method_call",
        "fn f(model: &Mlp, x: &Tensor) -> Tensor { let h = model.layers[0].forward(x); model.head(&h) }",
    ),
    (
        "whole_tree",
        "fn f(model: &Mlp, x: Tensor) -> Tensor { run(model, x) + Mlp::other(&model.layers[0], 2) }",
    ),
    (
        "question_mark",
        "fn f(x: &Tensor, n: &str) -> Result<Tensor> { let k: usize = n.parse()?; let h = dense(x)?; Ok(h.sum(k)) }",
    ),
    (
        "result_of_call",
        "fn f(x: &Tensor) -> gradloom::Result<Tensor> { dense(&x.sin()) }",
    ),
    (
        "inactive_call",
        "fn f(x: &Tensor, #[nodiff] y: &Tensor) -> Tensor { let h = dense(y); x * h }",
    ),
    (
        "host_control_flow",
        "fn f(x: &Tensor, deep: bool) -> Tensor { let axis = if deep { 1 } else { 0 }; x.sum(axis) }",
    ),
    (
        "lists",
        "fn f(x: &Tensor, y: &Tensor) -> Tensor { let c = Tensor::concat(&[x, y, &x.neg()], -1); Tensor::stack(&[&c, &c], 0) }",
    ),
    (
        "constants",
        "fn f(x: &Tensor, n: usize) -> Tensor { let i = Tensor::arange(n, DType::F32); let z = Tensor::zeros([n], DType::F32); let v = Tensor::from_vec(vec![1.0f32], [1]); x * i + z + v }",
    ),
    (
        "likes",
        "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.broadcast_like(y) + y.full_like(2.0) * x.zeros_like() }",
    ),
    (
        "nn",
        "fn f(x: &Tensor, w: &Tensor, b: &Tensor, #[nodiff] labels: &Tensor) -> Tensor { x.layer_norm(w, b, 1e-5).gelu().cross_entropy(labels) }",
    ),
    (
        "select",
        "fn f(x: &Tensor, y: &Tensor) -> Tensor { let c = x.gt(y); c.select(x, &(y * 2.0)) }",
    ),
    (
        "select_numbers",
        "fn f(x: &Tensor, low: f64) -> Tensor { x.gt(low).select(x, low) + x.lt(1.0).select(1, x) }",
    ),
    (
        "integers",
        "fn f(x: &Tensor, #[nodiff] i: &Tensor) -> Tensor { let hot = i.one_hot(10, DType::F32); x * hot.cast(DType::F64).cast(DType::F32) }",
    ),
    (
        "unused_parameter",
        "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.argmax(0).cast(DType::F32) + x }",
    ),
    (
        "items_and_assertions",
        "fn f(x: &Tensor, n: usize) -> Tensor { const K: usize = 2; assert!(n > K); assert_eq!(x.rank(), n); x * (n as f32) }",
    ),
    (
        "common_subexpressions",
        "fn f(x: &Tensor) -> Tensor { let a = x.sin(); let b = x.sin(); a * b }",
    ),
    (
        "save_and_recompute",
        "fn f(x: &Tensor) -> Tensor { #[recompute] let a = x.exp(); #[save] let b = a.square(); b.tanh() * a.sin() }",
    ),
    (
        "raw_identifiers",
        "fn f(r#type: &Tensor, v1: &Tensor) -> Tensor { let r#match = r#type * v1; r#match.sin() }",
    ),
    (
        "early_return_at_the_end",
        "fn f(x: &Tensor) -> Tensor { return x.sin(); }",
    ),
    (
        "recorded_for",
        "fn f(x: &Tensor) -> Tensor {\n  let mut h = x.clone();\n  for _ in 0..3 { h = h.sin(); }\n  h\n}",
    ),
    (
        "recorded_if",
        "fn f(x: &Tensor, deep: bool) -> Tensor { if deep { x.sin() } else { x.cos() } }",
    ),
    (
        "recorded_shape_condition",
        "fn f(x: &Tensor) -> Tensor { if x.dim(0) > 2 { x.sin() } else { x.cos() } }",
    ),
    (
        "recorded_closure",
        "fn f(x: &Tensor) -> Tensor { let g = |y: &Tensor| y.sin() + x; g(x) }",
    ),
    (
        "recorded_tree_result",
        "fn f(x: &Tensor) -> State { State { h: x.sin() } }",
    ),
    (
        "recorded_cast",
        "fn f(x: &Tensor, d: DType) -> Tensor { x.cast(d) }",
    ),
];

#[test]
fn programs_match_their_snapshots() {
    for (name, source) in FORMS {
        check_program(name, source);
    }
}

/// Functions that cover the parts of an expansion.
pub(crate) const EXPANSIONS: &[(&str, &str, &str)] = &[
    (
        "expansion_dense",
        "",
        "fn dense(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor { let h = x.matmul(w) + b; h.tanh() }",
    ),
    (
        "expansion_tree",
        "",
        "pub fn loss(model: &Mlp, x: &Tensor, axis: i64, #[nodiff] labels: &Tensor) -> Result<Tensor> { let h = model.layers[0].forward(x); let p = dense(&h, &model.head, 2)?; Ok((p * x.dim(0)).sum(axis + 1)) }",
    ),
    (
        "expansion_recorded",
        "crate = ::renamed",
        "fn steps(x: &Tensor, n: usize) -> Tensor { let mut h = x.clone(); for _ in 0..n { h = h.sin(); } h }",
    ),
    (
        "expansion_impl",
        "",
        "impl<M: Layer> Block<M> { pub fn new(m: M) -> Self { Block { m } } pub fn forward(&self, x: &Tensor) -> (Tensor, Tensor) { (x * &self.gain, x.sin()) } }",
    ),
    (
        "expansion_trait",
        "",
        "pub trait Activation<T>: Sized { const GAIN: f64; fn apply(&self, x: &Tensor, by: T) -> Tensor; fn of(x: &Tensor) -> Tensor { Self::scaled(x).tanh() } fn scaled(x: &Tensor) -> Tensor; fn name(&self) -> String; }",
    ),
    (
        "expansion_trait_impl",
        "",
        "impl<A: Activation + Clone> Layer for Net<A> { const GAIN: f64 = 2.0; fn forward(&self, x: &Tensor) -> Tensor { self.activation.apply(&x.matmul(&self.w)) * Self::GAIN } }",
    ),
    (
        "expansion_second_order",
        "order = 2",
        "pub fn loss(net: &Net, x: Tensor, #[nodiff] y: &Tensor, n: i64) -> Result<Tensor> { let h = x * &net.w; Ok((h - y).square().sum(n)) }",
    ),
    (
        "expansion_check",
        "check(range(x = 0.5..2.0), classes(labels = C), value(axis = 1), dims(C = 3))",
        "impl Head { fn loss(&self, #[shape(B, 2 * C)] x: Tensor, #[nodiff] #[shape(B)] labels: &Tensor, axis: usize) -> Result<Tensor> { Ok((x * &self.w).sum(axis).cross_entropy(labels)) } }",
    ),
    (
        "expansion_mesh_axes",
        "returns(f32; B@data, O@_)",
        "fn dense(#[shape(f32; B@data, I)] x: &Tensor, #[shape(I, O@(model, _))] mut w: Tensor) -> Tensor { w = w * 2.0; x.matmul(w) }",
    ),
];

#[test]
fn expansions_match_their_snapshots() {
    for (name, args, source) in EXPANSIONS {
        insta::with_settings!({ description => *source, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(*name, expansion(args, source));
        });
    }
}

#[test]
fn equal_source_gives_equal_tokens() {
    for (_, source) in FORMS {
        assert_eq!(expansion("", source), expansion("", source));
    }
}

/// A long function is emitted as listings, because each equation emitted as Rust costs compile
/// time.
#[test]
fn a_long_function_is_emitted_as_text_between_its_host_statements() {
    let step = |i| format!("let a{i} = a{}.sin() * x;", i - 1);
    let steps = |range: std::ops::Range<i32>| range.map(step).collect::<String>();
    let source = format!(
        "fn long(x: &Tensor) -> Tensor {{ let a0 = x.cos(); {} assert!(a100.rank() > 0); {} a400 }}",
        steps(1..101),
        steps(101..401),
    );
    let expansion = expansion("", &source);
    assert_eq!(expansion.matches("let v").count(), 0);
    // One listing for each stretch: the assertion splits two of the three programs.
    struct Listings(Vec<String>);
    impl<'ast> syn::visit::Visit<'ast> for Listings {
        fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
            if crate::input::text(&call.func).ends_with("Listing::new")
                && let syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(text),
                    ..
                }) = &call.args[0]
            {
                self.0.push(text.value());
            }
        }
    }
    let mut listings = Listings(Vec::new());
    let file = syn::parse_str(&expansion).expect("an expansion is a file");
    syn::visit::Visit::visit_file(&mut listings, &file);
    assert_eq!(listings.0.len(), 5);
    for text in &listings.0 {
        let program: gradloom_ir::Program = text.parse().expect("a listing parses");
        assert_eq!(gradloom_ir::verify(&program), [""; 0]);
        // Listings use the user's names.
        assert!(text.contains("a200") || text.contains("a50"), "{text}");
    }
    // The variable that the assertion reads keeps its name.
    assert_eq!(expansion.matches("a100.rank()").count(), 3);
}

#[test]
fn a_dump_shows_every_program_and_the_expansion() {
    let (func, body) = crate::traced::lowered("fn f(x: &Tensor) -> Tensor { x.sin() }");
    let dump = crate::feature::dump::report(
        &func,
        &body,
        quote::quote!(
            fn f() {}
        ),
    );
    let headings: Vec<&str> = dump.lines().filter(|l| l.starts_with("// f:")).collect();
    assert_eq!(
        headings,
        [
            "// f: lowered",
            "// f: cse, dce",
            "// f: jvp",
            "// f: vjp: primal",
            "// f: vjp: pullback",
            "// f: expansion, where `rt` is `::gradloom::__private`, without"
        ]
    );
    assert!(dump.ends_with("fn f() {}\n"), "{dump}");
}

#[test]
fn a_dump_has_short_paths_and_no_attributes_that_do_not_change_the_code() {
    let (func, body) = crate::traced::lowered("fn f(x: &Tensor) -> Tensor { x.sin() }");
    let expansion = quote::quote! {
        #[allow(warnings, unused)]
        #[doc = "Gradient.\n\n```text\nthe program\n```"]
        #[track_caller]
        fn a(x: &::core::option::Option<u8>) -> ::core::fmt::Result {
            if ::gradloom::__private::runs_bodies() {
                return ::core::result::Result::Ok(());
            }
            let long = ::gradloom::__private::function(
                0usize, "a (string", first_argument, second_argument, third_argument
            );
            ::renamed::__private::grads! { a "first words" b "more words of the macro" c "and more words" d "and more words" }
        }
        impl f {
            /// Result.
            #[inline]
            fn b() { loop {} }
        }
    };
    let dump = crate::feature::dump::report(&func, &body, expansion);
    let (_, expansion) = dump.split_once("rustdoc\n").expect("a heading");
    insta::assert_snapshot!(expansion, @r#"
    #[track_caller] fn a(x: &Option<u8>) -> ::core::fmt::Result {
        if rt::runs_bodies() { return Ok(()); }
        let long = rt::function(0, "a (string", first_argument, second_argument, third_argument);
        rt::grads! { a "first words" b "more words of the macro" c "and more words" d "and more words" }
    }
    impl f { fn b() { loop {} } }
    "#);
}

#[test]
fn the_dump_of_a_method_of_three_lines_is_short() {
    let source = "impl Dense { fn forward(&self, x: &Tensor) -> Tensor {
        let h = x.matmul(&self.w);
        let h = h + &self.b;
        h.tanh()
    } }";
    let tokens = expand(
        TokenStream::new(),
        source.parse().expect("the test's source is tokens"),
    );
    let mut file: syn::File = syn::parse2(tokens).expect("an expansion is a file");
    // The first item is the user's, and constants before the companions cause warnings.
    file.items.remove(0);
    let is_impl = |item: &syn::Item| matches!(item, syn::Item::Impl(_));
    let first = file.items.iter().position(is_impl);
    file.items
        .drain(..first.expect("the block of the companions"));
    let expansion = crate::feature::dump::printed(quote::quote!(#file));
    insta::with_settings!({ description => source, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("dump_of_a_method", expansion);
    });
    let n = expansion.lines().count();
    assert!(n <= 160, "{n} lines");
}

#[test]
fn a_dump_of_a_method_that_a_block_does_not_trace_says_so() {
    let ty: syn::Type = syn::parse_quote!(net::Mlp<T>);
    let (func, _) = crate::traced::lowered("fn forward(x: &Tensor) -> Tensor { x.sin() }");
    let missing = |asked| crate::feature::dump::missing(asked, &ty, std::slice::from_ref(&func));
    assert_eq!(missing("Other::forward"), None);
    assert_eq!(missing("forward"), None);
    insta::assert_snapshot!(missing("Mlp::forwrd").expect("a message"), @"GRADLOOM_DUMP: a traced impl block of `Mlp` does not trace `Mlp::forwrd`; it traces `forward`");
}

/// Mistakes, each in a minimal function.
pub(crate) const MISTAKES: &[(&str, &str)] = &[
    ("", "async fn f(x: &Tensor) -> Tensor { x.sin() }"),
    ("", "const fn f(x: &Tensor) -> Tensor { x.sin() }"),
    ("", "unsafe fn f(x: &Tensor) -> Tensor { x.sin() }"),
    ("", "extern \"C\" fn f(x: &Tensor) -> Tensor { x.sin() }"),
    ("", "fn main(x: &Tensor) -> Tensor { x.sin() }"),
    ("", "struct S { x: Tensor }"),
    ("", "trait T { fn f(x: &Tensor); }"),
    (
        "order = 2",
        "trait T { fn f(&self, #[shape(2)] x: &Tensor) -> Tensor { x.sin() } }",
    ),
    ("", "const X: usize = 3;"),
    ("", "mod m { fn f() {} }"),
    ("", "impl Linear { fn new() -> Linear { Linear } }"),
    (
        "",
        "impl Linear { #[traced] #[traced] fn f(&self, x: &Tensor) -> Tensor { x.sin() } }",
    ),
    (
        "",
        "impl Linear { fn f(&mut self, x: &Tensor) -> Tensor { x.sin() } }",
    ),
    ("", "#[traced] fn f(x: &Tensor) -> Tensor { x.sin() }"),
    (
        "",
        "fn f(n: usize) -> Tensor { Tensor::zeros([n], DType::F32) }",
    ),
    (
        "order = 2",
        "fn f(#[nodiff] x: &Tensor) -> Tensor { x.sin() }",
    ),
    ("", "fn f(x: &mut Tensor) -> Tensor { x.sin() }"),
    ("", "fn f(p: (Tensor, usize)) -> Tensor { p.0.sin() }"),
    (
        "",
        "fn f(x: &[(&Tensor, &Tensor)]) -> Tensor { x[0].0.sin() }",
    ),
    (
        "",
        "fn f(x: impl AsRef<Tensor>) -> Tensor { x.as_ref().sin() }",
    ),
    ("", "fn f(x: *const Tensor) -> Tensor { g(x) }"),
    ("", "fn f(x: &Tensor) { x.sin(); }"),
    ("", "fn f(x: &Tensor) -> &Tensor { x }"),
    ("", "fn f(x: &Tensor) -> impl Tree { x.sin() }"),
    ("", "fn f(x: &Tensor) -> f32 { x.item() }"),
    (
        "",
        "fn f(x: &Tensor, #[nodiff] n: usize) -> Tensor { x.sum(n) }",
    ),
    (
        "",
        "fn f(x: &Tensor, #[nodif] y: &Tensor) -> Tensor { x * y }",
    ),
    (
        "",
        "fn f(x: &Tensor, #[nodiff] #[nodiff] y: &Tensor) -> Tensor { x * y }",
    ),
    (
        "",
        "fn f(#[fixed] x: &Tensor, y: &Tensor) -> Tensor { x * y }",
    ),
    (
        "",
        "fn f(#[shape(2)] n: usize, x: &Tensor) -> Tensor { x.sum(n) }",
    ),
    ("", "fn f(#[shape(2.5)] x: &Tensor) -> Tensor { x.sin() }"),
    ("crat = x", "fn f(x: &Tensor) -> Tensor { x.sin() }"),
    ("fast", "fn f(x: &Tensor) -> Tensor { x.sin() }"),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { #[save] #[recompute] let h = x.sin(); h }",
    ),
    (
        "",
        "fn f(x: &Tensor, n: usize) -> Tensor { #[save] let k = n + 1; x.sum(k) }",
    ),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { if x > 0.0 { x.sin() } else { x.cos() } }",
    ),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { if x.gt(&x.neg()) { x.sin() } else { x.cos() } }",
    ),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { let mut h = x.clone(); while h.sum(..) { h = h.sin(); } h }",
    ),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { match x.sum(..) { _ => x.sin() } }",
    ),
    (
        "",
        "fn f(x: &Tensor) -> Tensor { for row in x { g(row); } x.sin() }",
    ),
    ("", "fn f(x: &Tensor) -> Tensor { x % 2.0 }"),
    ("", "fn f(x: &Tensor, y: &Tensor) -> Tensor { x && y }"),
    ("", "fn f(x: &Tensor) -> Tensor { x.sin() as f32 }"),
    ("", "fn f(x: &Tensor) -> Tensor { x[0] }"),
    ("", "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.sum(y) }"),
    ("", "fn f(x: &Tensor) -> Tensor { f(&x.sin()) }"),
    ("", "fn f(x: &Tensor) -> Tensor { g(x).await }"),
    (
        "",
        "fn f(#[shape(B, 3)] x: &Tensor, #[shape(4, 5)] w: &Tensor) -> Tensor { let h = x.matmul(w); h.sin() }",
    ),
    (
        "",
        "fn f(#[shape(3, 4)] x: &Tensor, #[shape(4, 3)] y: &Tensor) -> Tensor { x + y }",
    ),
    ("", "fn f(#[shape(B, 3)] x: &Tensor) -> Tensor { x.sum(2) }"),
    (
        "",
        "fn f(#[shape(2, 3)] x: &Tensor) -> Tensor { x.sum(true) }",
    ),
    (
        "",
        "fn f(#[shape(2, 3)] x: &Tensor) -> Tensor { x.reshape([4, 2]) }",
    ),
    (
        "",
        "fn f(#[shape(2, 3)] x: &Tensor) -> Tensor { x.transpose().concat_with(x % 2.0).sum(7) + x.sum(9) }",
    ),
    (
        "",
        "fn f(#[shape(2, 3)] x: &Tensor) -> Tensor { let a = x.sum(5); let b = a.sin(); let c = x.mean(6); b + c }",
    ),
];

#[test]
fn error_messages_match_their_snapshot() {
    let parse = |text: &str| {
        text.parse::<TokenStream>()
            .expect("the test's source is tokens")
    };
    let is_error = |path: &syn::Path| {
        let last = path.segments.last();
        last.is_some_and(|segment| segment.ident == "compile_error")
    };
    let mut out = String::new();
    for (args, source) in MISTAKES {
        let tokens = expand(parse(args), parse(source));
        let file = syn::parse2::<syn::File>(tokens).expect("an expansion is a file");
        let messages: Vec<String> = file
            .items
            .iter()
            .filter_map(|item| match item {
                syn::Item::Macro(m) if is_error(&m.mac.path) => {
                    let text: syn::LitStr =
                        m.mac.parse_body().expect("`compile_error!` takes a string");
                    Some(format!("  error: {}", text.value()))
                }
                _ => None,
            })
            .collect();
        assert!(!messages.is_empty(), "{source}");
        let attr = if args.is_empty() {
            String::new()
        } else {
            format!("#[traced({args})] ")
        };
        out += &format!("{attr}{source}\n{}\n\n", messages.join("\n"));
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("mistakes", out);
    });
}

/// Returns the documentation of each companion of a function.
fn documentation(source: &str) -> String {
    let tokens = expand(
        TokenStream::new(),
        source.parse().expect("the test's source is tokens"),
    );
    let file: syn::File = syn::parse2(tokens).expect("an expansion is a file");
    let mut out = String::new();
    let mut show = |name: &syn::Ident, attrs: &[syn::Attribute]| {
        let docs = attrs.iter().filter_map(|a| match &a.meta {
            syn::Meta::NameValue(m) if m.path.is_ident("doc") => match &m.value {
                syn::Expr::Lit(lit) => match &lit.lit {
                    syn::Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
        let docs: Vec<String> = docs.collect();
        if !docs.is_empty() {
            out += &format!("# {name}\n\n{}\n\n", docs.join("\n"));
        }
    };
    for item in &file.items {
        match item {
            syn::Item::Enum(e) => show(&e.ident, &e.attrs),
            syn::Item::Struct(s) => show(&s.ident, &s.attrs),
            syn::Item::Impl(imp) => {
                for item in &imp.items {
                    match item {
                        syn::ImplItem::Fn(f) => show(&f.sig.ident, &f.attrs),
                        syn::ImplItem::Const(c) => show(&c.ident, &c.attrs),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    out
}

#[test]
fn the_documentation_of_a_companion_shows_shapes_costs_and_the_program() {
    let long: String = (1..100)
        .map(|i| format!("let a{i} = a{}.sin();", i - 1))
        .collect();
    let cases = [
        ("documentation_dense", "fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor { let h = x.matmul(w) + b; h.tanh() }".to_owned()),
        ("documentation_flow", "fn steps(x: &Tensor, n: usize) -> (Tensor, Tensor) {\n  let mut h = x.clone();\n  for _ in 0..n { h = h.sin(); }\n  (h, x.exp())\n}".to_owned()),
        ("documentation_recorded", "fn state(x: &Tensor) -> State { State { h: x.sin() } }".to_owned()),
        ("documentation_long", format!("fn long(x: &Tensor) -> Tensor {{ let a0 = x.cos(); {long} a99 }}")),
        ("documentation_method", "impl Linear { fn forward(&self, #[shape(B, 4)] x: &Tensor) -> Tensor { x * &self.gain } }".to_owned()),
    ];
    for (name, source) in &cases {
        insta::with_settings!({ description => source.chars().take(200).collect::<String>(), prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(*name, documentation(source));
        });
    }
}
