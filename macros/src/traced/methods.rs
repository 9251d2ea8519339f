//! Expands a traced impl block.

use super::attributes::refuse_second;
use super::item::{self, UserItem, emit, tests};
use crate::emit::paths;
use crate::input;
use crate::input::Owner;
use crate::input::annotation::declare;
use crate::input::args::Args;
use crate::input::fallback;
use crate::input::is_traced;
use crate::input::order;
use crate::input::{Kind, classify};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemImpl, ReceiverKind, Type};

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
    let (mut associated, mut items, mut any) = (TokenStream::new(), TokenStream::new(), false);
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
            if builds(method) {
                let [facts, beside] = item::builder(method, owner.clone(), args, &rt);
                associated.extend(facts);
                items.extend(beside);
            }
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
        crate::feature::dump::dump(&func, &emitted.body, || {
            let (associated, items) = (&emitted.associated, &emitted.items);
            let self_ty = &imp.self_ty;
            quote!(impl #self_ty { #associated } #items)
        });
        items.extend(emitted.warnings);
        associated.extend(emitted.beside);
        associated.extend(emitted.associated);
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
            "no method here takes and returns tensors or trees, so none is traced; write `#[traced]` on a method to trace it, or remove this one",
        );
    }
    imp.items.iter_mut().for_each(fallback::print_method);
    imp.items.push(ImplItem::Verbatim(associated));
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
            // A method that may return no tree is traced only if it is marked.
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
/// tensors or what is probably a tree.
fn computes(method: &ImplItemFn) -> bool {
    let syn::ReturnType::Type(_, output) = &method.sig.output else {
        return false;
    };
    let mut receives = false;
    let mut tensors = false;
    let mut writes = false;
    for input in &method.sig.inputs {
        match input {
            FnArg::Receiver(r) => {
                receives = true;
                writes |= matches!(&r.kind, ReceiverKind::Reference(_, _, Some(_)));
            }
            FnArg::Typed(p) => {
                // Only parameters of traced functions have such attributes.
                tensors |= mentions(&p.ty, &["Tensor"]) || p.attrs.iter().any(is_helper);
                writes |= matches!(&*p.ty, Type::Reference(r) if r.mutability.is_some());
            }
        }
    }
    if mentions(output, &["Tensor"]) {
        return receives || tensors;
    }
    if writes || matches!(&**output, Type::Reference(_) | Type::ImplTrait(_)) {
        return false;
    }
    match mentions(output, &["Self"]) {
        true => receives || tensors,
        false => tensors && may_be_tree(output, method),
    }
}

/// Returns whether a function makes a value of the type from no tensors, or what is probably a tree
/// from the receiver and no other tensors.
fn builds(method: &ImplItemFn) -> bool {
    let syn::ReturnType::Type(_, output) = &method.sig.output else {
        return false;
    };
    let mut receives = false;
    let plain = method.sig.inputs.iter().all(|input| match input {
        FnArg::Receiver(r) => {
            receives = true;
            matches!(&r.kind, ReceiverKind::Reference(_, None, None))
        }
        FnArg::Typed(p) => is_static(&p.ty),
    });
    let makes = match receives {
        true => may_be_tree(output, method),
        false => mentions(output, &["Self"]),
    };
    plain && makes && method.sig.generics.params.is_empty()
}

fn is_helper(attr: &Attribute) -> bool {
    ["nodiff", "shape", "fixed"]
        .iter()
        .any(|helper| attr.path().is_ident(helper))
}

/// Returns whether a type mentions a type by one of these names.
fn mentions(ty: &Type, names: &[&str]) -> bool {
    struct Mention<'a>(&'a [&'a str], bool);
    impl<'ast> syn::visit::Visit<'ast> for Mention<'_> {
        fn visit_type_path(&mut self, p: &'ast syn::TypePath) {
            let last = p.path.segments.last();
            self.1 |= last.is_some_and(|s| self.0.iter().any(|name| s.ident == name));
            syn::visit::visit_type_path(self, p);
        }
    }
    let mut found = Mention(names, false);
    syn::visit::Visit::visit_type(&mut found, ty);
    found.1
}

/// Types of the standard library that are never trees.
const NEVER_TREES: [&str; 8] = [
    "BTreeSet", "Cow", "Duration", "HashMap", "HashSet", "Instant", "PathBuf", "Rc",
];

/// Returns whether the result type of a method may be a tree of the user's.
fn may_be_tree(ty: &Type, method: &ImplItemFn) -> bool {
    let parameters = method.sig.generics.type_params();
    let parameters: Vec<String> = parameters.map(|p| p.ident.to_string()).collect();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let is_static = match peel_result(ty) {
        Type::Tuple(tuple) => tuple.elems.iter().any(is_static),
        ty => is_static(ty),
    };
    !is_static && !mentions(ty, &NEVER_TREES) && !mentions(ty, &parameters)
}

fn is_static(ty: &Type) -> bool {
    let kind = classify(ty, &mut Errors::default());
    matches!(kind, Kind::Static { .. })
}

/// Returns the type in a `Result`.
fn peel_result(ty: &Type) -> &Type {
    if let Type::Path(path) = ty
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
        && let syn::PathArguments::AngleBracketed(args) = &last.arguments
        && let Some(syn::GenericArgument::Type(inner)) = args.args.first()
    {
        return inner;
    }
    ty
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
