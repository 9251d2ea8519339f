//! The user's function as the macro sees it: what each parameter is, and what comes back.
//!
//! A macro sees tokens and no types, so a parameter is what its written type says: a tensor, a tree of tensors, or a
//! static value that is known before any tensor is.

use crate::annotation::{AvalArg, Declared, Returns};
use crate::check::Check;
use crate::order::Order;
use crate::report::{Errors, nearest};
use crate::warn::Lint;
use gradloom_ir::Aval;
use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, Generics, Ident, Pat, ReceiverKind, ReturnType, Safety, Signature, Type,
};

/// What a parameter is to a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `&Tensor` or `Tensor`.
    Tensor,
    /// A value whose leaves are tensors.
    Tree,
    /// A value that is known before any tensor is; `number` says that it may stand in arithmetic with tensors.
    Static { number: bool },
}

/// A parameter of the user's function.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    /// The variable: the user's, or one of ours where the user wrote a pattern.
    pub(crate) ident: Ident,
    /// The name of the field in the struct of gradients, and in messages.
    pub(crate) name: String,
    /// The type as written, with `Self` spelt out where it has to be named outside of an impl.
    pub(crate) ty: Type,
    /// The type without its reference.
    pub(crate) owned: Type,
    /// Whether it is taken by reference.
    pub(crate) by_ref: bool,
    pub(crate) kind: Kind,
    /// Whether derivatives are taken with respect to it.
    pub(crate) diff: bool,
    /// What `#[shape(..)]` says.
    pub(crate) aval: Aval,
    /// Whether it is the receiver of a method.
    pub(crate) receiver: bool,
    /// Whether the user wrote a pattern, which straight-line code cannot name.
    pub(crate) pattern: bool,
    /// Whether it is a static parameter that the body may assign to.
    pub(crate) mutable: bool,
}

/// The structure of what a function returns, as far as its type is spelt out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutShape {
    Tensor,
    Tuple(Vec<OutShape>),
    /// A tree that the macro cannot look into.
    Opaque,
}

impl OutShape {
    /// Whether every leaf is known to be a tensor.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            OutShape::Tensor => true,
            OutShape::Tuple(parts) => parts.iter().all(OutShape::is_known),
            OutShape::Opaque => false,
        }
    }

    /// The number of tensors, where it is known.
    pub(crate) fn len(&self) -> usize {
        match self {
            OutShape::Tensor | OutShape::Opaque => 1,
            OutShape::Tuple(parts) => parts.iter().map(OutShape::len).sum(),
        }
    }
}

/// What a function returns.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The type without its `Result`.
    pub(crate) ty: Type,
    /// The `Result` it comes in, as written: its first generic argument is `ty`.
    pub(crate) result: Option<syn::TypePath>,
    pub(crate) shape: OutShape,
}

/// The impl block that a method stands in.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) self_ty: Type,
    pub(crate) generics: Generics,
}

/// A function to be traced, after its signature has been understood.
#[derive(Clone, Debug)]
pub(crate) struct Func {
    pub(crate) vis: syn::Visibility,
    pub(crate) sig: Signature,
    pub(crate) params: Vec<Param>,
    pub(crate) output: Output,
    /// What `returns(..)` says of each tensor of the result; empty where it is not written.
    pub(crate) declared: Vec<Declared>,
    pub(crate) owner: Option<Owner>,
    /// Whether `order = 2` asks for a second derivative, and the result has one.
    pub(crate) second: bool,
    /// `cfg` and lint attributes, which the companions need too.
    pub(crate) attrs: Vec<Attribute>,
    /// Whether the signature is one that companions can be typed by.
    pub(crate) sound: bool,
}

impl Func {
    pub(crate) fn name(&self) -> String {
        unraw(&self.sig.ident)
    }

    /// The parameters that derivatives are taken with respect to, with their positions.
    pub(crate) fn diff(&self) -> impl Iterator<Item = (usize, &Param)> {
        self.params.iter().enumerate().filter(|(_, p)| p.diff)
    }
}

