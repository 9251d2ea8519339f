//! Whether a function computes the same ops whenever its arguments have the same shapes, structure and static values, and does
//! nothing else: then a call need not run the body to know what it would record.
//!
//! What ops and calls of traced functions do is known, so this is about the host code of the body. It is pure if it
//! consists of what is known to be pure; anything else may print, count or ask for the time.

use crate::lower::{Body, Call, Callee, Lowered};
use crate::parse::{Func, Kind, unraw};
use gradloom_ir::Op;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, Macro, Pat, Type};

/// Whether the body of a function only computes.
pub(crate) fn is_pure(func: &Func, block: &Block, body: &Body) -> bool {
    let calls: Vec<&Call> = match body {
        Body::Straight(low) => low.calls.values().collect(),
        Body::Flow(flow) => {
            let pieces = flow.pieces.iter().map(|piece| &piece.low);
            pieces
                .flat_map(|low: &Lowered| low.calls.values())
                .collect()
        }
        Body::Recorded(_) => return false,
    };
    if func.params.iter().any(|p| writes(&p.ty)) {
        return false;
    }
    let statics = func
        .params
        .iter()
        .filter(|p| matches!(p.kind, Kind::Static { .. }));
    let foreign = statics
        .filter(|p| !is_known(&p.owned))
        .map(|p| unraw(&p.ident));
    let mut host = Host {
        pure: true,
        callees: calls.into_iter().map(callee).collect(),
        closures: BTreeSet::new(),
        foreign: foreign.collect(),
    };
    host.visit_block(block);
    host.pure
}

/// Whether an argument can be written through.
fn writes(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => r.mutability.is_some() || writes(&r.elem),
        _ => false,
    }
}

/// How the body writes a callee.
fn callee(call: &Call) -> String {
    match &call.callee {
        Callee::Function(path) => spelt(path),
        Callee::Associated { name, .. } | Callee::Method(name) => unraw(name),
    }
}

fn spelt(path: &syn::Path) -> String {
    let segments = path.segments.iter().map(|s| unraw(&s.ident));
    segments.collect::<Vec<_>>().join("::")
}

/// The types of static parameters whose methods are those of the standard library.
fn is_known(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_known(&r.elem),
        Type::Slice(s) => is_known(&s.elem),
        Type::Array(a) => is_known(&a.elem),
        Type::Tuple(t) => t.elems.iter().all(is_known),
        Type::Paren(p) => is_known(&p.elem),
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else {
                return false;
            };
            let inner = match &last.arguments {
                syn::PathArguments::None => true,
                syn::PathArguments::AngleBracketed(args) => args.args.iter().all(|arg| match arg {
                    syn::GenericArgument::Type(ty) => is_known(ty),
                    _ => false,
                }),
                syn::PathArguments::Parenthesized(_) => false,
            };
            let name = last.ident.to_string();
            inner && (NUMBERS.contains(&&*name) || TYPES.contains(&&*name))
        }
        _ => false,
    }
}

const NUMBERS: [&str; 16] = [
    "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "u128", "u16", "u32",
    "u64", "u8", "usize",
];

const TYPES: [&str; 8] = [
    "str",
    "String",
    "Vec",
    "Option",
    "Box",
    "Range",
    "RangeInclusive",
    "DType",
];

/// Methods of tensors, numbers, text, sequences and iterators that compute and do nothing else. None reads elements.
const METHODS: &[&str] = &[
    "abs",
    "all",
    "and_then",
    "any",
    "as_deref",
    "as_ref",
    "as_slice",
    "as_str",
    "aval",
    "ceil",
    "chain",
    "checked_add",
    "checked_div",
    "checked_mul",
    "checked_sub",
    "chunks",
    "clamp",
    "clone",
    "cloned",
    "cmp",
    "collect",
    "contains",
    "copied",
    "cos",
    "count",
    "dim",
    "div_ceil",
    "div_euclid",
    "dtype",
    "ends_with",
    "enumerate",
    "eq",
    "exp",
    "expect",
    "extend",
    "filter",
    "filter_map",
    "find",
    "first",
    "flat_map",
    "flatten",
    "floor",
    "fold",
    "into_iter",
    "is_empty",
    "is_err",
    "is_finite",
    "is_multiple_of",
    "is_nan",
    "is_none",
    "is_ok",
    "is_power_of_two",
    "is_some",
    "is_some_and",
    "iter",
    "last",
    "len",
    "ln",
    "log2",
    "map",
    "max",
    "max_by_key",
    "min",
    "min_by_key",
    "ne",
    "next",
    "nth",
    "numel",
    "ok",
    "ok_or",
    "ok_or_else",
    "or",
    "partial_cmp",
    "peekable",
    "pop",
    "position",
    "pow",
    "powf",
    "powi",
    "product",
    "push",
    "rank",
    "rem_euclid",
    "reverse",
    "rev",
    "round",
    "saturating_add",
    "saturating_mul",
    "saturating_sub",
    "shape",
    "signum",
    "sin",
    "skip",
    "skip_while",
    "split_first",
    "split_last",
    "sqrt",
    "starts_with",
    "step_by",
    "sum",
    "swap",
    "take_while",
    "take",
    "tanh",
    "then",
    "then_some",
    "to_owned",
    "trunc",
    "try_into",
    "unsigned_abs",
    "unwrap",
    "unwrap_or",
    "unwrap_or_default",
    "unwrap_or_else",
    "unzip",
    "windows",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_sub",
    "zip",
];

/// Functions of the standard library that compute and do nothing else.
const FUNCTIONS: [&str; 8] = [
    "Box::new",
    "Default::default",
    "Vec::new",
    "Vec::with_capacity",
    "std::iter::once",
    "std::iter::repeat_n",
    "Option::is_some",
    "Option::is_none",
];

