//! Parses the result type of a function.

use super::Owner;
use super::kind::{Kind, classify, holds_keys, peel, spell_self};
use crate::report::Errors;
use syn::{ReturnType, Signature, Type};

/// Structure of a result, as far as its type is written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutShape {
    Tensor,
    Tuple(Vec<OutShape>),
    /// Tree whose structure the macro does not know.
    Opaque,
}

impl OutShape {
    /// Returns whether every leaf is known to be a tensor.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            OutShape::Tensor => true,
            OutShape::Tuple(parts) => parts.iter().all(OutShape::is_known),
            OutShape::Opaque => false,
        }
    }

    /// Returns whether the result is a tensor or starts with one, so that it may have a gradient.
    pub(crate) fn starts_with_tensor(&self) -> bool {
        match self {
            OutShape::Tensor => true,
            OutShape::Tuple(parts) => parts.first() == Some(&OutShape::Tensor),
            OutShape::Opaque => false,
        }
    }

    /// Returns the number of tensors; an opaque tree counts as one.
    pub(crate) fn len(&self) -> usize {
        match self {
            OutShape::Tensor | OutShape::Opaque => 1,
            OutShape::Tuple(parts) => parts.iter().map(OutShape::len).sum(),
        }
    }
}

/// Result of a function.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The type without its `Result`.
    pub(crate) ty: Type,
    /// The `Result` around it, as written; its first generic argument is `ty`.
    pub(crate) result: Option<syn::TypePath>,
    pub(crate) shape: OutShape,
}

/// Parses the result type of a function.
pub(super) fn output(sig: &Signature, owner: Option<&Owner>, errors: &mut Errors) -> Output {
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
            errors.push(&r.and_token, "a traced function cannot return a reference; return `Tensor` and clone, which is cheap");
            Output {
                ty: (*r.elem).clone(),
                result: None,
                shape: OutShape::Opaque,
            }
        }
        Type::ImplTrait(_) => {
            errors.push(
                &ty,
                "a traced function needs a named result type; write the type",
            );
            Output {
                ty: syn::parse_quote!(()),
                result: None,
                shape: OutShape::Opaque,
            }
        }
        Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Result") => {
            let segment = p.path.segments.last().expect("the path has a last segment");
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
                    errors.push(&ty, "write the type inside the `Result` of a traced function, as in `gradloom::Result<Tensor>`");
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
            Kind::Static { .. } if holds_keys(other) => OutShape::Opaque,
            Kind::Static { .. } => {
                errors.push(other, "a traced function returns tensors; a static value has no derivative, so return it from another function");
                OutShape::Opaque
            }
            Kind::Tree => OutShape::Opaque,
        },
    }
}
