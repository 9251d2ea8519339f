//! Decides whether the host code of a function is pure, so that calls can reuse a plan.
//!
//! A function is pure if it records the same ops whenever its arguments have the same shapes,
//! structure and static values, and does nothing else. A call of it need not run the body.
//!
//! The effects of ops and of calls of traced functions are known, so only the host code of the body
//! is judged, by an allow-list. An expression is pure if it consists of literals, locals in scope,
//! functions and methods of the standard library on values of known types, and traced functions.
//! Anything else may print, count or read the clock.
//!
//! [`PurityVisitor`] walks the body and tracks what is known of the type of each value. If a type is not
//! written in the body, such as that of a field, it adds a [`Question`] that rustc answers during
//! compilation.
//!
//! Constants and statics in the body are known by their types only: a `static` may hold a tensor or
//! have interior mutability. They are returned, so that they become part of the key of a call.

mod apply;
mod ask;
mod expr;
mod macros;
mod method;
mod path;
mod pattern;
mod trait_call;
mod ty;

pub(crate) use ask::{
    Asked, CallPosition, Question, SpotQuestion, function_hook_of, hook_of, is_hook, mark_of, place,
};
pub(crate) use expr::is_assigning;
pub(crate) use method::conversion;
pub(crate) use trait_call::TraitCall;

use crate::input::args::Args;
use crate::input::generic::{Params, without_lifetimes};
use crate::input::{Func, Kind, OfTrait, OutShape, TraitPlace, text, unraw};
use crate::method_table::class;
use crate::program::{Body, Call, Callee};
use proc_macro2::{Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, Path, Type};
use ty::{Fidelity, Probe, Scope, Ty, Val, written};

/// Verdict on a body.
#[derive(Default)]
pub(crate) struct Verdict {
    /// First reason why the body may have side effects.
    pub(crate) impure: Option<Impurity>,
    /// Constants and statics that it mentions, which become part of the key of a call.
    pub(crate) globals: Vec<Path>,
    /// Questions about types. The body is pure if rustc answers all of them with yes.
    pub(crate) questions: Vec<Question>,
    /// More such questions, which are asked at places in a copy of the body.
    pub(crate) spots: Vec<SpotQuestion>,
    /// For a body that is traced at run time: asks of each function that it calls if it is `#[traced]`.
    pub(crate) callees: Vec<Question>,
    /// Calls that may run a function of a trait, which the recording of the body notes.
    pub(crate) noted: Vec<TraitCall>,
}

/// Judges whether the body of a function is pure.
pub(crate) fn judge(
    func: &Func,
    block: &Block,
    body: &Body,
    args: &Args,
    rt: &TokenStream,
) -> Verdict {
    // For a body that is traced at run time, rustc is asked whether its callees are traced.
    let calls: Vec<KnownCall> = known_calls(body);
    let written_to = func.params.iter().find(|p| writes(&p.ty));
    let mut judge = PurityVisitor::new(func, block, &calls, rt);
    judge.impure = match (body, written_to) {
        (Body::Recorded(reason), _) if args.record => Some(Impurity {
            why: reason.clone(),
            span: func.sig.ident.span(),
        }),
        (_, Some(param)) => Some(Impurity {
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
        // Host code and code that is recorded as a step may call functions that the program does not
        // show.
        Body::Compiled(_) => {
            let shown = |callee: &Question| {
                let mut calls = calls
                    .iter()
                    .map(|known| known.call)
                    .filter(|call| !matches!(call.callee, Callee::Part { .. } | Callee::Inline(_)));
                calls.any(|call| call.span.start() == callee.span.start())
            };
            // A single name may be a misspelt local, which rustc reports where it stands.
            let named = |callee: &Question| {
                let path = callee
                    .callee
                    .as_ref()
                    .is_some_and(|name| name.contains("::"));
                path || !callee.marks.is_empty() || has_steps(body)
            };
            let callees = judge.callees().into_iter();
            let callees = callees.filter(|callee| named(callee) && !shown(callee));
            callees.collect()
        }
    };
    if args.pure {
        // A promise holds for all impls.
        return Verdict {
            impure: judge.reads,
            callees,
            ..Verdict::default()
        };
    }
    let impure = judge
        .impure
        .take()
        .map(|Impurity { why, span }| match body {
            Body::Recorded(reason) if !settled => Impurity {
                why: format!("{why} (the body is recorded: {reason})"),
                span,
            },
            _ => Impurity { why, span },
        });
    let (globals, questions, spots, noted) = match impure {
        Some(_) => Default::default(),
        None => (judge.globals, judge.questions, judge.spots, judge.noted),
    };
    Verdict {
        impure,
        globals,
        questions,
        spots,
        callees,
        noted,
    }
}

/// Call of a function that is known to be traced.
struct KnownCall<'a> {
    call: &'a Call,
    /// True if some result may be a tree, whose type the macro does not know.
    is_tree: bool,
}

fn known_calls(body: &Body) -> Vec<KnownCall<'_>> {
    let calls = body.programs().flat_map(|program| {
        program.calls.values().map(|call| KnownCall {
            call,
            is_tree: call.outs.iter().any(|out| program.trees.contains(out)),
        })
    });
    calls.collect()
}

