//! Whether a function computes the same ops whenever its arguments have the same shapes, structure and static values, and does
//! nothing else: then a call need not run the body to know what it would record.
//!
//! What ops and calls of traced functions do is known, so this is about the host code of the body. An expression is pure if it is
//! made of literals, of locals in scope, of functions and methods of the standard library on values whose types are known, and of
//! traced functions. Anything else may print, count or ask for the time.
//!
//! [`Judge`] walks the body with what is known of the type of each value. Where a type is not written in the body, as that of a
//! field, it leaves a [`Question`] that rustc answers while the program is compiled.
//!
//! Constants and statics that the body names are known by their types alone, too: a number is one, and a `static` may
//! hold a tensor or be written through. So they are given back, for the key of a call.

/// `quote!` with names that no user code can see.
macro_rules! ours {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

mod apply;
mod ask;
mod expr;
mod macros;
mod method;
mod path;
mod pattern;
mod ty;

pub(crate) use ask::{Question, mark_of};

use crate::args::Args;
use crate::generic::without_lifetimes;
use crate::known::NUMBERS;
use crate::lower::{Body, Call, Callee, Lowered};
use crate::parse::{Func, Kind, OutShape, text, unraw};
use proc_macro2::{Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;
use syn::{Block, Path, Type};
use ty::{Fidelity, Probe, Scope, Ty, Val, written};

/// The verdict on a body.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The first reason why the body may do more than compute.
    pub(crate) impure: Option<Impure>,
    /// The constants and statics that it names. They are a part of the key of a call.
    pub(crate) globals: Vec<Path>,
    /// The questions that rustc has to answer with yes, if nothing is known to be impure.
    pub(crate) questions: Vec<Question>,
    /// The questions about functions that a recorded body may call: those that are traced are its callees.
    pub(crate) callees: Vec<Question>,
}

/// Judges whether the body of a function only computes.
pub(crate) fn judge(
    func: &Func,
    block: &Block,
    body: &Body,
    args: &Args,
    p: &TokenStream,
) -> Verdict {
    let calls: Vec<&Call> = match body {
        Body::Straight(low) => low.calls.values().collect(),
        Body::Flow(flow) => {
            let pieces = flow.pieces.iter().map(|piece| &piece.low);
            pieces
                .flat_map(|low: &Lowered| low.calls.values())
                .collect()
        }
        // Whether what such a body calls is traced is asked of rustc.
        Body::Recorded(_) => Vec::new(),
    };
    let written_to = func.params.iter().find(|p| writes(&p.ty));
    let mut judge = Judge::new(func, block, &calls, p);
    judge.impure = match (body, written_to) {
        (Body::Recorded(reason), _) if args.record => Some(Impure {
            why: reason.clone(),
            span: func.sig.ident.span(),
        }),
        (_, Some(param)) => Some(Impure {
            why: format!("`{}` can be written to", param.name),
            span: param.ident.span(),
        }),
        _ => None,
    };
    let settled = judge.impure.is_some();
    judge.expect_at_end(&func.sig.output, block);
    judge.block(block);
    let callees = match body {
        Body::Recorded(_) => judge.callees(),
        Body::Straight(_) | Body::Flow(_) => Vec::new(),
    };
    if args.pure {
        return Verdict {
            impure: judge.reads,
            callees,
            ..Verdict::default()
        };
    }
    let impure = judge.impure.take().map(|Impure { why, span }| match body {
        Body::Recorded(reason) if !settled => Impure {
            why: format!("{why} (the body is recorded: {reason})"),
            span,
        },
        _ => Impure { why, span },
    });
    let (globals, questions) = match impure {
        Some(_) => Default::default(),
        None => (judge.globals, judge.questions),
    };
    Verdict {
        impure,
        globals,
        questions,
        callees,
    }
}

/// Why a body may do more than compute.
#[derive(Clone, Debug)]
pub(crate) struct Impure {
    pub(crate) why: String,
    /// The user's token that makes it so.
    pub(crate) span: Span,
}

/// Whether an argument can be written through.
fn writes(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => r.mutability.is_some() || writes(&r.elem),
        _ => false,
    }
}

