//! Determines which types depend on the generic parameters of an item, and which may borrow.

use super::unraw;
use crate::method_table::NUMBERS;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{GenericParam, Generics, Path, Type, TypeParamBound, WherePredicate};

/// Generic parameters of an item and of its impl block.
pub(crate) struct Params<'a> {
    all: Vec<&'a GenericParam>,
    /// Names of the type parameters that cannot borrow.
    owned: BTreeSet<String>,
    /// Bounds of type parameters by traits.
    bounds: Vec<(String, Path)>,
}

impl<'a> Params<'a> {
    pub(crate) fn new(generics: impl IntoIterator<Item = &'a Generics>) -> Params<'a> {
        let (mut all, mut owned, mut bounds) = (Vec::new(), BTreeSet::new(), Vec::new());
        for generics in generics {
            all.extend(&generics.params);
            owned.extend(owned_types(generics));
            bounds.extend(trait_bounds(generics));
        }
        Params { all, owned, bounds }
    }

    /// Returns whether instances may behave differently: there are type or const parameters.
    pub(crate) fn decide(&self) -> bool {
        !(self.all.iter()).all(|param| matches!(param, GenericParam::Lifetime(_)))
    }

    /// Returns the names of the type parameters.
    pub(crate) fn types(&self) -> BTreeSet<String> {
        let types = self.all.iter().filter_map(|param| match param {
            GenericParam::Type(ty) => Some(unraw(&ty.ident)),
            _ => None,
        });
        types.collect()
    }

    /// Returns the names of the type parameters without a bound `?Sized`.
    pub(crate) fn sized_types(&self) -> BTreeSet<String> {
        let types = self.all.iter().filter_map(|param| match param {
            GenericParam::Type(ty) => Some(ty),
            _ => None,
        });
        let relaxed =
            |bound: &TypeParamBound| matches!(bound, TypeParamBound::Trait(t) if t.maybe.is_some());
        let sized = types.filter(|ty| !ty.bounds.iter().any(relaxed));
        sized.map(|ty| unraw(&ty.ident)).collect()
    }

    /// Returns the names of the const parameters.
    pub(crate) fn constants(&self) -> BTreeSet<String> {
        let constants = self.all.iter().filter_map(|param| match param {
            GenericParam::Const(value) => Some(unraw(&value.ident)),
            _ => None,
        });
        constants.collect()
    }

    /// Returns whether a name is a type parameter or the trait of a bound of one.
    pub(crate) fn bind(&self, name: &str) -> bool {
        let of_bound = |path: &Path| path.segments.last().is_some_and(|s| s.ident == name);
        let types = self.types();
        types.contains(name) || types.iter().any(|ty| self.bounds(ty).iter().any(of_bound))
    }

    /// Returns the traits in the bounds of a type parameter.
    pub(crate) fn bounds(&self, name: &str) -> Vec<Path> {
        let bounds = self.bounds.iter().filter(|(ty, _)| ty == name);
        bounds.map(|(_, path)| path.clone()).collect()
    }

    /// Returns whether a type is independent of the type and const parameters.
    pub(crate) fn fix(&self, ty: &Type) -> bool {
        let (types, constants) = (self.types(), self.constants());
        !names(ty, |name| types.contains(name) || constants.contains(name))
    }

    /// Returns whether values of a type may borrow, so that a key cannot store them.
    ///
    /// Elided lifetimes in paths are not seen.
    pub(crate) fn may_borrow(&self, ty: &Type) -> bool {
        // Numbers, strings and sequences of them are stored by value, even behind a reference.
        if is_known(ty) {
            return false;
        }
        let types = self.types();
        let mut lifetimes = Lifetimes(false);
        lifetimes.visit_type(ty);
        lifetimes.0
            || names(ty, |name| {
                types.contains(name) && !self.owned.contains(name)
            })
    }

    /// Returns the first type parameter in a type that may borrow.
    pub(crate) fn borrower(&self, ty: &Type) -> Option<String> {
        let mut types = self.types().into_iter();
        types.find(|ty_name| !self.owned.contains(ty_name) && names(ty, |name| name == ty_name))
    }
}

/// Returns whether a type contains a name for which `of` holds.
pub(crate) fn names(ty: &Type, of: impl Fn(&str) -> bool) -> bool {
    struct NameFinder<F>(F, bool);
    impl<'ast, F: Fn(&str) -> bool> Visit<'ast> for NameFinder<F> {
        fn visit_ident(&mut self, ident: &'ast syn::Ident) {
            self.1 |= (self.0)(&unraw(ident));
        }
    }
    let mut names = NameFinder(of, false);
    names.visit_type(ty);
    names.1
}

/// Returns whether tokens mention a type or const parameter of an item.
pub(crate) fn names_in(generics: &Generics, tokens: &TokenStream) -> bool {
    let params = Params::new([generics]);
    let (types, constants) = (params.types(), params.constants());
    has_ident(tokens.clone(), &|name| {
        types.contains(name) || constants.contains(name)
    })
}

fn has_ident(tokens: TokenStream, of: &impl Fn(&str) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => of(&unraw(&ident)),
        TokenTree::Group(group) => has_ident(group.stream(), of),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Returns the type parameters with a bound `T: 'static`.
fn owned_types(generics: &Generics) -> impl Iterator<Item = String> {
    let bounds = all_bounds(generics);
    bounds.filter_map(|(name, bound)| {
        matches!(bound, TypeParamBound::Lifetime(l) if l.ident == "static").then_some(name)
    })
}

/// Returns the type parameters with a bound by a trait, and the trait.
fn trait_bounds(generics: &Generics) -> impl Iterator<Item = (String, Path)> {
    all_bounds(generics).filter_map(|(name, bound)| match bound {
        TypeParamBound::Trait(bound) if bound.maybe.is_none() => Some((name, bound.path.clone())),
        _ => None,
    })
}

/// Returns the bounds of the type parameters, at the parameters and in the where-clause.
fn all_bounds(generics: &Generics) -> impl Iterator<Item = (String, &TypeParamBound)> {
    let params = generics.type_params();
    let params = params.map(|ty| (unraw(&ty.ident), &ty.bounds));
    let predicates = generics.where_clause.iter().flat_map(|w| &w.predicates);
    let bounded = predicates.filter_map(|predicate| match predicate {
        WherePredicate::Type(p) => match &p.bounded_ty {
            Type::Path(path) => Some((unraw(path.path.get_ident()?), &p.bounds)),
            _ => None,
        },
        _ => None,
    });
    let all = params.chain(bounded);
    all.flat_map(|(name, bounds)| bounds.iter().map(move |bound| (name.clone(), bound)))
}

/// Finds lifetimes other than `'static`, and types that are not written out.
struct Lifetimes(bool);

impl<'ast> Visit<'ast> for Lifetimes {
    fn visit_lifetime(&mut self, lifetime: &'ast syn::Lifetime) {
        self.0 |= lifetime.ident != "static";
    }
    fn visit_type(&mut self, ty: &'ast Type) {
        self.0 |= match ty {
            Type::Reference(r) => r.lifetime.is_none(),
            Type::Infer(_) | Type::ImplTrait(_) | Type::Macro(_) | Type::Verbatim(_) => true,
            _ => false,
        };
        syn::visit::visit_type(self, ty);
    }
    // A function pointer does not hold its arguments, so elided lifetimes in it are harmless.
    fn visit_type_fn_ptr(&mut self, ty: &'ast syn::TypeFnPtr) {
        let mut inner = NamedLifetimes(false);
        syn::visit::visit_type_fn_ptr(&mut inner, ty);
        self.0 |= inner.0;
    }
}

/// Finds named lifetimes other than `'static`.
struct NamedLifetimes(bool);

impl<'ast> Visit<'ast> for NamedLifetimes {
    fn visit_lifetime(&mut self, lifetime: &'ast syn::Lifetime) {
        self.0 |= lifetime.ident != "static" && lifetime.ident != "_";
    }
}

/// The type with its lifetimes left to rustc: outside of the user's signature they have no names.
pub(crate) fn without_lifetimes(ty: &Type) -> TokenStream {
    struct LifetimeEraser;
    impl syn::visit_mut::VisitMut for LifetimeEraser {
        fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
            if lifetime.ident != "static" {
                lifetime.ident = Ident::new("_", lifetime.ident.span());
            }
        }
    }
    let mut ty = ty.clone();
    syn::visit_mut::VisitMut::visit_type_mut(&mut LifetimeEraser, &mut ty);
    ty.to_token_stream()
}

/// Returns whether a static parameter has a type of the standard library that a key stores
/// directly.
pub(crate) fn is_known(ty: &Type) -> bool {
    const TYPES: [&str; 9] = [
        "str",
        "String",
        "Vec",
        "Option",
        "Box",
        "Range",
        "RangeInclusive",
        "DType",
        "Key",
    ];
    match ty {
        Type::Reference(r) => is_known(&r.elem),
        Type::Slice(s) => is_known(&s.elem),
        Type::Array(a) => is_known(&a.elem),
        Type::Tuple(t) => t.elems.iter().all(is_known),
        Type::Paren(p) => is_known(&p.elem),
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else {
                return false;
            };
            let inner = match &last.arguments {
                syn::PathArguments::None => true,
                syn::PathArguments::AngleBracketed(args) => args.args.iter().all(|arg| match arg {
                    syn::GenericArgument::Type(ty) => is_known(ty),
                    _ => false,
                }),
                syn::PathArguments::Parenthesized(_) => false,
            };
            let name = last.ident.to_string();
            inner && (NUMBERS.contains(&&*name) || TYPES.contains(&&*name))
        }
        _ => false,
    }
}
