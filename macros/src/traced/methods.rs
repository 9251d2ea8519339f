//! Expands a traced impl block.

use super::attributes::refuse_second;
use super::item::{self, UserItem, emit, emit_body, tests};
use crate::emit::names::allow;
use crate::emit::paths;
use crate::input;
use crate::input::annotation::declare;
use crate::input::args::Args;
use crate::input::fallback;
use crate::input::generic::Params;
use crate::input::{Func, Kind, OfTrait, Owner, TraitPlace, classify};
use crate::input::{is_traced, unraw};
use crate::input::{order, rule};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeMap;
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemImpl, ReceiverKind, Signature, Type};

/// Returns the impl block with the companions of its methods.
pub(super) fn methods(mut imp: ItemImpl, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut imp.attrs, errors);
    qualify(&mut imp);
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
        of_trait: None,
        of_numbers: of_numbers(&imp),
    };
    let own = own_names(&imp.self_ty);
    let companions_fit = companions_fit(&imp);
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
        let inherent = imp.trait_.is_none();
        let computes = match &imp.trait_ {
            None => computes(&method.sig, &own),
            Some((path, _)) => gives_tensors(&method.sig) || is_operator(path),
        };
        if !marked && !computes {
            let name = unraw(&method.sig.ident);
            let reads =
                owner.of_numbers.contains_key(&name) && method.sig.generics.params.is_empty();
            if inherent && (reads || builds(&method.sig, &own)) {
                items.extend(item::builder(method, owner.clone(), args, &rt));
            }
            continue;
        }
        any = true;
        let of_trait = imp.trait_.as_ref().map(|(path, _)| OfTrait {
            path: path.clone(),
            place: match companions_fit && !delegates(method, &imp.self_ty) {
                true => TraitPlace::Impl,
                false => TraitPlace::ForeignImpl,
            },
            hooked: Vec::new(),
        });
        let owner = Owner {
            of_trait,
            ..owner.clone()
        };
        let mut written = UserItem::method(method);
        let mut func = written.read(Some(owner), errors);
        if !func.sound {
            written.leave();
            continue;
        }
        if !func.has_companions() {
            emit_body(&mut func, written, args, &rt, errors);
            continue;
        }
        if func.of_trait().is_some() {
            // The methods of a trait are as visible as the trait.
            func.vis = syn::parse_quote!(pub);
            beside.extend(only_one(&func, &rt));
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
            "no method here takes and returns tensors or trees, so none is traced; write `#[traced]` on a method to trace it, or remove this one",
        );
    }
    imp.items.iter_mut().for_each(fallback::print_method);
    if imp.trait_.is_none() {
        imp.items.push(ImplItem::Verbatim(beside));
        return quote!(#imp #items);
    }
    let (generics, self_ty) = (&imp.generics, &imp.self_ty);
    let (params, _, bounds) = generics.split_for_impl();
    let allow = allow();
    let beside = (!beside.is_empty())
        .then(|| quote!(#(#outer)* #allow impl #params #self_ty #bounds { #beside }));
    quote!(#imp #beside #items)
}

/// Returns whether the companions of an impl of a trait can be inherent functions of its type.
///
/// The type has to be of this crate, which the macro assumes of a path that it does not know. A
/// generic trait may be implemented several times.
fn companions_fit(imp: &ItemImpl) -> bool {
    let arguments = |path: &syn::Path| path.segments.iter().any(|s| !s.arguments.is_none());
    let generic = imp.trait_.as_ref().is_some_and(|(path, _)| arguments(path));
    let Type::Path(ty) = &*imp.self_ty else {
        return false;
    };
    let name = ty.path.segments.last().map(|s| s.ident.to_string());
    let name = name.unwrap_or_default();
    let first = ty.path.segments.first().map(|s| s.ident.to_string());
    let foreign = ["std", "core", "alloc", "gradloom"];
    let is_parameter = imp
        .generics
        .type_params()
        .any(|param| ty.path.is_ident(&param.ident));
    !generic
        && ty.qself.is_none()
        && !is_parameter
        && !first.is_some_and(|first| foreign.contains(&&*first))
        && !FOREIGN.contains(&&*name)
        && !input::NUMBERS.contains(&&*name)
}

/// Types of other crates that traits are implemented for.
const FOREIGN: [&str; 13] = [
    "Tensor", "Vec", "Box", "Rc", "Arc", "Option", "Result", "String", "str", "bool", "char",
    "BTreeMap", "HashMap",
];

/// Returns whether a method of a trait calls an inherent method with its name, which has companions
/// of its own.
fn delegates(method: &ImplItemFn, self_ty: &Type) -> bool {
    struct CallFinder<'a> {
        name: &'a syn::Ident,
        owner: String,
        found: bool,
    }
    impl<'ast> syn::visit::Visit<'ast> for CallFinder<'_> {
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            let on_self = matches!(&*call.receiver, syn::Expr::Path(p) if p.path.is_ident("self"));
            self.found |= on_self && call.method == *self.name;
            syn::visit::visit_expr_method_call(self, call);
        }
        fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
            let mut segments = path.path.segments.iter().rev();
            let (last, owner) = (segments.next(), segments.next());
            let is_own = owner.is_some_and(|o| o.ident == "Self" || o.ident == self.owner);
            let last = last.is_some_and(|last| last.ident == *self.name);
            self.found |= path.qself.is_none() && is_own && last;
        }
    }
    let owner = match self_ty {
        Type::Path(p) => p.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    };
    let mut finder = CallFinder {
        name: &method.sig.ident,
        owner: owner.unwrap_or_default(),
        found: false,
    };
    syn::visit::Visit::visit_block(&mut finder, &method.block);
    finder.found
}

