//! Emits the path and the parameters of a function, for reports and messages of the run time.

use super::{CachedCallEmitter, Purity};
use crate::emit::cx::reference;
use crate::emit::names::ItemNames;
use crate::emit::vmap::in_axes;
use crate::input::{Kind, NUMBERS, TraitPlace, text};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use syn::Type;

/// Function that users call.
#[derive(Clone, Copy)]
pub(crate) enum Companion {
    /// The user's function.
    Function,
    /// `vjp`.
    Reverse,
    /// `jvp`.
    Forward,
    /// `grad` and `value_and_grad`.
    Gradients,
    /// `hvp`.
    Hvp,
    /// `vmap`.
    Lanes,
}

impl CachedCallEmitter<'_> {
    /// Returns the path, as in `model::Net::forward_vjp` or `model::loss::vjp`.
    fn path(&self, companion: Companion) -> String {
        let (n, function) = (ItemNames::new(self.func), text(&self.func.sig.ident));
        let name = match companion {
            Companion::Function => None,
            Companion::Reverse => Some(n.vjp),
            Companion::Forward => Some(n.jvp),
            Companion::Gradients => Some(n.value_and_grad),
            Companion::Hvp => Some(n.hvp),
            Companion::Lanes => Some(n.vmap),
        };
        let path = match (&self.func.owner, name) {
            (None, None) => function,
            (None, Some(name)) => format!("{function}::{name}"),
            (Some(owner), name) => {
                let name = name.map_or(function, |name| name.to_string());
                let of = self.func.of_trait();
                match of.filter(|of| of.place == TraitPlace::Default) {
                    Some(of) => format!("{}::{name}", text(&of.path)),
                    None => format!("{}::{name}", text(&owner.self_ty)),
                }
            }
        };
        format!("::{path}")
    }

    /// Returns [`Self::path`] after that of the user's module.
    pub(super) fn full_path(&self, companion: Companion) -> TokenStream {
        let path = self.path(companion);
        ours!(::core::concat!(::core::module_path!(), #path))
    }

    /// Returns the constructor of a function's description, its path, and its parameters with their
    /// positions, kinds, names and values.
    pub(super) fn facts(&self, companion: Companion) -> TokenStream {
        let (rt, path) = (self.rt, self.path(companion));
        let params = self.func.params.iter().enumerate().map(|(i, param)| {
            let (name, x) = (param.shown_name(), reference(param));
            let (kind, x) = match (param.kind, &param.view, companion) {
                // The function has the view that its caller gave, a companion a reference to an owned tree.
                (Kind::Tree, Some(view), Companion::Function) => {
                    let parts = view.add_to_key(&ours!((&#x)), rt);
                    (ours!(view), ours!(|key| { #parts }))
                }
                (Kind::Tensor, ..) => (ours!(leaf), x),
                (Kind::Tree, ..) => (ours!(tree), x),
                (Kind::Static { .. }, ..) if self.numbers.params.contains(&i) => {
                    (ours!(operand), x)
                }
                (Kind::Static { .. }, ..) if is_number(&param.owned) => (ours!(number), x),
                (Kind::Static { .. }, ..) => (ours!(fixed), x),
            };
            let i = Literal::usize_unsuffixed(i);
            ours!(#i #kind #name #x)
        });
        let axes = matches!(companion, Companion::Lanes).then(|| {
            let (i, axes) = (Literal::usize_unsuffixed(self.func.params.len()), in_axes());
            ours!(#i fixed "in_axes" &#axes)
        });
        let params = params.chain(axes);
        let new = match self.promised {
            false => ours!(new),
            true => ours!(promised),
        };
        let values = self.numbers.values.iter().map(|value| {
            let (of, tokens) = (Literal::u64_unsuffixed(value.params), &value.tokens);
            ours!(#of #tokens)
        });
        let values: Vec<TokenStream> = values.collect();
        let values = (!values.is_empty()).then(|| ours!(, values [#(#values),*]));
        ours!(#new #path, [#(#params),*] #values)
    }

    /// Returns the statement at the beginning of a call that is recorded each time.
    pub(super) fn count(&self, companion: Companion) -> TokenStream {
        let (rt, path) = (self.rt, self.full_path(companion));
        let call = Ident::new("_call", Span::mixed_site());
        let mark = self.mark();
        match &self.purity {
            Purity::Static => mark,
            Purity::Pure(why, _) => ours!(#mark let #call = #rt::record_call(#path, #why);),
            Purity::Impurity(why, _) => ours!(let #call = #rt::record_impure(#path, #why);),
        }
    }
}

/// Returns whether a type is a number, which could be passed as a tensor.
fn is_number(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_number(&r.elem),
        Type::Paren(p) => is_number(&p.elem),
        Type::Group(g) => is_number(&g.elem),
        Type::Path(p) => NUMBERS.iter().any(|name| p.path.is_ident(name)),
        _ => false,
    }
}