/// The name of an identifier without `r#`.
pub(crate) fn unraw(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

/// The helper attributes of parameters.
const HELPERS: [&str; 3] = ["nodiff", "shape", "fixed"];

/// Reads the signature, and takes the helper attributes off it.
pub(crate) fn signature(
    vis: &syn::Visibility,
    attrs: &[Attribute],
    sig: &mut Signature,
    owner: Option<Owner>,
    errors: &mut Errors,
) -> Func {
    // Errors after which companions could not be typed.
    let mut unsound = Errors::default();
    refuse(sig, &mut unsound);
    let mut params = Vec::new();
    for (i, input) in sig.inputs.iter_mut().enumerate() {
        let attrs = match input {
            FnArg::Receiver(r) => &mut r.attrs,
            FnArg::Typed(p) => &mut p.attrs,
        };
        let helpers: Vec<Attribute> = attrs
            .extract_if(.., |a| HELPERS.iter().any(|h| a.path().is_ident(h)))
            .collect();
        for attr in attrs.iter().filter(|a| {
            !["allow", "expect", "cfg", "doc"]
                .iter()
                .any(|n| a.path().is_ident(n))
        }) {
            let name = attr
                .path()
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default();
            let hint = nearest(&name, &HELPERS).map_or(
                "parameters take `#[nodiff]`, `#[shape(..)]` and `#[fixed]`".to_owned(),
                |n| format!("did you mean `#[{n}]`?"),
            );
            errors.push(
                attr,
                format!("`#[{name}]` is not an attribute of a parameter; {hint}"),
            );
        }
        attrs.retain(|a| {
            ["allow", "expect", "cfg", "doc"]
                .iter()
                .any(|n| a.path().is_ident(n))
        });
        let mut param = match input {
            FnArg::Receiver(r) => receiver(r, owner.as_ref(), &mut unsound),
            FnArg::Typed(p) => typed(i, p, owner.as_ref(), &mut unsound),
        };
        helper_attributes(&mut param, &helpers, errors);
        if let (Kind::Tree, FnArg::Typed(p)) = (param.kind, &*input) {
            owned_form(&p.ty, &mut unsound);
        }
        params.push(param);
    }
    refuse_integers(&mut params, errors);
    if params.iter().all(|p| matches!(p.kind, Kind::Static { .. })) {
        unsound.push(
            &sig.ident,
            format!("`{}` takes no tensor, so there is nothing to trace; remove `#[traced]` or add a parameter `x: &Tensor`", sig.ident),
        );
    } else if !params.iter().any(|p| p.diff) {
        unsound.push(
            &sig.ident,
            format!("every tensor of `{}` is `#[nodiff]`, so there is no derivative to take; remove one of them or `#[traced]`", sig.ident),
        );
    }
    let output = output(sig, owner.as_ref(), &mut unsound);
    let sound = unsound.is_empty();
    // `main` takes and returns nothing, and that is not what is wrong with it.
    if sig.ident == "main" {
        errors.push(
            &sig.ident,
            "`main` cannot be traced; trace a function that it calls",
        );
    } else {
        errors.append(unsound);
    }
    let attrs = lint_attributes(attrs);
    distinguish(&mut params);
    Func {
        vis: vis.clone(),
        sig: sig.clone(),
        params,
        output,
        declared: Vec::new(),
        owner,
        second: false,
        attrs,
        sound,
    }
}

/// Gives the receiver and parameters that are patterns names that no other parameter has.
fn distinguish(params: &mut [Param]) {
    for i in 0..params.len() {
        let others = params.iter().enumerate().filter(|(j, _)| *j != i);
        let others: Vec<String> = others.map(|(_, p)| p.name.clone()).collect();
        let param = &mut params[i];
        if !param.receiver && !param.pattern {
            continue;
        }
        while others.contains(&param.name) {
            param.name.push('_');
        }
        if param.pattern {
            param.ident = Ident::new(&param.name, param.ident.span());
        }
    }
}

/// The `cfg` and lint attributes, which hold for all that is emitted.
pub(crate) fn lint_attributes(attrs: &[Attribute]) -> Vec<Attribute> {
    let keep = ["cfg", "allow", "deny", "warn"];
    let kept = attrs
        .iter()
        .filter(|a| keep.iter().any(|k| a.path().is_ident(k)));
    // `#![allow(..)]` at the start of the body is `#[allow(..)]` on an item.
    let outer = kept.cloned().map(|a| Attribute {
        style: syn::AttrStyle::Outer,
        ..a
    });
    outer.collect()
}

/// Refuses what can never be a traced function.
fn refuse(sig: &Signature, errors: &mut Errors) {
    if let Some(token) = &sig.asyncness {
        errors.push(
            token,
            "an `async fn` cannot be traced; trace the function it calls",
        );
    }
    if let Some(token) = &sig.constness {
        errors.push(
            token,
            "a `const fn` cannot be traced: tensors are made at run time; remove `const`",
        );
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.push(token, "an `unsafe fn` cannot be traced: its companions could not keep its contract; trace a safe function inside it");
    }
    if let Some(abi) = &sig.abi {
        errors.push(
            abi,
            "an `extern fn` cannot be traced: tensors have no C layout; remove the ABI",
        );
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(
            variadic,
            "a variadic function cannot be traced; take `&Vec<Tensor>`",
        );
    }
}

fn receiver(r: &syn::Receiver, owner: Option<&Owner>, errors: &mut Errors) -> Param {
    let owned = owner.map_or_else(|| syn::parse_quote!(Self), |o| o.self_ty.clone());
    let by_ref = match &r.kind {
        ReceiverKind::Reference(_, _, Some(token)) => {
            errors.push(
                token,
                "a traced method cannot take `&mut self`; take `&self` and return the new value",
            );
            true
        }
        ReceiverKind::Reference(..) => true,
        ReceiverKind::Value => false,
        _ => {
            errors.push(r, "a traced method takes `&self` or `self`");
            true
        }
    };
    Param {
        ident: Ident::new("self", r.self_token.span),
        name: "this".to_owned(),
        ty: if by_ref {
            syn::parse_quote!(&#owned)
        } else {
            owned.clone()
        },
        owned,
        by_ref,
        kind: Kind::Tree,
        diff: true,
        aval: Aval::UNKNOWN,
        receiver: true,
        pattern: false,
        mutable: false,
    }
}

fn typed(i: usize, p: &syn::PatType, owner: Option<&Owner>, errors: &mut Errors) -> Param {
    let (ident, pattern) = match &*p.pat {
        Pat::Ident(id) if id.subpat.is_none() && id.by_ref.is_none() => (id.ident.clone(), false),
        _ => (format_ident!("arg_{i}", span = p.pat.span()), true),
    };
    let ty = match owner {
        Some(owner) => spell_self(&p.ty, &owner.self_ty),
        None => (*p.ty).clone(),
    };
    let (owned, by_ref) = match peel(&ty) {
        Type::Reference(r) => ((*r.elem).clone(), true),
        other => (other.clone(), false),
    };
    let kind = classify(&p.ty, errors);
    let is_static = matches!(kind, Kind::Static { .. });
    let name = unraw(&ident);
    Param {
        name,
        ident,
        ty,
        owned,
        by_ref,
        kind,
        diff: !is_static,
        aval: Aval::UNKNOWN,
        receiver: false,
        pattern,
        mutable: is_static && matches!(&*p.pat, Pat::Ident(id) if id.mutability.is_some()),
    }
}

fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Paren(p) => peel(&p.elem),
        Type::Group(g) => peel(&g.elem),
        other => other,
    }
}