/// What to do about host code that may do more than compute.
#[derive(Clone, Copy)]
enum Remedy {
    /// A function that computes with tensors can be traced.
    Trace,
    /// A value can be computed before the call.
    Move,
    /// A value that is read cannot be known before the call.
    Read,
    /// Nobody but the user knows.
    Promise,
}

/// Items that a body has beside its locals: what it names besides stands outside of it.
#[derive(Default)]
struct Own {
    /// Whether it names things in ways that are not looked at: by `use`, by types of its own, or where `cfg` says so.
    hides: bool,
}

impl<'ast> Visit<'ast> for Own {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.hides |= !matches!(item, syn::Item::Fn(_) | syn::Item::Const(_));
        syn::visit::visit_item(self, item);
    }
    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        self.hides |= attr.path().is_ident("cfg");
    }
}

/// The most expressions that are looked at. Closures are looked at each time they are called.
const FUEL: usize = 200_000;

/// Looks for host code that is not known to be pure.
struct Judge<'a> {
    /// The first that was found.
    impure: Option<Impure>,
    /// The first read of a tensor: a promise to compute only does not help there.
    reads: Option<Impure>,
    scopes: Vec<Scope>,
    /// Paths of traced functions that the body calls, with what they give.
    functions: BTreeMap<String, Val>,
    /// Traced methods that it calls: the name, the place, and what they give.
    methods: Vec<(String, (usize, usize), Val)>,
    /// Names and places of all method calls.
    places: BTreeMap<(String, (usize, usize)), usize>,
    own: Own,
    /// Constants and statics that stand outside of the body.
    globals: Vec<Path>,
    questions: Vec<Question>,
    asked: BTreeSet<String>,
    /// Conversions whose result has a type that is known, by name and place.
    expected: BTreeSet<(String, (usize, usize))>,
    /// The values that the loops around give.
    breaks: Vec<Val>,
    /// Functions of the body that are being looked at.
    entered: Vec<String>,
    /// Types that the signature writes out.
    written: BTreeSet<String>,
    generic: bool,
    /// The names of all locals of the body, in scope or not.
    names: BTreeSet<String>,
    fuel: usize,
    p: &'a TokenStream,
}

