//! Parameters that borrow parts of a tree: `&[Tensor]`, `Option<&Tensor>`, `(&Tensor, &Tensor)`.
//!
//! A gradient has the structure of its parameter and owns its tensors, so each of these types has an
//! *owned form*: `Vec<Tensor>`, `Option<Tensor>`, `(Tensor, Tensor)`. A companion copies the handles
//! of such a parameter into the owned form and works on a reference to it. It lends the owned form
//! when it calls another function.

use super::kind::{peel, refuse_references};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type};

/// Structure of a parameter's type, as far as it contains references to trees.
#[derive(Clone, Debug)]
pub(crate) enum View {
    /// Owned tree.
    Tree(Box<Type>),
    /// `&T`.
    Reference(Box<View>),
    /// `[T]`.
    Slice(Box<View>),
    /// `Vec<T>`.
    List(Box<View>),
    /// `Option<T>`.
    Option(Box<View>),
    /// `[T; N]`, with its length.
    Array(Box<View>, TokenStream),
    /// `(A, B)`.
    Tuple(Vec<View>),
}

impl View {
    /// Returns the view that a parameter's type is, or `None` if it is an owned tree or a reference
    /// to one.
    pub(super) fn new(ty: &Type, errors: &mut Errors) -> Option<View> {
        let view = View::of(ty);
        let is_tree = match &view {
            View::Reference(inner) => matches!(**inner, View::Tree(_)),
            view => matches!(view, View::Tree(_)),
        };
        view.trees(&mut |ty| refuse_references(ty, errors));
        if is_tree {
            return None;
        }
        if !view.is_understood() {
            errors.push(
                ty,
                "the gradient of this parameter has no owned form, because its references are nested; pass its parts as separate parameters",
            );
            return None;
        }
        Some(view)
    }

    fn of(ty: &Type) -> View {
        let view = match peel(ty) {
            Type::Reference(r) => return View::Reference(Box::new(View::of(&r.elem))),
            Type::Slice(s) => return View::Slice(Box::new(View::of(&s.elem))),
            Type::Array(a) => View::Array(Box::new(View::of(&a.elem)), a.len.to_token_stream()),
            Type::Tuple(t) => View::Tuple(t.elems.iter().map(View::of).collect()),
            Type::Path(p) => {
                let last = p.path.segments.last();
                let args = last.and_then(|last| match &last.arguments {
                    PathArguments::AngleBracketed(args) => Some((&last.ident, &args.args)),
                    _ => None,
                });
                match args.map(|(name, args)| (name.to_string(), Vec::from_iter(args))) {
                    Some((name, args)) => match (&*name, &args[..]) {
                        ("Option", [GenericArgument::Type(ty)]) => {
                            View::Option(Box::new(View::of(ty)))
                        }
                        ("Vec", [GenericArgument::Type(ty)]) => View::List(Box::new(View::of(ty))),
                        _ => View::Tree(Box::new(ty.clone())),
                    },
                    None => View::Tree(Box::new(ty.clone())),
                }
            }
            _ => View::Tree(Box::new(ty.clone())),
        };
        // An owned tree is a tree whatever its structure.
        match view.borrows() {
            true => view,
            false => View::Tree(Box::new(peel(ty).clone())),
        }
    }

    /// Calls `f` with the owned trees.
    fn trees(&self, f: &mut dyn FnMut(&Type)) {
        match self {
            View::Tree(ty) => f(ty),
            View::Reference(elem)
            | View::Slice(elem)
            | View::List(elem)
            | View::Option(elem)
            | View::Array(elem, _) => elem.trees(f),
            View::Tuple(parts) => parts.iter().for_each(|part| part.trees(f)),
        }
    }

    /// Returns whether it contains references.
    fn borrows(&self) -> bool {
        match self {
            View::Tree(_) => false,
            View::Reference(_) | View::Slice(_) => true,
            View::List(elem) | View::Option(elem) | View::Array(elem, _) => elem.borrows(),
            View::Tuple(parts) => parts.iter().any(View::borrows),
        }
    }

    /// Returns whether the parts of the view can be passed on as the body does.
    ///
    /// The macro knows of a part only that it is a part of a list, or of a tuple. The parts of a
    /// list have one type, which is a tree or a reference to one.
    fn is_understood(&self) -> bool {
        let is_part = |view: &View| match view {
            View::Tree(_) => true,
            View::Reference(inner) => match &**inner {
                View::Tree(_) => true,
                View::Slice(elem) => matches!(**elem, View::Tree(_)),
                _ => false,
            },
            _ => false,
        };
        match self {
            View::Tree(_) => true,
            View::Reference(inner) => {
                !matches!(**inner, View::Reference(_) | View::Tuple(_)) && inner.is_understood()
            }
            View::Slice(elem) | View::List(elem) | View::Option(elem) | View::Array(elem, _) => {
                is_part(elem)
            }
            View::Tuple(parts) => parts.iter().all(is_part),
        }
    }

    /// Returns whether the view is a slice.
    pub(crate) fn is_slice(&self) -> bool {
        matches!(self, View::Reference(inner) if matches!(**inner, View::Slice(_)))
    }

