//! Emits a copy of the body in which rustc is asked about the types of expressions.
//!
//! The copy is compiled and never runs. Each expression in it has the type that it has in the
//! user's function, so the answers are exact, whatever the macro knows.

use crate::input::{Func, text, unraw};
use crate::method_table::{TRANSFORMS, is_method};
use crate::purity::{CallPosition, SpotQuestion, place};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
use std::collections::BTreeSet;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprCall, ExprMethodCall, Item, Local, Macro, Token, UnOp};

/// Number of answers in a chunk, which limits the depth of a type.
const AT_ONCE: usize = 24;

/// Copy of a body with questions.
pub(super) struct BodyWithSpots {
    block: Block,
    /// Number of questions in the copy.
    pub(super) n: usize,
    /// Spots of these questions, in the same order.
    pub(super) spots: Vec<SpotQuestion>,
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
        inside: Enclosing::Body,
    };
    let mut block = block.clone();
    if is_copied(func) {
        asking.visit_block_mut(&mut block);
    }
    let placed = asking.placed;
    let places: BTreeSet<CallPosition> = placed.iter().map(|spot| spot.at).collect();
    let missing = spots.into_iter().filter(|spot| !places.contains(&spot.at));
    let missing = missing.collect();
    let asked = (!placed.is_empty()).then(|| BodyWithSpots {
        block,
        n: placed.len(),
        spots: placed,
    });
    (asked, missing)
}

/// Returns whether the body can be copied into a closure with the same result type.
fn is_copied(func: &Func) -> bool {
    !text(&func.sig.output).contains("impl ")
        && !func.sig.inputs.iter().any(|i| text(i).contains("impl "))
}

impl BodyWithSpots {
    /// Returns the body of the function that returns the answers.
    pub(super) fn body(&self, func: &Func, rt: &TokenStream) -> TokenStream {
        let slots: Vec<Ident> = (0..self.n).map(slot).collect();
        let chunks: Vec<TokenStream> = slots
            .chunks(AT_ONCE)
            .map(|slots| {
                let answers = slots.iter().rev();
                answers.fold(ours!(()), |rest, slot| ours!((#slot.answer(), #rest)))
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

fn slot(i: usize) -> Ident {
    format_ident!("spot_{i}", span = Span::mixed_site())
}

/// Code around an expression.
#[derive(Clone, Copy, PartialEq)]
enum Enclosing {
    Body,
    Closure,
}

/// Visitor that adds the questions.
struct SpotVisitor<'a> {
    spots: &'a [SpotQuestion],
    rt: &'a TokenStream,
    placed: Vec<SpotQuestion>,
    inside: Enclosing,
}

impl SpotVisitor<'_> {
    fn spot(&self, span: Span, index: usize) -> Option<SpotQuestion> {
        let at = place(span, index);
        self.spots.iter().find(|spot| spot.at == at).cloned()
    }

    /// Returns the local of the next question.
    fn put(&mut self, spot: SpotQuestion) -> Ident {
        self.placed.push(spot);
        slot(self.placed.len() - 1)
    }

    /// Visits a closure whose type stays its own, so that it may use locals of the copy.
    fn closure(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Closure(e) => {
                let outside = std::mem::replace(&mut self.inside, Enclosing::Closure);
                self.visit_expr_mut(&mut e.body);
                self.inside = outside;
            }
            Expr::Paren(e) => self.closure(&mut e.expr),
            Expr::Reference(e) if matches!(&*e.expr, Expr::Closure(_)) => self.closure(&mut e.expr),
            expr => self.visit_expr_mut(expr),
        }
    }

    /// Asks about an expression that is moved or passed on; `before` is the user's.
    fn value(&mut self, before: &Expr, expr: &mut Expr, spot: SpotQuestion) {
        let (rt, mask) = (self.rt, spot.mask);
        let inner = behind(before);
        if is_place(inner) {
            if self.inside == Enclosing::Closure && !is_simple(inner) {
                return;
            }
            let slot = self.put(spot);
            *expr = Expr::Verbatim(
                ours!(#slot.beside((&&&&&#rt::Probe(&#inner)).class::<#mask>(), #expr)),
            );
            return;
        }
        if matches!(
            inner,
            Expr::If(_) | Expr::Match(_) | Expr::Block(_) | Expr::Loop(_) | Expr::Closure(_)
        ) {
            return;
        }
        let slot = self.put(spot);
        let expr = behind_mut(expr);
        *expr = Expr::Verbatim(
            ours!((#expr).__spot_of_gradloom(#slot, |r| (&&&&&#rt::Probe(r)).class::<#mask>())),
        );
    }

    fn method_call(&mut self, expr: &mut Expr) {
        let Expr::MethodCall(call) = expr else { return };
        let open = call.paren_token.span.open();
        let receiver = self.spot(open, 0).map(|spot| (spot, call.receiver.clone()));
        let before = self.wanted(open, &call.args);
        self.visit_expr_mut(&mut call.receiver);
        let own = is_method(&unraw(&call.method));
        for arg in &mut call.args {
            match own {
                true => self.closure(arg),
                false => self.visit_expr_mut(arg),
            }
        }
        for (i, spot, before) in before {
            self.value(&before, &mut call.args[i], spot);
        }
        let Some((spot, before)) = receiver else {
            return;
        };
        if is_place(&before) {
            let mut whole = expr.clone();
            self.value(&before, &mut whole, spot);
            *expr = whole;
        } else {
            self.value(&before, &mut call.receiver, spot);
        }
    }

    fn call(&mut self, call: &mut ExprCall) {
        let before = self.wanted(call.paren_token.span.open(), &call.args);
        self.closure(&mut call.func);
        let transforms = match &*call.func {
            Expr::Path(e) => {
                let last = e.path.segments.last().map(|s| unraw(&s.ident));
                last.is_some_and(|last| TRANSFORMS.contains(&&*last))
            }
            _ => false,
        };
        for arg in &mut call.args {
            match transforms {
                true => self.closure(arg),
                false => self.visit_expr_mut(arg),
            }
        }
        for (i, spot, before) in before {
            self.value(&before, &mut call.args[i], spot);
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
}

impl VisitMut for SpotVisitor<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::MethodCall(ExprMethodCall { .. }) => self.method_call(expr),
            Expr::Call(call) => self.call(call),
            Expr::Macro(e) if e.mac.path.is_ident("matches") => {
                if let Ok(same) = matched.parse2(e.mac.tokens.clone()) {
                    *expr = same;
                    self.visit_expr_mut(expr);
                }
            }
            // The type of such a closure may be that of a function pointer, so that it cannot use
            // locals. A constant cannot either.
            Expr::Closure(_) | Expr::Const(_) | Expr::Async(_) => {}
            expr => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        let spot = self.spot(local.let_token.span, 0);
        let Some(init) = &mut local.init else { return };
        let before = spot.map(|spot| (spot, init.expr.clone()));
        match local.pat {
            syn::Pat::Ident(_) => self.closure(&mut init.expr),
            _ => self.visit_expr_mut(&mut init.expr),
        }
        if let Some((spot, before)) = before {
            self.value(&before, &mut init.expr, spot);
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
        if let Ok((mut elem, mut n)) = repeated.parse2(mac.tokens.clone()) {
            self.visit_expr_mut(&mut elem);
            self.visit_expr_mut(&mut n);
            mac.tokens = ours!(#elem; #n);
        } else if let Ok(mut args) = parse.parse2(mac.tokens.clone()) {
            for arg in &mut args {
                match arg {
                    // `name = value`
                    Expr::Assign(e) => self.visit_expr_mut(&mut e.right),
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
