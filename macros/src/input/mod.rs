//! Parses the user's function: the kinds of its parameters, and the structure of its result.
//!
//! A macro sees tokens and no types, so a parameter's written type decides its kind: a tensor, a
//! tree of tensors, or a static value that is known before any tensor is.

pub(crate) mod annotation;
pub(crate) mod args;
mod attribute;
mod dim;
pub(crate) mod fallback;
mod format;
pub(crate) mod generic;
mod kind;
mod lint;
pub(crate) mod order;
mod output;
mod param;
pub(crate) mod rule;
pub(crate) mod selftest;
mod signature;
mod split;
mod view;

pub(crate) use attribute::{REMAT_HINTS, is_checkpoint, is_remat_hint, is_traced};
pub(crate) use format::format_names;
pub(crate) use kind::{Kind, NUMBERS, classify};
pub(crate) use lint::Lint;
pub(crate) use output::{OutShape, Output};
pub(crate) use param::{Param, without_helpers};
pub(crate) use signature::{lint_attributes, signature};
pub(crate) use split::SplitArg;
pub(crate) use view::View;

use annotation::DeclaredResult;
use generic::Params;
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::collections::BTreeMap;
use syn::{Attribute, Generics, Ident, Path, Signature, Type};

/// Impl block of a method.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) self_ty: Type,
    pub(crate) generics: Generics,
    /// The trait of a method of a trait.
    pub(crate) of_trait: Option<OfTrait>,
    /// Methods of the block that take no tensors beside the receiver and return host values, with
    /// whether these are numbers.
    pub(crate) of_numbers: BTreeMap<String, bool>,
}

/// Trait that a method belongs to.
#[derive(Clone, Debug)]
pub(crate) struct OfTrait {
    pub(crate) path: Path,
    pub(crate) place: TraitPlace,
    /// Functions of the trait that have hooks, in a method of the trait itself.
    pub(crate) hooked: Vec<String>,
}

/// Place of a method of a trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraitPlace {
    /// An impl for a type of the crate: the companions are inherent functions of the type.
    Impl,
    /// An impl for any other type. It has no companions.
    ForeignImpl,
    /// A default body in the trait itself. It has no companions.
    Default,
}

/// Parsed signature of a function to be traced.
#[derive(Clone, Debug)]
pub(crate) struct Func {
    pub(crate) vis: syn::Visibility,
    pub(crate) sig: Signature,
    pub(crate) params: Vec<Param>,
    pub(crate) output: Output,
    /// Annotations of `returns(..)` for each tensor of the result; empty without `returns`.
    pub(crate) declared: Vec<DeclaredResult>,
    pub(crate) owner: Option<Owner>,
    /// True if `order = 2` requests a second derivative, and the result has one.
    pub(crate) wants_hvp: bool,
    /// `cfg` and lint attributes, which the companions need too.
    pub(crate) attrs: Vec<Attribute>,
    /// True if the types of the companions can be derived from the signature.
    pub(crate) sound: bool,
}

impl Func {
    pub(crate) fn name(&self) -> String {
        unraw(&self.sig.ident)
    }

    /// Returns the generic parameters of the function and of its impl block.
    pub(crate) fn generics(&self) -> Params<'_> {
        let owner = self.owner.iter().map(|owner| &owner.generics);
        Params::new(owner.chain([&self.sig.generics]))
    }

    /// Returns the trait of a method of a trait.
    pub(crate) fn of_trait(&self) -> Option<&OfTrait> {
        self.owner.as_ref()?.of_trait.as_ref()
    }

    /// Returns whether companions are emitted.
    pub(crate) fn has_companions(&self) -> bool {
        self.of_trait()
            .is_none_or(|of| of.place == TraitPlace::Impl)
    }

    /// Returns whether it has a tensor to differentiate with respect to.
    ///
    /// A function that only takes random keys has none, nor has one whose tensors are all `#[nodiff]`.
    pub(crate) fn has_derivative(&self) -> bool {
        self.diff().next().is_some()
    }

    /// Returns whether it takes a tensor or a tree, so that its callers may have derivatives.
    pub(crate) fn takes_tensors(&self) -> bool {
        let is_traced = |p: &Param| matches!(p.kind, Kind::Tensor | Kind::Tree);
        self.params.iter().any(is_traced)
    }

    /// Returns the path of a method of a trait, `<Self as Trait>::name`.
    pub(crate) fn path_in_trait(&self) -> Option<TokenStream> {
        let (path, name) = (&self.of_trait()?.path, &self.sig.ident);
        Some(ours!(<Self as #path>::#name))
    }

    /// Returns the differentiated parameters with their positions.
    pub(crate) fn diff(&self) -> impl DoubleEndedIterator<Item = (usize, &Param)> {
        self.params.iter().enumerate().filter(|(_, p)| p.diff)
    }
}

/// Returns the name of an identifier without `r#`.
pub(crate) fn unraw(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

/// Returns a text in which the parameters of the closures that start with `spaced` touch their bars.
fn with_tight_closures(text: &str, spaced: &str, tight: &str) -> String {
    let mut parts = text.split(spaced);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + tight + &part.replacen(" |", "|", 1)
    })
}

/// Returns the text of tokens with conventional spacing.
pub(crate) fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens
        .to_token_stream()
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for (spaced, tight) in [
        (" . ", "."),
        (" :: ", "::"),
        (":: ", "::"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        (" ,", ","),
        ("& ", "&"),
        (" ?", "?"),
        (" < ", "<"),
        (" >", ">"),
        (" .. ", ".."),
        (" !", "!"),
        // Minus signs that follow no operand.
        ("(- ", "(-"),
        ("[- ", "[-"),
        (", - ", ", -"),
    ] {
        text = text.replace(spaced, tight);
    }
    for (spaced, tight) in [("(| ", "(|"), (", | ", ", |")] {
        text = with_tight_closures(&text, spaced, tight);
    }
    match text.strip_prefix("- ") {
        Some(operand) => format!("-{operand}"),
        None => text,
    }
}