    /// Returns whether a value of this type is a reference.
    pub(crate) fn is_reference(&self) -> bool {
        matches!(self, View::Reference(_))
    }

    /// Returns whether the view is a list of references.
    pub(crate) fn is_list_of_references(&self) -> bool {
        match self {
            View::Reference(inner) => inner.is_list_of_references(),
            View::Slice(elem) | View::List(elem) | View::Array(elem, _) => elem.is_reference(),
            View::Tree(_) | View::Option(_) | View::Tuple(_) => false,
        }
    }

    /// Returns the type that owns its tensors.
    pub(crate) fn owned(&self) -> Type {
        match self {
            View::Tree(ty) => (**ty).clone(),
            View::Reference(inner) => inner.owned(),
            View::Slice(elem) | View::List(elem) => {
                let elem = elem.owned();
                syn::parse_quote!(::std::vec::Vec<#elem>)
            }
            View::Option(elem) => {
                let elem = elem.owned();
                syn::parse_quote!(::core::option::Option<#elem>)
            }
            View::Array(elem, len) => {
                let elem = elem.owned();
                syn::parse_quote!([#elem; #len])
            }
            View::Tuple(parts) => {
                let parts = parts.iter().map(View::owned);
                syn::parse_quote!((#(#parts,)*))
            }
        }
    }

    /// Returns the owned form of a value; `x` is an expression for a reference to it.
    pub(crate) fn own(&self, x: &TokenStream, rt: &TokenStream) -> TokenStream {
        let each = |elem: &View| {
            let value = elem.own(&ours!(x), rt);
            ours!(|x| #value)
        };
        match self {
            View::Tree(_) => ours!(#rt::copy(#x)),
            View::Reference(inner) => inner.own(&ours!((&**#x)), rt),
            View::Slice(elem) | View::List(elem) => {
                let each = each(elem);
                ours!(#rt::map_list(&(#x)[..], #each))
            }
            View::Option(elem) => {
                let each = each(elem);
                ours!(::core::option::Option::map(#x.as_ref(), #each))
            }
            View::Array(elem, _) => {
                let each = each(elem);
                ours!(#x.each_ref().map(#each))
            }
            View::Tuple(parts) => {
                let parts = parts.iter().enumerate().map(|(i, part)| {
                    let i = syn::Index::from(i);
                    part.own(&ours!((&#x.#i)), rt)
                });
                ours!((#(#parts,)*))
            }
        }
    }

    /// Returns the value that borrows from its owned form; `x` is an expression for a reference to
    /// the owned form.
    pub(crate) fn lend(&self, x: &TokenStream, rt: &TokenStream) -> TokenStream {
        let each = |elem: &View| {
            let value = elem.lend(&ours!(x), rt);
            ours!(|x| #value)
        };
        match self {
            View::Tree(_) => ours!(#rt::copy(#x)),
            View::Reference(inner) => match &**inner {
                View::Tree(_) => ours!(#x),
                View::Slice(elem) if !elem.borrows() => ours!(&(#x)[..]),
                inner => {
                    let value = inner.lend(x, rt);
                    ours!(&#value)
                }
            },
            View::Slice(elem) => {
                let each = each(elem);
                ours!(#rt::map_list(&(#x)[..], #each)[..])
            }
            View::List(elem) => {
                let each = each(elem);
                ours!(#rt::map_list(&(#x)[..], #each))
            }
            View::Option(elem) => {
                let each = each(elem);
                ours!((#x).as_ref().map(#each))
            }
            View::Array(elem, _) => {
                let each = each(elem);
                ours!((#x).each_ref().map(#each))
            }
            View::Tuple(parts) => {
                let parts = parts.iter().enumerate().map(|(i, part)| {
                    let i = syn::Index::from(i);
                    part.lend(&ours!((&(#x).#i)), rt)
                });
                ours!((#(#parts,)*))
            }
        }
    }

    /// Returns the statements that add a value to `key`, the key of a call; `x` is an expression for
    /// a reference to it.
    ///
    /// The key equals that of the owned form, but no handle is copied.
    pub(crate) fn add_to_key(&self, x: &TokenStream, rt: &TokenStream) -> TokenStream {
        match self {
            View::Tree(_) => ours!(#rt::add_to_key!(key tree #x);),
            View::Reference(inner) => inner.add_to_key(&ours!((&**#x)), rt),
            View::Slice(elem) | View::List(elem) | View::Array(elem, _) => {
                let each = elem.add_to_key(&ours!(x), rt);
                ours!(key.word(#x.len() as u64); for x in #x.iter() { #each })
            }
            View::Option(elem) => {
                let each = elem.add_to_key(&ours!(x), rt);
                ours!(key.word(#x.is_some() as u64); for x in #x.iter() { #each })
            }
            View::Tuple(parts) => {
                let parts = parts.iter().enumerate().map(|(i, part)| {
                    let i = syn::Index::from(i);
                    part.add_to_key(&ours!((&#x.#i)), rt)
                });
                ours!(#(#parts)*)
            }
        }
    }
}
