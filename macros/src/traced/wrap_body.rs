//! Wraps the body of the user's function.

use crate::emit::StaticCall;
use crate::emit::annotations::Checks;
use crate::input::Func;
use crate::input::fallback;
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Attribute;

/// Wraps the body of the user's function, and returns the item to emit beside a method.
pub(super) fn around(
    parsed: &Func,
    calls: &StaticCall<'_>,
    register: Option<TokenStream>,
    (sig, block, attrs): (&mut syn::Signature, &mut syn::Block, &mut Vec<Attribute>),
    rt: &TokenStream,
    errors: &Errors,
) -> Option<TokenStream> {
    let sound = fallback::unparsed(block).is_none() && errors.is_empty();
    let beside = match sound {
        true => calls.set_aside(sig, block, attrs),
        false => None,
    };
    registering(register, block);
    checking(parsed, block, attrs, rt, beside.is_some());
    catching(parsed, block, rt);
    if sound {
        calls.wrap(block);
    }
    beside
}

/// Checks the annotations of a function at each call; a mismatch panics at the caller's line.
fn checking(
    func: &Func,
    block: &mut syn::Block,
    attrs: &mut Vec<Attribute>,
    rt: &TokenStream,
    aside: bool,
) {
    let Some(checks) = Checks::of(func, rt) else {
        return;
    };
    if fallback::unparsed(block).is_some() {
        return;
    }
    let tracked = is_tracked(attrs);
    checks.wrap(block, tracked, aside);
    if !tracked {
        attrs.push(syn::parse_quote!(#[track_caller]));
    }
}

/// Returns errors of ops as `Err`, if the function returns a `Result`.
fn catching(func: &Func, block: &mut syn::Block, rt: &TokenStream) {
    if func.output.result.is_none() {
        return;
    }
    let syn::ReturnType::Type(_, ty) = &func.sig.output else {
        return;
    };
    let body = std::mem::take(&mut block.stmts);
    block.stmts = vec![syn::Stmt::Expr(
        syn::Expr::Verbatim(quote!(#rt::catch_as(|| -> #ty { #(#body)* }))),
        None,
    )];
}

/// Registers the compiled loops of a function before it records its ops.
fn registering(register: Option<TokenStream>, block: &mut syn::Block) {
    if let Some(register) = register {
        let statement = syn::Stmt::Expr(syn::Expr::Verbatim(register), None);
        block.stmts.insert(0, statement);
    }
}

/// Returns whether a panic in a function reports its caller.
fn is_tracked(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("track_caller"))
}