/// Returns a function that does not compile if the type has an inherent method with the name of the
/// trait's.
///
/// Calls would run the inherent method, and companions would differentiate the trait's.
fn only_one(func: &Func, rt: &TokenStream) -> Option<TokenStream> {
    let of = func.of_trait()?;
    let (mut imported, name) = (of.path.clone(), &func.sig.ident);
    imported
        .segments
        .iter_mut()
        .for_each(|s| s.arguments = syn::PathArguments::None);
    let path = &of.path;
    let (attrs, check) = (
        &func.attrs,
        quote::format_ident!("__traced_{name}_only_one"),
    );
    if Params::new([&func.sig.generics]).decide() {
        return None;
    }
    Some(quote::quote_spanned! {name.span()=>
        #(#attrs)*
        #[doc(hidden)]
        fn #check() {
            use #imported as _;
            let functions = #rt::function_pair(&Self::#name, &<Self as #path>::#name);
            #rt::is_method_of_trait(functions);
        }
    })
}

/// Replaces `Self::Out` by `<Self as Trait>::Out`, for the types and constants of an impl of a trait:
/// companions are outside of it.
fn qualify(imp: &mut ItemImpl) {
    struct Qualifier {
        path: syn::Path,
        names: Vec<syn::Ident>,
    }
    impl Qualifier {
        fn qualified(&self, path: &syn::Path) -> Option<TokenStream> {
            let mut segments = path.segments.iter();
            let (first, item) = (segments.next()?, segments.next()?);
            let rest = segments;
            let known = first.ident == "Self" && self.names.contains(&item.ident);
            let path = &self.path;
            known.then(|| quote!(<Self as #path>::#item #(::#rest)*))
        }
    }
    impl syn::visit_mut::VisitMut for Qualifier {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::Path(p) = ty
                && p.qself.is_none()
                && let Some(tokens) = self.qualified(&p.path)
            {
                *ty = syn::parse_quote!(#tokens);
            }
            syn::visit_mut::visit_type_mut(self, ty);
        }
        fn visit_expr_mut(&mut self, expr: &mut syn::Expr) {
            if let syn::Expr::Path(p) = expr
                && p.qself.is_none()
                && let Some(tokens) = self.qualified(&p.path)
            {
                *expr = syn::parse_quote!(#tokens);
            }
            syn::visit_mut::visit_expr_mut(self, expr);
        }
    }
    let Some((path, _)) = &imp.trait_ else { return };
    let names = imp.items.iter().filter_map(|item| match item {
        ImplItem::Type(item) => Some(item.ident.clone()),
        ImplItem::Const(item) => Some(item.ident.clone()),
        _ => None,
    });
    let mut qualifier = Qualifier {
        path: path.clone(),
        names: names.collect(),
    };
    for item in &mut imp.items {
        if let ImplItem::Fn(method) = item {
            syn::visit_mut::VisitMut::visit_impl_item_fn_mut(&mut qualifier, method);
        }
    }
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
        if std::mem::replace(&mut found.marked, true) {
            errors.push(attr, "`#[traced]` is here twice; remove one");
            continue;
        }
        let syn::Meta::List(list) = &attr.meta else {
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
    let mut own_args = Args::parse(own.tokens.clone(), errors);
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
    rule::refuse(&mut own_args.rule, errors);
    Args {
        krate: block.krate.clone(),
        record: block.record || own_args.record,
        pure: block.pure || own_args.pure,
        selftest: None,
        allow: [&block.allow[..], &own_args.allow[..]].concat(),
        returns: own_args.returns,
        order: own_args.order,
        rule: None,
    }
}

/// Returns the methods without tensors, as in `fn width(&self) -> usize`.
fn of_numbers(imp: &ItemImpl) -> BTreeMap<String, bool> {
    let methods = imp.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) if !method.attrs.iter().any(is_traced) => Some(&method.sig),
        _ => None,
    });
    let of_numbers = methods.filter_map(|sig| {
        let syn::ReturnType::Type(_, output) = &sig.output else {
            return None;
        };
        let plain = sig.receiver().is_some()
            && sig.inputs.iter().skip(1).all(|input| match input {
                FnArg::Receiver(_) => false,
                FnArg::Typed(p) => is_static(&p.ty),
            });
        match classify(output, &mut Errors::default()) {
            Kind::Static { number } if plain => Some((unraw(&sig.ident), number)),
            _ => None,
        }
    });
    of_numbers.collect()
}

/// Returns whether a method is traced by default: it takes a receiver or a tensor, and returns
/// tensors or what is probably a tree.
fn computes(sig: &Signature, own: &[String]) -> bool {
    if gives_tensors(sig) {
        return true;
    }
    let syn::ReturnType::Type(_, output) = &sig.output else {
        return false;
    };
    let writes = sig.inputs.iter().any(|input| match input {
        FnArg::Receiver(r) => matches!(&r.kind, ReceiverKind::Reference(_, _, Some(_))),
        FnArg::Typed(p) => matches!(&*p.ty, Type::Reference(r) if r.mutability.is_some()),
    });
    if writes || matches!(&**output, Type::Reference(_) | Type::ImplTrait(_)) {
        return false;
    }
    // Only parameters of traced functions have such attributes.
    let marked = sig.inputs.iter().any(|input| match input {
        FnArg::Receiver(_) => false,
        FnArg::Typed(p) => p.attrs.iter().any(is_helper),
    });
    match mentions(output, own) {
        true => marked || takes_tensors(sig),
        false => (marked || names_tensors(sig)) && may_be_tree(output, sig),
    }
}

/// Returns whether a method takes a receiver or a tensor, and its result type mentions tensors.
pub(super) fn gives_tensors(sig: &Signature) -> bool {
    let syn::ReturnType::Type(_, output) = &sig.output else {
        return false;
    };
    mentions(output, &["Tensor"]) && takes_tensors(sig)
}

/// Returns whether a trait is that of an operator which returns a value.
fn is_operator(path: &syn::Path) -> bool {
    const OPERATORS: [&str; 6] = ["Add", "Div", "Mul", "Neg", "Rem", "Sub"];
    let last = path.segments.last();
    last.is_some_and(|last| OPERATORS.iter().any(|name| last.ident == name))
}

fn takes_tensors(sig: &Signature) -> bool {
    let receives = |input: &FnArg| matches!(input, FnArg::Receiver(_));
    sig.inputs.iter().any(receives) || names_tensors(sig)
}

fn names_tensors(sig: &Signature) -> bool {
    sig.inputs.iter().any(|input| match input {
        FnArg::Receiver(_) => false,
        FnArg::Typed(p) => mentions(&p.ty, &["Tensor"]),
    })
}

/// Returns whether a function makes a value of the type from no tensors, or what is probably a tree
/// from the receiver and no other tensors.
fn builds(sig: &Signature, own: &[String]) -> bool {
    let syn::ReturnType::Type(_, output) = &sig.output else {
        return false;
    };
    let mut receives = false;
    let plain = sig.inputs.iter().all(|input| match input {
        FnArg::Receiver(r) => {
            receives = true;
            matches!(&r.kind, ReceiverKind::Reference(_, None, None))
        }
        FnArg::Typed(p) => is_static(&p.ty),
    });
    let makes = match receives {
        true => may_be_tree(output, sig),
        false => mentions(output, own) || mentions(output, &["Tensor"]),
    };
    plain && makes && sig.generics.params.is_empty()
}

/// Returns the names of the type of an impl block.
fn own_names(ty: &Type) -> Vec<String> {
    let mut names = vec!["Self".to_owned()];
    if let Type::Path(path) = ty {
        names.extend(path.path.segments.last().map(|s| unraw(&s.ident)));
    }
    names
}

fn is_helper(attr: &Attribute) -> bool {
    ["nodiff", "shape", "fixed"]
        .iter()
        .any(|helper| attr.path().is_ident(helper))
}

/// Returns whether a type mentions a type by one of these names.
fn mentions(ty: &Type, names: &[impl AsRef<str>]) -> bool {
    struct Mention<'a, S>(&'a [S], bool);
    impl<'ast, S: AsRef<str>> syn::visit::Visit<'ast> for Mention<'_, S> {
        fn visit_type_path(&mut self, p: &'ast syn::TypePath) {
            let last = p.path.segments.last();
            self.1 |= last.is_some_and(|s| self.0.iter().any(|name| s.ident == name.as_ref()));
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
fn may_be_tree(ty: &Type, sig: &Signature) -> bool {
    let parameters = sig.generics.type_params();
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
