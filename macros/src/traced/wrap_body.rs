//! Wraps the body of the user's function.

use crate::emit::CachedCallEmitter;
use crate::emit::annotations::{BodyPlace, Checks, PanicPlace};
use crate::input::Func;
use crate::input::fallback;
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Attribute;

/// Wraps the body of the user's function. Returns the hidden method that the body of a method is
/// moved to, if any.
pub(super) fn wrap_body(
    parsed: &Func,
    calls: &CachedCallEmitter<'_>,
    register: Option<TokenStream>,
    (sig, block, attrs): (&mut syn::Signature, &mut syn::Block, &mut Vec<Attribute>),
    rt: &TokenStream,
    errors: &Errors,
) -> Option<TokenStream> {
    let sound = fallback::unparsed(block).is_none() && errors.is_empty();
    if sound {
        calls.note_trait_calls(block);
    }
    let beside = match sound {
        true => calls.set_aside(sig, block, attrs),
        false => None,
    };
    register_loops(register, block);
    let body_at = match beside {
        Some(_) => BodyPlace::Aside,
        None => BodyPlace::Inside,
    };
    check_annotations(parsed, block, attrs, rt, body_at);
    catch_errors(parsed, block, rt);
    if sound {
        calls.wrap(block);
    }
    beside
}

/// Checks the annotations of a function at each call; a mismatch panics at the caller's line.
fn check_annotations(
    func: &Func,
    block: &mut syn::Block,
    attrs: &mut Vec<Attribute>,
    rt: &TokenStream,
    body_at: BodyPlace,
) {
    let Some(checks) = Checks::new(func, rt) else {
        return;
    };
    if fallback::unparsed(block).is_some() {
        return;
    }
    let panics_at = panic_place(attrs);
    checks.wrap_function(block, panics_at, body_at);
    if panics_at == PanicPlace::Function {
        attrs.push(syn::parse_quote!(#[track_caller]));
    }
}

/// Returns errors of ops as `Err`, if the function returns a `Result`.
fn catch_errors(func: &Func, block: &mut syn::Block, rt: &TokenStream) {
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
fn register_loops(register: Option<TokenStream>, block: &mut syn::Block) {
    if let Some(register) = register {
        let statement = syn::Stmt::Expr(syn::Expr::Verbatim(register), None);
        block.stmts.insert(0, statement);
    }
}

/// Returns the place that a panic in a function with these attributes reports.
fn panic_place(attrs: &[Attribute]) -> PanicPlace {
    match attrs.iter().any(|a| a.path().is_ident("track_caller")) {
        true => PanicPlace::Caller,
        false => PanicPlace::Function,
    }
}
