//! What types say of the calls of a function: which instance is called, and whether a key can hold what calls differ in.

use super::{Purity, StaticCall};
use crate::expand::cx::turbofish;
use crate::expand::names::Names;
use crate::parse::{Func, Kind, Param, text};
use crate::purity::is_known;
use crate::warn::Cause;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Path, Type};

impl StaticCall<'_> {
    /// Whether a key can hold the constants and statics. They do not change, so it need not.
    pub(super) fn globals_fit(&self) -> TokenStream {
        let fit = self.globals.iter().map(|global| self.fits(global));
        ours!(#(#fit)&&*)
    }

    fn fits(&self, global: &Path) -> TokenStream {
        let p = self.p;
        ours! {
            #p::global_fits(&|| {
                use #p::by_type::*;
                (&&&&#p::StaticArg(&#global)).fits_in_key()
            })
        }
    }

    /// Why a call does more than compute, as a constant. What the macro does not know rustc decides by types.
    pub(in crate::expand) fn impure(&self) -> TokenStream {
        match &self.purity {
            Purity::Impure(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Pure(..) => first_misfit(self.misfits_of_globals()),
        }
    }

    /// Why a call has no key although it only computes, as a constant. It is so if the types do not depend on the instance.
    pub(in crate::expand) fn siteless(&self) -> TokenStream {
        match &self.purity {
            Purity::Pure(why, _) => ours!(::core::option::Option::Some(#why)),
            Purity::Static | Purity::Impure(..) => first_misfit(self.misfits_of_params()),
        }
    }

    /// What rustc knows to fit in a key or not.
    pub(super) fn misfits(&self) -> Vec<Cause> {
        let globals = self.misfits_of_globals();
        globals
            .into_iter()
            .chain(self.misfits_of_params())
            .collect()
    }

    fn misfits_of_globals(&self) -> Vec<Cause> {
        let causes = self.globals.iter().map(|global| {
            let name = text(global);
            Cause {
                why: format!(
                    "`{name}` may be written to or hold a tensor, as far as its type says: it is not `Eq` and `Clone`; derive them, or pass the value as an argument"
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
                    (&&&&#p::StaticArg(#x)).fits_in_key()
                })
            };
            Cause {
                why: format!(
                    "`{name}` cannot be compared with that of a call before: its type is not `Eq` and `Clone`; derive them for the type of `{name}`"
                ),
                span: param.ident.span(),
                unless: Some(fits),
            }
        });
        causes.collect()
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

/// The reason of the first that does not fit in a key.
fn first_misfit(causes: Vec<Cause>) -> TokenStream {
    let misfits = causes.iter().map(|cause| (&cause.unless, &cause.why));
    let (fit, why): (Vec<_>, Vec<_>) = misfits.unzip();
    match fit.is_empty() {
        true => ours!(::core::option::Option::None),
        false => ours! {
            #(if !#fit { ::core::option::Option::Some(#why) } else)* {
                ::core::option::Option::None
            }
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
