//! Classifies parameters by their written types.

use crate::report::Errors;
use syn::Type;

/// Kind of a parameter for differentiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `&Tensor` or `Tensor`.
    Tensor,
    /// Value whose leaves are tensors.
    Tree,
    /// Value that is known before any tensor is.
    ///
    /// `number` is true if it may be an operand of arithmetic with tensors.
    Static { number: bool },
}

pub(crate) const NUMBERS: [&str; 14] = [
    "usize", "isize", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "u128",
    "i128",
];

/// Returns the kind of a parameter of this type.
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
            let is_static = |k: &Kind| matches!(k, Kind::Static { .. });
            let is_mixed = parts.iter().any(|k| !is_static(k));
            // A key beside tensors is a part of the tree.
            let parts = parts.into_iter().zip(&t.elems);
            let parts = parts.map(|(kind, ty)| match is_mixed && holds_keys(ty) {
                true => Kind::Tree,
                false => kind,
            });
            let parts: Vec<Kind> = parts.collect();
            let n_static = parts.iter().filter(|k| is_static(k)).count();
            if n_static > 0 && n_static < parts.len() {
                errors.push(
                    ty,
                    "this tuple mixes tensors and static values; pass them as separate parameters",
                );
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

/// Reports references inside a tree whose structure the macro does not know: a gradient has the
/// structure of its parameter, and owns its tensors.
pub(super) fn refuse_references(ty: &Type, errors: &mut Errors) {
    struct References<'a>(&'a mut Errors);
    impl<'ast> syn::visit::Visit<'ast> for References<'_> {
        fn visit_type_reference(&mut self, r: &'ast syn::TypeReference) {
            // References to function types and trait objects are not parts of the tree.
            if let Type::Path(p) = peel(&r.elem)
                && p.path.segments.last().is_some_and(|s| s.ident == "Tensor")
            {
                self.0.push(r, "a tree of `&Tensor` has no owned form to hold its gradient; take a reference to a tree of `Tensor`");
            }
        }
        fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}
        fn visit_type_trait_object(&mut self, _: &'ast syn::TypeTraitObject) {}
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {}
    }
    syn::visit::Visit::visit_type(&mut References(errors), ty);
}

/// Returns whether a static type is a random key, or a list or an option of keys.
pub(super) fn holds_keys(ty: &Type) -> bool {
    let inner = match peel(ty) {
        Type::Array(a) => Some(&*a.elem),
        Type::Path(p) => {
            let last = p.path.segments.last();
            if last.is_some_and(|s| s.ident == "Key" && s.arguments.is_none()) {
                return true;
            }
            last.and_then(|last| match &last.arguments {
                syn::PathArguments::AngleBracketed(args) => match args.args.first()? {
                    syn::GenericArgument::Type(ty) if args.args.len() == 1 => Some(ty),
                    _ => None,
                },
                _ => None,
            })
        }
        _ => None,
    };
    inner.is_some_and(holds_keys)
}

/// Strips parentheses and groups from a type.
pub(super) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Paren(p) => peel(&p.elem),
        Type::Group(g) => peel(&g.elem),
        other => other,
    }
}

/// Replaces `Self` by the type of the impl block, for types that are used outside of it.
pub(super) fn spell_self(ty: &Type, self_ty: &Type) -> Type {
    struct SelfSpeller<'a>(&'a Type);
    impl syn::visit_mut::VisitMut for SelfSpeller<'_> {
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
    syn::visit_mut::VisitMut::visit_type_mut(&mut SelfSpeller(self_ty), &mut ty);
    ty
}
