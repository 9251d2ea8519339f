//! Lowers the closures that transforms, loops and branches take, for their [compiled loops](super::compiled_loops).
//!
//! A plan contains the ops of such a closure, whether the function around it is recorded or not. The types of the
//! locals that it captures are not known, so they are guessed: a local is a tensor unless it is certainly a number. A closure
//! that cannot be lowered with these guesses has no compiled loops.

use crate::digest::names_of_items;
use crate::input::{self, Func, NUMBERS, OutShape, text, unraw};
use crate::lower;
use crate::method_table::{functions_of_path, methods_of_builder};
use crate::program::Body;
use crate::report::Errors;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Block, Expr, ExprClosure, FnArg, ItemFn, Pat, Stmt, Type, UnOp, parse_quote};

/// Body of a closure.
pub(crate) struct ClosureBody {
    pub(crate) body: Body,
    pub(crate) output: OutShape,
    /// The loop of which it is a turn.
    pub(crate) turn: Option<Turn>,
}

/// A loop by the arguments of its turns: states, slices, or an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// A state and a slice.
    Scan,
    /// An index and a state.
    For,
    /// A slice.
    Map,
    /// A state.
    While,
}

impl Turn {
    fn of(function: &str, owner: &str) -> Option<Turn> {
        Some(match function {
            "scan" => Turn::Scan,
            "new" if owner == "Scan" => Turn::Scan,
            "fori_loop" => Turn::For,
            "map" => Turn::Map,
            "while_loop" => Turn::While,
            _ => return None,
        })
    }
}

/// Returns the bodies of the closures in a function that can be lowered.
pub(crate) fn bodies(func: &Func, block: &Block, rt: &TokenStream) -> Vec<ClosureBody> {
    let mut source = Source::default();
    source.visit_signature(&func.sig);
    source.visit_block(block);
    let mut found = FunctionArguments::default();
    found.visit_block(block);
    let items = names_of_items(func, block);
    let bodies = found.0.iter().filter_map(|(arg, turn)| {
        let closure = source.closure(arg)?;
        let mut item = source.function(closure, func, &items)?;
        let mut errors = Errors::default();
        let vis = syn::Visibility::Inherited;
        let own = input::signature(&vis, &[], &mut item.sig, func.owner.clone(), &mut errors);
        if !errors.is_empty() {
            return None;
        }
        let body = lower::lower(&own, &item.block, rt, &mut errors);
        errors.is_empty().then_some(ClosureBody {
            body,
            output: own.output.shape,
            turn: *turn,
        })
    });
    bodies.collect()
}

/// Local of a function, as far as its declaration tells.
enum Local {
    /// It has this written type.
    Typed(Type),
    /// A number, with the literal that it is equal to, if that is known.
    Number(Option<Expr>),
    Closure(Box<LocalClosure>),
    Unknown,
}

/// A closure that a local is.
struct LocalClosure {
    closure: ExprClosure,
    declaration: Stmt,
    /// Number of closures that were declared before.
    position: usize,
}

/// Locals of a function, with those of closures and blocks in it. Of locals with the same name, the last one counts.
#[derive(Default)]
struct Source {
    locals: BTreeMap<String, Local>,
    /// Number of locals that are closures, so far.
    n_closures: usize,
    receiver: Option<FnArg>,
}