/// Looks for host code that is not known to be pure.
struct Host {
    pure: bool,
    /// What the body calls that is traced.
    callees: BTreeSet<String>,
    /// Locals that are closures, whose bodies are looked at where they stand.
    closures: BTreeSet<String>,
    /// Locals that may have a type of the user's, with methods of the user's.
    foreign: BTreeSet<String>,
}

impl Host {
    fn mentions_foreign(&self, expr: &Expr) -> bool {
        struct Mentions<'a>(&'a BTreeSet<String>, bool);
        impl<'ast> Visit<'ast> for Mentions<'_> {
            fn visit_ident(&mut self, ident: &'ast syn::Ident) {
                self.1 |= self.0.contains(&unraw(ident));
            }
            fn visit_macro(&mut self, _: &'ast Macro) {
                self.1 |= !self.0.is_empty();
            }
        }
        let mut found = Mentions(&self.foreign, false);
        found.visit_expr(expr);
        found.1
    }

    /// What a pattern binds to parts of a value.
    fn bind(&mut self, pat: &Pat, value: &Expr) {
        struct Idents<'a>(&'a mut BTreeSet<String>);
        impl<'ast> Visit<'ast> for Idents<'_> {
            fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
                self.0.insert(unraw(&p.ident));
                syn::visit::visit_pat_ident(self, p);
            }
        }
        if let (Pat::Ident(name), Expr::Closure(_)) = (pat, value) {
            self.closures.insert(unraw(&name.ident));
        }
        if self.mentions_foreign(value) {
            Idents(&mut self.foreign).visit_pat(pat);
        }
    }

    fn call(&mut self, path: &syn::Path) -> bool {
        let name = spelt(path);
        let mut segments = path.segments.iter().rev().map(|s| unraw(&s.ident));
        let last = segments.next().unwrap_or_default();
        let before = segments.next().unwrap_or_default();
        let constructs = last.starts_with(char::is_uppercase);
        let associated = !before.is_empty() && self.callees.contains(&last);
        constructs
            || associated
            || self.callees.contains(&name)
            || self.closures.contains(&name)
            || before == "Tensor"
            || NUMBERS.contains(&&*before)
            || FUNCTIONS.contains(&&*name)
    }

    fn method(&mut self, call: &ExprMethodCall) -> bool {
        let name = unraw(&call.method);
        let op = || {
            let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
            ops.any(|m| m.name == name && !m.assoc)
        };
        if self.callees.contains(&name) {
            return true;
        }
        (METHODS.contains(&&*name) || op()) && !self.mentions_foreign(&call.receiver)
    }
}

impl<'ast> Visit<'ast> for Host {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.pure &= match expr {
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) => self.call(&path.path),
                Expr::Paren(inner) => matches!(&*inner.expr, Expr::Closure(_)),
                _ => false,
            },
            Expr::MethodCall(call) => self.method(call),
            Expr::Assign(assign) => is_place(&assign.left),
            Expr::Binary(binary) => !is_compound(&binary.op) || is_place(&binary.left),
            // What macros do is looked at where they are visited.
            Expr::Macro(_) => true,
            Expr::Array(_)
            | Expr::Tuple(_)
            | Expr::Repeat(_)
            | Expr::Struct(_)
            | Expr::Range(_) => true,
            Expr::Unary(_) | Expr::Cast(_) | Expr::Lit(_) | Expr::Path(_) | Expr::Field(_) => true,
            Expr::Index(_) | Expr::Paren(_) | Expr::Group(_) | Expr::Reference(_) => true,
            Expr::If(_) | Expr::Let(_) | Expr::Match(_) | Expr::Block(_) | Expr::Closure(_) => true,
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => true,
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) | Expr::Try(_) => true,
            _ => false,
        };
        // The names that an expression binds are known before its parts are looked at.
        match expr {
            Expr::Let(e) => self.bind(&e.pat, &e.expr),
            Expr::ForLoop(e) => self.bind(&e.pat, &e.expr),
            Expr::Match(e) => e.arms.iter().for_each(|arm| self.bind(&arm.pat, &e.expr)),
            _ => {}
        }
        syn::visit::visit_expr(self, expr);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init {
            self.bind(&local.pat, &init.expr);
        }
        syn::visit::visit_local(self, local);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string());
        let name = name.unwrap_or_default();
        match &*name {
            // They do not come back, and what did not come back is not kept.
            "panic" | "unreachable" | "unimplemented" | "todo" => {}
            "assert" | "assert_eq" | "assert_ne" | "debug_assert" | "debug_assert_eq"
            | "debug_assert_ne" | "vec" => {
                type Parts = syn::punctuated::Punctuated<Expr, syn::Token![,]>;
                match mac.parse_body_with(Parts::parse_terminated) {
                    Ok(parts) => parts.iter().for_each(|part| {
                        let part = syn::parse2::<Expr>(part.to_token_stream());
                        let mut host = Host {
                            pure: true,
                            callees: self.callees.clone(),
                            closures: self.closures.clone(),
                            foreign: self.foreign.clone(),
                        };
                        part.iter().for_each(|part| host.visit_expr(part));
                        self.pure &= host.pure;
                    }),
                    Err(_) => self.pure = false,
                }
            }
            _ => self.pure = false,
        }
    }

    // Items do nothing where they stand.
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// A local, or a part of one.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Infer(_) => true,
        Expr::Field(e) => is_place(&e.base),
        Expr::Index(e) => is_place(&e.expr),
        Expr::Paren(e) => is_place(&e.expr),
        Expr::Tuple(e) => e.elems.iter().all(is_place),
        Expr::Array(e) => e.elems.iter().all(is_place),
        _ => false,
    }
}

fn is_compound(op: &syn::BinOp) -> bool {
    use syn::BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
