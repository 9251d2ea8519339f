//! The body of a function with a rule of the user: a call that takes the written body and the rule.

use super::cx::{copy_host, passed};
use crate::input::rule::{Mode, RuleOption};
use crate::input::{Func, Kind, Param};
use crate::report::Errors;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident};
use syn::Block;

/// Replaces the body by a call of it that has the derivative of the rule.
pub(crate) fn apply(
    option: &RuleOption,
    func: &Func,
    block: &mut Block,
    rt: &TokenStream,
    errors: &mut Errors,
) {
    if let Some(param) = func.params.iter().find(|p| p.pattern) {
        errors.push(
            &param.ty,
            "a function with a rule names each parameter; take the pattern apart in its body",
        );
        return;
    }
    let is_static = |p: &Param| matches!(p.kind, Kind::Static { .. });
    let trees: Vec<&Param> = func.params.iter().filter(|p| !is_static(p)).collect();
    let (names, types): (Vec<_>, Vec<_>) = trees.iter().map(|p| (&p.ident, &p.owned)).unzip();

    // The body gets its arguments as they were declared.
    let declared = trees.iter().filter(|p| !p.by_ref || p.view.is_some());
    let declared = declared.map(|p| {
        let (x, by_ref) = (&p.ident, passed(p, rt));
        match p.by_ref {
            true => ours!(let #x = #by_ref;),
            false => ours!(#[allow(unused_mut)] let mut #x = #rt::copy(#x);),
        }
    });
    let result = &func.sig.output;
    let body = ours! {
        |(#(#names,)*): &(#(#types,)*)| #result { #(#declared)* #block }
    };

    // The body may move a host value, so the rule gets a copy.
    let by_value = |p: &Param| is_static(p) && !p.by_ref;
    let copy_of = |p: &Param| format_ident!("copy_of_{}", p.ident);
    let copies = func.params.iter().filter(|p| by_value(p)).map(|p| {
        let (name, copy) = (copy_of(p), copy_host(rt, &p.ident));
        ours!(let #name = #copy;)
    });
    let arguments = func.params.iter().map(|p| match by_value(p) {
        true => copy_of(p).into_token_stream(),
        false => passed(p, rt),
    });
    // Each differentiated argument has a tangent, which the rule takes, or a cotangent, which it returns.
    let changes: Vec<Ident> = (0..trees.len())
        .map(|i| format_ident!("change{i}"))
        .collect();
    let with_changes = || trees.iter().zip(&changes);
    let of_rule = with_changes().filter(|(p, _)| p.diff);
    let of_rule: Vec<&Ident> = of_rule.map(|(_, change)| change).collect();
    let path = &option.path;
    let (with, rule) = match option.mode {
        Mode::Reverse => {
            let returned = match &of_rule[..] {
                [one] => one.to_token_stream(),
                several => ours!((#(#several),*)),
            };
            let all = with_changes().map(|(p, change)| match p.diff {
                true => change.to_token_stream(),
                false => {
                    let x = &p.ident;
                    ours!(#rt::zero_cotangent(#x))
                }
            });
            let rule = ours! {
                |(#(#names,)*): &(#(#types,)*), y, ct| {
                    let #returned = #path(#(#arguments,)* y, ct);
                    (#(#all,)*)
                }
            };
            (ours!(#rt::with_vjp), rule)
        }
        Mode::Forward => {
            let all = with_changes().map(|(p, change)| match p.diff {
                true => change.to_token_stream(),
                false => ours!(_),
            });
            let rule = ours! {
                |(#(#names,)*): &(#(#types,)*), y, (#(#all,)*): &(#(#types,)*)| {
                    #path(#(#arguments,)* y, #(#of_rule),*)
                }
            };
            (ours!(#rt::with_jvp), rule)
        }
    };
    let operands = trees.iter().map(|p| {
        let x = &p.ident;
        match (&p.view, p.by_ref) {
            (Some(view), _) => view.own(&ours!((&#x)), rt),
            (None, true) => ours!(#rt::copy(#x)),
            (None, false) => ours!(#rt::copy(&#x)),
        }
    });
    let (name, shown) = (func.name(), trees.iter().map(|p| &p.name));
    *block = syn::parse_quote!({
        static SITE: #rt::RuleSite = #rt::RuleSite { name: #name, args: &[#(#shown),*] };
        #(#copies)*
        let operands = (#(#operands,)*);
        #with(&SITE, #body, #rule, &operands)
    });
}