impl Source {
    /// Returns the closure that an argument is, or that the local of this name is.
    fn closure<'a>(&'a self, arg: &'a Expr) -> Option<&'a ExprClosure> {
        match arg {
            Expr::Closure(closure) => Some(closure),
            Expr::Path(p) => match self.locals.get(&unraw(p.path.get_ident()?))? {
                Local::Closure(of) => Some(&of.closure),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns a function with the body of a closure. The locals that the closure captures are its last parameters.
    ///
    /// Returns `None` if there is no such function, for example because a parameter has a form that only closures take.
    fn function(
        &self,
        closure: &ExprClosure,
        func: &Func,
        items: &BTreeSet<String>,
    ) -> Option<ItemFn> {
        let mut inputs: Vec<FnArg> = Vec::new();
        for pat in &closure.inputs {
            inputs.push(parameter(pat)?);
        }
        let mut captured = Captured::default();
        captured.visit_expr_closure(closure);
        let mut declared: BTreeMap<usize, &Stmt> = BTreeMap::new();
        let mut done = BTreeSet::new();
        while let Some((name, ident)) = captured.names.pop_first() {
            if items.contains(&name) || !done.insert(name.clone()) {
                continue;
            }
            if name == "self" {
                // The receiver is the first parameter.
                inputs.splice(0..0, self.receiver.clone());
                continue;
            }
            inputs.push(match self.locals.get(&name) {
                Some(Local::Typed(ty)) => parsed(quote!(#ident: #ty))?,
                Some(Local::Number(_)) => continue,
                Some(Local::Closure(of)) => {
                    captured.visit_expr_closure(&of.closure);
                    declared.insert(of.position, &of.declaration);
                    continue;
                }
                Some(Local::Unknown) | None => parsed(quote!(#ident: &Tensor))?,
            });
        }
        let generics = &func.sig.generics;
        let (params, bounds) = (&generics.params, &generics.where_clause);
        let output = match &closure.output {
            syn::ReturnType::Type(_, ty) => (**ty).clone(),
            syn::ReturnType::Default => result(&closure.body, &[]),
        };
        let (body, declared) = (&closure.body, declared.values());
        let mut block: Block = parsed(quote!({ #(#declared)* #body }))?;
        let mut numbers = Numbers {
            source: self,
            unknown: Vec::new(),
        };
        numbers.visit_block_mut(&mut block);
        inputs.extend((0..numbers.unknown.len()).map(|i| {
            let name = number_name(i);
            parse_quote!(#name: f64)
        }));
        parsed(quote!(fn closure<#params>(#(#inputs),*) -> #output #bounds #block))
    }

    fn declare(&mut self, pat: &Pat, local: Local) {
        match pat {
            Pat::Ident(pat) => drop(self.locals.insert(unraw(&pat.ident), local)),
            Pat::Type(pat) => self.declare(&pat.pat, Local::Typed((*pat.ty).clone())),
            _ => {}
        }
    }

    /// Notes the locals that a `let` declares with an initial value.
    fn declare_as(&mut self, pat: &Pat, init: &Expr) {
        if let (Pat::Tuple(pats), Expr::Tuple(inits)) = (pat, init)
            && pats.elems.len() == inits.elems.len()
        {
            let both = pats.elems.iter().zip(&inits.elems);
            return both.for_each(|(pat, init)| self.declare_as(pat, init));
        }
        // The value of a local that changes is not known.
        let changes = matches!(pat, Pat::Ident(pat) if pat.mutability.is_some());
        let local = match init {
            Expr::Closure(closure) => match parsed(quote!(let #pat = #closure;)) {
                Some(declaration) => {
                    self.n_closures += 1;
                    Local::Closure(Box::new(LocalClosure {
                        closure: closure.clone(),
                        declaration,
                        position: self.n_closures,
                    }))
                }
                None => Local::Unknown,
            },
            init if self.is_number(init) => Local::Number(self.literal(init).filter(|_| !changes)),
            _ => Local::Unknown,
        };
        self.declare(pat, local);
    }

    /// Returns whether an expression is certainly a number.
    fn is_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(lit) => matches!(lit.lit, syn::Lit::Int(_) | syn::Lit::Float(_)),
            Expr::Paren(e) => self.is_number(&e.expr),
            Expr::Unary(e) => self.is_number(&e.expr),
            Expr::Binary(e) => self.is_number(&e.left) && self.is_number(&e.right),
            Expr::Cast(e) => NUMBERS.contains(&&*text(&e.ty)),
            Expr::Path(p) => {
                p.path
                    .get_ident()
                    .is_some_and(|name| match self.locals.get(&unraw(name)) {
                        Some(Local::Number(_)) => true,
                        Some(Local::Typed(ty)) => NUMBERS.contains(&&*text(ty)),
                        _ => false,
                    })
            }
            _ => false,
        }
    }

    /// Returns the literal that a number is equal to, if that is known.
    fn literal(&self, expr: &Expr) -> Option<Expr> {
        if let Some(value) = self.float(expr).filter(|value| value.is_finite()) {
            let size = value.abs();
            return Some(match value.is_sign_negative() {
                true => parse_quote!((-#size)),
                false => parse_quote!(#size),
            });
        }
        match expr {
            Expr::Lit(_) => Some(expr.clone()),
            Expr::Paren(e) => self.literal(&e.expr),
            Expr::Path(p) => match self.locals.get(&unraw(p.path.get_ident()?))? {
                Local::Number(value) => value.clone(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the value of an expression of floats, if it is known.
    fn float(&self, expr: &Expr) -> Option<f64> {
        match expr {
            Expr::Lit(lit) => match &lit.lit {
                syn::Lit::Float(x) if x.suffix() != "f32" => x.base10_parse().ok(),
                _ => None,
            },
            Expr::Paren(e) => self.float(&e.expr),
            Expr::Unary(e) if matches!(e.op, UnOp::Neg(_)) => Some(-self.float(&e.expr)?),
            Expr::Binary(e) => {
                let (x, y) = (self.float(&e.left)?, self.float(&e.right)?);
                Some(match e.op {
                    BinOp::Add(_) => x + y,
                    BinOp::Sub(_) => x - y,
                    BinOp::Mul(_) => x * y,
                    BinOp::Div(_) => x / y,
                    _ => return None,
                })
            }
            Expr::Path(p) => match self.locals.get(&unraw(p.path.get_ident()?))? {
                Local::Number(value) => self.float(value.as_ref()?),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Replaces numbers by their values, or by parameters. At run time, equal numbers are one value.
struct Numbers<'a> {
    source: &'a Source,
    /// Texts of the expressions that became parameters.
    unknown: Vec<String>,
}

impl VisitMut for Numbers<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if !self.source.is_number(expr) || matches!(expr, Expr::Lit(_)) {
            return syn::visit_mut::visit_expr_mut(self, expr);
        }
        *expr = match self.source.literal(expr) {
            Some(literal) => literal,
            None => {
                let text = text(expr);
                let known = self.unknown.iter().position(|other| *other == text);
                let i = known.unwrap_or_else(|| {
                    self.unknown.push(text);
                    self.unknown.len() - 1
                });
                Expr::Path(number_name(i))
            }
        };
    }
}

fn number_name(i: usize) -> syn::ExprPath {
    let name = Ident::new(&format!("number_{i}"), Span::mixed_site());
    parse_quote!(#name)
}

impl<'ast> Visit<'ast> for Source {
    fn visit_fn_arg(&mut self, arg: &'ast FnArg) {
        match arg {
            FnArg::Typed(arg) => self.declare(&arg.pat, Local::Typed((*arg.ty).clone())),
            FnArg::Receiver(_) => self.receiver = Some(arg.clone()),
        }
    }
    fn visit_local(&mut self, local: &'ast syn::Local) {
        syn::visit::visit_local(self, local);
        match local.init.as_ref().map(|init| &*init.expr) {
            Some(init) => self.declare_as(&local.pat, init),
            None => self.declare(&local.pat, Local::Unknown),
        }
    }
    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        for pat in &closure.inputs {
            self.declare(pat, Local::Unknown);
        }
        syn::visit::visit_expr_closure(self, closure);
    }
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Arguments of calls of transforms, loops and branches that are functions, each with the loop that runs it.
#[derive(Default)]
struct FunctionArguments(Vec<(Expr, Option<Turn>)>);

impl FunctionArguments {
    fn note(&mut self, arg: &Expr, turn: Option<Turn>) {
        match arg {
            Expr::Paren(e) => self.note(&e.expr, turn),
            Expr::Reference(e) => self.note(&e.expr, turn),
            Expr::Array(e) => e.elems.iter().for_each(|arg| self.note(arg, turn)),
            Expr::Closure(_) | Expr::Path(_) => {
                let found = (arg.clone(), turn);
                if !self.0.contains(&found) {
                    self.0.push(found);
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for FunctionArguments {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let mut names = path.path.segments.iter().rev().map(|s| unraw(&s.ident));
            let (name, owner) = (names.next(), names.next());
            let (name, owner) = (name.unwrap_or_default(), owner.unwrap_or_default());
            let functions = match &*name {
                "new" => methods_of_builder(&owner).map(|_| &[0][..]),
                name => functions_of_path(&owner, name),
            };
            let turn = Turn::of(&name, &owner);
            for i in functions.into_iter().flatten() {
                if let Some(arg) = call.args.get(*i) {
                    self.note(arg, turn);
                }
            }
        }
        syn::visit::visit_expr_call(self, call);
    }
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Names that closures mention and do not declare before.
#[derive(Default)]
struct Captured {
    names: BTreeMap<String, Ident>,
    /// Locals of the blocks and closures around an expression, from the outermost on.
    scopes: Vec<BTreeSet<String>>,
}

impl Captured {
    fn in_scope(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeSet::new());
        visit(self);
        self.scopes.pop();
    }
}

impl<'ast> Visit<'ast> for Captured {
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let Some(ident) = path.path.get_ident() else {
            return;
        };
        let name = unraw(ident);
        if !self.scopes.iter().any(|scope| scope.contains(&name)) {
            self.names.insert(name, ident.clone());
        }
    }
    fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(unraw(&pat.ident));
        }
        syn::visit::visit_pat_ident(self, pat);
    }
    fn visit_local(&mut self, local: &'ast syn::Local) {
        // The initial value is evaluated before the names exist.
        if let Some(init) = &local.init {
            self.visit_local_init(init);
        }
        self.visit_pat(&local.pat);
    }
    fn visit_block(&mut self, block: &'ast Block) {
        self.in_scope(|captured| syn::visit::visit_block(captured, block));
    }
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.in_scope(|captured| syn::visit::visit_arm(captured, arm));
    }
    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.in_scope(|captured| syn::visit::visit_expr_closure(captured, closure));
    }
}

/// Returns the parameter of a function for that of a closure. One without a type is a tensor.
fn parameter(pat: &Pat) -> Option<FnArg> {
    match pat {
        Pat::Type(pat) => Some(FnArg::Typed(pat.clone())),
        pat => parsed(quote!(#pat: &Tensor)),
    }
}

/// Parses tokens, or returns `None`.
fn parsed<T: syn::parse::Parse>(tokens: TokenStream) -> Option<T> {
    syn::parse2(tokens).ok()
}

/// Returns the type of a result, as far as its form tells: a tuple, a struct or else a tensor.
///
/// `before` are the statements of the block whose result it is.
fn result(expr: &Expr, before: &[Stmt]) -> Type {
    let part = |expr| result(expr, before);
    match expr {
        Expr::Block(e) => match e.block.stmts.split_last() {
            Some((Stmt::Expr(last, None), before)) => result(last, before),
            _ => parse_quote!(Tensor),
        },
        Expr::Paren(e) => part(&e.expr),
        Expr::Tuple(e) => {
            let parts = e.elems.iter().map(part);
            parse_quote!((#(#parts,)*))
        }
        Expr::Struct(e) => Type::Path(syn::TypePath {
            attrs: Vec::new(),
            qself: e.qself.clone(),
            path: e.path.clone(),
        }),
        Expr::Path(e) => match e
            .path
            .get_ident()
            .and_then(|name| declaration(name, before))
        {
            Some((init, before)) => result(init, before),
            None => parse_quote!(Tensor),
        },
        _ => parse_quote!(Tensor),
    }
}

/// Returns the initial value of a local that one of the statements declares, and the statements before it.
fn declaration<'a>(name: &Ident, stmts: &'a [Stmt]) -> Option<(&'a Expr, &'a [Stmt])> {
    let initial = |stmt: &'a Stmt| match stmt {
        Stmt::Local(local) => match (&local.pat, &local.init) {
            (Pat::Ident(pat), Some(init)) if pat.ident == *name => Some(&*init.expr),
            _ => None,
        },
        _ => None,
    };
    let mut found = stmts.iter().enumerate().rev();
    found.find_map(|(i, stmt)| Some((initial(stmt)?, &stmts[..i])))
}
