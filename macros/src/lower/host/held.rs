//! What a local of the host code holds: numbers and names, or tensors.
//!
//! `list.push(part)` with a part of a tree may add a number or a tensor, which the macro cannot
//! distinguish. A tensor in a host value would be a constant, without a derivative, so the uses of
//! the list decide: as a tree, as a host value, or not at all, and then the body is recorded.

use crate::input::{NUMBERS, text, unraw};
use crate::lower::expr::inline::{CHANGES, MUTATES, root_of};
use crate::lower::expr::op::is_method;
use crate::lower::expr::syntax::{assigned, peel};
use crate::lower::{Content, Cx, Host, LowerResult, Value, host};
use crate::method_table::{class, is_of_values, methods, reads_tensor};
use proc_macro2::Ident;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Expr, Pat};

/// Methods of values that return nothing of their arguments.
const COMPARE: [&str; 15] = [
    "abs_diff",
    "binary_search",
    "clamp",
    "cmp",
    "contains",
    "contains_key",
    "ends_with",
    "eq",
    "get",
    "max",
    "min",
    "ne",
    "partial_cmp",
    "pow",
    "starts_with",
];

/// Methods of a collection whose results are not tensors.
const COUNTS: [&str; 6] = [
    "capacity",
    "contains",
    "contains_key",
    "is_empty",
    "join",
    "len",
];

/// Methods that change a collection and return nothing that is used.
const FILLS: [&str; 12] = [
    "append",
    "clear",
    "dedup",
    "extend",
    "extend_from_slice",
    "insert",
    "push",
    "push_back",
    "push_front",
    "resize",
    "reverse",
    "truncate",
];

/// Types of the standard library that are not trees.
pub(in crate::lower) const NO_TREES: [&str; 13] = [
    "Arc", "Cell", "Cow", "HashMap", "HashSet", "Mutex", "Rc", "RefCell", "RwLock", "String",
    "bool", "char", "str",
];

/// What the uses of a local tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// It is only counted, or its elements are numbers.
    Numbers,
    Unclear,
    Tensors,
}

impl Cx<'_> {
    /// Refuses a method of a host value whose arguments may bring tensors into it.
    pub(in crate::lower) fn keep_host(
        &mut self,
        call: &syn::ExprMethodCall,
        receiver: &Host,
        args: &[Value],
    ) -> LowerResult<()> {
        let method = call.method.to_string();
        let is_part = |value: &Value| match value {
            Value::Place(place) => self.content_of_part(place) == Content::Parts,
            Value::Host(host) => host.content == Content::Parts,
            _ => false,
        };
        let by_ref = |value: &Value| matches!(value, Value::Place(place) if place.by_ref);
        let pure = COMPARE.contains(&&*method) || !is_filled(&method) && is_of_numbers(&method);
        if receiver.is_number() || pure || !args.iter().any(is_part) {
            return Ok(());
        }
        match root_of(&call.receiver) {
            Some(root) if is_filled(&method) => {
                let cloned = call.args.iter().all(is_clone);
                let lent = args.iter().any(by_ref);
                self.keep_local(&root, cloned, lent)
            }
            _ => self.recorded(
                &format!("the method `{method}` of a host value"),
                call.method.span(),
            ),
        }
    }

    /// Refuses an assignment of a value that may hold tensors to a host local.
    pub(in crate::lower) fn keep_assigned(
        &mut self,
        left: &Expr,
        right: &Expr,
        value: &Host,
    ) -> LowerResult<()> {
        match root_of(left) {
            _ if value.content != Content::Parts => Ok(()),
            Some(root) => {
                let lent = matches!(value.expr, Expr::Reference(_));
                self.keep_local(&root, is_clone(right), lent)
            }
            None => self.keep_plain(value),
        }
    }

    /// Refuses a host value that may hold tensors, where they would be constants.
    pub(in crate::lower) fn keep_plain(&self, value: &Host) -> LowerResult<()> {
        if value.content != Content::Parts {
            return Ok(());
        }
        self.recorded(
            &format!("`{}`, which may hold tensors,", text(&value.expr)),
            value.expr.span(),
        )
    }

    /// Decides about the host locals that recorded code changes.
    pub(in crate::lower) fn keep_changed(&mut self, code: &Expr) -> LowerResult<()> {
        struct Changed(Vec<Ident>);
        impl<'ast> Visit<'ast> for Changed {
            fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
                if MUTATES.contains(&&*call.method.to_string()) {
                    self.0.extend(root_of(&call.receiver));
                }
                syn::visit::visit_expr_method_call(self, call);
            }
            fn visit_expr_reference(&mut self, e: &'ast syn::ExprReference) {
                if e.mutability.is_some() {
                    self.0.extend(root_of(&e.expr));
                }
                syn::visit::visit_expr_reference(self, e);
            }
        }
        let mut changed = Changed(assigned(code));
        changed.visit_expr(code);
        for local in changed.0 {
            let value = self.names.lookup(&unraw(&local));
            if matches!(value, Some(Value::Host(_))) && !self.is_plain(&local) {
                self.keep_local(&local, false, false)?;
            }
        }
        Ok(())
    }

    /// Returns whether a local is known to hold no tensors.
    fn is_plain(&self, local: &Ident) -> bool {
        match self.names.lookup(&unraw(local)) {
            Some(Value::Host(host)) => {
                host.is_number()
                    || matches!(&host.expr, Expr::Path(p) if p.path.get_ident().is_some_and(|name| {
                        self.names.host_plain.contains(&unraw(name))
                    }))
            }
            _ => false,
        }
    }

    /// Makes a host local a tree if its uses show that it holds tensors, or refuses what is unclear.
    fn keep_local(&mut self, local: &Ident, cloned: bool, lent: bool) -> LowerResult<()> {
        if self.is_plain(local) {
            return Ok(());
        }
        let held = self.diagnostics.source;
        let held = uses(held, local, cloned);
        if held == Some(Held::Numbers) {
            return Ok(());
        }
        if held == Some(Held::Tensors) && !lent {
            let local: Expr = syn::parse_quote!(#local);
            self.promote(&self.rename(&local))?;
        }
        self.recorded(
            &format!("`{local}`, which may hold tensors and has no type (write `let {local}: Vec<Tensor>`, or the type that it has),"),
            local.span(),
        )
    }
}

