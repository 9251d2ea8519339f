//! Parses a dim as users write it in `#[shape(B, 784, 2 * B + 1, _)]`, with mesh axes that split it.

use super::{SplitArg, unraw};
use gradloom_ir::{Dim, Poly, Symbol};
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Token};

/// A dim, and how it is split, if that is written.
pub(crate) struct DimArg(pub(crate) Dim, pub(crate) Option<SplitArg>);

const WORDS: &str =
    "a dim is a number, a name such as `B`, a sum or product of these such as `2 * B + 1`, or `_`";

impl Parse for DimArg {
    fn parse(input: ParseStream) -> syn::Result<DimArg> {
        let start = input.span();
        let dim = if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            Dim::Unknown
        } else {
            let dim = Dim::from(sum(input)?);
            if dim == Dim::Unknown {
                return Err(syn::Error::new(start, "a dim is never below 0"));
            }
            dim
        };
        let split = SplitArg::after_dim(input)?;
        match input.is_empty() || input.peek(Token![,]) {
            true => Ok(DimArg(dim, split)),
            false => Err(input.error(WORDS)),
        }
    }
}

fn sum(input: ParseStream) -> syn::Result<Poly> {
    let mut total = product(input)?;
    loop {
        let span = input.span();
        let next = if input.peek(Token![+]) {
            input.parse::<Token![+]>()?;
            total.plus(&product(input)?)
        } else if input.peek(Token![-]) {
            input.parse::<Token![-]>()?;
            total.minus(&product(input)?)
        } else {
            return Ok(total);
        };
        total = representable(next, span)?;
    }
}

fn product(input: ParseStream) -> syn::Result<Poly> {
    let mut total = factor(input)?;
    while input.peek(Token![*]) {
        let span = input.span();
        input.parse::<Token![*]>()?;
        total = representable(total.times(&factor(input)?), span)?;
    }
    Ok(total)
}

fn factor(input: ParseStream) -> syn::Result<Poly> {
    if input.peek(syn::LitInt) {
        let n: syn::LitInt = input.parse()?;
        let number: syn::Result<usize> = n.base10_parse();
        let number = number.map_err(|_| syn::Error::new(n.span(), WORDS))?;
        return Ok(Poly::constant(number as i128));
    }
    if input.peek(Ident) {
        let name: Ident = input.parse()?;
        return Ok(Poly::name(Symbol::new(&unraw(&name))));
    }
    if input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in input);
        let total = sum(&inner)?;
        return match inner.is_empty() {
            true => Ok(total),
            false => Err(inner.error(WORDS)),
        };
    }
    Err(input.error(WORDS))
}

fn representable(poly: Option<Poly>, span: proc_macro2::Span) -> syn::Result<Poly> {
    poly.ok_or_else(|| syn::Error::new(span, "this dim has too many terms; write `_`"))
}
