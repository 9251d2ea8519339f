//! Handles bodies that do not parse: bodies that are being typed, or that use syntax unknown to
//! `syn`.
//!
//! The companions depend on the signature only, so the item and its companions are still emitted,
//! with the body as the user wrote it. rustc parses every item before it runs the macro and has
//! reported the error in the body already, so the macro reports none. The function is traced at run
//! time, which is correct if rustc does accept the body.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{
    Attribute, Block, Expr, FnModifiers, ImplItem, ItemFn, ItemImpl, Signature, Stmt, Visibility,
};

/// Parses a function whose signature parses, and whose body need not.
pub(crate) fn function(item: TokenStream) -> Option<ItemFn> {
    let func: UnparsedFunction = syn::parse2(item).ok()?;
    Some(ItemFn {
        attrs: func.attrs,
        vis: func.vis,
        modifiers: FnModifiers::default(),
        sig: func.sig,
        block: Box::new(block(&func.body)),
    })
}

/// Parses an impl block whose method bodies need not parse.
pub(crate) fn methods(item: TokenStream) -> Option<ItemImpl> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let Some(TokenTree::Group(items)) = tokens.pop() else {
        return None;
    };
    let (emptied, bodies) = empty_bodies.parse2(items.stream()).ok()?;
    tokens.push(with_stream(&items, emptied).into());
    let mut imp: ItemImpl = syn::parse2(tokens.into_iter().collect()).ok()?;
    for (index, body) in bodies {
        if let Some(ImplItem::Fn(method)) = imp.items.get_mut(index) {
            method.block = block(&body);
        }
    }
    Some(imp)
}

/// Returns a body that does not parse, as the group of tokens that the user wrote.
pub(crate) fn unparsed(block: &Block) -> Option<&TokenStream> {
    let [Stmt::Expr(Expr::Verbatim(body), None)] = &*block.stmts else {
        return None;
    };
    let mut tokens = body.clone().into_iter();
    let is_body =
        matches!(tokens.next(), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace);
    (is_body && tokens.next().is_none()).then_some(body)
}

/// Returns the tokens of a function.
///
/// A body that does not parse is the user's group itself, not a copy. A copy would have one span
/// for both of its braces, and rustc would report an error before the closing brace a second time.
pub(crate) fn print_function(func: &ItemFn) -> TokenStream {
    match unparsed(&func.block) {
        Some(body) => head(&func.attrs, &func.vis, &func.sig, body),
        None => func.to_token_stream(),
    }
}

/// Makes a method print its body like [`print_function`].
pub(crate) fn print_method(item: &mut ImplItem) {
    if let ImplItem::Fn(method) = item
        && let Some(body) = unparsed(&method.block)
    {
        *item = ImplItem::Verbatim(head(&method.attrs, &method.vis, &method.sig, body));
    }
}

/// Removes the macro's own attributes from a body that does not parse.
pub(crate) fn take_attributes(block: &mut Block, names: &[&str]) {
    if let [Stmt::Expr(Expr::Verbatim(body), None)] = &mut *block.stmts
        && let Some(without) = without_attributes(body, names)
    {
        *body = without;
    }
}

fn head(attrs: &[Attribute], vis: &Visibility, sig: &Signature, body: &TokenStream) -> TokenStream {
    quote!(#(#attrs)* #vis #sig #body)
}

/// Function or method whose body is an unparsed group of tokens.
struct UnparsedFunction {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    body: Group,
}

impl Parse for UnparsedFunction {
    fn parse(input: ParseStream) -> syn::Result<UnparsedFunction> {
        let func = UnparsedFunction {
            attrs: input.call(Attribute::parse_outer)?,
            vis: input.parse()?,
            sig: input.parse()?,
            body: input.parse()?,
        };
        match func.body.delimiter() {
            Delimiter::Brace => Ok(func),
            _ => Err(input.error("a body stands in braces")),
        }
    }
}

/// Returns the items of an impl block, with empty bodies in place of those that do not parse.
///
/// Also returns these bodies, with the positions of their methods.
fn empty_bodies(input: ParseStream) -> syn::Result<(TokenStream, Vec<(usize, Group)>)> {
    let (mut tokens, mut bodies) = (TokenStream::new(), Vec::new());
    tokens.extend(
        Attribute::parse_inner(input)?
            .iter()
            .map(ToTokens::to_token_stream),
    );
    for index in 0.. {
        if input.is_empty() {
            break;
        }
        if input.fork().parse::<ImplItem>().is_ok() {
            input.parse::<ImplItem>()?.to_tokens(&mut tokens);
            continue;
        }
        let method: UnparsedFunction = input.parse()?;
        let empty = with_stream(&method.body, TokenStream::new()).into_token_stream();
        tokens.extend(head(&method.attrs, &method.vis, &method.sig, &empty));
        bodies.push((index, method.body));
    }
    Ok((tokens, bodies))
}

/// Returns a block that stands for a body that does not parse.
fn block(body: &Group) -> Block {
    Block {
        brace_token: syn::token::Brace {
            span: body.delim_span(),
        },
        stmts: vec![Stmt::Expr(Expr::Verbatim(body.to_token_stream()), None)],
    }
}

fn with_stream(group: &Group, stream: TokenStream) -> Group {
    let mut new = Group::new(group.delimiter(), stream);
    new.set_span(group.span());
    new
}

/// Returns the tokens without the named attributes, or `None` if there are none.
fn without_attributes(tokens: &TokenStream, names: &[&str]) -> Option<TokenStream> {
    let is_one = |group: &Group| {
        let first = group.stream().into_iter().next();
        group.delimiter() == Delimiter::Bracket
            && matches!(first, Some(TokenTree::Ident(i)) if names.iter().any(|n| i == n))
    };
    let (mut out, mut any) = (Vec::<TokenTree>::new(), false);
    for token in tokens.clone() {
        let TokenTree::Group(group) = &token else {
            out.push(token);
            continue;
        };
        if is_one(group) && matches!(out.last(), Some(TokenTree::Punct(p)) if p.as_char() == '#') {
            out.pop();
            any = true;
        } else if let Some(inner) = without_attributes(&group.stream(), names) {
            out.push(with_stream(group, inner).into());
            any = true;
        } else {
            out.push(token);
        }
    }
    any.then(|| out.into_iter().collect())
}

#[cfg(test)]
mod tests;