/// Returns whether a written type is that of a tree with tensors, as far as its names tell.
pub(in crate::lower) fn is_tree_type(ty: &syn::Type) -> bool {
    mentions_tensor(ty) && may_be_tree(ty)
}

pub(in crate::lower) fn mentions_tensor(ty: &syn::Type) -> bool {
    let mut tensors = false;
    host::in_tokens(ty.to_token_stream(), &mut |ident| {
        tensors |= ident == "Tensor"
    });
    tensors
}

fn may_be_tree(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Paren(ty) => may_be_tree(&ty.elem),
        syn::Type::Group(ty) => may_be_tree(&ty.elem),
        syn::Type::Array(ty) => may_be_tree(&ty.elem),
        syn::Type::Tuple(ty) => ty.elems.iter().all(may_be_tree),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = unraw(&last.ident);
            let types = match &last.arguments {
                syn::PathArguments::AngleBracketed(args) => Vec::from_iter(&args.args),
                _ => Vec::new(),
            };
            let mut types = types.into_iter().filter_map(|arg| match arg {
                syn::GenericArgument::Type(ty) => Some(ty),
                _ => None,
            });
            if name == "BTreeMap" {
                types.next();
            }
            !NO_TREES.contains(&&*name) && !NUMBERS.contains(&&*name) && types.all(may_be_tree)
        }),
        _ => false,
    }
}

/// Returns whether a written type has no tensors.
pub(in crate::lower) fn is_plain_type(ty: &syn::Type) -> bool {
    const PLAIN: [&str; 12] = [
        "Vec", "VecDeque", "Option", "String", "str", "bool", "char", "BTreeMap", "HashMap",
        "BTreeSet", "HashSet", "Key",
    ];
    let mut plain = !matches!(ty, syn::Type::Infer(_));
    host::in_tokens(ty.to_token_stream(), &mut |ident| {
        let name = unraw(ident);
        plain &= PLAIN.contains(&&*name)
            || NUMBERS.contains(&&*name)
            || ["std", "collections"].contains(&&*name);
    });
    plain
}

