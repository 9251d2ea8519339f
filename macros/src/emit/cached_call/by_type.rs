//! Emits what rustc decides by types: the instance that is called, and whether a key can tell calls
//! apart.

use super::Cause;
use super::{CachedCallEmitter, Purity};
use crate::emit::cx::{EmitCx, turbofish};
use crate::emit::names::ItemNames;
use crate::input::generic::is_known;
use crate::input::generic::{Params, names_in, without_lifetimes};
use crate::input::{Func, Kind, Param, text};
use crate::purity::{MAY_HAVE_EFFECTS, Question, is_hook, mark_of};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::{Path, Type};

impl CachedCallEmitter<'_> {
    /// Returns whether nothing depends on a query to rustc.
    pub(super) fn is_settled(&self) -> bool {
        self.globals.is_empty() && self.n_asked() == 0
    }

    /// Returns a condition, decided by types, for calls to reuse plans.
    ///
    /// It holds if the constants and statics are of types that a key can store, and if rustc has
    /// confirmed that the body is pure.
    pub(super) fn fit(&self) -> TokenStream {
        let fit = self.globals.iter().map(|global| self.fits(global));
        let n = self.n_asked();
        let confirmed = (n > 0).then(|| match self.has_constant() {
            true => {
                let (owner, name) = (self.owner(), ItemNames::new(self.func).pure);
                ours!(#owner::#name)
            }
            false => {
                let answers = self.answers();
                ours!(const { #answers == #n })
            }
        });
        let fit = fit.chain(confirmed);
        ours!(#(#fit)&&*)
    }

    /// Returns the constant that holds the reason why [`Self::fit`] does not hold, as far as it is the same
    /// for all instances of a generic function.
    pub(super) fn known_reason(&self) -> TokenStream {
        match self.func.has_companions() {
            true => {
                let (owner, own) = (self.owner(), ItemNames::new(self.func).own_facts);
                ours!(#owner::#own.impure)
            }
            false => ours!(::core::option::Option::None),
        }
    }

    /// Returns the number of queries.
    fn n_asked(&self) -> usize {
        self.questions.len() + self.asked.as_ref().map_or(0, |asked| asked.n)
    }

    /// Returns the reason and the token of each query, in the order in which they are counted.
    fn reasons(&self) -> impl Iterator<Item = (&String, Span)> {
        let questions = self.questions.iter().map(|q| (&q.why, q.span));
        let spots = self.asked.iter().flat_map(|asked| &asked.spots);
        questions.chain(spots.map(|spot| (&spot.why, spot.span)))
    }

    /// Returns the number of queries that rustc confirms before the first that it does not.
    fn answers(&self) -> TokenStream {
        if !self.func.has_companions() {
            return self.count_answers();
        }
        let owner = self.owner();
        let generics = self.answers_differ().then(|| turbofish(self.func));
        let name = ItemNames::new(self.func).answers;
        ours!(#owner::#name #generics())
    }

    /// Returns whether the answers depend on the instance of a generic function.
    fn answers_differ(&self) -> bool {
        let generics = &self.func.sig.generics;
        (self.questions.iter()).any(|question| names_in(generics, &question.tokens))
            || self.asked.is_some() && Params::new([generics]).decide()
    }

    /// Returns whether a constant beside the companions says that rustc confirms all queries.
    fn has_constant(&self) -> bool {
        self.func.has_companions() && !self.answers_differ()
    }

    fn owner(&self) -> TokenStream {
        match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(_) => ours!(Self),
        }
    }

    /// Returns the items that query rustc, and the marker by which others query whether the
    /// function is `#[traced]`.
    pub(crate) fn asking(&self, cx: &EmitCx<'_>) -> TokenStream {
        let rt = self.rt;
        let mark = self.func.owner.as_ref().map(|_| {
            let (vis, mark) = (&self.func.vis, mark_of(&self.func.name()));
            let marker = cx.marker(ours!(Self));
            ours! {
                #[doc(hidden)]
                #vis fn #mark(&self) -> #rt::Marker<#marker> {
                    loop {}
                }
            }
        });
        if self.n_asked() == 0 {
            return mark.unwrap_or_default();
        }
        let name = ItemNames::new(self.func).answers;
        let signature = match self.answers_differ() {
            true => cx.signature(&name, &[], &ours!(usize)),
            false => ours!(fn #name() -> usize),
        };
        let (count, n) = (self.count_answers(), self.n_asked());
        let pure = self.has_constant().then(|| {
            let pure = ItemNames::new(self.func).pure;
            ours!(#[doc(hidden)] const #pure: bool = Self::#name() == #n;)
        });
        let copy = self.asked.as_ref().map(|asked| {
            let (mut sig, body) = (self.func.sig.clone(), asked.body(self.func, rt));
            sig.ident = ItemNames::new(self.func).spots;
            sig.output = syn::parse_quote!(-> impl #rt::Answers);
            ours! {
                #[doc(hidden)]
                #[allow(warnings, clippy::all)]
                #sig { #body }
            }
        });
        ours! {
            #mark

            #copy

            #pure

            #[doc(hidden)]
            #[allow(warnings, overflowing_literals, arithmetic_overflow, unconditional_panic, clippy::all)]
            const #signature {
                #count
            }
        }
    }

    /// Returns the expression that counts confirmed queries.
    fn count_answers(&self) -> TokenStream {
        let rt = self.rt;
        let last = match &self.asked {
            None => ours!(0),
            Some(_) => {
                let (owner, generics) = (self.owner(), turbofish(self.func));
                let name = ItemNames::new(self.func).spots;
                let never = self.func.sig.inputs.iter().map(|_| ours!(loop {}));
                ours!(#rt::n_yes(&|| #owner::#name #generics(#(#never),*)))
            }
        };
        count_confirmed(&self.questions.iter().collect::<Vec<_>>(), last, rt)
    }

    /// Returns the queries about callees whose answers are the same for all instances of a generic
    /// function, and the number of those that rustc confirms before the first that it does not.
    fn fixed_answers(&self) -> (Vec<&Question>, TokenStream) {
        let generics = &self.func.sig.generics;
        let fixed = self
            .questions
            .iter()
            .filter(|question| question.callee.is_some() && !names_in(generics, &question.tokens));
        let fixed: Vec<&Question> = fixed.collect();
        let count = count_confirmed(&fixed, ours!(0), self.rt);
        (fixed, count)
    }

    fn fits(&self, global: &Path) -> TokenStream {
        let rt = self.rt;
        ours! {
            #rt::global_fits(&|| {
                use #rt::by_type::*;
                (&&&&&#rt::StaticArg(&#global)).fits_in_key()
            })
        }
    }

    /// Returns a constant expression: the reason why a call has side effects, or `None`.
    ///
    /// rustc decides by types what the macro cannot.
    pub(crate) fn impure(&self) -> TokenStream {
        match &self.purity {
            Purity::Impurity(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Pure(..) => {
                first_misfit(self.misfits_of_globals(), &self.why_not_confirmed())
            }
        }
    }

    /// Returns a constant expression: the reason why a pure call cannot be cached, or `None`.
    ///
    /// Types that depend on generic parameters are not examined, so a call may still not be cached.
    pub(crate) fn siteless(&self) -> TokenStream {
        match &self.purity {
            Purity::Pure(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Impurity(..) => {
                let (rt, trees, unkept) = (self.rt, self.trees(), self.unkept());
                let rest = match trees.is_empty() {
                    true => unkept,
                    false => ours!(#rt::unkeyed!([#(#trees),*] #unkept)),
                };
                first_misfit(self.misfits_of_params(), &rest)
            }
        }
    }

    /// Returns the causes of recorded calls that rustc decides by types.
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
                    "`{name}` at line {line} may be mutable or hold a tensor, because its type is not `Eq` and `Clone`; derive them, or pass the value as an argument"
                ),
                span: global.span(),
                unless: Some(self.fits(global)),
            }
        });
        causes.collect()
    }

    fn misfits_of_params(&self) -> Vec<Cause> {
        let rt = self.rt;
        let generics = self.func.generics();
        let params = self.func.params.iter().filter(|param| {
            let fixed = matches!(param.kind, Kind::Static { .. });
            fixed && !is_known(&param.owned) && generics.fix(&param.owned)
        });
        let causes = params.map(|param| {
            let (ty, x) = (&param.owned, Ident::new("x", Span::mixed_site()));
            let name = &param.name;
            let fits = ours! {
                #rt::argument_fits(&|#x: &#ty| {
                    use #rt::by_type::*;
                    (&&&&&#rt::StaticArg(#x)).fits_in_key()
                })
            };
            Cause {
                why: format!(
                    "`{name}` cannot be part of a cache key: its type is not `Eq` and `Clone`, or is a function pointer or a cell; derive them for the type of `{name}`, or, if it has floats, `Tree` with `#[tree(skip)]` on its fields, or pass what it computes"
                ),
                span: param.ident.span(),
                unless: Some(fits),
            }
        });
        causes.collect()
    }

    /// Returns the types of the arguments that are trees of a known type.
    fn trees(&self) -> Vec<TokenStream> {
        let generics = self.func.generics();
        let trees = self.func.params.iter().filter(|param| {
            let is_tree = param.kind == Kind::Tree && param.view.is_none();
            is_tree && matches!(param.owned, Type::Path(_)) && generics.fix(&param.owned)
        });
        trees.map(|param| without_lifetimes(&param.owned)).collect()
    }

    /// Returns one cause per query, which applies if that query is the first that rustc does not
    /// confirm.
    ///
    /// Answers that depend on generic parameters are left out.
    fn refusals(&self) -> Vec<Cause> {
        let mut owners = self.func.owner.iter().map(|owner| &owner.generics);
        if owners.any(|owner| Params::new([owner]).decide()) {
            return Vec::new();
        }
        if self.answers_differ() {
            let (fixed, answers) = self.fixed_answers();
            let causes = fixed.iter().enumerate().map(|(i, question)| Cause {
                why: question.why.clone(),
                span: question.span,
                unless: Some(ours!((#answers != #i))),
            });
            return causes.collect();
        }
        let owner = match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(owner) => without_lifetimes(&owner.self_ty),
        };
        let name = ItemNames::new(self.func).answers;
        let causes = self.reasons().enumerate().map(|(i, (why, span))| Cause {
            why: why.clone(),
            span,
            unless: Some(ours!(<#owner>::#name() != #i)),
        });
        causes.collect()
    }

    /// Returns the reason why a call site cannot store the structure of the result, as far as its
    /// type says.
    fn unkept(&self) -> TokenStream {
        let (rt, out) = (self.rt, &self.func.output.ty);
        let generics = self.func.generics();
        match self.func.output.shape.is_known() || !generics.fix(out) || generics.may_borrow(out) {
            true => ours!(::core::option::Option::None),
            false => ours! {
                #rt::why_not_cached(&|| {
                    use #rt::by_type::*;
                    (&&#rt::OpaqueResult::<#out>(::core::marker::PhantomData)).result_shape()
                })
            },
        }
    }

    /// Returns the reason why the body is not pure, if rustc does not confirm that it is.
    ///
    /// Answers that depend on the instance of a generic function are left out, because a constant
    /// cannot hold them.
    fn why_not_confirmed(&self) -> TokenStream {
        let (why, answers): (Vec<&String>, TokenStream) = match self.answers_differ() {
            true => {
                let (fixed, answers) = self.fixed_answers();
                (
                    fixed.iter().map(|question| &question.why).collect(),
                    answers,
                )
            }
            false => {
                let why = self.reasons().map(|(why, _)| why).collect();
                (why, self.answers())
            }
        };
        if why.is_empty() {
            return ours!(::core::option::Option::None);
        }
        let rt = self.rt;
        // Reasons that follow each other often differ in the code alone.
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for why in why {
            let (code, rest) = why.split_at(why.find(MAY_HAVE_EFFECTS).unwrap_or(0));
            match groups.last_mut() {
                Some((last, codes)) if *last == rest => codes.push(code),
                _ => groups.push((rest, vec![code])),
            }
        }
        let groups = groups
            .into_iter()
            .map(|(rest, codes)| ours!(#rest: #(#codes),*));
        ours!(#rt::unconfirmed!(#answers, #(#groups);*))
    }

    /// Returns the instance of a generic function, which is part of a key.
    pub(super) fn instance(&self) -> Option<TokenStream> {
        if !self.func.generics().decide() {
            return None;
        }
        let (forward, generics) = (ItemNames::new(self.func).internal_fwd, turbofish(self.func));
        // The companions of a trait's method need not exist.
        let function = self.func.path_in_trait().unwrap_or_else(|| {
            let owner = self.owner();
            ours!(#owner::#forward)
        });
        Some(ours!(#function #generics))
    }
}

/// Returns the expression that counts the queries that rustc confirms before the first that it does
/// not, or all of them and `last`.
///
/// The answers are the types of closures that never run. The queries are split into chunks to limit
/// the depth of these types.
fn count_confirmed(questions: &[&Question], last: TokenStream, rt: &TokenStream) -> TokenStream {
    const AT_ONCE: usize = 24;
    let chunks = questions.chunks(AT_ONCE).map(|questions| {
        let n = Literal::usize_unsuffixed(questions.len());
        let unmarked = unmarked(questions.iter().flat_map(|q| &q.marks), rt);
        let tokens = questions.iter().map(|question| &question.tokens);
        ours!({ #unmarked } #n [#(#tokens),*])
    });
    ours!(#rt::answers!(#(#chunks)* #last))
}

/// Returns a trait that gives every type the methods that mark traced functions, with the answer
/// "no".
pub(crate) fn unmarked<'a>(
    marks: impl IntoIterator<Item = &'a Ident>,
    rt: &TokenStream,
) -> Option<TokenStream> {
    let marks: BTreeSet<&Ident> = marks.into_iter().collect();
    let (hooks, marks): (Vec<&Ident>, Vec<&Ident>) = marks.into_iter().partition(|m| is_hook(m));
    let marks = (!marks.is_empty()).then(|| {
        ours! {
            trait __Unmarked {
                #(fn #marks(&self) -> #rt::NotTraced { ::core::unreachable!() })*
            }
            impl<__T: ?::core::marker::Sized> __Unmarked for __T {}
        }
    });
    // Hooks are functions of traits, with which those of a trait for all types would be ambiguous.
    // A trait for references is found after them.
    let hooks = (!hooks.is_empty()).then(|| {
        ours! {
            trait __Unhooked {
                #(fn #hooks(&self) -> #rt::NotTraced { #rt::untraced_method() })*
            }
            impl<__T: ?::core::marker::Sized> __Unhooked for &__T {}
        }
    });
    (marks.is_some() || hooks.is_some()).then(|| ours!(#marks #hooks))
}

/// Returns the reason of the first cause that applies, or else `rest`.
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

/// Returns the reason why the types of the parameters and of the result do not allow a key.
///
/// Returns `None` if they do.
pub(super) fn siteless(func: &Func) -> Option<(String, Span)> {
    if !func.has_companions() {
        let why = "it has no companions, so it is cached with its traced callers only; call it from a traced function";
        return Some((why.to_owned(), func.sig.ident.span()));
    }
    let generics = func.generics();
    let unknown = |p: &&Param| {
        let fixed = matches!(p.kind, Kind::Static { .. });
        fixed && generics.may_borrow(&p.owned)
    };
    let why = |what: String, ty: &Type, otherwise: &str| match generics.borrower(ty) {
        Some(name) => {
            format!("`{name}` may borrow; with the bound `{name}: 'static` calls can reuse plans")
        }
        None => format!("no cache key can be formed from {what}; {otherwise}"),
    };
    if let Some(param) = func.params.iter().find(unknown) {
        let otherwise = "take a value that owns what it refers to";
        let what = format!("the type of `{}`", param.name);
        return Some((why(what, &param.owned, otherwise), param.ident.span()));
    }
    let (ty, shape) = (&func.output.ty, &func.output.shape);
    let known = shape.is_known() || !generics.may_borrow(ty);
    let otherwise = "return a value that owns what it refers to";
    (!known).then(|| (why(format!("`{}`", text(ty)), ty, otherwise), ty.span()))
}