fn has_steps(body: &Body) -> bool {
    let mut calls = body.programs().flat_map(|program| program.calls.values());
    calls.any(|call| matches!(call.callee, Callee::Inline(_)))
}

/// Reason why a body may have side effects.
#[derive(Clone, Debug)]
pub(crate) struct Impurity {
    pub(crate) why: String,
    /// The user's token that may have the effect.
    pub(crate) span: Span,
}

/// Returns the types without generic arguments that a type consists of.
fn paths_in(ty: &Type) -> Vec<&Type> {
    struct Plain<'ast>(Vec<&'ast Type>);
    impl<'ast> Visit<'ast> for Plain<'ast> {
        fn visit_type(&mut self, ty: &'ast Type) {
            if let Type::Path(path) = ty
                && path.path.segments.iter().all(|s| s.arguments.is_none())
            {
                self.0.push(ty);
            }
            syn::visit::visit_type(self, ty);
        }
    }
    let mut found = Plain(Vec::new());
    found.visit_type(ty);
    found.0
}

/// Returns the bounds of the type parameters of a function.
///
/// Constants of a function hold for all instances. Constants of a method belong to one instance of
/// its impl block.
fn bounds(func: &Func) -> BTreeMap<String, Vec<Path>> {
    let own = Params::new([&func.sig.generics]);
    let all = func.generics();
    let own = own.types().into_iter();
    own.map(|ty| (ty.clone(), all.bounds(&ty))).collect()
}

/// Returns whether the type of an argument is a mutable reference.
fn writes(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => r.mutability.is_some() || writes(&r.elem),
        _ => false,
    }
}

/// Words of a reason between the code and the cause.
pub(crate) const MAY_HAVE_EFFECTS: &str = " may have side effects: ";

/// Advice to the user on host code that may have side effects.
#[derive(Clone, Copy)]
enum Remedy {
    /// Mark a function that computes with tensors `#[traced]`.
    Trace,
    /// Compute the value before the call.
    Move,
    /// A tensor is read, which cannot always move before the call.
    Read,
    /// Only the user can tell; promise it with `#[traced(pure)]`.
    Promise,
    /// Set `PURE` of a custom function.
    Custom,
}

/// Items of a body, which may change the meaning of names in it.
#[derive(Default)]
struct OwnItems {
    /// True if names cannot be resolved outside of the body, because of `use`, local traits or
    /// `cfg`, or in a function in the body.
    hides: bool,
    /// True if the body has such items.
    items: bool,
    /// Names of types that the body defines.
    defined: BTreeSet<String>,
    /// Types with the names of this library's, which may be the user's.
    named: Vec<Path>,
    /// True if an item may define such a type.
    names: bool,
}

/// Returns the class of a type with the name of one of this library's.
fn class_of_name(name: &str) -> Option<u32> {
    match name {
        "Tensor" => Some(class::TENSOR),
        "Key" => Some(class::KEY),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for OwnItems {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let is_value = matches!(item, syn::Item::Fn(_) | syn::Item::Const(_));
        match defined(item) {
            Some(Some(name)) => self.defined.extend([unraw(name)]),
            Some(None) => {}
            None => self.hides |= !is_value,
        }
        self.names |= !is_value
            && text(item)
                .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '*')
                .any(|word| class_of_name(word).is_some() || word == "*");
        syn::visit::visit_item(self, item);
    }
    fn visit_type_path(&mut self, ty: &'ast syn::TypePath) {
        let last = ty.path.segments.last().map(|s| unraw(&s.ident));
        if ty.qself.is_none() && last.is_some_and(|last| class_of_name(&last).is_some()) {
            self.named.push(ty.path.clone());
        }
        syn::visit::visit_type_path(self, ty);
    }
    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        self.hides |= attr.path().is_ident("cfg");
    }
}

