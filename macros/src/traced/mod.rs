//! Expands `#[traced]`.

mod attributes;
mod companions;
mod item;
mod methods;
#[cfg(test)]
mod source;
mod trait_item;
mod wrap_body;

#[cfg(test)]
pub(crate) use source::{body_of, lowered};

use crate::emit::paths;
use crate::input::annotation::declare;
use crate::input::args::Args;
use crate::input::{Func, fallback};
use crate::input::{order, rule};
use crate::report::Errors;
use attributes::refuse_second;
use item::{UserItem, emit, tests};
use methods::methods;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{ItemFn, ItemImpl};
use trait_item::traced_trait;

/// Returns the item with its companions, followed by any errors.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut args = Args::parse(args, &mut errors);
    let tokens = if let Some(imp) = impl_block(&item) {
        rule::refuse(&mut args.rule, &mut errors);
        methods(imp, &args, &mut errors)
    } else if let Ok(item) = syn::parse2(item.clone()) {
        rule::refuse(&mut args.rule, &mut errors);
        traced_trait(item, &args, &mut errors)
    } else {
        match item_fn(&item) {
            Ok(func) => function(func, &args, &mut errors),
            Err(error) => {
                match syn::parse2::<syn::Item>(item.clone()) {
                    Ok(syn::Item::Verbatim(_)) if syn::parse2::<syn::TraitItemFn>(item.clone()).is_ok() => {
                        errors.push_at(error.span(), "`#[traced]` belongs on a function with a body; trace the function that computes");
                    }
                    Ok(other) => errors.push_at(
                        keyword(&other),
                        "`#[traced]` belongs on a function, an impl block or a trait; move it to the function that computes",
                    ),
                    Err(_) if syn::parse2::<syn::Expr>(item.clone()).is_ok() => {
                        errors.push(&item, "`#[traced]` belongs on a function; write the closure as one");
                        // An expression has to expand to a single expression.
                        let errors = errors.into_tokens();
                        return quote!({ #errors #item });
                    }
                    Err(_) if syn::parse::Parser::parse2(syn::Block::parse_within, item.clone()).is_ok() => errors.push(
                        &item,
                        "`#[traced]` belongs on a function; move this code into one",
                    ),
                    // Syntax unknown to `syn`, or invalid: the parser's error explains it best.
                    Err(_) => errors.push_error(error),
                }
                item
            }
        }
    };
    // The companions of an item with errors have their usual types, so that callers do not cause
    // further errors.
    let errors = errors.into_tokens();
    quote!(#tokens #errors)
}

fn impl_block(item: &TokenStream) -> Option<ItemImpl> {
    let whole = syn::parse2(item.clone()).ok();
    whole.or_else(|| fallback::methods(item.clone()))
}

fn item_fn(item: &TokenStream) -> syn::Result<ItemFn> {
    syn::parse2(item.clone()).or_else(|e| fallback::function(item.clone()).ok_or(e))
}

/// Returns the span of the keyword of an item that is not a function.
fn keyword(item: &syn::Item) -> Span {
    let tokens = item.to_token_stream().into_iter();
    let word = tokens.into_iter().find(|t| {
        [
            "struct", "enum", "mod", "const", "static", "type", "use", "union",
        ]
        .contains(&&*t.to_string())
    });
    word.map_or_else(Span::call_site, |t| t.span())
}

/// Reports options about derivatives of a function that has none.
fn refuse_derivatives(func: &Func, args: &Args, errors: &mut Errors) {
    let (rule, check) = (&args.rule, args.selftest.as_ref().map(|_| &func.sig.ident));
    let rule = rule.as_ref().map(ToTokens::to_token_stream);
    let order = args.order.as_ref().map(ToTokens::to_token_stream);
    let check = check.map(ToTokens::to_token_stream);
    let why = match func.takes_tensors() {
        true => "all of its tensors are `#[nodiff]`",
        false => "it takes no tensor",
    };
    for (option, at) in [("a rule", rule), ("`order`", order), ("`check`", check)] {
        if let Some(at) = at {
            let name = &func.sig.ident;
            errors.push(
                &at,
                format!(
                    "{option} is about derivatives, and `{name}` has none, because {why}; remove it"
                ),
            );
        }
    }
}

fn function(mut func: ItemFn, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut func.attrs, errors);
    let mut is_method = Errors::default();
    if let Some(this) = func.sig.receiver() {
        is_method.push(
            this,
            "a method is traced with its impl block; put `#[traced]` on the `impl`",
        );
    }
    let sound = is_method.is_empty();
    let mut written = UserItem::function(&mut func);
    let mut parsed = written.read(None, errors);
    errors.append(is_method);
    if !parsed.sound || !sound {
        written.leave();
        return fallback::print_function(&func);
    }
    declare(&mut parsed, args.returns.as_ref(), errors);
    order::apply_to_function(&mut parsed, args.order.as_ref(), errors);
    if !parsed.has_derivative() {
        refuse_derivatives(&parsed, args, errors);
    }
    let rt = paths::run_time(args);
    let emitted = emit(&parsed, written, args, &rt, &[], errors);
    let func = fallback::print_function(&func);
    let items = &emitted.items;
    let tests = tests(&[&parsed], args, &rt, errors);
    // A warning beside an error would only distract.
    let warnings = errors.is_empty().then_some(&emitted.warnings);
    crate::feature::dump::dump(&parsed, &emitted.body, || quote!(#func #items #tests));
    quote!(#func #items #tests #warnings)
}