/// Returns what is known of the result of a method of a host value, if it does not depend on what is
/// known of the value.
pub(in crate::lower) fn content_of(call: &syn::ExprMethodCall, number: bool) -> Option<Content> {
    let method = call.method.to_string();
    let compares = COMPARE.contains(&&*method) && method != "get" || COUNTS.contains(&&*method);
    match number {
        true => Some(Content::Number),
        false if compares || reads_tensor(&method) => Some(Content::Plain),
        false => None,
    }
}

fn is_filled(method: &str) -> bool {
    CHANGES.contains(&method) || MUTATES.contains(&method)
}

fn is_of_numbers(method: &str) -> bool {
    const OF_VALUES: [&str; 7] = [
        "chain",
        "map_or",
        "or",
        "or_else",
        "unwrap_or",
        "xor",
        "zip",
    ];
    is_of_values(method) && !OF_VALUES.contains(&method)
}

fn is_clone(expr: &Expr) -> bool {
    match peel(expr) {
        Expr::MethodCall(m) => ["clone", "to_owned"].contains(&&*m.method.to_string()),
        Expr::Call(call) => text(&call.func).ends_with("clone"),
        _ => false,
    }
}

/// Returns what the uses of a local in a body tell of it; `None` if there are none.
///
/// `cloned` is true if what it holds was cloned, which numbers are not.
fn uses(body: &syn::Block, local: &Ident, cloned: bool) -> Option<Held> {
    let mut uses = Uses {
        local: unraw(local),
        cloned,
        held: None,
        mixed: false,
    };
    uses.visit_block(body);
    match uses.mixed {
        true => uses.held.map(|held| held.min(Held::Unclear)),
        false => uses.held,
    }
}

struct Uses {
    local: String,
    cloned: bool,
    held: Option<Held>,
    /// True if it gets tuples of which some parts may be numbers.
    mixed: bool,
}

impl Uses {
    fn note(&mut self, held: Held) {
        self.held = self.held.max(Some(held));
    }

    fn is_local(&self, expr: &Expr) -> bool {
        matches!(peel(expr), Expr::Path(p) if p.path.get_ident().is_some_and(|i| unraw(i) == self.local))
    }

    /// Returns whether an expression is an element of the local.
    fn is_element(&self, expr: &Expr) -> bool {
        matches!(peel(expr), Expr::Index(i) if self.is_local(&i.expr))
    }

