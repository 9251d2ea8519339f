//! Expands a traced impl block.

use super::attributes::refuse_second;
use super::item::{UserItem, emit, tests};
use crate::emit::paths;
use crate::input;
use crate::input::Owner;
use crate::input::annotation::declare;
use crate::input::args::Args;
use crate::input::fallback;
use crate::input::is_traced;
use crate::input::order;
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{ImplItem, ImplItemFn, ItemImpl, Type};

/// Returns the impl block with the companions of its methods.
pub(super) fn methods(mut imp: ItemImpl, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut imp.attrs, errors);
    if let Some((path, _)) = &imp.trait_ {
        errors.push(path, "the methods of a trait cannot be traced: companions would not belong to it; trace an inherent impl, and call that");
        strip(&mut imp);
        return imp.to_token_stream();
    }
    if let Some(returns) = &args.returns {
        errors.push(
            returns,
            "`returns` applies to one function; write `#[traced(returns(..))]` on the method",
        );
    }
    let args = &Args {
        returns: None,
        ..args.clone()
    };
    let rt = paths::run_time(args);
    let owner = Owner {
        self_ty: (*imp.self_ty).clone(),
        generics: imp.generics.clone(),
    };
    let (mut beside, mut items, mut any) = (TokenStream::new(), TokenStream::new(), false);
    let outer = input::lint_attributes(&imp.attrs);
    let mut traced = Vec::new();
    for item in &mut imp.items {
        let ImplItem::Fn(method) = item else { continue };
        let MethodOptions {
            args,
            marked,
            own_order,
        } = &of_method(method, args, errors);
        if !marked && !computes(method) {
            continue;
        }
        any = true;
        let mut written = UserItem::method(method);
        let mut func = written.read(Some(owner.clone()), errors);
        if !func.sound {
            written.leave();
            continue;
        }
        declare(&mut func, args.returns.as_ref(), errors);
        match *own_order {
            true => order::apply_to_function(&mut func, args.order.as_ref(), errors),
            false => order::apply_to_method(&mut func, args.order.as_ref()),
        }
        let emitted = emit(&func, written, args, &rt, &outer, errors);
        crate::feature::dump::dump(&func, &emitted.body, || emitted.items.clone());
        items.extend(emitted.warnings);
        beside.extend(emitted.beside);
        items.extend(emitted.items);
        traced.push(func);
    }
    crate::feature::dump::missed(&imp.self_ty, &traced);
    items.extend(tests(&traced.iter().collect::<Vec<_>>(), args, &rt, errors));
    if any {
        order::check_block(&traced, args.order.as_ref(), errors);
    }
    if !any && errors.is_empty() {
        errors.push(
            &imp.self_ty,
            "no method here has `Tensor` in its result type, so none is traced; write `#[traced]` on a method that returns another tree, or remove this one",
        );
    }
    imp.items.iter_mut().for_each(fallback::print_method);
    imp.items.push(ImplItem::Verbatim(beside));
    quote!(#imp #items)
}

/// Options of a method in a traced impl block.
struct MethodOptions {
    /// Options of the block, overridden by those of the method.
    args: Args,
    /// True if the method has its own `#[traced]`.
    marked: bool,
    /// True if that attribute sets `order`.
    own_order: bool,
}

/// Removes the `#[traced]` attributes of a method, and returns its options.
fn of_method(method: &mut ImplItemFn, block: &Args, errors: &mut Errors) -> MethodOptions {
    let mut found = MethodOptions {
        args: block.clone(),
        marked: false,
        own_order: false,
    };
    for attr in method.attrs.iter().filter(|a| is_traced(a)) {
        found.marked = true;
        let syn::Meta::List(list) = &attr.meta else {
            // A method that returns another tree is traced only if it is marked.
            if !computes(method) {
                continue;
            }
            errors.push(
                attr,
                "the impl block is `#[traced]` already; remove this one",
            );
            continue;
        };
        found.args = both(list, block, errors);
        found.own_order = found.args.order.is_some();
        found.args.order = found.args.order.or_else(|| block.order.clone());
    }
    method.attrs.retain(|a| !is_traced(a));
    found
}

/// Combines the options of the block with those of the method.
fn both(own: &syn::MetaList, block: &Args, errors: &mut Errors) -> Args {
    let own_args = Args::parse(own.tokens.clone(), errors);
    if own_args.krate.is_some() {
        errors.push(
            own,
            "`crate` applies to the whole impl block; move it to the block's `#[traced]`",
        );
    }
    if own_args.selftest.is_some() {
        errors.push(
            own,
            "`check` applies to the whole impl block; move it to the block's `#[traced]`",
        );
    }
    Args {
        krate: block.krate.clone(),
        record: block.record || own_args.record,
        pure: block.pure || own_args.pure,
        selftest: None,
        allow: [&block.allow[..], &own_args.allow[..]].concat(),
        returns: own_args.returns,
        order: own_args.order,
    }
}

/// Returns whether a method is traced by default: it takes a receiver or a tensor, and returns
/// tensors.
fn computes(method: &ImplItemFn) -> bool {
    struct TensorMention(bool);
    impl<'ast> syn::visit::Visit<'ast> for TensorMention {
        fn visit_type_path(&mut self, p: &'ast syn::TypePath) {
            self.0 |= p.path.segments.last().is_some_and(|s| s.ident == "Tensor");
            syn::visit::visit_type_path(self, p);
        }
    }
    let mentions = |ty: &Type| {
        let mut found = TensorMention(false);
        syn::visit::Visit::visit_type(&mut found, ty);
        found.0
    };
    let returns = match &method.sig.output {
        syn::ReturnType::Type(_, ty) => mentions(ty),
        syn::ReturnType::Default => false,
    };
    let takes = method.sig.inputs.iter().any(|i| match i {
        syn::FnArg::Receiver(_) => true,
        syn::FnArg::Typed(p) => mentions(&p.ty),
    });
    returns && takes
}

/// Removes the helper attributes of an impl block that is emitted as it is.
fn strip(imp: &mut ItemImpl) {
    for item in &mut imp.items {
        if let ImplItem::Fn(method) = item {
            input::signature(
                &method.vis,
                &method.attrs,
                &mut method.sig,
                None,
                &mut Errors::default(),
            );
        }
    }
}
