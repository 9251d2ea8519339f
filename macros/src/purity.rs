//! Whether a function computes the same ops whenever its arguments have the same shapes, structure and static values, and does
//! nothing else: then a call need not run the body to know what it would record.
//!
//! What ops and calls of traced functions do is known, so this is about the host code of the body. It is pure if it
//! consists of what is known to be pure; anything else may print, count or ask for the time.
//!
//! Constants and statics that it names are known by their types alone, which only rustc knows: a number is one, and a `static` may
//! hold a tensor or be written through. So they are given back, for the key of a call.

mod known;

use crate::args::Args;
use crate::generic::names;
use crate::lower::{Body, Call, Callee, Lowered};
use crate::parse::{Func, Kind, Param, unraw};
use gradloom_ir::Op;
use known::{FRESH, FUNCTIONS, METHODS, NUMBERS, OF_NUMBERS, OF_TENSORS, TYPES, WRITERS};
use proc_macro2::Span;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, Macro, Pat, Path, Type};

/// Why a body may do more than compute.
#[derive(Debug)]
pub(crate) struct Impure {
    pub(crate) why: String,
    /// The user's token that makes it so.
    pub(crate) span: Span,
}

/// The constants and statics that the body of a function names, if it only computes, and else why it may do more.
pub(crate) fn globals_of_pure(
    func: &Func,
    block: &Block,
    body: &Body,
    args: &Args,
) -> Result<Vec<Path>, Impure> {
    if args.pure {
        return Ok(Vec::new());
    }
    let calls: Vec<&Call> = match body {
        Body::Straight(low) => low.calls.values().collect(),
        Body::Flow(flow) => {
            let pieces = flow.pieces.iter().map(|piece| &piece.low);
            pieces
                .flat_map(|low: &Lowered| low.calls.values())
                .collect()
        }
        Body::Recorded(reason) if args.record => {
            return Err(Impure {
                why: reason.clone(),
                span: func.sig.ident.span(),
            });
        }
        // Whether what such a body calls is traced is not known.
        Body::Recorded(_) => Vec::new(),
    };
    if let Some(param) = func.params.iter().find(|p| writes(&p.ty)) {
        return Err(Impure {
            why: format!("`{}` can be written to", param.name),
            span: param.ident.span(),
        });
    }
    let statics = func
        .params
        .iter()
        .filter(|p| matches!(p.kind, Kind::Static { .. }));
    let generics = func.generics();
    let types = generics.types();
    // Its methods are those of a type that the caller chooses.
    let chosen = |p: &&Param| !p.receiver && names(&p.owned, |name| types.contains(name));
    let foreign = statics.filter(|p| !is_known(&p.owned));
    let foreign = foreign.chain(func.params.iter().filter(chosen));
    let trees = func.params.iter().filter(|p| p.kind == Kind::Tree);
    let shared = trees.filter(|p| p.by_ref).map(|p| unraw(&p.ident));
    let mut locals = Locals(func.params.iter().map(|p| unraw(&p.ident)).collect());
    locals.0.extend(generics.constants());
    locals.visit_block(block);
    let mut own = Own::default();
    own.visit_block(block);
    let mut host = Host {
        impure: None,
        locals: locals.0,
        callees: calls.into_iter().map(callee).collect(),
        closures: BTreeSet::new(),
        foreign: foreign.map(|p| unraw(&p.ident)).collect(),
        shared: shared.collect(),
        own,
        globals: Vec::new(),
        types,
    };
    host.visit_block(block);
    match (host.impure, body) {
        (None, _) => Ok(host.globals),
        (Some(Impure { why, span }), Body::Recorded(reason)) => Err(Impure {
            why: format!("{why}, in a body that is recorded: {reason}"),
            span,
        }),
        (Some(impure), _) => Err(impure),
    }
}

/// Items that a body has beside its locals: what it names besides stands outside of it.
#[derive(Default)]
struct Own {
    constants: BTreeSet<String>,
    /// Whether it names things in ways that are not looked at: by `use`, or where `cfg` says so.
    hides: bool,
}