    /// Returns whether an expression is the local by reference, or an iterator of references to its
    /// elements.
    fn is_lent(&self, expr: &Expr) -> bool {
        match peel(expr) {
            Expr::Reference(r) => self.is_local(&r.expr),
            Expr::MethodCall(m) => {
                ["iter", "enumerate", "rev"].contains(&&*m.method.to_string())
                    && (self.is_local(&m.receiver) || self.is_lent(&m.receiver))
            }
            _ => false,
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_stmt(&mut self, stmt: &'ast syn::Stmt) {
        match stmt {
            syn::Stmt::Expr(Expr::MethodCall(m), Some(_))
                if self.is_local(&m.receiver) && FILLS.contains(&&*m.method.to_string()) =>
            {
                self.mixed |= m.args.iter().any(|arg| match peel(arg) {
                    Expr::Tuple(tuple) => tuple.elems.iter().any(|part| {
                        matches!(peel(part), Expr::Path(_) | Expr::Field(_) | Expr::Lit(_))
                    }),
                    _ => false,
                });
                m.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            // `list = Vec::new();`
            syn::Stmt::Expr(Expr::Assign(a), Some(_)) if self.is_local(&a.left) => {
                self.visit_expr(&a.right);
            }
            stmt => syn::visit::visit_stmt(self, stmt),
        }
    }
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Path(_) if self.is_local(expr) => self.note(Held::Unclear),
            Expr::Cast(c) if self.is_element(&c.expr) => self.note(Held::Numbers),
            Expr::Reference(r) if r.mutability.is_none() && self.is_element(&r.expr) => {
                self.note(Held::Tensors);
            }
            Expr::MethodCall(m) if self.is_local(&m.receiver) => {
                let method = m.method.to_string();
                match () {
                    () if COUNTS.contains(&&*method) => self.note(Held::Numbers),
                    () if self.cloned && ["pop", "last", "first"].contains(&&*method) => {
                        self.note(Held::Tensors);
                    }
                    () => self.note(Held::Unclear),
                }
                m.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            // `list.iter().sum::<usize>()`
            Expr::MethodCall(m)
                if self.is_lent(&m.receiver)
                    && m.turbofish.as_ref().is_some_and(|types| {
                        let mut args = types.args.iter();
                        args.all(|arg| NUMBERS.contains(&&*text(arg)))
                    }) =>
            {
                self.note(Held::Numbers);
            }
            Expr::MethodCall(m) if self.cloned && self.is_lent(&m.receiver) => {
                let tensors = m.args.iter().any(|arg| match peel(arg) {
                    Expr::Closure(c) => c.inputs.iter().any(|pat| computes(pat, &c.body)),
                    _ => false,
                });
                match tensors {
                    true => self.note(Held::Tensors),
                    false => self.note(Held::Unclear),
                }
                m.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::MethodCall(m) if m.method == "clone" && self.is_element(&m.receiver) => {
                self.note(Held::Tensors);
            }
            Expr::Call(call) => {
                self.visit_expr(&call.func);
                for arg in &call.args {
                    match peel(arg) {
                        Expr::Reference(r) if self.is_local(&r.expr) => {
                            let name = text(&call.func);
                            let stacks =
                                name.ends_with("Tensor::stack") || name.ends_with("Tensor::concat");
                            match stacks || self.cloned {
                                true => self.note(Held::Tensors),
                                false => self.note(Held::Unclear),
                            }
                        }
                        arg => self.visit_expr(arg),
                    }
                }
            }
            Expr::ForLoop(e) if self.is_lent(&e.expr) || self.is_local(&e.expr) => {
                let body = Expr::Block(syn::ExprBlock {
                    attrs: Vec::new(),
                    label: None,
                    block: e.body.clone(),
                });
                match computes(&e.pat, &body) {
                    true => self.note(Held::Tensors),
                    false => self.note(Held::Unclear),
                }
                self.visit_block(&e.body);
            }
            expr => syn::visit::visit_expr(self, expr),
        }
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        host::in_tokens(m.tokens.clone(), &mut |ident| {
            if unraw(ident) == self.local {
                // `dbg!` and `assert!` return nothing of it that is used without being mentioned.
                self.held = self.held.max(Some(Held::Unclear));
            }
        });
    }
}

/// Returns whether code uses a name of a pattern as a tensor: as an operand that is not
/// dereferenced, or with a method of tensors.
fn computes(pat: &Pat, code: &Expr) -> bool {
    #[derive(Default)]
    struct Names(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
            self.0.insert(unraw(&p.ident));
        }
        // `&k`: the items are copied, as numbers are.
        fn visit_pat_reference(&mut self, _: &'ast syn::PatReference) {}
    }
    struct Computes {
        names: BTreeSet<String>,
        found: bool,
    }
    impl Computes {
        fn is_name(&self, expr: &Expr) -> bool {
            match peel(expr) {
                Expr::Reference(r) => self.is_name(&r.expr),
                Expr::Field(f) => self.is_name(&f.base),
                Expr::Path(p) => p
                    .path
                    .get_ident()
                    .is_some_and(|i| self.names.contains(&unraw(i))),
                _ => false,
            }
        }
    }
    impl<'ast> Visit<'ast> for Computes {
        fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
            use syn::BinOp::{Add, Div, Mul, Sub};
            let computes = matches!(e.op, Add(_) | Sub(_) | Mul(_) | Div(_));
            self.found |= computes && (self.is_name(&e.left) || self.is_name(&e.right));
            syn::visit::visit_expr_binary(self, e);
        }
        fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
            let method = e.method.to_string();
            let of_tensors = methods(&method).all(|row| row.of == class::TENSOR);
            let is_op = is_method(&method) && of_tensors;
            self.found |= is_op && self.is_name(&e.receiver);
            syn::visit::visit_expr_method_call(self, e);
        }
    }
    let mut names = Names::default();
    names.visit_pat(pat);
    let mut computes = Computes {
        names: names.0,
        found: false,
    };
    computes.visit_expr(code);
    computes.found
}