impl<'a> Judge<'a> {
    fn new(func: &Func, block: &Block, calls: &[&Call], p: &'a TokenStream) -> Judge<'a> {
        let mut own = Own::default();
        own.visit_block(block);
        let mut judge = Judge {
            impure: None,
            reads: None,
            scopes: vec![Scope::new()],
            functions: BTreeMap::new(),
            methods: Vec::new(),
            places: BTreeMap::new(),
            own,
            globals: Vec::new(),
            questions: Vec::new(),
            asked: BTreeSet::new(),
            expected: BTreeSet::new(),
            breaks: Vec::new(),
            entered: Vec::new(),
            written: BTreeSet::new(),
            generic: !func.generics().types().is_empty(),
            names: BTreeSet::new(),
            fuel: FUEL,
            p,
        };
        judge.parameters(func);
        let mut names = Names(&mut judge.names);
        names.visit_block(block);
        for call in calls {
            let val = match call.fallible {
                true => Val::option(judge.result(&call.shape)),
                false => judge.result(&call.shape),
            };
            match &call.callee {
                Callee::Function(path) => {
                    judge.functions.insert(apply::key(path), val);
                }
                Callee::Associated { ty, name, .. } => {
                    judge.functions.insert(format!("{}::{name}", text(ty)), val);
                }
                Callee::Method { name, .. } => {
                    judge.methods.push((unraw(name), place(call.span), val));
                }
            }
        }
        let mut places = Places(&mut judge.places);
        places.visit_block(block);
        judge
    }

    fn parameters(&mut self, func: &Func) {
        let generics = func.generics();
        for (param, input) in func.params.iter().zip(&func.sig.inputs) {
            let (p, ty) = (self.p, without_lifetimes(&param.ty));
            let tokens = ours!(#p::some::<#ty>());
            let probe = Probe {
                tokens,
                fidelity: Fidelity::Exact,
                // What is compared as a whole may have maps in it whose order is not.
                depth: usize::from(param.kind != Kind::Tree),
            };
            let known = match param.kind {
                Kind::Tensor => Ty::Tensor,
                _ => written(&param.owned),
            };
            self.written.insert(text(&param.owned));
            let name = match param.receiver {
                true => "self".to_owned(),
                false => unraw(&param.ident),
            };
            // The types of `impl Trait` cannot be written again, and of a type that the caller chooses nothing is known.
            let chosen = generics.types().contains(&text(&param.owned));
            let probe = (!chosen && !text(&param.ty).contains("impl ")).then_some(probe);
            let val = Val::from(known).with(probe);
            match input {
                syn::FnArg::Typed(typed) if param.pattern => self.pattern(&typed.pat, &val),
                _ => self.bind(name, val),
            }
        }
        for name in generics.constants() {
            self.bind(name, Ty::Scalar.into());
        }
    }

    /// What a traced function gives.
    fn result(&self, shape: &OutShape) -> Val {
        match shape {
            OutShape::Tensor => self.tensor(),
            OutShape::Tuple(parts) => {
                Ty::Tuple(parts.iter().map(|part| self.result(part)).collect()).into()
            }
            OutShape::Opaque => Val::unknown(),
        }
    }

    fn tensor(&self) -> Val {
        let p = self.p;
        Val::from(Ty::Tensor).with(Probe::exact(ours!(#p::some::<#p::Tensor>())))
    }

    fn scalar(&self, ty: TokenStream) -> Val {
        let p = self.p;
        Val::from(Ty::Scalar).with(Probe::exact(ours!(#p::some::<#ty>())))
    }

    fn bind(&mut self, name: String, val: Val) {
        let scope = self.scopes.last_mut().expect("there is a scope");
        scope.insert(name, val);
    }

    fn local(&self, name: &str) -> Option<&Val> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn local_mut(&mut self, name: &str) -> Option<&mut Val> {
        let mut scopes = self.scopes.iter_mut().rev();
        scopes.find_map(|scope| scope.get_mut(name))
    }

    /// Runs `f` in a scope of its own.
    fn scope<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.scopes.push(Scope::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// The sentence about host code that may do more than compute.
    fn reason(&self, what: &str, span: Span, why: &str, remedy: Remedy) -> String {
        let line = span.start().line;
        let remedy = match remedy {
            Remedy::Read => {
                "compute with the tensor instead (`select`, `maximum`), or read it before the call and pass the value"
            }
            _ if self.generic => {
                "`#[traced(pure)]` promises that it does not, whatever the types are"
            }
            Remedy::Trace => {
                "put `#[traced]` on it, or promise by `#[traced(pure)]` that it only computes"
            }
            Remedy::Move => {
                "move it before the call and pass the value, or promise by `#[traced(pure)]` that it only computes"
            }
            Remedy::Promise => "`#[traced(pure)]` promises that it does not",
        };
        format!("`{what}` at line {line} may do more than compute: {why}; {remedy}")
    }

    /// Host code that may do more than compute.
    fn found(&mut self, what: &str, span: Span, why: &str, remedy: Remedy) -> Val {
        if self.impure.is_none() {
            let why = self.reason(what, span, why, remedy);
            self.impure = Some(Impure { why, span });
        }
        Val::unknown()
    }
}

/// Where a token stands.
fn place(span: Span) -> (usize, usize) {
    let start = span.start();
    (start.line, start.column)
}

/// The names that patterns bind, also in macros.
struct Names<'a>(&'a mut BTreeSet<String>);

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
        let name = unraw(&p.ident);
        // One in capitals is a constant that is compared with, unless it cannot be.
        if name != "None" {
            self.0.insert(name);
        }
        syn::visit::visit_pat_ident(self, p);
    }
}

/// Counts method calls by name and place: those that a macro has written may share it.
struct Places<'a>(&'a mut BTreeMap<(String, (usize, usize)), usize>);

impl<'ast> Visit<'ast> for Places<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let key = (unraw(&call.method), place(call.method.span()));
        *self.0.entry(key).or_default() += 1;
        syn::visit::visit_expr_method_call(self, call);
    }
}

/// The types of static parameters whose methods are those of the standard library, and whose values are words of a key.
pub(crate) fn is_known(ty: &Type) -> bool {
    const TYPES: [&str; 9] = [
        "str",
        "String",
        "Vec",
        "Option",
        "Box",
        "Range",
        "RangeInclusive",
        "DType",
        "Key",
    ];
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