/// Returns the name of the type that an item defines; `Some(None)` if it defines no name, and `None`
/// if it may define others.
fn defined(item: &syn::Item) -> Option<Option<&syn::Ident>> {
    let (attrs, name) = match item {
        syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        syn::Item::Impl(item) => (&item.attrs, None),
        _ => return None,
    };
    // An attribute or a derive may add items.
    const DERIVES: [&str; 10] = [
        "Clone",
        "Copy",
        "Debug",
        "Default",
        "Eq",
        "Hash",
        "Ord",
        "PartialEq",
        "PartialOrd",
        "Tree",
    ];
    let plain = |attr: &syn::Attribute| {
        let mut known = true;
        let derives = attr.path().is_ident("derive")
            && attr
                .parse_nested_meta(|meta| {
                    known &= meta
                        .path
                        .get_ident()
                        .is_some_and(|i| DERIVES.contains(&&*unraw(i)));
                    Ok(())
                })
                .is_ok();
        derives && known
            || ["allow", "doc"]
                .iter()
                .any(|name| attr.path().is_ident(name))
    };
    attrs.iter().all(plain).then_some(name)
}

/// Maximum number of expressions to visit; closures are visited again at each call.
const FUEL: usize = 200_000;

/// Visitor that looks for host code not known to be pure.
struct PurityVisitor<'a> {
    /// First reason found.
    impure: Option<Impurity>,
    /// First read of a tensor, for which `#[traced(pure)]` is not a remedy.
    reads: Option<Impurity>,
    scopes: Vec<Scope>,
    /// Paths of the traced functions that the body calls, with their results.
    functions: BTreeMap<String, Val>,
    /// Traced methods that the body calls: name, position and result.
    methods: Vec<(String, (usize, usize), Val)>,
    /// Number of calls by name and position.
    places: BTreeMap<(String, (usize, usize)), usize>,
    own: OwnItems,
    /// Constants and statics defined outside of the body.
    globals: Vec<Path>,
    questions: Vec<Question>,
    asked: BTreeSet<String>,
    spots: Vec<SpotQuestion>,
    /// True while the first iteration of a loop determines types.
    exploring: bool,
    /// Conversions to a known type, by name and position.
    expected: BTreeSet<(String, (usize, usize))>,
    /// Values of the enclosing loops.
    breaks: Vec<Val>,
    /// Functions in the body that are being visited.
    entered: Vec<String>,
    /// Types written in the signature.
    written: BTreeSet<String>,
    /// Types of parameters that are certainly tensors.
    tensors: BTreeSet<String>,
    generic: bool,
    /// Type parameters, of which functions may be called.
    types: BTreeSet<String>,
    /// Traits of the type parameters of the function itself.
    bounds: BTreeMap<String, Vec<Path>>,
    /// Type parameters that are types of parameters, by the probe of the parameter.
    chosen: BTreeMap<String, String>,
    /// Whether the function is a method that a trait provides.
    is_default: bool,
    /// The receiver of such a method.
    of_trait: Option<String>,
    /// Probes of the parameters that are trait objects.
    objects: BTreeSet<String>,
    /// The trait of a default body.
    in_trait: Option<OfTrait>,
    /// Calls that may run a function of a trait.
    noted: Vec<TraitCall>,
    /// Names of all locals of the body, in scope or not.
    names: BTreeSet<String>,
    fuel: usize,
    rt: &'a TokenStream,
}

