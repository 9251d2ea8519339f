//! The user's function as the macro sees it: what each parameter is, and what comes back.
//!
//! A macro sees tokens and no types, so a parameter is what its written type says: a tensor, a tree of tensors, or a
//! static value that is known before any tensor is.

mod kind;
mod output;
mod param;
mod signature;

pub(crate) use kind::{Kind, NUMBERS, classify};
pub(crate) use output::{OutShape, Output};
pub(crate) use param::Param;
pub(crate) use signature::{lint_attributes, signature};

use crate::annotation::Declared;
use crate::generic::Params;
use quote::ToTokens;
use syn::{Attribute, Generics, Ident, Signature, Type};

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

    /// Its types and constants, and those of the impl block that it stands in.
    pub(crate) fn generics(&self) -> Params<'_> {
        let owner = self.owner.iter().map(|owner| &owner.generics);
        Params::of(owner.chain([&self.sig.generics]))
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

/// Tokens as a person writes them.
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
    ] {
        text = text.replace(spaced, tight);
    }
    text
}
