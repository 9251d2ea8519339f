//! Emits a copy of the body in which rustc is asked about the types of expressions.
//!
//! The copy is compiled and never runs. Each expression in it has the type that it has in the
//! user's function, so the answers are exact, whatever the macro knows.

use crate::input::{Func, text, unraw};
use crate::method_table::{functions_of, is_method, methods_of_builder};
use crate::purity::{Asked, CallPosition, SpotQuestion, conversion, is_assigning, place};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
use std::collections::BTreeSet;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprMethodCall, Item, Local, Macro, Pat, Stmt, Token, UnOp};

/// Number of answers in a chunk, which limits the depth of a type.
const AT_ONCE: usize = 24;

/// Copy of a body with questions.
pub(super) struct BodyWithSpots {
    block: Block,
    /// Number of questions in the copy.
    pub(super) n: usize,
    /// Spots of these questions, in the same order.
    pub(super) spots: Vec<SpotQuestion>,
    /// For each of them, whether its slot has the type in question, and not the answer.
    late: Vec<bool>,
}

/// Returns a copy of the body that asks the questions, and the questions that it cannot ask.
pub(super) fn asked(
    func: &Func,
    block: &Block,
    spots: Vec<SpotQuestion>,
    rt: &TokenStream,
) -> (Option<BodyWithSpots>, Vec<SpotQuestion>) {
    let mut asking = SpotVisitor {
        spots: &spots,
        rt,
        placed: Vec::new(),
        late: Vec::new(),
        failed: BTreeSet::new(),
        settled: BTreeSet::new(),
        inside: Enclosing::Body,
        untyped: false,
    };
    let mut block = block.clone();
    if is_copied(func) && !has_wrong_try(func, &block) {
        asking.visit_block_mut(&mut block);
    }
    let (placed, late, failed) = (asking.placed, asking.late, asking.failed);
    let settled = asking.settled;
    let places = placed.iter().map(|spot| spot.at).chain(settled);
    let places: BTreeSet<CallPosition> = places.filter(|at| !failed.contains(at)).collect();
    let missing = spots.into_iter().filter(|spot| !places.contains(&spot.at));
    let missing = missing.collect();
    let asked = (!placed.is_empty()).then(|| BodyWithSpots {
        block,
        n: placed.len(),
        spots: placed,
        late,
    });
    (asked, missing)
}

/// Returns whether the body can be copied into a closure with the same result type.
fn is_copied(func: &Func) -> bool {
    !text(&func.sig.output).contains("impl ")
        && !func.sig.inputs.iter().any(|i| text(i).contains("impl "))
}