impl<'a> PurityVisitor<'a> {
    fn new(
        func: &Func,
        block: &Block,
        calls: &[KnownCall],
        rt: &'a TokenStream,
    ) -> PurityVisitor<'a> {
        let mut own = OwnItems::default();
        own.visit_block(block);
        own.visit_signature(&func.sig);
        own.items = own.hides;
        let named = std::mem::take(&mut own.named);
        let is_default = (func.of_trait()).is_some_and(|of| of.place == TraitPlace::Default);
        let mut judge = PurityVisitor {
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
            spots: Vec::new(),
            exploring: false,
            expected: BTreeSet::new(),
            breaks: Vec::new(),
            entered: Vec::new(),
            written: BTreeSet::new(),
            tensors: BTreeSet::new(),
            generic: is_default || !func.generics().types().is_empty(),
            types: func.generics().sized_types(),
            bounds: bounds(func),
            chosen: BTreeMap::new(),
            is_default,
            of_trait: None,
            objects: BTreeSet::new(),
            in_trait: func.of_trait().filter(|_| is_default).cloned(),
            noted: Vec::new(),
            names: BTreeSet::new(),
            fuel: FUEL,
            rt,
        };
        judge.parameters(func);
        named.iter().for_each(|path| judge.named(path));
        let mut names = BindingNames(&mut judge.names);
        names.visit_block(block);
        for KnownCall { call, is_tree } in calls {
            let val = match is_tree {
                true => Val::unknown(),
                false => judge.result(&call.shape),
            };
            let val = match call.fallible {
                true => Val::option(val),
                false => val,
            };
            match &call.callee {
                Callee::Function(path) => {
                    judge.functions.insert(apply::key(path), val);
                }
                Callee::Associated { ty, name, .. } => {
                    judge.functions.insert(format!("{}::{name}", text(ty)), val);
                }
                Callee::Method { name, .. } => {
                    judge.methods.push((unraw(name), position(call.span), val));
                }
                Callee::Part { .. } | Callee::Inline(_) => {}
            }
        }
        let mut places = Places(&mut judge.places);
        places.visit_block(block);
        judge
    }

    /// Asks whether a type with the name of one of this library's is that type.
    fn named(&mut self, path: &Path) {
        let (_, last) = apply::ends(path);
        let Some(class) = class_of_name(&last) else {
            return;
        };
        let what = text(path);
        if self.tensors.contains(&what) {
            return;
        }
        let why = "it may be a type of another crate with this name";
        if self.own.names {
            self.found(&what, path.span(), why, Remedy::Promise);
            return;
        }
        let rt = self.rt;
        let why = self.reason(&what, path.span(), why, Remedy::Promise);
        let probe = ours!(#rt::Probe(&#rt::some::<#path>()));
        self.ask(ours!((&&&&&#probe).class::<#class>()), why, path.span());
    }

    fn parameters(&mut self, func: &Func) {
        let generics = func.generics();
        if func.output.shape == OutShape::Tensor {
            self.tensors.insert(text(&func.output.ty));
        }
        for ty in paths_in(&func.output.ty) {
            self.written.insert(text(ty));
        }
        for (param, input) in func.params.iter().zip(&func.sig.inputs) {
            let (rt, ty) = (self.rt, without_lifetimes(&param.ty));
            let tokens = ours!(#rt::some::<#ty>());
            let probe = Probe {
                tokens,
                fidelity: Fidelity::Exact,
                // A tree is compared as a whole, so the key does not contain the order of hash maps
                // in it.
                depth: usize::from(param.kind != Kind::Tree),
            };
            let known = match param.kind {
                Kind::Tensor => Ty::Tensor,
                _ => written(&param.owned),
            };
            self.written.insert(text(&param.owned));
            if param.kind == Kind::Tensor {
                self.tensors.insert(text(&param.owned));
            }
            let name = match param.receiver {
                true => "self".to_owned(),
                false => unraw(&param.ident),
            };
            // A probe names the type, and `impl Trait` cannot be named outside of a signature.
            let probe = (!text(&param.ty).contains("impl ")).then_some(probe);
            let written = text(&param.owned);
            if let (Some(probe), true) = (&probe, self.bounds.contains_key(&written)) {
                self.chosen.insert(probe.tokens.to_string(), written);
            }
            if let (Some(probe), true) = (&probe, self.is_default && param.receiver) {
                self.of_trait = Some(probe.tokens.to_string());
            }
            if let (Some(probe), syn::Type::TraitObject(_)) = (&probe, &param.owned) {
                self.objects.insert(probe.tokens.to_string());
            }
            let val = Val::from(known).with_parts(probe);
            match input {
                syn::FnArg::Typed(typed) if param.pattern => self.pattern(&typed.pat, &val),
                _ => self.bind(name, val),
            }
        }
        for name in generics.constants() {
            self.bind(name, Ty::Scalar.into());
        }
    }

    /// Returns the value of a call of a traced function.
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
        let rt = self.rt;
        Val::from(Ty::Tensor).with(Probe::exact(ours!(#rt::some::<#rt::Tensor>())))
    }

    fn scalar(&self, ty: TokenStream) -> Val {
        let rt = self.rt;
        Val::from(Ty::Scalar).with(Probe::exact(ours!(#rt::some::<#ty>())))
    }

    fn bind(&mut self, name: String, val: Val) {
        let scope = self.scopes.last_mut().expect("there is a scope");
        scope.insert(name, Val { at: None, ..val });
    }

    fn local(&self, name: &str) -> Option<&Val> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn local_mut(&mut self, name: &str) -> Option<&mut Val> {
        let mut scopes = self.scopes.iter_mut().rev();
        scopes.find_map(|scope| scope.get_mut(name))
    }

    /// Runs `f` in its own scope.
    fn scope<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.scopes.push(Scope::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Returns whether names in these tokens cannot be resolved outside of the body.
    fn is_hidden(&self, tokens: &impl quote::ToTokens) -> bool {
        fn names(tokens: TokenStream, defined: &BTreeSet<String>) -> bool {
            tokens.into_iter().any(|token| match token {
                proc_macro2::TokenTree::Ident(ident) => defined.contains(&unraw(&ident)),
                proc_macro2::TokenTree::Group(group) => names(group.stream(), defined),
                _ => false,
            })
        }
        let defined = &self.own.defined;
        self.own.hides || !defined.is_empty() && names(tokens.to_token_stream(), defined)
    }

    /// Returns the message about host code that may have side effects.
    fn reason(&self, what: &str, span: Span, why: &str, remedy: Remedy) -> String {
        let line = span.start().line;
        let remedy = match remedy {
            Remedy::Read => {
                "compute with the tensor instead (`select`, `maximum`), or read it before the call and pass the value"
            }
            Remedy::Custom => {
                "set `CustomFunction::PURE` if its `forward` and `backward` depend on their arguments alone"
            }
            Remedy::Trace if self.generic => {
                "put `#[traced]` on it, or on its trait and the impls; `#[traced(pure)]` declares that it has none, for all types"
            }
            _ if self.generic => "`#[traced(pure)]` declares that it has none, for all types",
            Remedy::Trace => {
                "put `#[traced]` on it, or declare that it has no side effects with `#[traced(pure)]`"
            }
            Remedy::Move => {
                "move it before the call and pass the value, or declare that it has no side effects with `#[traced(pure)]`"
            }
            Remedy::Promise => "declare that it has none with `#[traced(pure)]`",
        };
        format!("`{what}` at line {line}{MAY_HAVE_EFFECTS}{why}; {remedy}")
    }

    /// Records host code that may have side effects.
    fn found(&mut self, what: &str, span: Span, why: &str, remedy: Remedy) -> Val {
        if self.impure.is_none() {
            let why = self.reason(what, span, why, remedy);
            self.impure = Some(Impurity { why, span });
        }
        Val::unknown()
    }
}

/// Returns the line and column of a token.
fn position(span: Span) -> (usize, usize) {
    let start = span.start();
    (start.line, start.column)
}

/// Collects the names that patterns bind, in macros too.
struct BindingNames<'a>(&'a mut BTreeSet<String>);

impl<'ast> Visit<'ast> for BindingNames<'_> {
    fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
        let name = unraw(&p.ident);
        // `None` is never a binding. Other upper-case names may be, so they count as locals.
        if name != "None" {
            self.0.insert(name);
        }
        syn::visit::visit_pat_ident(self, p);
    }
}

/// Counts calls by name and position, which calls from a macro expansion may share.
struct Places<'a>(&'a mut BTreeMap<(String, (usize, usize)), usize>);

impl<'ast> Visit<'ast> for Places<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let key = (unraw(&call.method), position(call.method.span()));
        *self.0.entry(key).or_default() += 1;
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Some(at) = trait_call::position_of_call(call) {
            *self.0.entry(at).or_default() += 1;
        }
        syn::visit::visit_expr_call(self, call);
    }
}
