//! Normalises the source of a function for its hash: locals become numbers, other tokens stay as
//! written.
//!
//! Two sources that differ in more than the names of locals must have different texts. A name is
//! therefore replaced only where it certainly refers to a local. Names in unknown macros and in
//! items of the body stay as written, and a local with such a name keeps its name everywhere.

#[cfg(test)]
mod tests;

use crate::input::args::Args;
use crate::input::rule::RuleOption;
use crate::input::{Func, unraw};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, FnArg, Pat};

/// Normalised source of a function, the input of its hash.
pub(crate) struct Digest {
    /// The normalised text.
    pub(crate) text: String,
    /// Constants and statics outside of the body that it mentions, recognised by their upper-case
    /// names.
    pub(crate) constants: Vec<syn::ExprPath>,
}

impl Digest {
    /// Normalises the source of `func`, whose body as the user wrote it is `block`.
    pub(crate) fn new(func: &Func, block: &Block, args: &Args) -> Digest {
        let mut first = Renamer::new(func);
        first.whole(func, block);
        let mut renamer = Renamer::new(func);
        renamer.kept = first.unresolved;
        renamer.inner.extend(first.inner);
        let body = renamer.whole(func, block);
        let rule = args.rule.as_ref().map(RuleOption::text);
        let rule = rule.unwrap_or_default();
        let options = format!("record: {}, pure: {}{rule}", args.record, args.pure);
        let head = [head(func), options, returns(func)].join("\n");
        Digest {
            text: format!("{head}\n{body}"),
            constants: renamer.constants,
        }
    }
}

/// Returns the single-segment names in the body that refer to functions, constants and statics
/// outside of it.
///
/// A local may have such a name in an inner block; after the block the name refers to the item
/// again.
pub(crate) fn names_of_items(func: &Func, block: &Block) -> BTreeSet<String> {
    let mut renamer = Renamer::new(func);
    renamer.parts(func, block);
    renamer.items
}

