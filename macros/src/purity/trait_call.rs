//! Calls in generic functions, which may run a function of a trait.
//!
//! Only the instance determines the impl. If the trait is traced, the body notes such calls while it
//! is recorded, and a traced impl notes that it runs. Other impls make the recording impure.

use super::ask::{Importable, function_hook_of, hook_of, mark_of};
use super::ty::Val;
use super::{PurityVisitor, Remedy, position};
use crate::input::{OfTrait, unraw};
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, UnOp};

/// Name and position of the function of a call.
pub(crate) type CallAt = (String, (usize, usize));

/// Call that may run a function of a trait.
#[derive(Clone, Debug)]
pub(crate) struct TraitCall {
    pub(crate) at: CallAt,
    /// Marker methods in the note.
    pub(crate) marks: Vec<Ident>,
    callee: TraitCallee,
}

#[derive(Clone, Debug)]
enum TraitCallee {
    /// Method of this receiver, a place.
    Method(Box<Expr>),
    /// Function whose type this expression names.
    Function(TokenStream),
}

impl TraitCall {
    /// Returns the position of a call.
    pub(crate) fn position(expr: &Expr) -> Option<CallAt> {
        match expr {
            Expr::MethodCall(call) => Some((unraw(&call.method), position(call.method.span()))),
            Expr::Call(call) => position_of_call(call),
            _ => None,
        }
    }

    /// Returns the expression that notes the call.
    pub(crate) fn note(&self, rt: &TokenStream) -> TokenStream {
        match &self.callee {
            TraitCallee::Method(receiver) => {
                let (mark, hook) = (&self.marks[0], &self.marks[1]);
                let peeled = peeled(&receiver.to_token_stream(), rt);
                ours! {
                    #rt::note_method(&|| (#receiver).#mark(), || {
                        use #rt::by_type::*;
                        #peeled.#hook()
                    })
                }
            }
            TraitCallee::Function(tokens) => ours!(#rt::note_function(&|| #tokens)),
        }
    }
}

/// Returns the position of a call of a path.
pub(super) fn position_of_call(call: &ExprCall) -> Option<CallAt> {
    let Expr::Path(path) = &*call.func else {
        return None;
    };
    let last = path.path.segments.last()?;
    Some((unraw(&last.ident), position(last.ident.span())))
}

