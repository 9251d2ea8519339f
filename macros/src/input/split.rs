//! Parses the mesh axes that split a dim, as users write them after the dim: `B@data`, `B@(data, model)`, `B@_`.

use super::unraw;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Token};

/// Mesh axes that split a dim, the major one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitArg {
    pub(crate) axes: Vec<Ident>,
    /// True if propagation may add axes.
    pub(crate) is_open: bool,
}

const WORDS: &str = "write a mesh axis such as `data`, `_` for an open dim, or a list with `_` at its end such as `(data, model)`";

impl SplitArg {
    /// Parses the axes after a dim, if there is an `@`.
    pub(crate) fn after_dim(input: ParseStream) -> syn::Result<Option<SplitArg>> {
        match input.parse::<Option<Token![@]>>()? {
            Some(_) => input.parse().map(Some),
            None => Ok(None),
        }
    }

    /// Appends an axis, or opens the dim.
    fn push(&mut self, input: ParseStream) -> syn::Result<()> {
        if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            self.is_open = true;
        } else {
            let axis = input.parse::<Ident>();
            self.axes.push(axis.map_err(|_| input.error(WORDS))?);
        }
        Ok(())
    }

    /// Returns the names of the axes.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.axes.iter().map(unraw)
    }
}

impl Parse for SplitArg {
    fn parse(input: ParseStream) -> syn::Result<SplitArg> {
        let mut split = SplitArg::default();
        if !input.peek(syn::token::Paren) {
            split.push(input)?;
            return Ok(split);
        }
        let list;
        syn::parenthesized!(list in input);
        while !list.is_empty() {
            if split.is_open {
                return Err(list.error(WORDS));
            }
            split.push(&list)?;
            if !list.is_empty() && !list.peek(Token![,]) {
                return Err(list.error(WORDS));
            }
            list.parse::<Option<Token![,]>>()?;
        }
        Ok(split)
    }
}

/// Prints `@data`, `@(data, model, _)` or `@()`.
impl std::fmt::Display for SplitArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.is_open.then(|| "_".to_owned());
        let items: Vec<String> = self.names().chain(open).collect();
        match &items[..] {
            [item] => write!(f, "@{item}"),
            items => write!(f, "@({})", items.join(", ")),
        }
    }
}

/// Checks that no axis occurs twice in an annotation.
pub(crate) fn check_distinct(splits: &[Option<SplitArg>]) -> syn::Result<()> {
    let dims = splits.iter().enumerate();
    let uses = dims.flat_map(|(i, split)| {
        split
            .iter()
            .flat_map(move |s| s.axes.iter().map(move |a| (i, a)))
    });
    let uses: Vec<(usize, &Ident)> = uses.collect();
    for (k, (second, axis)) in uses.iter().enumerate() {
        if let Some((first, _)) = uses[..k].iter().find(|(_, other)| other == axis) {
            let name = unraw(axis);
            let message = match first == second {
                true => format!("`{name}` splits dim {first} twice; remove one"),
                false => format!(
                    "`{name}` splits dim {first} already; an axis splits one dim of a tensor"
                ),
            };
            return Err(syn::Error::new(axis.span(), message));
        }
    }
    Ok(())
}
