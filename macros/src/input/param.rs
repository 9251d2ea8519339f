//! Parses a parameter of the user's function, and its attributes.

use super::annotation::AvalArg;
use super::kind::{Kind, classify, holds_keys, peel, spell_self};
use super::view::View;
use super::{Owner, SplitArg, unraw};
use crate::report::{Errors, nearest};
use gradloom_ir::Aval;
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Ident, Pat, ReceiverKind, Type};

/// Parameter of the user's function.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    /// Identifier: the user's, or a generated one if the user wrote a pattern.
    pub(crate) ident: Ident,
    /// Name in messages, and of the field in the struct of gradients.
    pub(crate) name: String,
    /// Type as written, except that `Self` is replaced where the type is used outside of the impl
    /// block.
    pub(crate) ty: Type,
    /// The type without its references.
    pub(crate) owned: Type,
    /// True if it is taken by reference, or if companions take it apart into `owned` and keep a
    /// reference to that.
    pub(crate) by_ref: bool,
    /// The written type, if it borrows parts of a tree.
    pub(crate) view: Option<View>,
    pub(crate) kind: Kind,
    /// True if derivatives are taken with respect to it.
    pub(crate) diff: bool,
    /// Annotation of `#[shape(..)]`.
    pub(crate) aval: Aval,
    /// For each dim of `aval`, how it is split. Empty if no dim says so.
    pub(crate) splits: Vec<SplitArg>,
    /// True for the receiver of a method.
    pub(crate) receiver: bool,
    /// True if the user wrote a pattern, which has no name in straight-line code.
    pub(crate) pattern: bool,
    /// True for a static parameter that the body may assign to.
    pub(crate) mutable: bool,
}

impl Param {
    /// Returns the name that messages show.
    pub(crate) fn shown_name(&self) -> &str {
        match self.receiver {
            true => "self",
            false => &self.name,
        }
    }

    /// Returns whether it consists of tensors or random keys, which may differ between lanes.
    pub(crate) fn has_lanes(&self) -> bool {
        match self.kind {
            Kind::Tensor | Kind::Tree => true,
            Kind::Static { .. } => holds_keys(&self.owned),
        }
    }
}

/// Helper attributes of parameters.
const HELPERS: [&str; 3] = ["nodiff", "shape", "fixed"];

/// Attributes that rustc accepts on parameters, and that are kept.
const PASSED_ON: [&str; 4] = ["allow", "expect", "cfg", "doc"];

/// Removes the helper attributes from the parameters of a method without a body.
pub(crate) fn without_helpers(sig: &mut syn::Signature) {
    for input in &mut sig.inputs {
        let attrs = match input {
            FnArg::Receiver(r) => &mut r.attrs,
            FnArg::Typed(p) => &mut p.attrs,
        };
        attrs.retain(|attr| !HELPERS.iter().any(|helper| attr.path().is_ident(helper)));
    }
}

/// Parses parameter `i` and removes its helper attributes.
///
/// Errors in `unsound` prevent the companions from being typed.
pub(super) fn parameter(
    i: usize,
    input: &mut FnArg,
    owner: Option<&Owner>,
    errors: &mut Errors,
    unsound: &mut Errors,
) -> Param {
    let attrs = match input {
        FnArg::Receiver(r) => &mut r.attrs,
        FnArg::Typed(p) => &mut p.attrs,
    };
    let is_one_of =
        |attr: &Attribute, names: &[&str]| names.iter().any(|n| attr.path().is_ident(n));
    let helpers: Vec<Attribute> = attrs.extract_if(.., |a| is_one_of(a, &HELPERS)).collect();
    for attr in attrs.extract_if(.., |a| !is_one_of(a, &PASSED_ON)) {
        let name = attr.path().get_ident().map(ToString::to_string);
        let name = name.unwrap_or_default();
        let hint = nearest(&name, &HELPERS).map_or(
            "parameters take `#[nodiff]`, `#[shape(..)]` and `#[fixed]`".to_owned(),
            |n| format!("did you mean `#[{n}]`?"),
        );
        let message = format!("`#[{name}]` is not an attribute of a parameter; {hint}");
        errors.push(&attr, message);
    }
    let mut param = match input {
        FnArg::Receiver(r) => receiver(r, owner, unsound),
        FnArg::Typed(p) => typed(i, p, owner, unsound),
    };
    helper_attributes(&mut param, &helpers, errors);
    if let (Kind::Tree, false) = (param.kind, param.receiver)
        && let Some(view) = View::new(&param.ty, unsound)
    {
        param.owned = view.owned();
        param.by_ref = true;
        param.view = Some(view);
    }
    param
}

/// Renames the receiver and parameters that are patterns, so that all names are distinct.
pub(super) fn distinguish(params: &mut [Param]) {
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

/// Reports differentiated parameters with an annotated dtype other than floats.
pub(super) fn refuse_integers(params: &mut [Param], errors: &mut Errors) {
    let is_wrong = |p: &Param| p.diff && p.aval.dtype.is_some_and(|dtype| !dtype.is_float());
    let others = params.iter().any(|p| p.diff && !is_wrong(p));
    for param in params.iter_mut().filter(|p| is_wrong(p)) {
        let (name, dtype) = (&param.name, param.aval.dtype.expect("annotated"));
        let message = format!("`{name}` is {dtype}, which has no derivative; mark it `#[nodiff]`");
        errors.push(&param.ident, message);
        // The companions are emitted as if the error were fixed.
        param.diff = !others;
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
        view: None,
        kind: Kind::Tree,
        diff: true,
        aval: Aval::UNKNOWN,
        splits: Vec::new(),
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
        view: None,
        kind,
        diff: !is_static,
        aval: Aval::UNKNOWN,
        splits: Vec::new(),
        receiver: false,
        pattern,
        mutable: is_static && matches!(&*p.pat, Pat::Ident(id) if id.mutability.is_some()),
    }
}

/// Applies the helper attributes of a parameter.
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
                        "`#[shape(..)]` is for a `Tensor`, and `{}` is not one",
                        param.name
                    ),
                );
                continue;
            }
            match attr.parse_args::<AvalArg>() {
                Ok(AvalArg { splits, .. }) if param.pattern && !splits.is_empty() => errors.push(
                    attr,
                    "mesh axes split a parameter with a name, and this one is a pattern; give it a name",
                ),
                Ok(AvalArg { aval, splits }) => (param.aval, param.splits) = (aval, splits),
                Err(error) => errors.push_error(error),
            }
        }
    }
}