/// Replaces `Self` by the type of the impl, for types that are named outside of it.
fn spell_self(ty: &Type, self_ty: &Type) -> Type {
    struct Spell<'a>(&'a Type);
    impl syn::visit_mut::VisitMut for Spell<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::Path(p) if p.qself.is_none() && p.path.is_ident("Self") => {
                    *ty = self.0.clone()
                }
                other => syn::visit_mut::visit_type_mut(self, other),
            }
        }
    }
    let mut ty = ty.clone();
    syn::visit_mut::VisitMut::visit_type_mut(&mut Spell(self_ty), &mut ty);
    ty
}

pub(crate) const NUMBERS: [&str; 14] = [
    "usize", "isize", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "u128",
    "i128",
];

/// What a parameter of this type is.
pub(crate) fn classify(ty: &Type, errors: &mut Errors) -> Kind {
    let fixed = Kind::Static { number: false };
    match peel(ty) {
        Type::Reference(r) => {
            if let Some(token) = &r.mutability {
                errors.push(
                    token,
                    "a traced function cannot take `&mut`; take the value and return the new one",
                );
                return Kind::Tree;
            }
            match peel(&r.elem) {
                Type::Slice(s) => match classify(&s.elem, errors) {
                    Kind::Static { .. } => fixed,
                    _ => Kind::Tree,
                },
                elem => classify(elem, errors),
            }
        }
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else {
                return Kind::Tree;
            };
            let name = last.ident.to_string();
            if name == "Tensor" && last.arguments.is_none() {
                return Kind::Tensor;
            }
            if NUMBERS.contains(&name.as_str()) {
                return Kind::Static { number: true };
            }
            match name.as_str() {
                "bool" | "char" | "str" | "String" | "DType" | "Key" | "RangeFull" => fixed,
                "Vec" | "Option" | "Box" | "Range" | "RangeInclusive" => {
                    let syn::PathArguments::AngleBracketed(args) = &last.arguments else {
                        return Kind::Tree;
                    };
                    let inner = args.args.iter().find_map(|a| match a {
                        syn::GenericArgument::Type(t) => Some(classify(t, errors)),
                        _ => None,
                    });
                    match inner {
                        Some(Kind::Static { .. }) => fixed,
                        _ => Kind::Tree,
                    }
                }
                _ => Kind::Tree,
            }
        }
        Type::Array(a) => match classify(&a.elem, errors) {
            Kind::Static { .. } => fixed,
            _ => Kind::Tree,
        },
        Type::Tuple(t) => {
            let parts: Vec<Kind> = t.elems.iter().map(|t| classify(t, errors)).collect();
            let n_static = parts
                .iter()
                .filter(|k| matches!(k, Kind::Static { .. }))
                .count();
            if n_static > 0 && n_static < parts.len() {
                errors.push(ty, "this tuple mixes tensors and static values; pass them as parameters of their own");
            }
            if n_static == parts.len() {
                fixed
            } else {
                Kind::Tree
            }
        }
        Type::ImplTrait(_) => {
            errors.push(ty, "a traced function cannot take `impl Trait`: its companions have to name the type; use a generic parameter");
            Kind::Tree
        }
        Type::Ptr(_) => {
            errors.push(
                ty,
                "a traced function cannot take a raw pointer; take a reference",
            );
            Kind::Tree
        }
        Type::FnPtr(_) | Type::TraitObject(_) => fixed,
        _ => Kind::Tree,
    }
}

