//! Expands a traced trait: hooks for generic callers, and default bodies.

use super::attributes::refuse_second;
use super::item::{UserItem, emit_body};
use super::methods::gives_tensors;
use crate::emit::names::allow;
use crate::emit::paths;
use crate::input::args::Args;
use crate::input::generic::Params;
use crate::input::{
    OfTrait, Owner, TraitPlace, is_traced, lint_attributes, unraw, without_helpers,
};
use crate::purity::{function_hook_of, hook_of};
use crate::report::Errors;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use syn::{GenericParam, ItemTrait, TraitItem, TraitItemFn};

/// Returns the trait with a hook for each function that computes with tensors.
///
/// The hooks have default bodies and no constants, so that any type can implement the trait, and
/// there can be trait objects.
pub(super) fn traced_trait(mut item: ItemTrait, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut item.attrs, errors);
    refuse_options(args, errors);
    let rt = paths::run_time(args);
    let (path, generics) = (path(&item), item.generics.clone());
    let hooked = item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(function) if has_hook(function) => Some(unraw(&function.sig.ident)),
        _ => None,
    });
    let of_trait = OfTrait {
        path,
        place: TraitPlace::Default,
        hooked: hooked.collect(),
    };
    let owner = Owner {
        self_ty: syn::parse_quote!(Self),
        generics,
        of_trait: Some(of_trait.clone()),
        of_numbers: BTreeMap::new(),
    };
    let mut hooks = TokenStream::new();
    for item in &mut item.items {
        let TraitItem::Fn(function) = item else {
            continue;
        };
        if has_hook(function) {
            hooks.extend(hooks_of(function, &owner, &of_trait, &rt));
        }
        let marked = function.attrs.iter().any(is_traced);
        function.attrs.retain(|attr| !is_traced(attr));
        let TraitItemFn {
            attrs,
            sig,
            default: Some(block),
            ..
        } = function
        else {
            without_helpers(&mut function.sig);
            continue;
        };
        if !marked && !gives_tensors(sig) {
            continue;
        }
        let mut written = UserItem::default_method(sig, attrs, block);
        let mut func = written.read(Some(owner.clone()), errors);
        match func.sound {
            true => emit_body(&mut func, written, args, &rt, errors),
            false => written.leave(),
        }
    }
    if hooks.is_empty() && errors.is_empty() {
        errors.push(
            &item.ident,
            "no method here without type parameters takes tensors or a receiver and has `Tensor` in its result type, so there is nothing to trace; remove `#[traced]`",
        );
    }
    item.items.push(TraitItem::Verbatim(hooks));
    let (vis, name, allow) = (&item.vis, &item.ident, allow());
    let attrs = lint_attributes(&item.attrs);
    // A constant, which is imported with the trait.
    quote! {
        #item

        #(#attrs)*
        #allow
        #[doc(hidden)]
        #vis const #name: #rt::TraitMethod = #rt::TraitMethod::TRAIT;
    }
}

fn refuse_options(args: &Args, errors: &mut Errors) {
    let message = "a trait has no companions; move this option to the impls";
    if let Some(returns) = &args.returns {
        errors.push(returns, message);
    }
    if args.order.is_some() || args.selftest.is_some() {
        errors.push_at(proc_macro2::Span::call_site(), message);
    }
}

/// Returns the path of the trait with its own generic parameters.
fn path(item: &ItemTrait) -> syn::Path {
    let (name, (_, arguments, _)) = (&item.ident, item.generics.split_for_impl());
    syn::parse_quote!(#name #arguments)
}

/// Returns whether callers can note calls of a function.
///
/// The type of a generic function depends on the call.
fn has_hook(function: &TraitItemFn) -> bool {
    let marked = function.attrs.iter().any(is_traced);
    (marked || gives_tensors(&function.sig)) && !Params::new([&function.sig.generics]).decide()
}

/// Returns the hooks of a function.
fn hooks_of(
    function: &TraitItemFn,
    owner: &Owner,
    of_trait: &OfTrait,
    rt: &TokenStream,
) -> TokenStream {
    let (name, path) = (&function.sig.ident, &of_trait.path);
    let named = |hook: Ident| Ident::new(&hook.to_string(), name.span());
    let own = ours!(<Self as #path>::#name);
    let (allow, bounds) = (allow(), &function.sig.generics.where_clause);
    let predicates = bounds.iter().flat_map(|bounds| &bounds.predicates);
    let method = function.sig.receiver().map(|_| {
        let hook = named(hook_of(&unraw(name)));
        quote! {
            #allow
            #[doc(hidden)]
            #[inline]
            fn #hook(&self) -> #rt::TraitMethod #bounds { #rt::trait_method(&#own) }
        }
    });
    let hook = named(function_hook_of(&unraw(name)));
    let captured = owner.generics.params.iter().map(|param| match param {
        GenericParam::Type(ty) => ty.ident.to_token_stream(),
        GenericParam::Const(value) => value.ident.to_token_stream(),
        GenericParam::Lifetime(lifetime) => lifetime.lifetime.to_token_stream(),
    });
    let captured: Vec<TokenStream> = captured.collect();
    let (lifetimes, others): (Vec<_>, Vec<_>) = captured
        .into_iter()
        .partition(|param| param.to_string().starts_with('\''));
    ours! {
        #method

        #allow
        #[doc(hidden)]
        fn #hook(&self) -> impl #rt::TraitCallee + use<#(#lifetimes,)* Self, #(#others),*>
        where
            Self: ::core::marker::Sized,
            #(#predicates,)*
        {
            #rt::trait_function(&#own)
        }
    }
}
