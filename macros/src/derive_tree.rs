//! `#[derive(Tree)]`: emits one match arm per variant and one call per field.

use crate::emit::{Borrowing, static_arg, static_key};
use crate::input::generic::{Params, names};
use crate::input::{text, unraw};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Data, DeriveInput, Field, Fields, Ident, Index, Member, Path, Type};

pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let parsed = syn::parse2::<DeriveInput>(input).and_then(|input| expand(&input));
    parsed.unwrap_or_else(|error| error.into_compile_error())
}

/// Parsed `#[tree(..)]` attributes of a type or a field.
#[derive(Default)]
struct Options {
    skip: bool,
    /// True if `#[nodiff]` freezes the leaves of the field.
    frozen: bool,
    krate: Option<Path>,
}

impl Options {
    fn parse(attrs: &[syn::Attribute], on_field: bool) -> syn::Result<Options> {
        let mut options = Options::default();
        for attr in attrs.iter().filter(|a| a.path().is_ident("nodiff")) {
            let wrong = match (&attr.meta, on_field) {
                (syn::Meta::Path(_), true) => None,
                (_, true) => Some("`#[nodiff]` takes no arguments"),
                (_, false) => {
                    Some("`#[nodiff]` goes on a field, or on a parameter of a traced function")
                }
            };
            if let Some(wrong) = wrong {
                return Err(syn::Error::new_spanned(attr, wrong));
            }
            options.frozen = true;
        }
        for attr in attrs.iter().filter(|a| a.path().is_ident("tree")) {
            attr.parse_nested_meta(|meta| {
                if on_field && meta.path.is_ident("skip") {
                    options.skip = true;
                    Ok(())
                } else if !on_field && meta.path.is_ident("crate") {
                    options.krate = Some(meta.value()?.parse()?);
                    Ok(())
                } else if on_field {
                    Err(meta.error("the attribute of a field is `#[tree(skip)]`: the field is excluded from the tree and cloned"))
                } else {
                    Err(meta.error("a type takes `#[tree(crate = path)]`; `skip` goes on a field"))
                }
            })?;
        }
        let both = attrs.iter().find(|a| a.path().is_ident("nodiff"));
        if let (Some(nodiff), true) = (both, options.skip) {
            let message = "a skipped field has no gradient anyway; remove `#[nodiff]`";
            return Err(syn::Error::new_spanned(nodiff, message));
        }
        Ok(options)
    }
}

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let krate = Options::parse(&input.attrs, false)?.krate;
    let krate = krate.map_or_else(|| quote!(::gradloom), |path| quote!(#path));
    let name = &input.ident;
    if let Some(found) = trait_object(input) {
        return Ok(unusable(input, &found, &krate));
    }
    let params = Params::new([&input.generics]);
    let variants: Vec<Variant> = match &input.data {
        Data::Struct(data) => vec![Variant::new(quote!(Self), None, &data.fields, &params)?],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|v| {
                let ident = &v.ident;
                Variant::new(quote!(Self::#ident), Some(ident), &v.fields, &params)
            })
            .collect::<syn::Result<_>>()?,
        Data::Union(data) => {
            let message = "`Tree` cannot be derived for a union, because its active field is not known; use an enum";
            return Err(syn::Error::new(data.union_token.span, message));
        }
    };
    let mut generics = input.generics.clone();
    let bounds = bounds(input, &variants, &krate);
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let visit = variants
        .iter()
        .map(|v| v.arm(|field| quote!(#krate::Tree::visit(#field, f);)));
    let visit_mut = variants
        .iter()
        .map(|v| v.arm(|field| quote!(#krate::Tree::visit_mut(#field, f);)));
    let map = variants.iter().map(|v| v.rebuild(&krate));
    let paths = variants.iter().map(|v| v.paths(&krate));
    let several = variants.len() > 1;
    let keys = variants
        .iter()
        .enumerate()
        .map(|(i, v)| v.key(several.then_some(i as u64), &krate));
    let frozen = variants.iter().map(|v| v.frozen(&krate));
    let shared = shared(&variants, name, &krate);
    let unkeyed = unkeyed(&variants, name, &krate);
    // A reference to an enum without variants needs a wildcard arm.
    let empty = variants
        .is_empty()
        .then(|| quote!(_ => ::core::unreachable!(),));
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all)]
        impl #impl_generics #krate::Tree for #name #ty_generics #where_clause {
            fn visit(&self, f: &mut dyn ::core::ops::FnMut(&#krate::Tensor)) {
                match self { #(#visit)* #empty }
            }
            fn visit_mut(&mut self, f: &mut dyn ::core::ops::FnMut(&mut #krate::Tensor)) {
                match self { #(#visit_mut)* #empty }
            }
            fn map(&self, f: &mut dyn ::core::ops::FnMut(&#krate::Tensor) -> #krate::Tensor) -> Self {
                match self { #(#map)* #empty }
            }
            fn paths(&self, prefix: &str, out: &mut ::std::vec::Vec<::std::string::String>) {
                match self { #(#paths)* #empty }
            }
            fn __key<'__key>(&'__key self, key: &mut #krate::__private::CallKey<'__key>) {
                match self { #(#keys)* #empty }
            }
            fn __frozen(&self, out: &mut ::std::vec::Vec<bool>) {
                match self { #(#frozen)* #empty }
            }
            #shared
            #unkeyed
        }
        #[automatically_derived]
        impl #impl_generics #krate::JacobianTree for #name #ty_generics #where_clause {
            type Blocks<__X: #krate::Tree> = #krate::JacobianRows<Self, __X>;
            fn __blocks<__X: #krate::Tree>(
                &self,
                rows: &mut dyn ::core::iter::Iterator<Item = __X>,
            ) -> Self::Blocks<__X> {
                #krate::JacobianRows::__new(self, rows)
            }
        }
    })
}

/// Returns the error for the first field with a trait object.
fn trait_object(input: &DeriveInput) -> Option<syn::Error> {
    struct Finder(Option<syn::Error>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_field(&mut self, field: &'ast Field) {
            let skips = |attr: &syn::Attribute| attr.path().is_ident("tree");
            if !field.attrs.iter().any(skips) {
                syn::visit::visit_field(self, field);
            }
        }
        // A type of the user's may be a tree whatever its parameters are.
        fn visit_type_path(&mut self, ty: &'ast syn::TypePath) {
            const CONTAINERS: [&str; 7] =
                ["Arc", "BTreeMap", "Box", "Option", "Rc", "Vec", "VecDeque"];
            let last = ty.path.segments.last().map(|s| unraw(&s.ident));
            if last.is_some_and(|last| CONTAINERS.contains(&&*last)) {
                syn::visit::visit_type_path(self, ty);
            }
        }
        fn visit_type_trait_object(&mut self, ty: &'ast syn::TypeTraitObject) {
            let message = "the leaves of a trait object are not known, so it is not a tree; use an enum or a type parameter, or skip the field with `#[tree(skip)]`";
            self.0.get_or_insert(syn::Error::new_spanned(ty, message));
        }
    }
    let mut finder = Finder(None);
    finder.visit_derive_input(input);
    finder.0
}

/// Returns an error and an impl that satisfies the functions that need the type to be a tree.
fn unusable(input: &DeriveInput, error: &syn::Error, krate: &TokenStream) -> TokenStream {
    let (error, name) = (error.to_compile_error(), &input.ident);
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #error
        #[allow(unused_variables, clippy::all)]
        impl #impl_generics #krate::Tree for #name #ty_generics #where_clause {
            fn visit(&self, f: &mut dyn ::core::ops::FnMut(&#krate::Tensor)) {}
            fn visit_mut(&mut self, f: &mut dyn ::core::ops::FnMut(&mut #krate::Tensor)) {}
            fn map(&self, f: &mut dyn ::core::ops::FnMut(&#krate::Tensor) -> #krate::Tensor) -> Self {
                ::core::unreachable!()
            }
            fn paths(&self, prefix: &str, out: &mut ::std::vec::Vec<::std::string::String>) {}
        }
    }
}

/// Returns `__SHARED`, the reason why a call site cannot cache a result of this type, if there is
/// one.
///
/// Cached results would share their skipped fields. Only skipped fields are checked, because the
/// other fields may contain the type itself.
fn shared(variants: &[Variant], name: &Ident, krate: &TokenStream) -> TokenStream {
    let rt = quote!(#krate::__private);
    let fields = skipped(variants).map(|TreeField { member, ty, .. }| {
        let why = format!(
            "cached results would share the skipped field `{}` of `{name}`, because `{}` is not composed of numbers, strings and lists",
            name_of(member),
            text(ty)
        );
        quote! {
            if !#rt::kept_by_site(&|x: &#ty| {
                use #rt::by_type::*;
                (&&#rt::StaticArg(x)).kept_by_site()
            }) {
                ::core::option::Option::Some(#why)
            } else
        }
    });
    let why = first_of(fields.collect());
    quote!(const __SHARED: ::core::option::Option<&'static str> = #why;)
}

/// Returns `__UNKEYED`, the reason why no key can hold an argument of this type, if there is one.
fn unkeyed(variants: &[Variant], name: &Ident, krate: &TokenStream) -> TokenStream {
    let rt = quote!(#krate::__private);
    let fields = skipped(variants).map(|field| {
        let (ty, member) = (&field.ty, name_of(&field.member));
        let why = match field.borrowing {
            Borrowing::Possible => format!(
                "the skipped field `{member}` of `{name}` cannot be part of a cache key, because its type `{ty}` depends on a parameter that may borrow; write a type without parameters, or the bounds `Eq + Clone + 'static`",
                ty = text(ty)
            ),
            Borrowing::Never => format!(
                "the skipped field `{member}` of `{name}` cannot be part of a cache key: its type is not `Eq` and `Clone`, or is a function pointer or a cell; derive them for `{ty}`, or, if it has floats, derive `Tree` for it with `#[tree(skip)]` on its fields instead of on `{member}`",
                ty = text(ty)
            ),
        };
        let fits = static_arg(&rt, &quote!(x), field.borrowing);
        quote! {
            if !#rt::argument_fits(&|x: &#ty| {
                use #rt::by_type::*;
                (#fits).fits_in_key()
            }) {
                ::core::option::Option::Some(#why)
            } else
        }
    });
    let why = first_of(fields.collect());
    quote!(const __UNKEYED: ::core::option::Option<&'static str> = #why;)
}

/// Returns an expression from the parts `if .. { why } else`: the first reason that applies.
fn first_of(reasons: Vec<TokenStream>) -> TokenStream {
    let none = quote!(::core::option::Option::None);
    match reasons.is_empty() {
        true => none,
        false => quote!(#(#reasons)* { #none }),
    }
}

fn name_of(member: &Member) -> String {
    match member {
        Member::Named(name) => unraw(name),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

fn skipped(variants: &[Variant]) -> impl Iterator<Item = &TreeField> {
    variants
        .iter()
        .flat_map(|v| v.fields.iter().filter(|f| f.skip))
}

/// Returns the bounds of the `Tree` impl.
///
/// A type parameter that a leaf or subtree mentions must be a `Tree`. One that only skipped fields
/// mention need not be, but these fields must be `Clone`.
fn bounds(
    input: &DeriveInput,
    variants: &[Variant],
    krate: &TokenStream,
) -> Vec<syn::WherePredicate> {
    let types: Vec<&Ident> = input.generics.type_params().map(|ty| &ty.ident).collect();
    let fields = || variants.iter().flat_map(|v| &v.fields);
    let mentions = |field: &TreeField, ty: &Ident| names(&field.ty, |name| name == unraw(ty));
    let trees = types.iter().filter(|ty| {
        let mut parts = fields().filter(|field| mentions(field, ty)).peekable();
        parts.peek().is_none() || parts.any(|field| !field.skip)
    });
    let trees = trees.map(|ty| syn::parse_quote!(#ty: #krate::Tree));
    let skipped = fields().filter(|field| field.skip && types.iter().any(|ty| mentions(field, ty)));
    let clones = skipped.map(|field| {
        let ty = &field.ty;
        syn::parse_quote!(#ty: ::core::clone::Clone)
    });
    trees.chain(clones).collect()
}

/// Variant of an enum, or a struct.
struct Variant {
    constructor: TokenStream,
    name: Option<Ident>,
    fields: Vec<TreeField>,
}

struct TreeField {
    member: Member,
    /// Local that the field is bound to.
    local: Ident,
    ty: Type,
    skip: bool,
    frozen: bool,
    /// A call's key cannot store a field that may borrow.
    borrowing: Borrowing,
}

impl Variant {
    fn new(
        constructor: TokenStream,
        name: Option<&Ident>,
        fields: &Fields,
        params: &Params<'_>,
    ) -> syn::Result<Variant> {
        let field = |(i, field): (usize, &Field)| {
            let member = match &field.ident {
                Some(ident) => Member::Named(ident.clone()),
                None => Member::Unnamed(Index::from(i)),
            };
            // The field's own name might be that of a constant, or `f`. The local has the span of
            // the type, so errors point there.
            let span = proc_macro2::Span::mixed_site().located_at(field.ty.span());
            let local = format_ident!("field_{i}", span = span);
            let options = Options::parse(&field.attrs, true)?;
            Ok(TreeField {
                member,
                local,
                ty: field.ty.clone(),
                skip: options.skip,
                frozen: options.frozen,
                borrowing: match params.may_borrow(&field.ty) {
                    true => Borrowing::Possible,
                    false => Borrowing::Never,
                },
            })
        };
        let fields = fields
            .iter()
            .enumerate()
            .map(field)
            .collect::<syn::Result<_>>()?;
        Ok(Variant {
            constructor,
            name: name.cloned(),
            fields,
        })
    }

    /// Returns the pattern `Self::Name { w: field_0, .. }`, which binds the fields of the tree.
    ///
    /// With `skipped` it also binds the skipped fields.
    fn pattern(&self, skipped: bool) -> TokenStream {
        let constructor = &self.constructor;
        let fields = self.fields.iter().filter(|f| skipped || !f.skip);
        let bindings = fields.map(|TreeField { member, local, .. }| quote!(#member: #local));
        quote!(#constructor { #(#bindings,)* .. })
    }

    fn arm(&self, call: impl Fn(&Ident) -> TokenStream) -> TokenStream {
        let pattern = self.pattern(false);
        let calls = self
            .fields
            .iter()
            .filter(|f| !f.skip)
            .map(|f| call(&f.local));
        quote!(#pattern => { #(#calls)* })
    }

    fn rebuild(&self, krate: &TokenStream) -> TokenStream {
        let (pattern, constructor) = (self.pattern(true), &self.constructor);
        let fields = self.fields.iter().map(
            |TreeField {
                 member,
                 local,
                 skip,
                 ..
             }| match skip {
                true => quote!(#member: ::core::clone::Clone::clone(#local)),
                false => quote!(#member: #krate::Tree::map(#local, f)),
            },
        );
        quote!(#pattern => #constructor { #(#fields,)* },)
    }

    /// Returns the arm that writes the variant's index and all fields to a cache key.
    ///
    /// Skipped fields are keyed as static values.
    fn key(&self, variant: Option<u64>, krate: &TokenStream) -> TokenStream {
        let pattern = self.pattern(true);
        let variant = variant.map(|i| quote!(key.word(#i);));
        let fields = self.fields.iter().map(|field| {
            let local = &field.local;
            match field.skip {
                true => static_key(
                    &quote!(#krate::__private),
                    &quote!(#local),
                    field.borrowing,
                    &quote!(key),
                ),
                false => quote!(#krate::Tree::__key(#local, key);),
            }
        });
        quote!(#pattern => { #variant #(#fields)* })
    }

    /// Returns the arm that lists which leaves are frozen.
    fn frozen(&self, krate: &TokenStream) -> TokenStream {
        let pattern = self.pattern(false);
        let fields = self.fields.iter().filter(|f| !f.skip);
        let fields = fields.map(|TreeField { local, frozen, .. }| match frozen {
            true => quote!(#krate::Tree::visit(#local, &mut |_| out.push(true));),
            false => quote!(#krate::Tree::__frozen(#local, out);),
        });
        quote!(#pattern => { #(#fields)* })
    }

    fn paths(&self, krate: &TokenStream) -> TokenStream {
        let pattern = self.pattern(false);
        let fields = self.fields.iter().filter(|f| !f.skip).map(
            |TreeField { member, local, .. }| {
                let member = match (member, &self.name) {
                    (Member::Named(name), None) => format!(".{name}"),
                    (Member::Unnamed(index), None) => format!(".{}", index.index),
                    // A path such as `model::Dense.w`.
                    (Member::Named(name), Some(variant)) => format!("::{variant}.{name}"),
                    (Member::Unnamed(index), Some(variant)) => {
                        format!("::{variant}.{}", index.index)
                    }
                };
                quote!(#krate::Tree::paths(#local, &::std::format!("{}{}", prefix, #member), out);)
            },
        );
        quote!(#pattern => { #(#fields)* })
    }
}

#[cfg(test)]
mod tests {
    fn expanded(source: &str) -> String {
        let tokens = super::derive(source.parse().unwrap());
        prettyplease::unparse(&syn::parse2(tokens).unwrap())
    }

    #[test]
    fn a_struct_visits_its_fields_in_order() {
        insta::assert_snapshot!(expanded(
            "struct Linear { w: Tensor, #[tree(skip)] name: String, b: Option<Tensor> }"
        ));
    }

    #[test]
    fn an_enum_has_an_arm_for_each_variant() {
        insta::assert_snapshot!(expanded(
            "enum Layer<T> { Dense(Linear, T), Flat, Named { w: Tensor } }"
        ));
    }

    #[test]
    fn invalid_items_and_attributes_are_reported() {
        let message = |source: &str| super::derive(source.parse().unwrap()).to_string();
        assert!(message("union U { a: u8 }").contains("derived for a union"));
        assert!(message("struct S { #[tree(skp)] a: u8 }").contains("#[tree(skip)]"));
        assert!(message("#[tree(skip)] struct S;").contains("goes on a field"));
        assert!(message("#[nodiff] struct S;").contains("goes on a field"));
        assert!(message("struct S { #[nodiff(1)] a: u8 }").contains("takes no arguments"));
        assert!(message("struct S { #[nodiff] #[tree(skip)] a: u8 }").contains("remove"));
    }
}