/// Returns the text of the parameters and of the header of the impl block.
fn head(func: &Func) -> String {
    let owner = func.owner.iter().map(|owner| {
        let (ty, generics) = (&owner.self_ty, &owner.generics);
        let bounds = &generics.where_clause;
        format!("impl {} {} {}", text(generics), text(ty), text(bounds))
    });
    let params = func.params.iter().map(|param| {
        let shape = &param.aval.shape;
        let dtype = param.aval.dtype.map(|dtype| dtype.to_string());
        let dtype = dtype.unwrap_or_default();
        let splits: String = param.splits.iter().map(ToString::to_string).collect();
        format!("{:?} {} {dtype} {shape}{splits}", param.kind, param.diff)
    });
    let generics = [
        text(&func.sig.generics),
        text(&func.sig.generics.where_clause),
    ];
    let output = text(&func.sig.output);
    let parts = owner.chain(params).chain(generics).chain([output]);
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns the text of `returns(..)`.
fn returns(func: &Func) -> String {
    let declared = func.declared.iter().map(|declared| text(&declared.at));
    declared.collect::<Vec<_>>().join(", ")
}

fn text(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string()
}

/// Replaces locals by numbers, scope by scope.
struct Renamer {
    scopes: Vec<BTreeMap<String, usize>>,
    /// Names that the current pattern has bound so far: its alternatives bind the same locals.
    pattern: BTreeMap<String, usize>,
    n_locals: usize,
    /// Names of locals that stay as written.
    kept: BTreeSet<String>,
    /// Names that were used where they are not known to be locals.
    unresolved: BTreeSet<String>,
    /// Single-segment paths in expressions that do not refer to locals.
    items: BTreeSet<String>,
    constants: Vec<syn::ExprPath>,
    /// Names that may mean something else outside of the function: generic parameters, items of the
    /// body, patterns.
    inner: BTreeSet<String>,
    /// True inside of code whose constants cannot be evaluated outside of the body.
    hides: bool,
    /// True if `Self` is in scope where the hash is emitted, and is not generic.
    owned: bool,
}

impl Renamer {
    fn new(func: &Func) -> Renamer {
        let generics = func.generics();
        let inner = generics.types().into_iter().chain(generics.constants());
        Renamer {
            scopes: vec![BTreeMap::new()],
            pattern: BTreeMap::new(),
            n_locals: 0,
            kept: BTreeSet::new(),
            unresolved: BTreeSet::new(),
            items: BTreeSet::new(),
            constants: Vec::new(),
            inner: inner.collect(),
            hides: false,
            owned: func.owner.is_some() && !generics.decide(),
        }
    }

    /// Normalises the parameters and the body, and returns their text.
    fn whole(&mut self, func: &Func, block: &Block) -> String {
        let (inputs, block) = self.parts(func, block);
        let inputs = inputs.iter().map(text);
        inputs.chain([text(&block)]).collect::<Vec<_>>().join("\n")
    }

    /// Renames the parameters and the body.
    fn parts(&mut self, func: &Func, block: &Block) -> (Vec<FnArg>, Block) {
        let mut items = Items(self);
        syn::visit::Visit::visit_block(&mut items, block);
        let mut inputs: Vec<FnArg> = func.sig.inputs.iter().cloned().collect();
        for input in &mut inputs {
            if let FnArg::Typed(param) = input {
                if let Pat::Ident(name) = &mut *param.pat {
                    name.mutability = None;
                }
                self.bind(&mut param.pat);
            }
        }
        let mut block = block.clone();
        self.visit_block_mut(&mut block);
        (inputs, block)
    }

    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeMap::new());
        visit(self);
        self.scopes.pop();
    }

    /// Normalises a pattern and adds its names to the current scope.
    fn bind(&mut self, pat: &mut Pat) {
        let outer = std::mem::take(&mut self.pattern);
        self.visit_pat_mut(pat);
        let bound = std::mem::replace(&mut self.pattern, outer);
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(bound);
        }
    }

    /// Replaces the name of a local by its number, and returns whether the path is a local.
    fn rename(&mut self, path: &mut syn::ExprPath) -> bool {
        let (None, Some(ident)) = (&path.qself, path.path.get_ident()) else {
            return false;
        };
        let name = unraw(ident);
        let is_local = self.scopes.iter().any(|scope| scope.contains_key(&name));
        if !is_local {
            self.items.insert(name.clone());
        }
        if let Some(local) = self.local(&name) {
            path.path = number(local).into();
        }
        is_local
    }

    /// Returns the number of a local, or `None` if the name stays as written.
    fn local(&mut self, name: &str) -> Option<usize> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        match found {
            Some(_) if self.kept.contains(name) => None,
            Some(number) => Some(*number),
            None => {
                self.unresolved.insert(name.to_owned());
                None
            }
        }
    }

    /// Records the identifiers in tokens that are kept as written.
    fn keep(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.unresolved.insert(unraw(&ident));
                }
                TokenTree::Group(group) => self.keep(group.stream()),
                // Format strings mention locals.
                TokenTree::Literal(literal) => {
                    let literal = literal.to_string();
                    let words = literal.split(|c: char| !c.is_alphanumeric() && c != '_');
                    self.unresolved.extend(words.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn constant(&mut self, path: &syn::ExprPath) {
        let Some(last) = path.path.segments.last() else {
            return;
        };
        let name = unraw(&last.ident);
        // A single upper-case letter after `::` is more often an enum variant than a constant.
        let in_capitals = name.len() > 1 || path.path.segments.len() == 1;
        let in_capitals =
            in_capitals && name.contains(char::is_uppercase) && !name.contains(char::is_lowercase);
        let mut names = BTreeSet::new();
        idents(path.to_token_stream(), &mut names);
        let is_inner = names.iter().any(|name| self.inner.contains(name));
        let of_self = names.contains("Self") && !self.owned;
        if in_capitals && !is_inner && !of_self && !self.hides && !self.constants.contains(path) {
            self.constants.push(path.clone());
        }
    }

    /// Normalises the arguments of a standard library macro whose arguments are expressions.
    ///
    /// Returns `None` for other macros.
    fn arguments(&mut self, mac: &mut syn::Macro) -> Option<()> {
        use syn::parse::{ParseStream, Parser};
        let name = mac.path.get_ident()?.to_string();
        let known = [
            "vec",
            "assert",
            "assert_eq",
            "assert_ne",
            "debug_assert",
            "debug_assert_eq",
            "debug_assert_ne",
            "format",
            "panic",
            "print",
            "println",
        ];
        if !known.contains(&&*name) {
            return None;
        }
        let parse = |input: ParseStream<'_>| {
            let mut parts: Vec<(Expr, TokenStream)> = Vec::new();
            while !input.is_empty() {
                let part = input.parse()?;
                let separator = match input.is_empty() {
                    true => TokenStream::new(),
                    false => input.parse::<TokenTree>()?.into(),
                };
                parts.push((part, separator));
            }
            Ok(parts)
        };
        let parts = parse.parse2(mac.tokens.clone()).ok()?;
        let mut tokens = TokenStream::new();
        for (mut part, separator) in parts {
            if let Expr::Lit(literal) = &part {
                self.keep(literal.to_token_stream());
            }
            self.visit_expr_mut(&mut part);
            part.to_tokens(&mut tokens);
            tokens.extend(separator);
        }
        mac.tokens = tokens;
        Some(())
    }
}

/// Visitor for the items of a body.
///
/// Names that they use stay as written, and names that they define are not visible outside of the
/// body.
struct Items<'a>(&'a mut Renamer);