impl<'ast> Visit<'ast> for Own {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constants.insert(unraw(&item.ident));
    }
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {
        self.hides = true;
    }
    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {
        self.hides = true;
    }
    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        self.hides |= attr.path().is_ident("cfg");
    }
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
        Callee::Associated { name, .. } | Callee::Method { name, .. } => unraw(name),
    }
}

fn spelt(path: &Path) -> String {
    let segments = path.segments.iter().map(|s| unraw(&s.ident));
    segments.collect::<Vec<_>>().join("::")
}

/// The types of static parameters whose methods are those of the standard library, and whose values are words of a key.
pub(crate) fn is_known(ty: &Type) -> bool {
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

/// The names of locals.
struct Locals(BTreeSet<String>);

impl<'ast> Visit<'ast> for Locals {
    fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
        self.0.insert(unraw(&p.ident));
        syn::visit::visit_pat_ident(self, p);
    }
}

/// Looks for host code that is not known to be pure.
struct Host {
    /// The first that was found.
    impure: Option<Impure>,
    locals: BTreeSet<String>,
    /// What the body calls that is traced.
    callees: BTreeSet<String>,
    /// Locals that are closures, whose bodies are looked at where they stand.
    closures: BTreeSet<String>,
    /// Locals that may have a type of the user's, with methods of the user's.
    foreign: BTreeSet<String>,
    /// Locals that may be a part of what others have, too: what writes to it is no method of the standard library.
    shared: BTreeSet<String>,
    own: Own,
    /// Constants and statics that stand outside of the body.
    globals: Vec<Path>,
    /// Types that the caller chooses.
    types: BTreeSet<String>,
}

impl Host {
    /// A path that is no callee. Constants and statics have names in capitals.
    fn named(&mut self, path: &Path) {
        let mut segments = path.segments.iter().rev().map(|s| unraw(&s.ident));
        let last = segments.next().unwrap_or_default();
        let before = segments.next().unwrap_or_default();
        let in_capitals = last.contains(char::is_uppercase) && !last.contains(char::is_lowercase);
        // What belongs to a type is a constant of it or a variant.
        let associated = before.starts_with(char::is_uppercase) || NUMBERS.contains(&&*before);
        let own = self.locals.contains(&last) || self.own.constants.contains(&last);
        let own = own && path.segments.len() == 1;
        if !in_capitals || associated || own {
            return;
        }
        if self.own.hides {
            self.found(|| last, path.span());
        }
        if !self.globals.contains(path) {
            self.globals.push(path.clone());
        }
    }

    fn found(&mut self, what: impl FnOnce() -> String, span: Span) {
        if self.impure.is_none() {
            let line = span.start().line;
            let hint = match self.types.is_empty() {
                true => "",
                false => "; `#[traced(pure)]` says that it does not, whatever the types are",
            };
            self.impure = Some(Impure {
                why: format!("`{}` at line {line} may do more than compute{hint}", what()),
                span,
            });
        }
    }

    fn mentions_foreign(&self, expr: &Expr) -> bool {
        mentions(expr, &self.foreign, false)
    }

    /// Whether a value may be a part of a static, or of what a parameter borrows.
    fn mentions_shared(&self, expr: &Expr) -> bool {
        let fresh = match expr {
            Expr::MethodCall(call) => FRESH.contains(&&*unraw(&call.method)),
            Expr::Call(_) | Expr::Lit(_) | Expr::Binary(_) | Expr::Macro(_) => true,
            _ => false,
        };
        !fresh && mentions(expr, &self.shared, true)
    }

    /// What a pattern binds to parts of a value.
    fn bind(&mut self, pat: &Pat, value: &Expr) {
        let names = || {
            let mut names = Locals(BTreeSet::new());
            names.visit_pat(pat);
            names.0
        };
        if let (Pat::Ident(name), Expr::Closure(_)) = (pat, value) {
            self.closures.insert(unraw(&name.ident));
        }
        if self.mentions_foreign(value) {
            self.foreign.extend(names());
        }
        if self.mentions_shared(value) {
            self.shared.extend(names());
        }
    }

    fn call(&self, path: &Path) -> bool {
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
            || (before == "Tensor" && (is_op(&last) || OF_TENSORS.contains(&&*last)))
            || (NUMBERS.contains(&&*before)
                && (METHODS.contains(&&*last) || OF_NUMBERS.contains(&&*last)))
            || FUNCTIONS.contains(&&*format!("{before}::{last}"))
    }