/// Returns whether a body has a `?` although its function returns no `Result`, which rustc reports in
/// the user's function.
fn has_wrong_try(func: &Func, block: &Block) -> bool {
    struct TryFinder(bool);
    impl<'ast> Visit<'ast> for TryFinder {
        fn visit_expr_try(&mut self, _: &'ast syn::ExprTry) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut found = TryFinder(false);
    if func.output.result.is_none() && func.output.shape.is_known() {
        found.visit_block(block);
    }
    found.0
}

impl BodyWithSpots {
    /// Returns the body of the function that returns the answers.
    pub(super) fn body(&self, func: &Func, rt: &TokenStream) -> TokenStream {
        let slots: Vec<Ident> = (0..self.n).map(slot).collect();
        let answers = slots.iter().zip(&self.spots).zip(&self.late);
        let answers: Vec<TokenStream> = answers
            .map(|((slot, spot), late)| match late {
                true => spot.asked.of(&ours!(#slot.value()), spot.mask, rt),
                false => ours!(#slot.answer()),
            })
            .collect();
        let chunks: Vec<TokenStream> = answers
            .chunks(AT_ONCE)
            .map(|answers| {
                let answers = answers.iter().rev();
                answers.fold(ours!(()), |rest, answer| ours!((#answer, #rest)))
            })
            .collect();
        let chunks = chunks
            .into_iter()
            .rev()
            .reduce(|rest, chunk| ours!(#rt::chunks(#chunk, #rest)));
        let (block, output) = (&self.block, &func.sig.output);
        ours! {
            use #rt::by_type::*;
            #(let #slots = #rt::Spot::new();)*
            let _ = || #output {
                loop {}
                #block
            };
            #chunks
        }
    }
}

/// Returns whether a path is that of a function that takes closures: a transform, a loop or a branch.
fn transforms(path: &syn::Path) -> bool {
    let mut names = path.segments.iter().rev().map(|s| unraw(&s.ident));
    let (last, owner) = (names.next().unwrap_or_default(), names.next());
    functions_of(&last).is_some()
        || last == "new" && owner.is_some_and(|owner| methods_of_builder(&owner).is_some())
}

/// Returns whether an expression is a list of references, such as that of the branches of `switch`.
fn is_list_of_references(expr: &Expr) -> bool {
    match expr {
        Expr::Array(list) => list.elems.iter().all(|e| matches!(e, Expr::Reference(_))),
        _ => false,
    }
}

fn slot(i: usize) -> Ident {
    format_ident!("spot_{i}", span = Span::mixed_site())
}

/// Code around an expression.
#[derive(Clone, Copy, PartialEq)]
enum Enclosing {
    /// Statements after `loop {}`, which rustc does not check for moves and borrows.
    Body,
    /// Body of a closure, which rustc does check.
    Closure,
}

/// Use of an expression.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    /// It is evaluated to a value.
    Value,
    /// It may be a place that is not moved out of.
    Place,
}

/// Visitor that adds the questions.
struct SpotVisitor<'a> {
    spots: &'a [SpotQuestion],
    rt: &'a TokenStream,
    placed: Vec<SpotQuestion>,
    /// For each of them, whether it is asked at the end of the body.
    late: Vec<bool>,
    /// Places of questions that need not be asked.
    settled: BTreeSet<CallPosition>,
    /// Places of questions that cannot all be asked.
    failed: BTreeSet<CallPosition>,
    inside: Enclosing,
    /// True in a closure whose parameters may have no type where they are used.
    untyped: bool,
}

impl SpotVisitor<'_> {
    fn spot(&self, span: Span, index: usize) -> Option<SpotQuestion> {
        let at = place(span, index);
        self.spots.iter().find(|spot| spot.at == at).cloned()
    }

    /// Returns the local of the next question.
    fn put(&mut self, spot: SpotQuestion) -> Ident {
        self.late.push(self.is_late(&spot));
        self.placed.push(spot);
        slot(self.placed.len() - 1)
    }

    /// Returns whether the question is asked at the end of the body.
    ///
    /// The type of a local of a closure may contain a lifetime that has no name outside of it.
    fn is_late(&self, spot: &SpotQuestion) -> bool {
        let asked = [Asked::Moved, Asked::Operand, Asked::Keys, Asked::Parts];
        asked.contains(&spot.asked) && self.inside == Enclosing::Body
    }

    /// Visits a closure whose type stays its own, so that it may use locals of the copy.
    fn closure(&mut self, expr: &mut Expr, untyped: bool) {
        match expr {
            Expr::Closure(e) => {
                let outside = (self.inside, self.untyped);
                let untyped = untyped && !e.inputs.iter().all(|p| matches!(p, Pat::Type(_)));
                (self.inside, self.untyped) = (Enclosing::Closure, self.untyped || untyped);
                self.visit_expr_mut(&mut e.body);
                (self.inside, self.untyped) = outside;
            }
            Expr::Paren(e) => self.closure(&mut e.expr, untyped),
            Expr::Reference(e) if matches!(&*e.expr, Expr::Closure(_)) => {
                self.closure(&mut e.expr, untyped)
            }
            // Closures behind references stay of their own types.
            Expr::Reference(e) if is_list_of_references(&e.expr) => {
                if let Expr::Array(list) = &mut *e.expr {
                    list.elems.iter_mut().for_each(|f| self.closure(f, untyped));
                }
            }
            expr => self.visit_expr_mut(expr),
        }
    }

    /// Asks about an expression that is moved or passed on; `before` is the user's.
    fn value(&mut self, before: &Expr, expr: &mut Expr, mut spot: SpotQuestion) {
        let inner = behind(before);
        if !std::ptr::eq(inner, before) {
            spot.asked = spot.asked.max(Asked::Class);
        }
        if is_place(inner) {
            *expr = self.beside(inner, expr.clone(), spot);
            return;
        }
        let (rt, at) = (self.rt, spot.at);
        match (inner, behind_mut(expr)) {
            (Expr::Block(before), Expr::Block(e)) => {
                self.tail(&before.block, &mut e.block, spot);
            }
            // Their branches are asked about where they are.
            (Expr::If(_) | Expr::Match(_), _) if spot.asked == Asked::Moved => {
                self.settled.insert(at);
            }
            (Expr::If(_) | Expr::Match(_) | Expr::Loop(_) | Expr::Closure(_), _) => {
                self.failed.insert(at);
            }
            _ if self.untyped && spot.asked > Asked::Class => {
                self.failed.insert(at);
            }
            // rustc may know the type at the end of the body only.
            (inner, _) if self.inside == Enclosing::Closure && conversion(inner).is_some() => {
                self.failed.insert(at);
            }
            (_, expr) if self.is_late(&spot) => {
                let slot = self.put(spot);
                *expr = Expr::Verbatim(ours!(#slot.typed_value(#expr)));
            }
            (_, expr) => {
                let question = spot.asked.of(&ours!(r), spot.mask, rt);
                let slot = self.put(spot);
                *expr = Expr::Verbatim(ours!((#expr).__spot_of_gradloom(#slot, |r| #question)));
            }
        }
    }

    /// Asks about the value of a block.
    fn tail(&mut self, before: &Block, block: &mut Block, spot: SpotQuestion) {
        match (before.stmts.last(), block.stmts.last_mut()) {
            // These have no value.
            (
                Some(Stmt::Expr(Expr::Return(_) | Expr::Break(_) | Expr::Continue(_), _)),
                Some(_),
            )
            | (Some(Stmt::Macro(_)), Some(_)) => {
                self.settled.insert(spot.at);
            }
            (Some(Stmt::Expr(before, None)), Some(Stmt::Expr(expr, None))) => {
                self.value(before, expr, spot);
            }
            _ => {
                self.failed.insert(spot.at);
            }
        }
    }

    /// Returns `expr` beside a question about a place.
    fn beside(&mut self, place: &Expr, expr: Expr, spot: SpotQuestion) -> Expr {
        if self.inside == Enclosing::Closure && !is_simple(place)
            || self.untyped && spot.asked > Asked::Class
        {
            self.failed.insert(spot.at);
            return expr;
        }
        let question = spot.asked.of(&ours!(&#place), spot.mask, self.rt);
        let late = self.is_late(&spot);
        let slot = self.put(spot);
        Expr::Verbatim(match late {
            true => ours!(#slot.typed(&#place, #expr)),
            false => ours!(#slot.beside(#question, #expr)),
        })
    }

    /// Visits an expression that may be a place. Questions about the places in it are asked beside it.
    fn place(&mut self, expr: &mut Expr, used: Use) {
        let mut asked = Vec::new();
        self.parts(expr, &mut asked);
        if asked.is_empty() {
            return;
        }
        let reference = matches!(expr, Expr::Reference(_));
        let keeps = used == Use::Place && !reference;
        if keeps && self.inside == Enclosing::Closure {
            self.failed.extend(asked.iter().map(|(_, spot)| spot.at));
            return;
        }
        let whole = match keeps {
            true => Expr::Verbatim(ours!(&#expr)),
            false => expr.clone(),
        };
        let whole = self.all_beside(asked, whole);
        *expr = match keeps {
            true => Expr::Verbatim(ours!((*#whole))),
            false => whole,
        };
    }

    fn all_beside(&mut self, asked: Vec<(Expr, SpotQuestion)>, whole: Expr) -> Expr {
        let asked = asked.into_iter();
        asked.fold(whole, |whole, (place, spot)| {
            self.beside(&place, whole, spot)
        })
    }

    /// Visits the parts of a place, and collects the questions about places in it.
    fn parts(&mut self, expr: &mut Expr, asked: &mut Vec<(Expr, SpotQuestion)>) {
        match expr {
            Expr::Paren(e) => self.parts(&mut e.expr, asked),
            Expr::Reference(e) => self.parts(&mut e.expr, asked),
            Expr::Field(e) => self.part(&mut e.base, (e.dot_token.span(), 0), asked),
            Expr::Unary(e) if matches!(e.op, UnOp::Deref(_)) => {
                self.part(&mut e.expr, (e.op.span(), 1), asked)
            }
            Expr::Index(e) => {
                let open = e.bracket_token.span.open();
                self.part(&mut e.expr, (open, 0), asked);
                self.operand(&mut e.index, (open, 1));
            }
            Expr::Path(_) => {}
            other => self.visit_expr_mut(other),
        }
    }

    fn part(
        &mut self,
        part: &mut Expr,
        (span, index): (Span, usize),
        asked: &mut Vec<(Expr, SpotQuestion)>,
    ) {
        let spot = self.spot(span, index);
        let before = part.clone();
        self.parts(part, asked);
        let Some(spot) = spot else { return };
        match is_place(behind(&before)) {
            true => asked.push((behind(&before).clone(), spot)),
            false => self.value(&before, part, spot),
        }
    }

    /// Visits an expression that is evaluated, and asks about it.
    fn operand(&mut self, expr: &mut Expr, (span, index): (Span, usize)) {
        let spot = self.spot(span, index);
        let before = spot.map(|spot| (spot, expr.clone()));
        self.place(expr, Use::Value);
        if let Some((spot, before)) = before {
            self.value(&before, expr, spot);
        }
    }

    /// Visits the left side of an assignment. Questions about it are asked beside the assignment.
    fn assigned(
        &mut self,
        left: &mut Expr,
        at: Option<(Span, usize)>,
    ) -> Vec<(Expr, SpotQuestion)> {
        let mut asked = Vec::new();
        let before = left.clone();
        match left {
            // These consist of several places.
            Expr::Tuple(_) | Expr::Array(_) | Expr::Struct(_) | Expr::Call(_) => {}
            left => self.parts(left, &mut asked),
        }
        if let Some(spot) = at.and_then(|(span, index)| self.spot(span, index)) {
            match is_place(behind(&before)) {
                true => asked.push((behind(&before).clone(), spot)),
                false => {
                    self.failed.insert(spot.at);
                }
            }
        }
        asked
    }

    fn method_call(&mut self, expr: &mut Expr) {
        let Expr::MethodCall(call) = expr else { return };
        let open = call.paren_token.span.open();
        let receiver = self.spot(open, 0).map(|spot| (spot, call.receiver.clone()));
        let before = self.wanted(open, &call.args);
        let mut asked = Vec::new();
        self.parts(&mut call.receiver, &mut asked);
        let own = is_method(&unraw(&call.method));
        for arg in &mut call.args {
            match own {
                true => self.closure(arg, false),
                false => self.place(arg, Use::Value),
            }
        }
        for (i, spot, before) in before {
            self.value(&before, &mut call.args[i], spot);
        }
        if let Some((spot, before)) = receiver {
            match is_place(behind(&before)) {
                true => asked.push((behind(&before).clone(), spot)),
                false => self.value(&before, &mut call.receiver, spot),
            }
        }
        *expr = self.all_beside(asked, expr.clone());
    }

    fn call(&mut self, expr: &mut Expr) {
        let Expr::Call(call) = expr else { return };
        let open = call.paren_token.span.open();
        let owner = self.spot(open, 0);
        let before = self.wanted(open, &call.args);
        self.closure(&mut call.func, false);
        let path = match &*call.func {
            Expr::Path(e) => Some(e.path.clone()),
            _ => None,
        };
        let transforms = path.as_ref().is_some_and(transforms);
        for arg in &mut call.args {
            match transforms {
                true => self.closure(arg, false),
                false => self.place(arg, Use::Value),
            }
        }
        for (i, spot, before) in before {
            self.value(&before, &mut call.args[i], spot);
        }
        if let (Some(spot), Some(mut owner)) = (owner, path) {
            owner.segments.pop();
            owner.segments.pop_punct();
            let (rt, slot) = (self.rt, self.put(spot));
            let made = ours!(#rt::Made(#owner::__owner_of_gradloom(), r));
            *expr = Expr::Verbatim(ours!(#slot.asked(#expr, |r| (&&&#made).owner())));
        }
    }

    /// Returns the arguments that are asked about, as the user wrote them.
    fn wanted(
        &self,
        open: Span,
        args: &Punctuated<Expr, Token![,]>,
    ) -> Vec<(usize, SpotQuestion, Expr)> {
        let args = args.iter().enumerate();
        args.filter_map(|(i, arg)| Some((i, self.spot(open, i + 1)?, arg.clone())))
            .collect()
    }

    /// Visits expressions that are evaluated one after the other.
    fn operands<'e>(&mut self, open: Span, parts: impl IntoIterator<Item = &'e mut Expr>) {
        for (i, part) in parts.into_iter().enumerate() {
            self.operand(part, (open, i + 1));
        }
    }
}

impl VisitMut for SpotVisitor<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::MethodCall(ExprMethodCall { .. }) => self.method_call(expr),
            Expr::Call(_) => self.call(expr),
            Expr::Macro(e) if e.mac.path.is_ident("matches") => {
                if let Ok(same) = matched.parse2(e.mac.tokens.clone()) {
                    *expr = same;
                    self.visit_expr_mut(expr);
                }
            }
            // The type of such a closure may be that of a function pointer, so that it cannot use
            // locals. A constant cannot either.
            Expr::Closure(_) | Expr::Const(_) | Expr::Async(_) => {}
            Expr::Field(_) | Expr::Index(_) | Expr::Reference(_) => self.place(expr, Use::Place),
            Expr::Unary(e) if matches!(e.op, UnOp::Deref(_)) => self.place(expr, Use::Place),
            Expr::Unary(e) => self.operand(&mut e.expr, (e.op.span(), 1)),
            Expr::Binary(e) => {
                let span = e.op.span();
                if is_assigning(&e.op) {
                    let asked = self.assigned(&mut e.left, Some((span, 0)));
                    self.operand(&mut e.right, (span, 1));
                    *expr = self.all_beside(asked, expr.clone());
                } else if is_comparing(&e.op) {
                    // These borrow their operands.
                    let mut asked = Vec::new();
                    self.part(&mut e.left, (span, 0), &mut asked);
                    self.part(&mut e.right, (span, 1), &mut asked);
                    *expr = self.all_beside(asked, expr.clone());
                } else {
                    self.operand(&mut e.left, (span, 0));
                    self.operand(&mut e.right, (span, 1));
                }
            }
            Expr::Assign(e) => {
                let asked = self.assigned(&mut e.left, None);
                self.operand(&mut e.right, (e.eq_token.span(), 1));
                *expr = self.all_beside(asked, expr.clone());
            }
            Expr::Tuple(e) => self.operands(e.paren_token.span.open(), &mut e.elems),
            Expr::Array(e) => self.operands(e.bracket_token.span.open(), &mut e.elems),
            Expr::Struct(e) => {
                for field in &mut e.fields {
                    self.operand(&mut field.expr, (field.member.span(), 0));
                    field.colon_token = Some(Default::default());
                }
                if let Some(rest) = &mut e.rest {
                    self.visit_expr_mut(rest);
                }
            }
            Expr::ForLoop(e) => {
                self.operand(&mut e.expr, (e.for_token.span(), 0));
                self.visit_block_mut(&mut e.body);
            }
            Expr::If(e) => {
                let span = e.if_token.span();
                let before = e.clone();
                visit_mut::visit_expr_if_mut(self, e);
                if let Some(spot) = self.spot(span, 0) {
                    self.tail(&before.then_branch, &mut e.then_branch, spot);
                }
                if let (Some(spot), Some((_, before)), Some((_, other))) =
                    (self.spot(span, 1), &before.else_branch, &mut e.else_branch)
                {
                    // The branches of another `if` are asked about there.
                    match (&**before, &mut **other) {
                        (Expr::Block(before), Expr::Block(e)) => {
                            self.tail(&before.block, &mut e.block, spot);
                        }
                        _ => {
                            self.failed.insert(spot.at);
                        }
                    }
                }
            }
            Expr::Match(e) => {
                let (span, before) = (e.match_token.span(), e.arms.clone());
                visit_mut::visit_expr_match_mut(self, e);
                for (i, (before, arm)) in before.iter().zip(&mut e.arms).enumerate() {
                    let Some(spot) = self.spot(span, i) else {
                        continue;
                    };
                    match &*before.body {
                        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Macro(_) => {
                            self.settled.insert(spot.at);
                        }
                        before => self.value(before, &mut arm.body, spot),
                    }
                }
            }
            expr => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        let spot = self.spot(local.let_token.span, 0);
        let Some(init) = &mut local.init else { return };
        let before = spot.map(|spot| (spot, init.expr.clone()));
        match &local.pat {
            Pat::Ident(ident) if ident.by_ref.is_none() && is_place(&init.expr) => {
                self.place(&mut init.expr, Use::Value)
            }
            Pat::Ident(_) => self.closure(&mut init.expr, true),
            _ => self.visit_expr_mut(&mut init.expr),
        }
        match before {
            // The type of the value is that of the pattern.
            Some((spot, before)) if matches!(*before, Expr::Call(_)) && !refers(&local.pat) => {
                let question = spot.asked.of(&ours!(r), spot.mask, self.rt);
                let (slot, expr) = (self.put(spot), &init.expr);
                *init.expr = Expr::Verbatim(ours!(#slot.asked(#expr, |r| #question)));
            }
            Some((spot, before)) => self.value(&before, &mut init.expr, spot),
            None => {}
        }
        if let Some((_, diverge)) = &mut init.diverge {
            self.visit_expr_mut(diverge);
        }
    }

    // Items cannot use locals.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        let repeated = |input: ParseStream<'_>| {
            let elem: Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok((elem, input.parse::<Expr>()?))
        };
        let parse = Punctuated::<Expr, Token![,]>::parse_terminated;
        let open = mac.delimiter.span().open();
        if let Ok((mut elem, mut n)) = repeated.parse2(mac.tokens.clone()) {
            self.operand(&mut elem, (open, 1));
            self.operand(&mut n, (open, 2));
            mac.tokens = ours!(#elem; #n);
        } else if let Ok(mut args) = parse.parse2(mac.tokens.clone()) {
            for (i, arg) in args.iter_mut().enumerate() {
                match arg {
                    // `name = value`
                    Expr::Assign(e) => self.visit_expr_mut(&mut e.right),
                    arg if mac.path.is_ident("vec") => self.operand(arg, (open, i + 1)),
                    arg => self.visit_expr_mut(arg),
                }
            }
            mac.tokens = ours!(#args);
        }
    }
}

/// Parses the arguments of `matches!` to the `match` that it stands for.
fn matched(input: ParseStream<'_>) -> syn::Result<Expr> {
    let value: Expr = input.parse()?;
    input.parse::<Token![,]>()?;
    let pat = syn::Pat::parse_multi_with_leading_vert(input)?;
    let guard = match input.parse::<Option<Token![if]>>()? {
        Some(_) => {
            let guard: Expr = input.parse()?;
            Some(ours!(if #guard))
        }
        None => None,
    };
    input.parse::<Option<Token![,]>>()?;
    syn::parse2(ours!(match #value { #pat #guard => true, _ => false }))
}

/// Returns an expression without `&` and parentheses around it.
fn behind(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(e) => behind(&e.expr),
        Expr::Reference(e) => behind(&e.expr),
        expr => expr,
    }
}

fn behind_mut(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::Paren(e) => behind_mut(&mut e.expr),
        Expr::Reference(e) => behind_mut(&mut e.expr),
        expr => expr,
    }
}

/// Returns whether an expression denotes a place, which cannot be moved out of in general.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => true,
        Expr::Unary(e) => matches!(e.op, UnOp::Deref(_)),
        Expr::Paren(e) => is_place(&e.expr),
        _ => false,
    }
}

/// Returns whether the type of a pattern is a reference, to which the value may be converted.
fn refers(pat: &Pat) -> bool {
    matches!(pat, Pat::Type(t) if matches!(&*t.ty, syn::Type::Reference(_)))
}

fn is_comparing(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(op, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_))
}

/// Returns whether a place may be named twice: it computes and moves nothing.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(e) => is_simple(&e.base),
        Expr::Index(e) => is_simple(&e.expr) && is_simple(&e.index),
        Expr::Unary(e) => is_simple(&e.expr),
        Expr::Paren(e) => is_simple(&e.expr),
        _ => false,
    }
}
