//! What types say of the calls of a function: which instance is called, and whether a key can hold what calls differ in.

use super::{Purity, StaticCall};
use crate::expand::cx::{Cx, turbofish};
use crate::expand::names::Names;
use crate::generic::{Params, names_in, without_lifetimes};
use crate::parse::{Func, Kind, Param, text};
use crate::purity::{Question, is_known, mark_of};
use crate::warn::Cause;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Path, Type};

impl StaticCall<'_> {
    /// Whether nothing is asked of rustc.
    pub(super) fn is_settled(&self) -> bool {
        self.globals.is_empty() && self.questions.is_empty()
    }

    /// Whether a key can hold the constants and statics, which do not change, so that it need not, and whether rustc has
    /// confirmed that the body is pure.
    pub(super) fn fit(&self) -> TokenStream {
        let fit = self.globals.iter().map(|global| self.fits(global));
        let n = self.questions.len();
        let confirmed = (n > 0).then(|| {
            let answers = self.answers();
            ours!(const { #answers == #n })
        });
        let fit = fit.chain(confirmed);
        ours!(#(#fit)&&*)
    }

    /// The number of questions that rustc answers with yes before the first that it does not.
    fn answers(&self) -> TokenStream {
        let owner = self.owner();
        let generics = self.answers_differ().then(|| turbofish(self.func));
        let name = Names::new(self.func).answers;
        ours!(#owner::#name #generics())
    }

    /// Whether the answers depend on the instance of a generic function.
    fn answers_differ(&self) -> bool {
        let generics = &self.func.sig.generics;
        (self.questions.iter()).any(|question| names_in(generics, &question.tokens))
    }

    fn owner(&self) -> TokenStream {
        match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(_) => ours!(Self),
        }
    }

    /// The items that ask rustc, and the mark by which others ask whether the function is traced.
    pub(in crate::expand) fn asking(&self, cx: &Cx<'_>) -> TokenStream {
        let p = self.p;
        let (head, _) = cx.associated();
        let mark = self.func.owner.as_ref().map(|_| {
            let (vis, mark) = (&self.func.vis, mark_of(&self.func.name()));
            let marker = cx.marker(ours!(Self));
            ours! {
                #head
                #[doc(hidden)]
                #vis fn #mark(&self) -> #p::Marker<#marker> {
                    ::core::unreachable!()
                }
            }
        });
        if self.questions.is_empty() {
            return mark.unwrap_or_default();
        }
        let name = Names::new(self.func).answers;
        let signature = match self.answers_differ() {
            true => cx.signature(&name, &[], &ours!(usize)),
            false => ours!(fn #name() -> usize),
        };
        let count = self.count_answers();
        ours! {
            #mark

            #head
            #[doc(hidden)]
            #[allow(warnings, overflowing_literals, arithmetic_overflow, unconditional_panic, clippy::all)]
            const #signature {
                #count
            }
        }
    }

    /// Closures that never run have the answers in their types: so many at once that their types are not too deep.
    fn count_answers(&self) -> TokenStream {
        const AT_ONCE: usize = 24;
        let p = self.p;
        let chunks: Vec<&[Question]> = self.questions.chunks(AT_ONCE).collect();
        let last = ours!(0usize);
        chunks.iter().rev().fold(last, |rest, questions| {
            let n = questions.len();
            let unmarked = unmarked(questions, p);
            let answers = questions.iter().rev().fold(ours!(()), |rest, question| {
                let tokens = &question.tokens;
                ours!((#tokens, #rest))
            });
            ours! {
                let n = #p::n_yes(&|| {
                    use #p::by_type::*;
                    #unmarked
                    #answers
                });
                if n < #n { n } else { #n + { #rest } }
            }
        })
    }

    fn fits(&self, global: &Path) -> TokenStream {
        let p = self.p;
        ours! {
            #p::global_fits(&|| {
                use #p::by_type::*;
                (&&&&&#p::StaticArg(&#global)).fits_in_key()
            })
        }
    }

    /// Why a call does more than compute, as a constant. What the macro does not know rustc decides by types.
    pub(in crate::expand) fn impure(&self) -> TokenStream {
        match &self.purity {
            Purity::Impure(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Pure(..) => {
                first_misfit(self.misfits_of_globals(), &self.why_not_confirmed())
            }
        }
    }

    /// Why a call has no key although it only computes, as a constant. It is so if the types do not depend on the instance.
    pub(in crate::expand) fn siteless(&self) -> TokenStream {
        match &self.purity {
            Purity::Pure(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Impure(..) => {
                first_misfit(self.misfits_of_params(), &self.unkept())
            }
        }
    }

    /// What rustc decides, by types, to make each call recorded.
    pub(super) fn misfits(&self) -> Vec<Cause> {
        let mut causes = self.misfits_of_globals();
        causes.extend(self.refusals());
        causes.extend(self.misfits_of_params());
        causes
    }

    fn misfits_of_globals(&self) -> Vec<Cause> {
        let causes = self.globals.iter().map(|global| {
            let (name, line) = (text(global), global.span().start().line);
            Cause {
                why: format!(
                    "`{name}` at line {line} may be written to or hold a tensor, as far as its type says: it is not `Eq` and `Clone`; derive them, or pass the value as an argument"
                ),
                span: global.span(),
                unless: Some(self.fits(global)),
            }
        });
        causes.collect()
    }

    fn misfits_of_params(&self) -> Vec<Cause> {
        let p = self.p;
        let generics = self.func.generics();
        let params = self.func.params.iter().filter(|param| {
            let fixed = matches!(param.kind, Kind::Static { .. });
            fixed && !is_known(&param.owned) && generics.fix(&param.owned)
        });
        let causes = params.map(|param| {
            let (ty, x) = (&param.owned, Ident::new("x", Span::mixed_site()));
            let name = &param.name;
            let fits = ours! {
                #p::argument_fits(&|#x: &#ty| {
                    use #p::by_type::*;
                    (&&&&&#p::StaticArg(#x)).fits_in_key()
                })
            };
            Cause {
                why: format!(
                    "`{name}` cannot be compared with that of a call before: its type is not `Eq` and `Clone`, or is a function pointer or a cell; derive them for the type of `{name}`, or pass what it computes"
                ),
                span: param.ident.span(),
                unless: Some(fits),
            }
        });
        causes.collect()
    }

    /// The questions that rustc answers with no, where the answers do not depend on the instance.
    fn refusals(&self) -> Vec<Cause> {
        let mut owners = self.func.owner.iter().map(|owner| &owner.generics);
        if owners.any(|owner| Params::of([owner]).decide()) || self.answers_differ() {
            return Vec::new();
        }
        let owner = match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(owner) => without_lifetimes(&owner.self_ty),
        };
        let name = Names::new(self.func).answers;
        let causes = self
            .questions
            .iter()
            .enumerate()
            .map(|(i, question)| Cause {
                why: question.why.clone(),
                span: question.span,
                unless: Some(ours!(<#owner>::#name() != #i)),
            });
        causes.collect()
    }

    /// Why a site cannot keep the structure of the result, as far as its type says.
    fn unkept(&self) -> TokenStream {
        let (p, out) = (self.p, &self.func.output.ty);
        let generics = self.func.generics();
        match self.func.output.shape.is_known() || !generics.fix(out) || generics.may_borrow(out) {
            true => ours!(::core::option::Option::None),
            false => ours! {
                #p::unkept(&|| {
                    use #p::by_type::*;
                    (&&#p::Whole::<#out>(::core::marker::PhantomData)).kept_shape()
                })
            },
        }
    }

    /// Returns why the body is not pure, as far as the answers do not depend on the instance of a generic function.
    fn why_not_confirmed(&self) -> TokenStream {
        if self.questions.is_empty() || self.answers_differ() {
            return ours!(::core::option::Option::None);
        }
        let (answers, n) = (self.answers(), 0..self.questions.len());
        let why = self.questions.iter().map(|question| &question.why);
        ours! {
            match #answers {
                #(#n => ::core::option::Option::Some(#why),)*
                _ => ::core::option::Option::None,
            }
        }
    }

    /// Adds the instance of a generic function to a key.
    pub(super) fn instance(&self, key: &Ident) -> Option<TokenStream> {
        if !self.func.generics().decide() {
            return None;
        }
        let (forward, generics) = (Names::new(self.func).hidden_fwd, turbofish(self.func));
        let owner = match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(_) => ours!(Self),
        };
        Some(ours!(#key.instance(&#owner::#forward #generics);))
    }
}

/// The marks of types that have none.
pub(in crate::expand) fn unmarked(questions: &[Question], p: &TokenStream) -> Option<TokenStream> {
    let mut marks: Vec<&Ident> = questions.iter().filter_map(|q| q.mark.as_ref()).collect();
    marks.sort();
    marks.dedup();
    (!marks.is_empty()).then(|| {
        ours! {
            trait __Unmarked {
                #(fn #marks(&self) -> #p::No { ::core::unreachable!() })*
            }
            impl<__T: ?::core::marker::Sized> __Unmarked for __T {}
        }
    })
}

/// The reason of the first that does not fit in a key, or else `rest`.
fn first_misfit(causes: Vec<Cause>, rest: &TokenStream) -> TokenStream {
    let misfits = causes.iter().map(|cause| (&cause.unless, &cause.why));
    let (fit, why): (Vec<_>, Vec<_>) = misfits.unzip();
    match fit.is_empty() {
        true => rest.clone(),
        false => ours! {
            #(if !#fit { ::core::option::Option::Some(#why) } else)* { #rest }
        },
    }
}

/// Why the types of the parameters and of the result do not say all that a key needs.
pub(super) fn siteless(func: &Func) -> Option<(String, Span)> {
    let generics = func.generics();
    let unknown = |p: &&Param| {
        let fixed = matches!(p.kind, Kind::Static { .. });
        p.pattern || (fixed && generics.may_borrow(&p.owned))
    };
    let why = |what: String, ty: &Type, otherwise: &str| match generics.borrower(ty) {
        Some(name) => format!(
            "`{name}` may borrow; with the bound `{name}: 'static` a call like one before finds its plan"
        ),
        None => format!("{what} does not say what its calls have in common; {otherwise}"),
    };
    if let Some(param) = func.params.iter().find(unknown) {
        let otherwise = match param.pattern {
            true => "name the parameter, and take it apart in the body",
            false => "take a value that owns what it refers to",
        };
        let what = match param.pattern {
            true => "a parameter that is a pattern".to_owned(),
            false => format!("the type of `{}`", param.name),
        };
        return Some((why(what, &param.owned, otherwise), param.ident.span()));
    }
    let (ty, shape) = (&func.output.ty, &func.output.shape);
    let known = shape.is_known() || !generics.may_borrow(ty);
    let otherwise = "return a value that owns what it refers to";
    (!known).then(|| (why(format!("`{}`", text(ty)), ty, otherwise), ty.span()))
}