    fn method(&self, call: &ExprMethodCall) -> bool {
        let (name, receiver) = (unraw(&call.method), &*call.receiver);
        let op = || {
            let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
            ops.any(|m| m.name == name && !m.assoc)
        };
        if self.callees.contains(&name) {
            return true;
        }
        if self.mentions_foreign(receiver) || is_unit(receiver) {
            return false;
        }
        let n_args = call.args.len();
        op() || match &*name {
            // A cell has `get` and `take`, too, without an argument.
            "get" => n_args == 1,
            "take" => n_args == 1 || !self.mentions_shared(receiver),
            // The elements of a slice; an atomic number has one, too.
            name if WRITERS.contains(&name) => !self.mentions_shared(receiver),
            name => METHODS.contains(&name),
        }
    }

    /// A function that is an argument may be called.
    fn passed<'a>(&mut self, args: impl IntoIterator<Item = &'a Expr>) {
        for arg in args {
            let Expr::Path(path) = arg else { continue };
            let (name, path) = (spelt(&path.path), &path.path);
            let last = path.segments.last().map(|s| unraw(&s.ident));
            let value = last.is_none_or(|last| last.contains(char::is_uppercase));
            if !value && !self.locals.contains(&name) && !self.call(path) {
                self.found(|| name, path.span());
            }
        }
    }

    /// Looks at the arguments of a macro, which are expressions.
    fn arguments(&mut self, mac: &Macro) -> Option<()> {
        use syn::parse::{ParseStream, Parser};
        let parse = |input: ParseStream<'_>| {
            let mut parts: Vec<Expr> = Vec::new();
            while !input.is_empty() {
                parts.push(input.parse()?);
                if input.peek(syn::Token![;]) {
                    input.parse::<syn::Token![;]>()?;
                } else if !input.is_empty() {
                    input.parse::<syn::Token![,]>()?;
                }
            }
            Ok(parts)
        };
        let parts = parse.parse2(mac.tokens.clone()).ok()?;
        parts.iter().for_each(|part| self.visit_expr(part));
        Some(())
    }

    /// Looks at what `matches!` compares.
    fn matched(&mut self, mac: &Macro) -> Option<()> {
        use syn::parse::{ParseStream, Parser};
        let parse = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<syn::Token![,]>()?;
            let pat = Pat::parse_multi_with_leading_vert(input)?;
            let guard = match input.parse::<Option<syn::Token![if]>>()? {
                Some(_) => Some(input.parse::<Expr>()?),
                None => None,
            };
            input.parse::<Option<syn::Token![,]>>()?;
            Ok((value, pat, guard))
        };
        let (value, pat, guard) = parse.parse2(mac.tokens.clone()).ok()?;
        self.bind(&pat, &value);
        self.visit_expr(&value);
        guard.iter().for_each(|guard| self.visit_expr(guard));
        Some(())
    }
}

/// Whether `Tensor` has this function or method as an op. A trait of the user's may give it others.
fn is_op(name: &str) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    ops.any(|m| m.name == name)
}

/// Whether a value is made of one of these locals, or of a static if these count.
fn mentions(expr: &Expr, locals: &BTreeSet<String>, statics: bool) -> bool {
    struct Mentions<'a> {
        locals: &'a BTreeSet<String>,
        statics: bool,
        found: bool,
    }
    impl<'ast> Visit<'ast> for Mentions<'_> {
        fn visit_ident(&mut self, ident: &'ast syn::Ident) {
            self.found |= self.locals.contains(&unraw(ident));
        }
        fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
            let last = path.path.segments.last().map(|s| unraw(&s.ident));
            let named = last.is_some_and(|last| {
                last.contains(char::is_uppercase) && !last.contains(char::is_lowercase)
            });
            self.found |= self.statics && named;
            syn::visit::visit_expr_path(self, path);
        }
        fn visit_macro(&mut self, _: &'ast Macro) {
            self.found |= !self.locals.is_empty();
        }
    }
    let mut mentions = Mentions {
        locals,
        statics,
        found: false,
    };
    mentions.visit_expr(expr);
    mentions.found
}

