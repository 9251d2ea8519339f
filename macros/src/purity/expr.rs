//! Judges expressions and statements.

use super::method::may_be_of_user;
use super::ty::{Closure, Fidelity, Probe, Scope, Ty, Val, written};
use super::{Asked, CallPosition, PurityVisitor, Remedy, place};
use crate::input::{text, unraw};
use crate::method_table::class;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::rc::Rc;
use syn::spanned::Spanned;
use syn::{BinOp, Block, Expr, Item, Lit, Member, Stmt, UnOp};

/// Classes of the operands of arithmetic.
const NUMERIC: u32 = class::SCALAR | class::TENSOR;

impl PurityVisitor<'_> {
    /// Returns a struct literal of the same type; `parts` are its fields and its base.
    fn probe_of_struct(&self, e: &syn::ExprStruct, parts: &[Val]) -> Option<Probe> {
        if e.qself.is_some() || self.is_hidden(&e.path) || !self.is_outside(&e.path) {
            return None;
        }
        let parts: Option<Vec<&TokenStream>> = parts.iter().map(Val::exact).collect();
        let mut parts = parts?;
        let base = e.rest.as_ref().and_then(|_| parts.pop());
        let base = base.map(|base| ours!(..#base));
        let (path, members) = (&e.path, e.fields.iter().map(|f| &f.member));
        Probe::exact(ours!((#path { #(#members: #parts,)* #base })))
    }

    pub(super) fn block(&mut self, block: &Block) -> Val {
        self.scope(|judge| {
            // Items are visible in the whole block.
            for stmt in &block.stmts {
                match stmt {
                    Stmt::Item(Item::Fn(item)) => {
                        let function = Ty::Function(Rc::new(item.clone()));
                        judge.bind(unraw(&item.sig.ident), function.into());
                    }
                    Stmt::Item(Item::Const(item)) => {
                        judge.bind(unraw(&item.ident), written(&item.ty).into());
                    }
                    _ => {}
                }
            }
            let mut last = Val::nothing();
            for stmt in &block.stmts {
                last = judge.stmt(stmt);
            }
            last
        })
    }

    fn stmt(&mut self, stmt: &Stmt) -> Val {
        match stmt {
            Stmt::Local(local) => {
                let mut val = Val::unknown();
                if let Some(init) = &local.init {
                    val = match (&local.pat, made_by_default(&init.expr)) {
                        (syn::Pat::Type(t), true) => {
                            let at = place(local.let_token.span(), 0);
                            self.default_of(&t.ty, at, &init.expr)
                        }
                        (syn::Pat::Type(t), _) => {
                            let span = local.let_token.span();
                            match may_be_of_user(&t.ty) {
                                true => self.ask_conversion(&init.expr, place(span, 0)),
                                false => self.expect(&init.expr),
                            }
                            let val = self.expr(&init.expr);
                            // Only references are followed by a conversion.
                            let val = match &*t.ty {
                                syn::Type::Reference(_) => val.at(place(span, 0)),
                                _ => val,
                            };
                            self.moved(&val, "let", span);
                            val
                        }
                        (syn::Pat::Ident(_), _) => {
                            let scopes = match &*init.expr {
                                Expr::Closure(_) => self.scopes.clone(),
                                _ => Vec::new(),
                            };
                            self.callable(&init.expr, scopes)
                        }
                        _ => self.expr(&init.expr),
                    };
                    if let Some((_, diverge)) = &init.diverge {
                        self.expr(diverge);
                    }
                }
                self.pattern(&local.pat, &val);
                Val::nothing()
            }
            Stmt::Item(_) => Val::nothing(),
            Stmt::Expr(expr, None) => self.expr(expr),
            Stmt::Expr(expr, Some(_)) => {
                self.expr(expr);
                Val::nothing()
            }
            Stmt::Macro(stmt) => {
                let val = self.mac(&stmt.mac);
                match stmt.semi_token {
                    Some(_) => Val::nothing(),
                    None => val,
                }
            }
        }
    }

    /// Judges `Default::default()` where its type is written.
    fn default_of(&mut self, ty: &syn::Type, at: CallPosition, expr: &Expr) -> Val {
        let (what, span) = (text(expr), expr.span());
        let val = self.of_type(ty).at(at);
        // The default values of tuples and arrays are made of those of their parts.
        let (asked, mask) = match val.ty {
            Ty::Tuple(_) => (Asked::Parts, class::KNOWN),
            _ if matches!(ty, syn::Type::Array(_)) => (Asked::Parts, class::KNOWN),
            _ => (Asked::Class, class::WITH_DEFAULT),
        };
        if !self.ask_class(&val, mask, asked, &what, span) {
            let why = "the type of the default value is not known";
            return self.found(&what, span, why, Remedy::Move);
        }
        Val::unknown()
    }

    /// Evaluates an expression, but leaves closures and functions to be judged when they are
    /// called.
    pub(super) fn callable(&mut self, expr: &Expr, scopes: Vec<Scope>) -> Val {
        match expr {
            Expr::Closure(e) => self.closure(e, scopes),
            Expr::Path(e) => self.value(e),
            Expr::Paren(e) => self.callable(&e.expr, scopes),
            Expr::Reference(e) if self.is_function(&e.expr) => self.callable(&e.expr, scopes),
            Expr::Array(e) if e.elems.iter().any(|f| self.is_function(f)) => {
                let functions = e.elems.iter().map(|f| self.callable(f, scopes.clone()));
                Ty::Branches(functions.collect()).into()
            }
            expr => self.expr(expr),
        }
    }

    /// Returns whether an expression is a closure, a local that holds a function, a list of these, or
    /// a reference to one.
    pub(super) fn is_function(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Closure(_) => true,
            Expr::Path(p) => {
                let local = p.path.get_ident().and_then(|name| self.local(&unraw(name)));
                local.is_some_and(Val::is_judged_later)
            }
            Expr::Paren(e) => self.is_function(&e.expr),
            Expr::Reference(e) => self.is_function(&e.expr),
            Expr::Array(e) => e.elems.iter().any(|f| self.is_function(f)),
            _ => false,
        }
    }

    fn closure(&mut self, e: &syn::ExprClosure, scopes: Vec<Scope>) -> Val {
        let closure = Closure {
            source: e.clone(),
            scopes,
        };
        Ty::Closure(Rc::new(closure)).into()
    }

    /// Judges a closure or function whose calls are not seen, with unknown arguments; other values
    /// are returned unchanged.
    fn called(&mut self, val: Val, span: Span) -> Val {
        match &val.ty {
            _ if val.is_judged_later() => {
                let result = self.apply(&val, &[], "a function", span);
                Ty::Pure(Box::new(result)).into()
            }
            _ => val,
        }
    }

    /// Judges an expression, and returns what is known of its value.
    pub(super) fn expr(&mut self, expr: &Expr) -> Val {
        match self.fuel.checked_sub(1) {
            Some(fuel) => self.fuel = fuel,
            None => {
                return self.found("the body", expr.span(), "it is too long", Remedy::Promise);
            }
        }
        match expr {
            Expr::Lit(e) => literal(&e.lit),
            Expr::Paren(e) => self.expr(&e.expr),
            Expr::Group(e) => self.expr(&e.expr),
            Expr::Path(e) => {
                let val = self.value(e);
                self.called(val, e.span())
            }
            Expr::Reference(e) => {
                let val = self.expr(&e.expr);
                let probe = val.probe.clone().map(|probe| match probe.fidelity {
                    Fidelity::Exact => {
                        let (e, mutability) = (&probe.tokens, &e.mutability);
                        Probe {
                            tokens: ours!(&#mutability #e),
                            ..probe
                        }
                    }
                    // References do not matter. The class of a type behind two is not known.
                    Fidelity::Behind | Fidelity::Soft => probe,
                });
                val.with(probe)
            }
            Expr::Unary(e) => self.unary(e),
            Expr::Binary(e) => self.binary(e),
            Expr::Cast(e) => {
                self.expr(&e.expr);
                let ty = &e.ty;
                match written(ty) {
                    Ty::Scalar => self.scalar(ty.to_token_stream()),
                    other => other.into(),
                }
            }
            Expr::Field(e) => self.field(e),
            Expr::Index(e) => self.index(e),
            Expr::Call(e) => self.call(e),
            Expr::MethodCall(e) => self.method(e),
            Expr::Macro(e) => self.mac(&e.mac),
            // The closure's calls are not seen, so it is judged for unknown arguments.
            Expr::Closure(e) => {
                let closure = self.closure(e, Vec::new());
                self.called(closure, e.span())
            }
            Expr::Tuple(e) => {
                let open = e.paren_token.span.open();
                let parts = e.elems.iter().enumerate();
                let parts: Vec<Val> = parts
                    .map(|(i, part)| self.expr(part).at(place(open, i + 1)))
                    .collect();
                let tokens: Option<Vec<TokenStream>> =
                    parts.iter().map(|part| part.exact().cloned()).collect();
                let probe = tokens.and_then(|tokens| Probe::exact(ours!((#(#tokens,)*))));
                Val::from(Ty::Tuple(parts)).with(probe)
            }
            Expr::Array(e) => {
                let mut elem = Val::unknown();
                let open = e.bracket_token.span.open();
                for (i, part) in e.elems.iter().enumerate() {
                    let val = self.expr(part).at(place(open, i + 1));
                    self.moved(&val, "[..]", e.span());
                    elem.unify(&Val { at: None, ..val });
                }
                Val::list(elem)
            }
            Expr::Repeat(e) => {
                self.expr(&e.len);
                let elem = self.expr(&e.expr);
                Val::list(elem)
            }
            Expr::Struct(e) => {
                let mut parts = Vec::new();
                for field in &e.fields {
                    let span = field.member.span();
                    self.ask_conversion(&field.expr, place(span, 0));
                    let val = self.expr(&field.expr).at(place(span, 0));
                    self.moved(&val, &text(&field.member), span);
                    parts.push(val);
                }
                parts.extend(e.rest.iter().map(|rest| self.expr(rest)));
                let (rt, path) = (self.rt, &e.path);
                let written = path.is_ident("Self") || self.written.contains(&text(path));
                let known = e.qself.is_none() && written && !self.is_hidden(path);
                let probe = match known {
                    true => Probe::exact(ours!(#rt::some::<#path>())),
                    false => self.probe_of_struct(e, &parts),
                };
                Val::unknown().with(probe)
            }
            Expr::Range(e) => {
                let mut ends = Vec::new();
                for end in [&e.start, &e.end].into_iter().flatten() {
                    ends.push(self.expr(end));
                }
                let number = |val: &Val| matches!(val.ty, Ty::Scalar);
                match ends.is_empty() {
                    true => Val::from(Ty::Scalar).with(Probe::exact(ours!(..))),
                    false => {
                        for end in ends.iter().filter(|end| !number(end)) {
                            if !self.ask_class(end, class::SCALAR, Asked::Class, "..", e.span()) {
                                return self.found(
                                    "..",
                                    e.span(),
                                    "the type of its ends is not known",
                                    Remedy::Move,
                                );
                            }
                        }
                        let rt = self.rt;
                        let ends: Option<Vec<&TokenStream>> = ends.iter().map(Val::exact).collect();
                        let probe = match (ends.as_deref(), e.start.is_some()) {
                            (Some([start, end]), _) => {
                                Probe::exact(ours!(::core::ops::Range { start: #start, end: #end }))
                            }
                            (Some([start]), true) => Probe::exact(
                                ours!(::core::ops::Range { start: #start, end: #rt::some() }),
                            ),
                            _ => None,
                        };
                        Val::from(Ty::Range).with(probe)
                    }
                }
            }
            Expr::If(e) => self.scope(|judge| {
                judge.expr(&e.cond);
                let mut val = judge.block(&e.then_branch);
                if let Some((_, branch)) = &e.else_branch {
                    let other = judge.expr(branch);
                    let span = e.if_token.span();
                    judge.moved(&val.clone().at(place(span, 0)), "if", span);
                    // The branches of another `if` are judged there.
                    if let Expr::Block(_) = &**branch {
                        judge.moved(&other.clone().at(place(span, 1)), "if", span);
                    }
                    val.unify(&other);
                }
                val
            }),
            Expr::Let(e) => {
                let val = self.expr(&e.expr);
                self.pattern(&e.pat, &val);
                Ty::Scalar.into()
            }
            Expr::Match(e) => {
                let scrutinee = self.expr(&e.expr);
                let mut val = Val::unknown();
                for (i, arm) in e.arms.iter().enumerate() {
                    let arm = self.scope(|judge| {
                        judge.pattern(&arm.pat, &scrutinee);
                        judge.expr(&arm.body)
                    });
                    let span = e.match_token.span();
                    self.moved(&arm.clone().at(place(span, i)), "match", span);
                    val.unify(&arm);
                }
                val
            }
            Expr::Block(e) => {
                self.breaks.push(Val::unknown());
                let mut val = self.block(&e.block);
                let broken = self.breaks.pop().unwrap_or_else(Val::unknown);
                if e.label.is_some() {
                    val.unify(&broken);
                } else if let Some(outer) = self.breaks.last_mut() {
                    outer.unify(&broken);
                }
                val
            }
            Expr::ForLoop(e) => {
                let span = e.for_token.span();
                let over = self.expr(&e.expr).at(place(span, 0));
                let item = self.items(&over, "for", span);
                self.turns(|judge| {
                    judge.pattern(&e.pat, &item);
                    judge.block(&e.body);
                });
                Val::nothing()
            }
            Expr::While(e) => {
                self.turns(|judge| {
                    judge.expr(&e.cond);
                    judge.block(&e.body);
                });
                Val::nothing()
            }
            Expr::Loop(e) => self.turns(|judge| {
                judge.block(&e.body);
            }),
            Expr::Break(e) => {
                if let Some(val) = &e.expr {
                    let val = self.expr(val);
                    match e.label {
                        Some(_) => self.breaks.iter_mut().for_each(|outer| outer.unify(&val)),
                        None => self
                            .breaks
                            .iter_mut()
                            .rev()
                            .take(1)
                            .for_each(|outer| outer.unify(&val)),
                    }
                }
                Val::unknown()
            }
            Expr::Return(e) => {
                e.expr.iter().for_each(|val| {
                    self.expr(val);
                });
                Val::unknown()
            }
            Expr::Continue(_) | Expr::Infer(_) => Val::unknown(),
            Expr::Try(e) => {
                let val = self.expr(&e.expr);
                self.held(&val)
            }
            Expr::Assign(e) => {
                let span = e.eq_token.span();
                let val = self.expr(&e.right).at(place(span, 1));
                self.moved(&val, "=", span);
                self.assign(&e.left, &val);
                Val::nothing()
            }
            // A const block runs at compile time and has no effect at run time.
            Expr::Const(e) => {
                let (before, spots) = (self.impure.take(), self.spots.clone());
                let val = self.block(&e.block);
                (self.impure, self.spots) = (before, spots);
                val
            }
            // `unsafe`, `await`, and syntax unknown to `syn`.
            other => {
                let first = other.to_token_stream().into_iter().next();
                let first = first.map(|token| token.to_string()).unwrap_or_default();
                self.found(
                    &first,
                    other.span(),
                    "its effects are not known",
                    Remedy::Promise,
                )
            }
        }
    }

    /// Judges the body of a loop, twice if needed: the first iteration determines types for the
    /// second.
    fn turns(&mut self, mut body: impl FnMut(&mut Self)) -> Val {
        let before = self.impure.clone();
        self.breaks.push(Val::unknown());
        let (n_questions, spots) = (self.questions.len(), self.spots.clone());
        // Loops inside run once in the first iteration: otherwise the time would double with each
        // level.
        let outside = std::mem::replace(&mut self.exploring, true);
        self.scope(&mut body);
        self.exploring = outside;
        if self.impure.is_some() && before.is_none() && !outside {
            self.spots = spots;
            // Locals that had no type may have one after the first iteration.
            let asked: Vec<String> = self
                .questions
                .drain(n_questions..)
                .map(|q| q.tokens.to_string())
                .collect();
            asked.iter().for_each(|text| {
                self.asked.remove(text);
            });
            self.impure = before;
            self.scope(&mut body);
        }
        self.breaks.pop().unwrap_or_else(Val::unknown)
    }

    /// Judges an assignment to a place, which must be a local or a part of one.
    fn assign(&mut self, left: &Expr, val: &Val) {
        match left {
            Expr::Path(e)
                if e.path
                    .get_ident()
                    .is_some_and(|i| self.local(&unraw(i)).is_some()) =>
            {
                let name = e.path.get_ident().map(unraw).unwrap_or_default();
                if let Some(local) = self.local_mut(&name) {
                    local.unify(val);
                }
            }
            Expr::Infer(_) => {}
            Expr::Paren(e) => self.assign(&e.expr, val),
            Expr::Tuple(e) => {
                for (i, left) in e.elems.iter().enumerate() {
                    let part = match &val.ty {
                        Ty::Tuple(parts) => parts.get(i).cloned(),
                        _ => None,
                    };
                    self.assign(left, &part.unwrap_or_else(Val::unknown));
                }
            }
            Expr::Array(e) => {
                let elem = self.held(val);
                e.elems.iter().for_each(|left| self.assign(left, &elem));
            }
            Expr::Field(_) | Expr::Index(_) | Expr::Unary(_) => {
                self.expr(left);
            }
            other => {
                self.found(
                    "=",
                    other.span(),
                    "what it assigns to is not a local",
                    Remedy::Promise,
                );
            }
        }
    }

    fn unary(&mut self, e: &syn::ExprUnary) -> Val {
        let val = self.expr(&e.expr).at(place(e.op.span(), 1));
        match (&e.op, &val.ty) {
            (UnOp::Deref(_), Ty::Opaque) => {
                let what = text(e);
                let mask = class::KNOWN | class::PLAIN;
                if !self.ask_class(&val, mask, Asked::Class, &what, e.span()) {
                    return self.found(&what, e.span(), "its type is not known", Remedy::Move);
                }
                let probe = val.exact().and_then(|e| Probe::exact(ours!(*#e)));
                val.with(probe)
            }
            (UnOp::Deref(_), _) => val.with(None),
            (_, Ty::Scalar | Ty::Tensor | Ty::Arithmetic(_)) => {
                let op = &e.op;
                let probe = val.exact().and_then(|e| Probe::exact(ours!((#op #e))));
                val.with(probe)
            }
            (op, _) => {
                let op = text(op);
                self.arithmetic(&op, e.span(), &[val])
            }
        }
    }

    /// Returns the result of arithmetic.
    fn arithmetic(&mut self, op: &str, span: Span, operands: &[Val]) -> Val {
        let mut unknown = Some(Vec::new());
        for val in operands {
            let of = match &val.ty {
                Ty::Tensor | Ty::Scalar | Ty::Text | Ty::Key => continue,
                Ty::Arithmetic(of) => of.clone(),
                _ => {
                    // A function is not an operand; rustc reports a name that does not exist.
                    let is_function = matches!(val.ty, Ty::Pure(_) | Ty::Pullback(_));
                    if is_function || !self.ask_class(val, NUMERIC, Asked::Operand, op, span) {
                        return self.found(
                            op,
                            span,
                            "the type of an operand is not known",
                            Remedy::Move,
                        );
                    }
                    val.firm().map(|e| vec![e.clone()])
                }
            };
            unknown = unknown.zip(of).map(|(a, b)| [a, b].concat());
        }
        let is = |ty: fn(&Ty) -> bool| operands.iter().any(|val| ty(&val.ty));
        if is(|ty| matches!(ty, Ty::Tensor)) {
            return self.tensor();
        }
        if is(|ty| matches!(ty, Ty::Text)) {
            return Ty::Text.into();
        }
        match &unknown {
            Some(unknown) if unknown.is_empty() => Ty::Scalar.into(),
            _ => Ty::Arithmetic(unknown).into(),
        }
    }

    fn binary(&mut self, e: &syn::ExprBinary) -> Val {
        let span = e.op.span();
        let left = self.expr(&e.left).at(place(span, 0));
        let right = self.expr(&e.right).at(place(span, 1));
        let op = text(&e.op);
        match e.op {
            BinOp::And(_) | BinOp::Or(_) => Ty::Scalar.into(),
            // The function cannot distinguish equal values.
            BinOp::Eq(_) | BinOp::Ne(_) => Ty::Scalar.into(),
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                for val in [&left, &right] {
                    self.known(val, &op, span, "the type of an operand is not known");
                }
                Ty::Scalar.into()
            }
            _ => {
                let operands = [left, right];
                let mut val = self.arithmetic(&op, span, &operands);
                if let ([Some(a), Some(b)], Ty::Scalar) =
                    (operands.each_ref().map(Val::exact), &val.ty)
                {
                    let op = &e.op;
                    val.probe = Probe::exact(ours!((#a #op #b)));
                }
                if is_assigning(&e.op) {
                    let mut sum = operands[0].clone();
                    sum.probe = None;
                    self.assign(&e.left, &sum);
                    return Val::nothing();
                }
                val
            }
        }
    }

    fn field(&mut self, e: &syn::ExprField) -> Val {
        let base = self.expr(&e.base).at(place(e.dot_token.span(), 0));
        let what = text(e);
        match (&base.ty, &e.member) {
            (Ty::Tuple(parts), Member::Unnamed(index)) => {
                let part = parts.get(index.index as usize);
                return part.cloned().unwrap_or_else(Val::unknown);
            }
            (Ty::Range, Member::Named(_)) => return Ty::Scalar.into(),
            (Ty::Tensor | Ty::Scalar | Ty::Key, _) => {
                return self.found(&what, e.span(), "it has no such field", Remedy::Move);
            }
            _ => {}
        }
        let mask = class::PLAIN | class::TUPLE | class::RANGE | class::OPTIMISER;
        if base.firm().is_none() && !self.entered.is_empty()
            || !self.ask_class(&base, mask, Asked::Class, &what, e.span())
        {
            return self.found(
                &what,
                e.span(),
                "the type of the value that contains it is not known",
                Remedy::Move,
            );
        }
        let Some(probe) = base.probe.as_ref().filter(|_| base.firm().is_some()) else {
            return Val::unknown();
        };
        let (tokens, member) = (&probe.tokens, &e.member);
        let part = Probe {
            tokens: ours!((#tokens).#member),
            fidelity: Fidelity::Exact,
            depth: probe.depth + 1,
        };
        Val::unknown().with(Some(part))
    }

    fn index(&mut self, e: &syn::ExprIndex) -> Val {
        let open = e.bracket_token.span.open();
        let base = self.expr(&e.expr).at(place(open, 0));
        let index = self.expr(&e.index).at(place(open, 1));
        let ranges = matches!(index.ty, Ty::Range) || matches!(&*e.index, Expr::Range(_));
        match (&base.ty, &index.ty) {
            (Ty::List(_) | Ty::Text, _) if ranges => base,
            (Ty::Text, Ty::Scalar) => Ty::Scalar.into(),
            (Ty::List(elem), Ty::Scalar) => {
                let probe = base.exact().and_then(|e| Probe::exact(ours!((#e)[0usize])));
                (**elem).clone().with(probe)
            }
            (Ty::Map(_, value), _) => (**value).clone(),
            (Ty::Tensor | Ty::Scalar | Ty::Key, _) => {
                self.found(&text(e), e.span(), "it has no elements", Remedy::Move)
            }
            _ => {
                let what = text(e);
                let mask = class::LIST | class::MAP | class::HASH | class::TEXT;
                // Maps compare their keys.
                let asked = match ranges {
                    true => Asked::Class,
                    false => Asked::Keys,
                };
                if !self.ask_class(&base, mask, asked, &what, e.span()) {
                    return self.found(
                        &what,
                        e.span(),
                        "the type of the indexed value is not known",
                        Remedy::Move,
                    );
                }
                if !matches!(index.ty, Ty::Scalar) && !ranges {
                    self.known(
                        &index,
                        &what,
                        e.span(),
                        "the type of the index is not known",
                    );
                }
                match (ranges, base.exact(), index.exact()) {
                    (true, ..) => super::pattern::behind(&base),
                    (false, Some(base), Some(index)) => {
                        Val::unknown().with(Probe::exact(ours!((#base)[#index])))
                    }
                    (false, ..) => self.held(&base),
                }
            }
        }
    }

    /// Requires that the type of a value is known in all its parts.
    ///
    /// Asks rustc about parts that the macro does not know.
    pub(super) fn known(&mut self, val: &Val, what: &str, span: Span, why: &str) {
        match &val.ty {
            Ty::Tensor | Ty::Scalar | Ty::Text | Ty::Key | Ty::Range | Ty::Arithmetic(_) => {}
            Ty::Pure(_) | Ty::Pullback(_) => {}
            Ty::Closure(_) | Ty::Function(_) | Ty::Transform(..) | Ty::Branches(_) => {
                self.apply(val, &[], what, span);
            }
            Ty::List(_) | Ty::Option(_) | Ty::Map(..) | Ty::Tuple(_)
                if val.is_unprobed() && val.at.is_some() && self.entered.is_empty() =>
            {
                self.ask_class(
                    &Val::at_place_of(val),
                    class::KNOWN,
                    Asked::Parts,
                    what,
                    span,
                );
            }
            Ty::List(elem) | Ty::Option(elem) | Ty::Iter(elem) => self.known(elem, what, span, why),
            Ty::Map(k, v) => {
                self.known(k, what, span, why);
                self.known(v, what, span, why);
            }
            Ty::Tuple(parts) => parts
                .iter()
                .for_each(|part| self.known(part, what, span, why)),
            Ty::Opaque => {
                if !self.ask_class(val, class::KNOWN, Asked::Parts, what, span) {
                    self.found(what, span, why, Remedy::Move);
                }
            }
        }
    }
}

/// Returns whether an expression is a call of `Default::default`.
fn made_by_default(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => text(&call.func).ends_with("Default::default"),
        _ => false,
    }
}

fn literal(lit: &Lit) -> Val {
    let ty = match lit {
        Lit::Str(_) => Ty::Text,
        Lit::ByteStr(_) | Lit::CStr(_) => Ty::List(Box::new(Ty::Scalar.into())),
        _ => Ty::Scalar,
    };
    Val::from(ty).with(Probe::exact(lit.to_token_stream()))
}

/// Returns whether an operator assigns to its left operand.
pub(crate) fn is_assigning(op: &BinOp) -> bool {
    use BinOp::*;
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
