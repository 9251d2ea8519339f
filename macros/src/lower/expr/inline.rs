//! Lowers code that is not an equation: constructors and changes of trees, which move tensors, and code
//! that is recorded at run time as one step of the program.
//!
//! Whether an expression is recorded is a [`Choice`]: the body is lowered again with it, so that
//! what was lowered before the failure need not be undone.

use super::call::is_companion;
use super::syntax::{assigned, exits, has_return, peel};
use crate::input::{NUMBERS, OutShape, classify, text, unraw};
use crate::lower::host::held::{NO_TREES, is_tree_type, mentions_tensor};
use crate::lower::state::kinds::Kind;
use crate::lower::{
    Abort, Base, Choice, Content, Cx, Expected, Host, LowerResult, Place, Value, host,
};
use crate::method_table::{OPTIMISERS, methods};
use crate::program::{Call, CallArg, Callee, Effect, Inline};
use crate::report::Errors;
use gradloom_ir::{Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::collections::BTreeMap;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, Stmt, Token};

/// Methods of collections that change their receiver.
pub(in crate::lower) const CHANGES: [&str; 14] = [
    "append",
    "clear",
    "dedup",
    "extend",
    "insert",
    "pop",
    "push",
    "push_back",
    "push_front",
    "remove",
    "resize",
    "reverse",
    "swap",
    "truncate",
];

/// Iterator methods that keep the items of their receiver.
const KEEP_ITEMS: [&str; 11] = [
    "chain",
    "enumerate",
    "filter",
    "flatten",
    "inspect",
    "rev",
    "skip",
    "skip_while",
    "step_by",
    "take",
    "take_while",
];

/// Methods of the standard library that change their receiver, or borrow it to be changed.
pub(in crate::lower) const MUTATES: [&str; 46] = [
    "append",
    "as_deref_mut",
    "as_mut",
    "as_mut_slice",
    "by_ref",
    "chunks_mut",
    "clear",
    "dedup",
    "drain",
    "entry",
    "extend",
    "extend_from_slice",
    "fill",
    "first_mut",
    "get_mut",
    "get_or_insert",
    "get_or_insert_with",
    "insert",
    "iter_mut",
    "last_mut",
    "next",
    "next_back",
    "nth",
    "pop",
    "pop_back",
    "pop_front",
    "push",
    "push_back",
    "push_front",
    "remove",
    "replace",
    "resize",
    "retain",
    "retain_mut",
    "reverse",
    "rotate_left",
    "rotate_right",
    "sort",
    "sort_by",
    "sort_by_key",
    "split_at_mut",
    "split_off",
    "swap",
    "swap_remove",
    "take",
    "truncate",
];

/// Methods of collections that return references to their parts.
const LENDS: [&str; 15] = [
    "as_ref",
    "as_slice",
    "chunks",
    "chunks_exact",
    "first",
    "get",
    "iter",
    "last",
    "range",
    "split_at",
    "split_first",
    "split_last",
    "values",
    "values_mut",
    "windows",
];

/// Transforms, loops and branches of this library that return trees, not functions.
const GIVE_TREES: [&str; 8] = [
    "cond",
    "fori_loop",
    "hvp",
    "jvp",
    "map",
    "scan",
    "switch",
    "while_loop",
];

/// Maximum length of the text by which programs show code.
const LONGEST: usize = 60;

/// Returns the choice to record the code at a position.
pub(in crate::lower) fn inline_at(span: Span) -> Choice {
    let at = span.start();
    Choice::Inline(at.line, at.column)
}

/// Operands of code, in order.
#[derive(Default)]
struct Operands {
    args: Vec<CallArg>,
    vars: Vec<Var>,
    locals: Vec<(Ident, bool)>,
    /// Statements that give the locals the form that the user's code expects.
    views: TokenStream,
}