impl<'ast> Visit<'ast> for Host {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Call(call) => {
                let known = match &*call.func {
                    Expr::Path(path) => self.call(&path.path),
                    Expr::Paren(inner) => matches!(&*inner.expr, Expr::Closure(_)),
                    _ => false,
                };
                if !known {
                    let name = || match &*call.func {
                        Expr::Path(path) => format!("{}()", spelt(&path.path)),
                        _ => "the call of a value".to_owned(),
                    };
                    self.found(name, call.func.span());
                }
            }
            Expr::MethodCall(call) if !self.method(call) => {
                self.found(|| format!(".{}()", call.method), call.method.span());
            }
            Expr::Assign(assign) if !is_place(&assign.left) => {
                self.found(|| "=".to_owned(), assign.eq_token.span());
            }
            Expr::Binary(binary) if is_compound(&binary.op) && !is_place(&binary.left) => {
                self.found(|| binary.op.to_token_stream().to_string(), binary.op.span());
            }
            // What a value of the user's type yields, and in which order, is not known: equal maps differ in it.
            Expr::ForLoop(e)
                if !matches!(&*e.expr, Expr::Range(_)) && self.mentions_foreign(&e.expr) =>
            {
                self.found(|| "for".to_owned(), e.for_token.span());
            }
            Expr::MethodCall(_) | Expr::Assign(_) | Expr::Binary(_) => {}
            // What macros do is looked at where they are visited.
            Expr::Macro(_) => {}
            Expr::Array(_)
            | Expr::Tuple(_)
            | Expr::Repeat(_)
            | Expr::Struct(_)
            | Expr::Range(_) => {}
            Expr::Unary(_) | Expr::Cast(_) | Expr::Lit(_) | Expr::Path(_) | Expr::Field(_) => {}
            Expr::Index(_) | Expr::Paren(_) | Expr::Group(_) | Expr::Reference(_) => {}
            Expr::If(_) | Expr::Let(_) | Expr::Match(_) | Expr::Block(_) | Expr::Closure(_) => {}
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) | Expr::Const(_) => {}
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) | Expr::Try(_) => {}
            // `unsafe`, `await`, and what syn does not know.
            other => {
                let first = other.to_token_stream().into_iter().next();
                let first = first.map(|token| token.to_string()).unwrap_or_default();
                self.found(|| first, other.span());
            }
        }
        match expr {
            Expr::Call(call) => self.passed(&call.args),
            Expr::MethodCall(call) => self.passed(&call.args),
            _ => {}
        }
        // The names that an expression binds are known before its parts are looked at.
        match expr {
            Expr::Let(e) => self.bind(&e.pat, &e.expr),
            Expr::ForLoop(e) => self.bind(&e.pat, &e.expr),
            Expr::Match(e) => e.arms.iter().for_each(|arm| self.bind(&arm.pat, &e.expr)),
            // What runs when it is compiled does nothing when it is called.
            Expr::Const(_) => return,
            _ => {}
        }
        match expr {
            Expr::Call(call) if matches!(&*call.func, Expr::Path(_)) => {
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::Path(path) => self.named(&path.path),
            _ => syn::visit::visit_expr(self, expr),
        }
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
        let known = match &*name {
            // They do not come back, and what did not come back is not kept.
            "panic" | "unreachable" | "unimplemented" | "todo" => Some(()),
            "cfg" | "column" | "concat" | "env" | "file" | "line" | "module_path" | "stringify" => {
                Some(())
            }
            "assert" | "assert_eq" | "assert_ne" | "debug_assert" | "debug_assert_eq"
            | "debug_assert_ne" | "format" | "vec" => self.arguments(mac),
            "matches" => self.matched(mac),
            _ => None,
        };
        if known.is_none() {
            self.found(|| format!("{name}!"), mac.path.span());
        }
    }

    // Items do nothing where they stand.
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Whether an expression is a value of a unit struct, which is of the user's type.
fn is_unit(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => {
            let last = path.path.segments.last().map(|s| unraw(&s.ident));
            let last = last.unwrap_or_default();
            last.starts_with(char::is_uppercase) && last.contains(char::is_lowercase)
        }
        Expr::Paren(e) => is_unit(&e.expr),
        Expr::Reference(e) => is_unit(&e.expr),
        _ => false,
    }
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