impl<'ast> syn::visit::Visit<'ast> for Items<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(item) => {
                self.0.inner.insert(unraw(&item.ident));
            }
            syn::Item::Fn(item) => {
                self.0.inner.insert(unraw(&item.sig.ident));
            }
            syn::Item::Struct(item) => {
                self.0.inner.insert(unraw(&item.ident));
            }
            syn::Item::Enum(item) => {
                self.0.inner.insert(unraw(&item.ident));
            }
            _ => self.0.hides = true,
        }
        let mut names = BTreeSet::new();
        idents(item.to_token_stream(), &mut names);
        self.0.unresolved.extend(names);
    }

    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        self.0.hides |= attr.path().is_ident("cfg");
        self.0.keep(attr.meta.to_token_stream());
    }
}

fn idents(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                names.insert(unraw(&ident));
            }
            TokenTree::Group(group) => idents(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns the identifier for a local: a name that users do not write.
fn number(number: usize) -> Ident {
    Ident::new(&format!("__local_{number}"), Span::call_site())
}

impl VisitMut for Renamer {
    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scoped(|this| syn::visit_mut::visit_block_mut(this, block));
    }

    fn visit_local_mut(&mut self, local: &mut syn::Local) {
        if let Some(init) = &mut local.init {
            self.visit_local_init_mut(init);
        }
        self.bind(&mut local.pat);
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut syn::ExprClosure) {
        self.scoped(|this| {
            closure.inputs.iter_mut().for_each(|pat| this.bind(pat));
            this.visit_expr_mut(&mut closure.body);
        });
    }

    fn visit_expr_for_loop_mut(&mut self, e: &mut syn::ExprForLoop) {
        self.visit_expr_mut(&mut e.expr);
        self.scoped(|this| {
            this.bind(&mut e.pat);
            this.visit_block_mut(&mut e.body);
        });
    }

    fn visit_expr_while_mut(&mut self, e: &mut syn::ExprWhile) {
        self.scoped(|this| {
            this.visit_expr_mut(&mut e.cond);
            this.visit_block_mut(&mut e.body);
        });
    }

    fn visit_expr_if_mut(&mut self, e: &mut syn::ExprIf) {
        self.scoped(|this| {
            this.visit_expr_mut(&mut e.cond);
            this.visit_block_mut(&mut e.then_branch);
        });
        if let Some((_, other)) = &mut e.else_branch {
            self.visit_expr_mut(other);
        }
    }

    fn visit_expr_let_mut(&mut self, e: &mut syn::ExprLet) {
        self.visit_expr_mut(&mut e.expr);
        self.bind(&mut e.pat);
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        self.scoped(|this| {
            this.bind(&mut arm.pat);
            this.visit_expr_mut(&mut arm.body);
        });
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut syn::PatIdent) {
        let name = unraw(&pat.ident);
        // A constant or a variant.
        if name.starts_with(char::is_uppercase) {
            self.inner.insert(name.clone());
            self.unresolved.insert(name);
        } else {
            let fresh = self.n_locals;
            let local = *self.pattern.entry(name.clone()).or_insert(fresh);
            self.n_locals += usize::from(local == fresh);
            if !self.kept.contains(&name) {
                pat.ident = number(local);
            }
        }
        if let Some((_, inner)) = &mut pat.subpat {
            self.visit_pat_mut(inner);
        }
    }

    fn visit_field_pat_mut(&mut self, field: &mut syn::FieldPat) {
        field.colon_token.get_or_insert_default();
        self.visit_pat_mut(&mut field.pat);
    }

    fn visit_field_value_mut(&mut self, field: &mut syn::FieldValue) {
        field.colon_token.get_or_insert_default();
        self.visit_expr_mut(&mut field.expr);
    }

    fn visit_expr_call_mut(&mut self, call: &mut syn::ExprCall) {
        match &mut *call.func {
            // A called path is a function, not a constant.
            Expr::Path(path) => {
                self.rename(path);
            }
            other => self.visit_expr_mut(other),
        }
        call.args
            .iter_mut()
            .for_each(|arg| self.visit_expr_mut(arg));
    }

    fn visit_expr_path_mut(&mut self, path: &mut syn::ExprPath) {
        if !self.rename(path) {
            self.constant(path);
        }
    }

    fn visit_pat_guard_mut(&mut self, guard: &mut syn::PatGuard) {
        self.visit_pat_mut(&mut guard.pat);
        self.scopes.push(self.pattern.clone());
        self.visit_expr_mut(&mut guard.guard);
        self.scopes.pop();
    }

    fn visit_expr_unsafe_mut(&mut self, e: &mut syn::ExprUnsafe) {
        // A `static mut` cannot be read in a constant.
        let outer = std::mem::replace(&mut self.hides, true);
        syn::visit_mut::visit_expr_unsafe_mut(self, e);
        self.hides = outer;
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Verbatim(tokens) => self.keep(tokens.clone()),
            other => syn::visit_mut::visit_expr_mut(self, other),
        }
    }

    fn visit_macro_mut(&mut self, mac: &mut syn::Macro) {
        if self.arguments(mac).is_none() {
            self.keep(mac.tokens.clone());
        }
    }

    // `Items` has already recorded their names.
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_attribute_mut(&mut self, _: &mut syn::Attribute) {}
}
