//! Parses the signature of a function.

use super::output::output;
use super::param::{distinguish, parameter, refuse_integers};
use super::{Func, Kind, Owner, Param};
use crate::report::Errors;
use syn::{Attribute, Safety, Signature};

/// Parses the signature, and removes its helper attributes.
pub(crate) fn signature(
    vis: &syn::Visibility,
    attrs: &[Attribute],
    sig: &mut Signature,
    owner: Option<Owner>,
    errors: &mut Errors,
) -> Func {
    // Errors that prevent the companions from being typed.
    let mut unsound = Errors::default();
    refuse(sig, &mut unsound);
    let mut params = Vec::new();
    for (i, input) in sig.inputs.iter_mut().enumerate() {
        params.push(parameter(i, input, owner.as_ref(), errors, &mut unsound));
    }
    refuse_integers(&mut params, errors);
    let is_static = |p: &Param| matches!(p.kind, Kind::Static { .. });
    // A function of random keys, or of `#[nodiff]` tensors only, has no derivative, but its calls are
    // cached.
    if params.iter().all(is_static) && !params.iter().any(Param::has_lanes) {
        unsound.push(
            &sig.ident,
            format!("`{}` takes no tensor, so there is nothing to trace; remove `#[traced]` or add a parameter `x: &Tensor`", sig.ident),
        );
    }
    let output = output(sig, owner.as_ref(), &mut unsound);
    let sound = unsound.is_empty();
    // The errors about missing parameters and results would be misleading for `main`.
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
        wants_hvp: false,
        attrs,
        sound,
    }
}

/// Returns the `cfg` and lint attributes, which apply to all emitted items.
pub(crate) fn lint_attributes(attrs: &[Attribute]) -> Vec<Attribute> {
    let keep = ["cfg", "allow", "deny", "warn"];
    let kept = attrs
        .iter()
        .filter(|a| keep.iter().any(|k| a.path().is_ident(k)));
    // `#![allow(..)]` at the start of the body becomes `#[allow(..)]` on an item.
    let outer = kept.cloned().map(|a| Attribute {
        style: syn::AttrStyle::Outer,
        ..a
    });
    outer.collect()
}

/// Reports functions that cannot be traced because of their signature.
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
}