/// Refuses trees of references: a gradient has the structure of its parameter, and owns its tensors.
fn owned_form(ty: &Type, errors: &mut Errors) {
    struct References<'a>(&'a mut Errors);
    impl<'ast> syn::visit::Visit<'ast> for References<'_> {
        fn visit_type_reference(&mut self, r: &'ast syn::TypeReference) {
            // What is behind a reference to a function or in a trait is not a part of the tree.
            let elem = match peel(&r.elem) {
                Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Tensor") => {
                    "Tensor"
                }
                Type::Slice(s)
                    if !matches!(
                        classify(&s.elem, &mut Errors::default()),
                        Kind::Static { .. }
                    ) =>
                {
                    self.0.push(r, "a slice of tensors has no owned form to hold its gradient; take `&Vec<Tensor>` or an array");
                    return;
                }
                _ => return,
            };
            self.0.push(
                r,
                format!("a tree of `&{elem}` has no owned form to hold its gradient; take a reference to a tree of `{elem}`"),
            );
        }
        fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}
        fn visit_type_trait_object(&mut self, _: &'ast syn::TypeTraitObject) {}
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {}
    }
    let mut references = References(errors);
    match peel(ty) {
        Type::Reference(r) if !matches!(peel(&r.elem), Type::Slice(_)) => {
            syn::visit::Visit::visit_type(&mut references, &r.elem);
        }
        ty => syn::visit::Visit::visit_type(&mut references, ty),
    }
}