/// Returns a reference to the value behind references and pointers of the standard library.
fn peeled(value: &TokenStream, rt: &TokenStream) -> TokenStream {
    let peeled = (0..4).fold(ours!(&#value), |e, _| ours!((&&#rt::Probe(#e)).peel()));
    ours!((#peeled))
}

impl PurityVisitor<'_> {
    /// Notes a method of a value whose type may depend on the instance. Returns whether that is
    /// possible.
    pub(super) fn note_method(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Val,
        name: &str,
        what: &str,
        span: Span,
    ) -> bool {
        let at = (unraw(&call.method), position(call.method.span()));
        let noted = self.generic && self.is_once(&at) && is_place(&call.receiver);
        if !noted || at.0 != name {
            return false;
        }
        let marks = vec![mark_of(name), hook_of(name)];
        let chosen = receiver
            .tokens()
            .and_then(|e| self.chosen.get(&e.to_string()));
        if let Some(ty) = chosen.cloned() {
            self.ask_bounds(&ty, what, span);
        } else if let Some(e) = receiver.tokens() {
            let (rt, peeled) = (self.rt, peeled(e, self.rt));
            let (mark, hook) = (&marks[0], &marks[1]);
            let tokens = ours!(#rt::either((#e).#mark(), #peeled.#hook()));
            self.ask_callee(tokens, what, span, marks.clone());
        }
        self.push_noted(TraitCall {
            at,
            marks,
            callee: TraitCallee::Method(call.receiver.clone()),
        });
        true
    }

    /// Notes a call of a function of a type parameter. Returns whether the path is such a function.
    pub(super) fn note_function(&mut self, path: &ExprPath, what: &str) -> bool {
        let Some((name, tokens, marks)) = self.function_of_parameter(path) else {
            return false;
        };
        let span = path
            .path
            .segments
            .last()
            .map_or_else(Span::call_site, |s| s.ident.span());
        let at = (name, position(span));
        if !self.is_once(&at) {
            self.found(what, span, "it is not known to be traced", Remedy::Trace);
            return true;
        }
        let owner = match &path.qself {
            Some(qself) => qself.ty.to_token_stream().to_string(),
            None => unraw(&path.path.segments[0].ident),
        };
        match self.bounds.contains_key(&owner) {
            true => self.ask_bounds(&owner, what, span),
            false => self.ask_callee(tokens.clone(), what, span, marks.clone()),
        }
        let rt = self.rt;
        let tokens = ours!({ use #rt::by_type::*; #tokens });
        self.push_noted(TraitCall {
            at,
            marks,
            callee: TraitCallee::Function(tokens),
        });
        true
    }

    /// Asks whether one of the traits of a type parameter is traced.
    ///
    /// The constant beside a traced trait has its name, and it is the same for all instances.
    fn ask_bounds(&mut self, ty: &str, what: &str, span: Span) {
        let rt = self.rt;
        let bounds = self.bounds[ty].clone();
        let bounds = bounds
            .iter()
            .filter_map(|bound| self.importable(bound, Importable::Type));
        let answers = bounds.map(|bound| {
            ours! {{
                use #rt::unmarked::*;
                {
                    use #bound as __Trait;
                    __Trait
                }
            }}
        });
        match answers.reduce(|a, b| ours!(#rt::either(#a, #b))) {
            Some(tokens) => self.ask_callee(tokens, what, span, Vec::new()),
            None => {
                self.found(what, span, "it is not known to be traced", Remedy::Trace);
            }
        }
    }

    /// Returns the name of a function of a type parameter, and the expression whose type names it.
    fn function_of_parameter(&self, path: &ExprPath) -> Option<(String, TokenStream, Vec<Ident>)> {
        let last = path.path.segments.last()?;
        let name = unraw(&last.ident);
        let owner = match &path.qself {
            Some(qself) => qself.ty.to_token_stream().to_string(),
            None if path.path.segments.len() == 2 => unraw(&path.path.segments[0].ident),
            None => return None,
        };
        let rt = self.rt;
        if self.types.contains(&owner) {
            let (owner, hook) = (
                Ident::new(&owner, last.ident.span()),
                function_hook_of(&name),
            );
            let peeled = peeled(&ours!(#rt::some::<#owner>()), rt);
            return Some((name, ours!(#peeled.#hook()), vec![hook]));
        }
        // `Self` may be unsized in a trait, so the function is named directly.
        let of = self
            .in_trait
            .as_ref()
            .filter(|of| owner == "Self" && of.hooked.contains(&name))?;
        let (OfTrait { path, .. }, function) = (of, &last.ident);
        let tokens = ours!(#rt::trait_function(&<Self as #path>::#function));
        Some((name, tokens, Vec::new()))
    }

    fn is_once(&self, at: &CallAt) -> bool {
        self.places.get(at) == Some(&1)
    }

    fn push_noted(&mut self, call: TraitCall) {
        if !self.noted.iter().any(|noted| noted.at == call.at) {
            self.noted.push(call);
        }
    }
}

/// Returns whether an expression is a place that may be named twice.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(e) => is_place(&e.base),
        Expr::Paren(e) => is_place(&e.expr),
        Expr::Reference(e) => e.mutability.is_none() && is_place(&e.expr),
        Expr::Unary(e) => matches!(e.op, UnOp::Deref(_)) && is_place(&e.expr),
        Expr::Index(e) => is_place(&e.expr) && matches!(&*e.index, Expr::Lit(_) | Expr::Path(_)),
        _ => false,
    }
}