impl Cx<'_> {
    /// Lowers an expression, or records it if it cannot be lowered.
    pub(in crate::lower) fn eval_or_inline(
        &mut self,
        expr: &Expr,
        want: &Expected,
    ) -> LowerResult<Value> {
        let choice = inline_at(expr.span());
        if self.choices.contains(&choice) {
            return self.inline(expr, want);
        }
        match self.eval(expr, want) {
            Err(Abort::Recorded(_)) if !self.host.reads_places && self.may_inline(expr, want) => {
                Err(Abort::Again(choice))
            }
            found => found,
        }
    }

    /// Returns whether an expression can be recorded: its value owns its tensors, and all that it
    /// reads can be passed.
    fn may_inline(&self, expr: &Expr, want: &Expected) -> bool {
        self.forms
            && self.diagnostics.errors.is_empty()
            && self.gives_value(expr, want)
            && !leaves(expr)
            && !self.changes_captured(expr, &[])
            && !self.takes_tensors_apart(expr)
            && !self.names.assigns(expr)
            && self.can_capture(&Stmt::Expr(expr.clone(), None))
    }

    /// Returns whether an expression is known to have a value that owns its tensors.
    fn gives_value(&self, expr: &Expr, want: &Expected) -> bool {
        let written = want.ty.as_ref();
        if written.is_some_and(|ty| {
            *ty != self.func.output.ty && mentions_tensor(ty) && !is_tree_type(ty)
        }) {
            return false;
        }
        let written = written.is_some_and(|ty| *ty == self.func.output.ty || is_tree_type(ty));
        match peel(expr) {
            Expr::Struct(e) => self.is_tree_type(&e.path),
            Expr::Reference(r) => r.mutability.is_none() && self.gives_value(&r.expr, want),
            Expr::Field(f) => match peel(&f.base) {
                Expr::Call(_) | Expr::MethodCall(_) => self.gives_tensors(&f.base),
                _ => false,
            },
            Expr::MethodCall(m) => match m.method.to_string().as_str() {
                "collect" => {
                    iterates_values(&m.receiver) && (written || self.gives_tensors(&m.receiver))
                }
                _ => written || self.gives_tensors(expr),
            },
            Expr::Call(call) => written && !is_of_numbers(call) || self.gives_tensors(expr),
            Expr::Binary(_) | Expr::Unary(_) => written || self.gives_tensors(expr),
            _ => false,
        }
    }

    /// Returns whether the value of an expression certainly consists of tensors: not of numbers,
    /// functions or references.
    fn gives_tensors(&self, expr: &Expr) -> bool {
        match peel(tail(expr)) {
            Expr::Path(p) => p.path.get_ident().is_some_and(|ident| {
                let value = self.names.lookup(&unraw(ident));
                matches!(value, Some(Value::Tensor { .. }))
            }),
            Expr::Reference(e) => self.gives_tensors(&e.expr),
            Expr::Unary(e) => self.gives_tensors(&e.expr),
            Expr::Binary(e) => self.gives_tensors(&e.left) || self.gives_tensors(&e.right),
            Expr::Tuple(e) => !e.elems.is_empty() && e.elems.iter().all(|e| self.gives_tensors(e)),
            Expr::Struct(e) => self.is_tree_type(&e.path),
            Expr::Closure(e) => self.gives_tensors(&e.body),
            Expr::Call(call) => match &*call.func {
                Expr::Path(p) if p.qself.is_none() => {
                    let mut names = p.path.segments.iter().rev().map(|s| unraw(&s.ident));
                    let (last, owner) = (names.next(), names.next());
                    let (last, owner) = (last.unwrap_or_default(), owner.unwrap_or_default());
                    owner == "Tensor"
                        || GIVE_TREES.contains(&&*last) && self.transforms(call)
                        || ["tree", "optim"].contains(&&*owner)
                        || !owner.is_empty() && gives_tree(&last)
                }
                // `grad(|x| ..)(&x)`
                Expr::Call(_) => true,
                _ => false,
            },
            Expr::MethodCall(m) => {
                let name = m.method.to_string();
                let any_arg = || m.args.iter().any(|arg| self.gives_tensors(arg));
                match &*name {
                    _ if m.turbofish.as_ref().is_some_and(names_no_tensor) => false,
                    "fold" => m.args.first().is_some_and(|init| self.gives_tensors(init)),
                    "map" => m.args.iter().any(|f| self.gives_tensors(f)),
                    "unwrap_or" | "unwrap_or_else" | "map_or" | "map_or_else" => any_arg(),
                    _ if LENDS.contains(&&*name) => false,
                    "clone" | "cloned" | "to_owned" | "to_vec" => {
                        self.gives_tensors(owner(&m.receiver))
                    }
                    _ if gives_tree(&name) => true,
                    // Their number of results is not known.
                    "split" | "unbind" => false,
                    _ if crate::method_table::reads_tensor(&name) => false,
                    _ => match super::op::find(&name, false) {
                        Some(_) if methods(&name).next().is_none() => true,
                        None if methods(&name).next().is_none() => any_arg(),
                        _ => self.gives_tensors(&m.receiver),
                    },
                }
            }
            _ => false,
        }
    }

    /// Returns whether a type is known to be a tree: the signature names it, or a local of it is an
    /// argument of a call.
    pub(in crate::lower) fn is_tree_type(&self, path: &syn::Path) -> bool {
        let hint = self.host.flow.hint.as_ref();
        hint.is_some_and(|local| self.items.passed.contains(&unraw(local)))
            || path
                .segments
                .iter()
                .any(|s| self.items.types.contains(&unraw(&s.ident)))
    }

    /// Returns whether all locals that code mentions can be passed to it.
    fn can_capture(&self, code: &Stmt) -> bool {
        let mut can = true;
        mentioned(code, &mut |ident| {
            can &= !matches!(
                self.names.lookup(&unraw(ident)),
                Some(
                    Value::Closure(_)
                        | Value::Tuple(_)
                        | Value::Uninit(_)
                        | Value::Never
                        | Value::Poison
                )
            );
        });
        can
    }

    /// Returns whether code reads a field of what was taken for a tensor.
    fn takes_tensors_apart(&self, expr: &Expr) -> bool {
        struct Fields<'a, 'b>(&'a Cx<'b>, bool);
        impl<'ast> Visit<'ast> for Fields<'_, '_> {
            fn visit_expr_field(&mut self, f: &'ast syn::ExprField) {
                if let Expr::Path(p) = peel(&f.base)
                    && let Some(name) = p.path.get_ident()
                    && let Some(Value::Tensor { var, .. }) = self.0.names.lookup(&unraw(name))
                {
                    self.1 |= self.0.builder.kinds.of(*var) == Kind::Tensor;
                }
                syn::visit::visit_expr_field(self, f);
            }
        }
        let mut fields = Fields(self, false);
        fields.visit_expr(expr);
        fields.1
    }

    /// Returns whether code may change a local with tensors other than those in `changed`: a step
    /// would change a copy.
    fn changes_captured(&self, expr: &Expr, changed: &[Ident]) -> bool {
        struct Changes<'a, 'b> {
            cx: &'a Cx<'b>,
            changed: &'a [Ident],
            found: bool,
        }
        impl<'ast> Visit<'ast> for Changes<'_, '_> {
            fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
                let method = call.method.to_string();
                let reads = !MUTATES.contains(&&*method)
                    && (super::op::find(&method, false).is_some()
                        || methods(&method).next().is_some()
                        || is_companion(&method));
                if let (false, Some(root)) = (reads, root_of(&call.receiver)) {
                    let mutable = self.cx.names.mutable.contains(&unraw(&root));
                    let traced = self.cx.names.is_traced(&root);
                    self.found |= mutable && traced && !self.changed.contains(&root);
                }
                syn::visit::visit_expr_method_call(self, call);
            }
            fn visit_expr_reference(&mut self, e: &'ast syn::ExprReference) {
                self.found |= e.mutability.is_some();
                syn::visit::visit_expr_reference(self, e);
            }
        }
        let mut changes = Changes {
            cx: self,
            changed,
            found: false,
        };
        changes.visit_expr(expr);
        changes.found
    }

    /// Records an expression.
    fn inline(&mut self, expr: &Expr, want: &Expected) -> LowerResult<Value> {
        self.keep_changed(expr)?;
        let (by_ref, inner) = match peel(expr) {
            Expr::Reference(r) => (true, &*r.expr),
            expr => (false, expr),
        };
        let code = Stmt::Expr(inner.clone(), None);
        let operands = self.captured(&code, &[])?;
        let code = self.captured_code(code);
        let code = match want.ty.as_ref().filter(|_| !by_ref) {
            Some(ty) => quote!({ let value: #ty = #code; value }),
            None => code,
        };
        let var = self.emit_inline(operands, code, Effect::Records, text(inner), expr.span())?;
        Ok(Value::Tensor { var, by_ref })
    }

    /// Returns whether a statement can be recorded: its effect is on locals.
    pub(in crate::lower) fn may_inline_statement(&self, stmt: &Stmt) -> bool {
        let Stmt::Expr(expr, _) = stmt else {
            return false;
        };
        // A literal is not a tensor, which rustc reports in the user's function.
        if matches!(expr, Expr::Assign(a) if matches!(&*a.right, Expr::Lit(_))) {
            return false;
        }
        let changed = self.changed(expr);
        self.forms
            && self.diagnostics.errors.is_empty()
            && !changed.is_empty()
            && !exits(expr)
            && !leaves(expr)
            && !self.changes_captured(expr, &changed)
            && !self.takes_tensors_apart(expr)
            && self.can_capture(stmt)
    }

    /// Returns the locals with tensors that code changes.
    fn changed(&self, expr: &Expr) -> Vec<Ident> {
        let assigned = assigned(expr).into_iter();
        let traced = assigned.filter(|name| {
            let value = self.names.lookup(&unraw(name));
            matches!(value, Some(Value::Tensor { .. } | Value::Place(_)))
        });
        traced.collect()
    }

    /// Records a statement; its value is that of the locals that it changes.
    pub(in crate::lower) fn inline_statement(&mut self, stmt: &Stmt) -> LowerResult<()> {
        let Stmt::Expr(expr, _) = stmt else {
            return self.recorded("a statement", stmt.span());
        };
        self.keep_changed(expr)?;
        let changed = self.changed(expr);
        let operands = self.captured(stmt, &changed)?;
        let (shown, span) = (text(expr), stmt.span());
        let code = self.captured_code(Stmt::Expr(expr.clone(), Some(Default::default())));
        let locals = changed.iter().map(own_name);
        let code = match &*changed {
            [one] => quote!(#code #one),
            _ => quote!(#code (#(#locals),*)),
        };
        let var = self.emit_inline(operands, code, Effect::Records, shown, span)?;
        let value = Value::Tensor { var, by_ref: false };
        if let [one] = &*changed {
            return self.assign_value(&syn::parse_quote!(#one), value);
        }
        let Value::Place(all) = self.as_place(value) else {
            unreachable!("the locals are a tuple")
        };
        changed.iter().enumerate().try_for_each(|(i, name)| {
            let part = self.field(&all, &syn::Member::Unnamed(i.into()));
            self.assign_value(&syn::parse_quote!(#name), part)
        })
    }

    /// Returns the locals with tensors that code mentions, as operands; those in `owned` are not
    /// references.
    fn captured(&mut self, code: &Stmt, owned: &[Ident]) -> LowerResult<Operands> {
        let mut names: Vec<Ident> = owned.to_vec();
        if let Stmt::Expr(expr, _) = code
            && self.names.content(expr) == Content::Parts
        {
            return self.recorded("code with a value that may hold tensors,", code.span());
        }
        mentioned(code, &mut |ident| {
            if !names.contains(ident) && self.names.is_traced(ident) {
                names.push(ident.clone());
            }
        });
        let mut operands = Operands::default();
        for name in names {
            let value = self.names.lookup(&unraw(&name)).cloned();
            let value = match value.expect("the name is that of a local") {
                Value::Tensor { var, by_ref } => {
                    let by_ref = by_ref && !owned.contains(&name);
                    Value::Tensor { var, by_ref }
                }
                Value::Place(place) => {
                    let place = self.hoisted_place(&place);
                    let by_ref = place.by_ref && !owned.contains(&name);
                    Value::Place(Place { by_ref, ..place })
                }
                _ => return self.recorded("a value that is not a tensor", name.span()),
            };
            self.operand(&mut operands, value, own_name(&name))?;
        }
        Ok(operands)
    }

    /// Returns code with host locals under their emitted names.
    fn captured_code(&mut self, code: Stmt) -> TokenStream {
        let Stmt::Expr(expr, semi) = code else {
            unreachable!("the code is an expression")
        };
        let mut expr = self.rename(&expr);
        WithoutSelf.visit_expr_mut(&mut expr);
        quote!(#expr #semi)
    }

    /// Adds an operand under the name `local`, and returns the code that reads it.
    fn operand(
        &mut self,
        operands: &mut Operands,
        value: Value,
        local: Ident,
    ) -> LowerResult<TokenStream> {
        let (var, arg, by_ref) = match value {
            Value::Tensor { var, by_ref } => (var, CallArg::var(true), by_ref),
            Value::Place(place) => match place.base {
                Base::Local(_) => {
                    let var = self.tree(&place)?;
                    (var, CallArg::var(true), place.by_ref)
                }
                Base::Param(param) => {
                    let place = self.hoisted_place(&place);
                    if let (Some(view), true) = (self.view(place.base), place.root) {
                        let lent = view.lend(&local.to_token_stream(), &self.rt);
                        operands.views.extend(quote!(let #local = #lent;));
                    }
                    let (var, reference) = (self.tree_input(param, &place), self.located(&place));
                    (var, CallArg::Tree(reference), place.by_ref)
                }
            },
            Value::Host(host) => {
                self.keep_plain(&host)?;
                let host = self.hoisted(host, "part");
                return Ok(host.expr.to_token_stream());
            }
            Value::Poison => return Err(Abort::Error),
            _ => return self.recorded("a part that is not a tensor", local.span()),
        };
        operands.args.push(arg);
        operands.vars.push(var);
        operands.locals.push((local.clone(), by_ref));
        Ok(local.into_token_stream())
    }

    /// Appends the equation for code.
    fn emit_inline(
        &mut self,
        operands: Operands,
        code: TokenStream,
        effect: Effect,
        mut shown: String,
        span: Span,
    ) -> LowerResult<Var> {
        if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
            shown.truncate(end);
            shown.push_str("..");
        }
        let attr = self.builder.b.attr(Static::Host(shown));
        let views = operands.views;
        let inline = Inline {
            code: quote!(#views #code),
            operands: operands.locals,
            effect,
        };
        self.builder.calls.insert(
            attr,
            Call {
                callee: Callee::Inline(inline),
                args: operands.args,
                operands: operands.vars.clone(),
                outs: Vec::new(),
                fallible: false,
                shape: OutShape::Tensor,
                span,
            },
        );
        let outs = self.emit_call(attr, operands.vars, 1, span)?;
        self.builder.kinds.open(outs[0]);
        Ok(outs[0])
    }

    /// Lowers code that moves the tensors of `values` to its value, which `make` returns.
    ///
    /// If no value has tensors, the code is a host value.
    fn build(
        &mut self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<TokenStream>) -> TokenStream,
        (shown, span): (String, Span),
    ) -> LowerResult<Value> {
        let is_reference = |v: &Value| {
            matches!(
                v,
                Value::Tensor { by_ref: true, .. } | Value::Place(Place { by_ref: true, .. })
            )
        };
        if values.iter().any(is_reference) {
            return self.recorded("a value with references to tensors", span);
        }
        if values.iter().all(|v| matches!(v, Value::Host(_))) {
            return Ok(self.rebuild(values, |parts| {
                let parts = parts.into_iter().map(|e| e.into_token_stream());
                Expr::Verbatim(make(parts.collect()))
            }));
        }
        let var = self.step(values, make, Effect::Moves, (shown, span))?;
        self.builder.kinds.decide(var, Kind::Tree);
        Ok(Value::Tensor { var, by_ref: false })
    }

    /// Appends the equation for code that `make` builds of `values`.
    pub(super) fn step(
        &mut self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<TokenStream>) -> TokenStream,
        effect: Effect,
        (shown, span): (String, Span),
    ) -> LowerResult<Var> {
        let mut operands = Operands::default();
        let parts = values.into_iter().enumerate().map(|(i, value)| {
            let local = format_ident!("part_{i}", span = Span::mixed_site());
            self.operand(&mut operands, value, local)
        });
        let parts = parts.collect::<LowerResult<Vec<_>>>()?;
        self.emit_inline(operands, make(parts), effect, shown, span)
    }

    /// Evaluates the parts of a constructor.
    fn parts<'e>(&mut self, parts: impl Iterator<Item = &'e Expr>) -> LowerResult<Vec<Value>> {
        parts
            .map(|part| {
                let value = self.eval(part, &Expected::tensor())?;
                match value {
                    value if has_number(&value, part) => {
                        self.recorded("a tuple of a number and a tensor", part.span())
                    }
                    Value::Tuple(values) if matches!(peel(part), Expr::Tuple(_)) => {
                        let make = |parts: Vec<TokenStream>| quote!((#(#parts,)*));
                        self.build(values, make, (text(part), part.span()))
                    }
                    Value::Tuple(values) if matches!(peel(part), Expr::Array(_)) => {
                        let make = |parts: Vec<TokenStream>| quote!([#(#parts),*]);
                        self.build(values, make, (text(part), part.span()))
                    }
                    value => Ok(value),
                }
            })
            .collect()
    }

    /// Lowers `Net { w, ..base }`.
    pub(in crate::lower) fn structure(&mut self, e: &syn::ExprStruct) -> LowerResult<Value> {
        let fields = e.fields.iter().map(|f| &f.expr).chain(e.rest.as_deref());
        if !self.forms || !self.is_tree_type(&e.path) {
            return self.recorded("a struct", e.path.span());
        }
        let values = self.parts(fields)?;
        let shown = match &e.rest {
            Some(_) => format!("{} {{ .. }}", text(&e.path)),
            None => text(&e.path),
        };
        let (path, fields) = (&e.path, &e.fields);
        let make = |mut parts: Vec<TokenStream>| {
            let rest = e.rest.as_ref().map(|_| {
                let base = parts.pop().expect("the base is the last part");
                quote!(..#base)
            });
            let members = fields.iter().map(|f| &f.member);
            quote!(#path { #(#members: #parts,)* #rest })
        };
        self.build(values, make, (shown, e.span()))
    }

    /// Lowers a call of a constructor, such as `Some(x)` or `Box::new(x)`.
    pub(in crate::lower) fn constructor(&mut self, call: &syn::ExprCall) -> LowerResult<Value> {
        let func = &call.func;
        let known = match &**func {
            Expr::Path(p) => {
                let last = p.path.segments.last().map(|s| unraw(&s.ident));
                let last = last.unwrap_or_default();
                ["Some", "Ok", "new"].contains(&&*last) || self.is_tree_type(&p.path)
            }
            _ => false,
        };
        if !self.forms || !known {
            return self.recorded(&format!("a call of `{}`", text(func)), func.span());
        }
        let values = self.parts(call.args.iter())?;
        let make = |parts: Vec<TokenStream>| quote!(#func(#(#parts),*));
        self.build(values, make, (text(func), call.span()))
    }

    /// Lowers `vec![..]`.
    pub(in crate::lower) fn vec_macro(&mut self, e: &syn::ExprMacro) -> LowerResult<Value> {
        let tokens = e.mac.tokens.clone();
        let elems = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone());
        let path = &e.mac.path;
        if !self.forms {
            return self.recorded("`vec!`", path.span());
        }
        if let Ok(elems) = elems {
            let values = self.parts(elems.iter())?;
            let make = |parts: Vec<TokenStream>| quote!(#path![#(#parts),*]);
            return self.build(values, make, ("vec".to_owned(), e.span()));
        }
        let repeated = |input: syn::parse::ParseStream| {
            let elem: Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok([elem, input.parse()?])
        };
        match repeated.parse2(tokens) {
            Ok(parts) => {
                let values = self.parts(parts.iter())?;
                let make = |parts: Vec<TokenStream>| quote!(#path![#(#parts);*]);
                self.build(values, make, ("vec".to_owned(), e.span()))
            }
            Err(_) => self.recorded("`vec!`", e.span()),
        }
    }

    /// Returns whether a local that is declared without tensors holds a tree later.
    pub(in crate::lower) fn is_tree_local(
        &self,
        pat: &syn::Pat,
        ty: Option<&syn::Type>,
        init: &Expr,
    ) -> bool {
        let syn::Pat::Ident(p) = pat else {
            return false;
        };
        if !self.forms {
            return false;
        }
        let tensors = ty.is_some_and(|ty| {
            let kind = classify(ty, &mut Errors::default());
            is_tree_type(ty) && !matches!(kind, crate::input::Kind::Tensor)
        });
        let chosen = self.choices.contains(&tree_at(&p.ident));
        chosen && !makes_optimiser(init) || tensors && !super::makes_tensor_inside(init)
    }

    /// Lowers the first value of a local that holds a tree.
    pub(in crate::lower) fn made(
        &mut self,
        host: Host,
        ty: Option<&syn::Type>,
    ) -> LowerResult<Value> {
        self.keep_plain(&host)?;
        let (shown, span) = (text(&host.expr), host.expr.span());
        let host = match host.reads.is_empty() {
            true => host,
            false => self.hoisted(host, "made"),
        };
        let expr = host.expr;
        let code = match ty {
            Some(ty) => quote!({ let made: #ty = #expr; made }),
            None => quote!(#expr),
        };
        let var = self.emit_inline(Operands::default(), code, Effect::Moves, shown, span)?;
        self.builder.kinds.decide(var, Kind::Tree);
        Ok(Value::Tensor { var, by_ref: false })
    }

    /// Notes where a host local is declared, in case it turns out to hold a tree.
    pub(in crate::lower) fn note_declared(&mut self, user: &Ident, emitted: &Ident, init: &Expr) {
        if no_tree(init) || self.makes_transform(init) {
            return;
        }
        let key = unraw(emitted);
        self.names.declared.insert(key, tree_at(user));
    }

    /// Lowers the body again with a host local as a tree, if `host` is one.
    pub(in crate::lower) fn promote(&self, host: &Expr) -> LowerResult<()> {
        let ident = match peel(host) {
            Expr::Path(p) => p.path.get_ident(),
            _ => None,
        };
        let declared = ident.and_then(|ident| self.names.declared.get(&unraw(ident)));
        match declared {
            Some(choice) if self.forms && !self.choices.contains(choice) => {
                Err(Abort::Again(*choice))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a method changes a local that is a tree.
    pub(in crate::lower) fn changes_tree(&self, call: &syn::ExprMethodCall) -> bool {
        self.forms
            && CHANGES.contains(&&*call.method.to_string())
            && self.tree_behind(&call.receiver).is_some()
    }

    /// Returns the local that a place is a part of, if it is a tree that can be changed.
    pub(in crate::lower) fn tree_behind(&self, place: &Expr) -> Option<Ident> {
        let root = root_of(place)?;
        match self.names.lookup(&unraw(&root))? {
            Value::Tensor { var, by_ref: false } => {
                let may_be = self.builder.kinds.of(*var) != Kind::Tensor;
                may_be.then_some(root)
            }
            Value::Place(Place {
                by_ref: false,
                root: true,
                ..
            }) => Some(root),
            _ => None,
        }
    }

    /// Returns whether an expression is a part of a tree that can be changed.
    pub(in crate::lower) fn is_part_of_tree(&self, place: &Expr) -> bool {
        let part = matches!(peel(place), Expr::Field(_) | Expr::Index(_));
        self.forms && part && self.tree_behind(place).is_some()
    }

    /// Lowers `list.push(x)`: the local holds a changed copy afterwards.
    pub(in crate::lower) fn change(&mut self, call: &syn::ExprMethodCall) -> LowerResult<()> {
        let values = self.parts(call.args.iter())?;
        let (method, receiver) = (&call.method, &call.receiver);
        let turbofish = &call.turbofish;
        let make =
            |place: &Expr, parts: &[TokenStream]| quote!(#place.#method #turbofish (#(#parts),*););
        let shown = format!("{}.{method}", text(receiver));
        self.changed_copy(receiver, values, make, (shown, call.span()))
    }

    /// Lowers `tree.part = value`.
    pub(in crate::lower) fn change_part(&mut self, left: &Expr, value: Value) -> LowerResult<()> {
        let make = |place: &Expr, parts: &[TokenStream]| quote!(#place = #(#parts)*;);
        let shown = format!("{} =", text(left));
        self.changed_copy(left, vec![value], make, (shown, left.span()))
    }

    /// Assigns to the local behind `place` a copy to which `make` has been applied.
    fn changed_copy(
        &mut self,
        place: &Expr,
        values: Vec<Value>,
        make: impl FnOnce(&Expr, &[TokenStream]) -> TokenStream,
        (shown, span): (String, Span),
    ) -> LowerResult<()> {
        let root = self.tree_behind(place).expect("the place is in a tree");
        let value = self.names.lookup(&unraw(&root)).cloned();
        let value = value.expect("the root is a local");
        let (mut place, local) = (self.rename(place), own_name(&root));
        WithoutSelf.visit_expr_mut(&mut place);
        let code = |mut parts: Vec<TokenStream>| {
            let tree = parts.remove(0);
            let change = make(&place, &parts);
            quote!({ let mut #local = #tree; #change #local })
        };
        let values = std::iter::once(value).chain(values).collect();
        let value = self.build(values, code, (shown, span))?;
        self.assign_value(&syn::parse_quote!(#root), value)
    }
}

/// Returns the collection of which an expression has a part by reference.
fn owner(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::MethodCall(m) => {
            let method = m.method.to_string();
            match LENDS.contains(&&*method) || ["unwrap", "expect"].contains(&&*method) {
                true => owner(&m.receiver),
                false => expr,
            }
        }
        _ => expr,
    }
}

/// Returns whether an expression makes a value of a type that is never a tree.
fn no_tree(expr: &Expr) -> bool {
    let mut found = false;
    host::in_tokens(expr.to_token_stream(), &mut |ident| {
        found |= NO_TREES.contains(&&*unraw(ident));
    });
    found
}

/// Returns whether an expression makes an optimiser, which consists of numbers.
fn makes_optimiser(expr: &Expr) -> bool {
    let path = match peel(expr) {
        Expr::Struct(e) => &e.path,
        Expr::Call(call) => match &*call.func {
            Expr::Path(p) => &p.path,
            _ => return false,
        },
        _ => return false,
    };
    let mut names = path.segments.iter().rev().take(2);
    names.any(|s| OPTIMISERS.contains(&&*unraw(&s.ident)))
}

/// Returns whether a value is a tuple with tensors of which one part is not a tree, or may be none: a
/// number, or a field that is copied or moved.
pub(super) fn has_number(value: &Value, tuple: &Expr) -> bool {
    let (Value::Tuple(values), Expr::Tuple(tuple)) = (value, peel(tuple)) else {
        return false;
    };
    let mut parts = values.iter().zip(&tuple.elems);
    parts.any(|(value, part)| match value {
        Value::Host(_) => true,
        Value::Place(_) => matches!(peel(part), Expr::Field(_) | Expr::Index(_)),
        _ => false,
    })
}

/// Returns the local at the root of a place, if the place is one.
pub(in crate::lower) fn root_of(place: &Expr) -> Option<Ident> {
    match peel(place) {
        Expr::Path(p) => p.path.get_ident().cloned(),
        Expr::Field(f) => root_of(&f.base),
        Expr::Index(i) => root_of(&i.expr),
        _ => None,
    }
}

/// Returns the choice to hold a tree in the local that is declared by an identifier.
fn tree_at(ident: &Ident) -> Choice {
    let at = ident.span().start();
    Choice::Tree(at.line, at.column)
}

/// Returns whether a call is one of a function of a number, as `f64::sin(x)`.
fn is_of_numbers(call: &syn::ExprCall) -> bool {
    let Expr::Path(p) = &*call.func else {
        return false;
    };
    let owner = p.path.segments.iter().nth_back(1);
    owner.is_some_and(|owner| NUMBERS.contains(&&*unraw(&owner.ident)))
}

/// Returns whether control can leave an expression, or it waits.
fn leaves(expr: &Expr) -> bool {
    host::leaves_function(expr) || has_return(expr)
}

/// Calls `f` with each name that code mentions.
fn mentioned(code: &Stmt, f: &mut dyn FnMut(&Ident)) {
    if let Stmt::Expr(expr, _) = code {
        host::names(expr, f);
    }
}

/// Returns whether a turbofish names types without tensors, as in `collect::<Vec<usize>>()`.
fn names_no_tensor(turbofish: &syn::AngleBracketedGenericArguments) -> bool {
    let (mut tensor, mut other) = (false, false);
    host::in_tokens(turbofish.args.to_token_stream(), &mut |ident| {
        tensor |= ident == "Tensor";
        let plain = ["Vec", "Option", "Result", "BTreeMap", "String", "_"];
        other |= !plain.contains(&&*ident.to_string());
    });
    other && !tensor
}

fn tail(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::Block(b) => match b.block.stmts.last() {
            Some(Stmt::Expr(last, None)) => tail(last),
            _ => expr,
        },
        _ => expr,
    }
}

/// Returns whether a closure returns a value that owns its tensors.
fn gives_values(closure: &Expr) -> bool {
    match peel(closure) {
        Expr::Closure(closure) => match peel(tail(&closure.body)) {
            Expr::Call(_) | Expr::Binary(_) | Expr::Unary(_) | Expr::Struct(_) => true,
            Expr::Macro(_) | Expr::If(_) | Expr::Match(_) => true,
            Expr::Tuple(t) => !t
                .elems
                .iter()
                .any(|e| matches!(peel(e), Expr::Reference(_))),
            Expr::Path(_) => true,
            Expr::MethodCall(m) => {
                !["iter", "as_ref", "as_slice"].contains(&&*m.method.to_string())
            }
            _ => false,
        },
        Expr::Path(_) => true,
        _ => false,
    }
}

/// Returns whether the items of an iterator are values.
fn iterates_values(expr: &Expr) -> bool {
    match peel(expr) {
        Expr::MethodCall(m) => match m.method.to_string().as_str() {
            "map" | "filter_map" | "flat_map" | "scan" => m.args.last().is_some_and(gives_values),
            "cloned" | "into_values" | "drain" => true,
            name => KEEP_ITEMS.contains(&name) && iterates_values(&m.receiver),
        },
        Expr::Range(_) => true,
        _ => false,
    }
}

/// Returns whether a name is that of a companion that returns a tree.
fn gives_tree(name: &str) -> bool {
    is_companion(name) && !name.ends_with("vjp") && !name.ends_with("saved")
}

/// Returns the name of a local in recorded code, where `self` is not allowed.
fn own_name(ident: &Ident) -> Ident {
    match ident == "self" {
        true => Ident::new("this", Span::mixed_site()),
        false => ident.clone(),
    }
}

/// Replaces `self` in code.
struct WithoutSelf;

impl VisitMut for WithoutSelf {
    fn visit_expr_path_mut(&mut self, p: &mut syn::ExprPath) {
        if p.qself.is_none() && p.path.is_ident("self") {
            p.path = own_name(&p.path.segments[0].ident).into();
        }
    }
    fn visit_macro_mut(&mut self, m: &mut syn::Macro) {
        let this = own_name(&Ident::new("self", Span::call_site()));
        let names = BTreeMap::from([("self".to_owned(), this.into_token_stream())]);
        super::macros::rename(m, &names);
    }
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}