fn helper_attributes(param: &mut Param, helpers: &[Attribute], errors: &mut Errors) {
    for (i, attr) in helpers.iter().enumerate() {
        if helpers[..i].iter().any(|a| a.path() == attr.path()) {
            errors.push(attr, "this attribute is here twice; remove one");
            continue;
        }
        if attr.path().is_ident("nodiff") {
            if !matches!(attr.meta, syn::Meta::Path(_)) {
                errors.push(attr, "`#[nodiff]` takes no arguments");
            }
            if let Kind::Static { .. } = param.kind {
                errors.push(
                    attr,
                    format!(
                        "`{}` is static, so it has no gradient anyway; remove `#[nodiff]`",
                        param.name
                    ),
                );
            }
            param.diff = false;
        } else if attr.path().is_ident("fixed") {
            if !matches!(attr.meta, syn::Meta::Path(_)) {
                errors.push(attr, "`#[fixed]` takes no arguments");
            }
            if param.kind == Kind::Tensor {
                errors.push(attr, "a tensor cannot be `#[fixed]`: its values are not known before the program runs; use `#[nodiff]`");
                continue;
            }
            param.kind = Kind::Static { number: false };
            param.diff = false;
        } else {
            if param.kind != Kind::Tensor {
                errors.push(
                    attr,
                    format!(
                        "`#[shape(..)]` belongs to a `Tensor`, and `{}` is none",
                        param.name
                    ),
                );
                continue;
            }
            match attr.parse_args::<AvalArg>() {
                Ok(AvalArg(aval)) => param.aval = aval,
                Err(error) => errors.push_error(error),
            }
        }
    }
}

/// Refuses derivatives with respect to what is said to be no float.
fn refuse_integers(params: &mut [Param], errors: &mut Errors) {
    let is_wrong = |p: &Param| p.diff && p.aval.dtype.is_some_and(|dtype| !dtype.is_float());
    let others = params.iter().any(|p| p.diff && !is_wrong(p));
    for param in params.iter_mut().filter(|p| is_wrong(p)) {
        let (name, dtype) = (&param.name, param.aval.dtype.expect("it is known"));
        let message = format!("`{name}` is {dtype}, which has no derivative; mark it `#[nodiff]`");
        errors.push(&param.ident, message);
        // The companions are those that there will be.
        param.diff = !others;
    }
}

fn output(sig: &Signature, owner: Option<&Owner>, errors: &mut Errors) -> Output {
    let ReturnType::Type(_, ty) = &sig.output else {
        errors.push(
            &sig.ident,
            format!(
                "`{}` returns nothing, so there is nothing to differentiate; return a `Tensor`",
                sig.ident
            ),
        );
        return Output {
            ty: syn::parse_quote!(()),
            result: None,
            shape: OutShape::Opaque,
        };
    };
    let ty = match owner {
        Some(owner) => spell_self(ty, &owner.self_ty),
        None => (**ty).clone(),
    };
    match peel(&ty) {
        Type::Reference(r) => {
            errors.push(&r.and_token, "a traced function returns a value of its own; return `Tensor` and clone, which is cheap");
            Output {
                ty: (*r.elem).clone(),
                result: None,
                shape: OutShape::Opaque,
            }
        }
        Type::ImplTrait(_) => {
            errors.push(
                &ty,
                "a traced function has to name what it returns; write the type",
            );
            Output {
                ty: syn::parse_quote!(()),
                result: None,
                shape: OutShape::Opaque,
            }
        }
        Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Result") => {
            let segment = p.path.segments.last().expect("it has just been looked at");
            let inner = match &segment.arguments {
                syn::PathArguments::AngleBracketed(args) => {
                    args.args.iter().find_map(|a| match a {
                        syn::GenericArgument::Type(t) => Some(t.clone()),
                        _ => None,
                    })
                }
                _ => None,
            };
            match inner {
                Some(inner) => Output {
                    shape: out_shape(&inner, errors),
                    ty: inner,
                    result: Some(p.clone()),
                },
                None => {
                    errors.push(&ty, "a traced function has to say what its `Result` holds, as in `gradloom::Result<Tensor>`");
                    Output {
                        ty: ty.clone(),
                        result: None,
                        shape: OutShape::Opaque,
                    }
                }
            }
        }
        other => Output {
            shape: out_shape(other, errors),
            ty: ty.clone(),
            result: None,
        },
    }
}

