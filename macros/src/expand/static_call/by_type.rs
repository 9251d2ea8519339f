//! What types say of the calls of a function: which instance is called, and whether a key can hold what calls differ in.

use super::StaticCall;
use crate::expand::cx::turbofish;
use crate::expand::names::Names;
use crate::parse::{Func, Kind, Param, text};
use crate::purity::is_known;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
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

    /// `RECORDED`. What the macro does not know rustc decides by types, where the types do not depend on the instance.
    pub(in crate::expand) fn why(&self) -> TokenStream {
        if let Some(why) = self.recorded() {
            return ours!(::core::option::Option::Some(#why));
        }
        let p = self.p;
        let globals = self.globals.iter().map(|global| {
            let why = format!(
                "`{}` may be written to or hold a tensor, as far as its type says: it is not `Eq` and `Clone`",
                text(global)
            );
            (self.fits(global), why)
        });
        let generics = self.func.generics();
        let params = self.func.params.iter().filter(|param| {
            let fixed = matches!(param.kind, Kind::Static { .. });
            fixed && !is_known(&param.owned) && generics.fix(&param.owned)
        });
        let params = params.map(|param| {
            let (ty, x) = (&param.owned, Ident::new("x", Span::mixed_site()));
            let why = format!(
                "`{}` cannot be compared with that of a call before: its type is not `Eq` and `Clone`",
                param.name
            );
            let fits = ours! {
                #p::argument_fits(&|#x: &#ty| {
                    use #p::by_type::*;
                    (&&&&#p::StaticArg(#x)).fits_in_key()
                })
            };
            (fits, why)
        });
        let (fit, why): (Vec<_>, Vec<_>) = globals.chain(params).unzip();
        let unkept = self.unkept();
        match fit.is_empty() {
            true => unkept,
            false => ours! {
                #(if !#fit { ::core::option::Option::Some(#why) } else)* { #unkept }
            },
        }
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

/// Why the types of the parameters and of the result do not say all that a key needs.
pub(super) fn siteless(func: &Func) -> Option<String> {
    let generics = func.generics();
    let unknown = |p: &&Param| {
        let fixed = matches!(p.kind, Kind::Static { .. });
        p.pattern || (fixed && generics.may_borrow(&p.owned))
    };
    let why = |what: String, ty: &Type| match generics.borrower(ty) {
        Some(name) => format!(
            "`{name}` may borrow; with the bound `{name}: 'static` a call like one before finds its plan"
        ),
        None => format!("{what} does not say what its calls have in common"),
    };
    if let Some(param) = func.params.iter().find(unknown) {
        return Some(why(format!("the type of `{}`", param.name), &param.owned));
    }
    let (ty, shape) = (&func.output.ty, &func.output.shape);
    let known = shape.is_known() || !generics.may_borrow(ty);
    (!known).then(|| why(format!("`{}`", text(ty)), ty))
}