fn out_shape(ty: &Type, errors: &mut Errors) -> OutShape {
    match peel(ty) {
        Type::Tuple(t) => OutShape::Tuple(t.elems.iter().map(|t| out_shape(t, errors)).collect()),
        other => match classify(other, &mut Errors::default()) {
            Kind::Tensor => OutShape::Tensor,
            Kind::Static { .. } => {
                errors.push(other, "a traced function returns tensors; a static value has no derivative, so return it from another function");
                OutShape::Opaque
            }
            Kind::Tree => OutShape::Opaque,
        },
    }
}

/// The options of `#[traced(..)]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    /// Where the run time is, if its dependency has been renamed.
    pub(crate) krate: Option<syn::Path>,
    /// Whether the body is run and recorded even if it is straight-line.
    pub(crate) record: bool,
    /// The tests to emit.
    pub(crate) check: Option<Check>,
    /// The warnings that are silenced.
    pub(crate) allow: Vec<Lint>,
    /// The shapes of the result.
    pub(crate) returns: Option<Returns>,
    /// How often to differentiate.
    pub(crate) order: Option<Order>,
}

impl Args {
    pub(crate) fn parse(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Args {
        let mut args = Args::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                if args.krate.is_some() {
                    return Err(meta.error("`crate` is given twice; remove one"));
                }
                let path = meta
                    .value()
                    .and_then(|value| value.call(syn::Path::parse_mod_style));
                let path = path
                    .map_err(|_| meta.error("`crate` takes a path, as in `crate = my_gradloom`"))?;
                args.krate = Some(path);
                return Ok(());
            }
            if meta.path.is_ident("record") {
                if !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
                    return Err(meta.error("`record` takes no value; write `#[traced(record)]`"));
                }
                args.record = true;
                return Ok(());
            }
            if meta.path.is_ident("check") {
                if args.check.is_some() {
                    return Err(meta.error("`check` is given twice; remove one"));
                }
                args.check = Some(Check::parse(&meta)?);
                return Ok(());
            }
            if meta.path.is_ident("allow") {
                return meta.parse_nested_meta(|lint| {
                    args.allow.push(allowed(&lint)?);
                    Ok(())
                });
            }
            if meta.path.is_ident("returns") {
                if args.returns.is_some() {
                    return Err(meta.error("`returns` is given twice; remove one"));
                }
                if !meta.input.peek(syn::token::Paren) {
                    return Err(meta
                        .error("`returns` takes the dims of the result, as in `returns(B, 10)`"));
                }
                let tokens;
                syn::parenthesized!(tokens in meta.input);
                args.returns = Some(Returns::parse(
                    tokens.parse()?,
                    meta.path.to_token_stream(),
                )?);
                return Ok(());
            }
            if meta.path.is_ident("order") {
                if args.order.is_some() {
                    return Err(meta.error("`order` is given twice; remove one"));
                }
                args.order = Some(Order::parse(&meta)?);
                return Ok(());
            }
            let name = meta
                .path
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default();
            let options = ["crate", "record", "check", "allow", "returns", "order"];
            let hint = match nearest(&name, &options) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "it takes `check`, `record`, `returns(..)` for the shape of the result, `allow(..)`, `order = 2`, and `crate = path` for a renamed dependency".to_owned(),
            };
            Err(meta.error(format!("`{name}` is not an option of `#[traced]`; {hint}")))
        });
        if let Err(error) = syn::parse::Parser::parse2(parser, tokens) {
            errors.push_error(error);
        }
        args
    }
}

/// A warning in `allow(..)`.
fn allowed(meta: &syn::meta::ParseNestedMeta) -> syn::Result<Lint> {
    let name = meta.path.get_ident().map(ToString::to_string);
    let name = name.unwrap_or_default();
    let names = Lint::ALL.map(Lint::name);
    let lint = Lint::ALL.into_iter().find(|lint| lint.name() == name);
    lint.ok_or_else(|| {
        let hint = match nearest(&name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it warns of {}", names.map(|n| format!("`{n}`")).join(", ")),
        };
        meta.error(format!("`{name}` is not a warning of `#[traced]`; {hint}"))
    })
}
