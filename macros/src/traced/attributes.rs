//! Removes the macro's attributes from functions and statements, and reports misplaced ones.

use crate::input::fallback;
use crate::input::is_checkpoint;
use crate::input::is_traced;
use crate::input::{REMAT_HINTS, is_remat_hint};
use crate::report::Errors;
use quote::ToTokens;
use syn::Attribute;

/// Reports and removes a second `#[traced]`.
pub(super) fn refuse_second(attrs: &mut Vec<Attribute>, errors: &mut Errors) {
    for attr in attrs.iter().filter(|a| is_traced(a)) {
        errors.push(attr, "`#[traced]` is here twice; remove one");
    }
    attrs.retain(|a| !is_traced(a));
}

/// Reports and removes attributes of the function that belong inside of it.
pub(super) fn misplaced(attrs: &mut Vec<Attribute>, errors: &mut Errors) {
    attrs.retain(|attr| {
        let place = match attr.path().get_ident().map(ToString::to_string).as_deref() {
            Some("nodiff" | "fixed" | "shape") => "before a parameter",
            Some("save" | "recompute") => "before a `let` in the body",
            _ => return true,
        };
        let name = attr.path().to_token_stream();
        errors.push(attr, format!("`#[{name}]` belongs {place}; move it there"));
        false
    });
}

/// Reports and removes misspelt attributes of `let`s; rustc has no attributes with similar names
/// there.
pub(super) fn misspelt(block: &mut syn::Block, errors: &mut Errors) {
    struct HintSpelling<'a>(&'a mut Errors);
    impl syn::visit_mut::VisitMut for HintSpelling<'_> {
        fn visit_local_mut(&mut self, local: &mut syn::Local) {
            local.attrs.retain(|attr| {
                let name = match attr.path().get_ident() {
                    Some(name) if !is_remat_hint(attr) => name.to_string(),
                    _ => return true,
                };
                let Some(near) = crate::report::nearest(&name, &REMAT_HINTS) else {
                    return true;
                };
                let message = format!(
                    "`#[{name}]` is not an attribute of a `let`; did you mean `#[{near}]`?"
                );
                self.0.push(attr, message);
                false
            });
            syn::visit_mut::visit_local_mut(self, local);
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut HintSpelling(errors), block);
}

/// Removes the attributes that rustc does not know.
pub(super) fn strip_attributes(block: &mut syn::Block) {
    struct AttributeStripper;
    impl syn::visit_mut::VisitMut for AttributeStripper {
        fn visit_local_mut(&mut self, local: &mut syn::Local) {
            local.attrs.retain(|a| !is_remat_hint(a));
            syn::visit_mut::visit_local_mut(self, local);
        }
        fn visit_expr_for_loop_mut(&mut self, e: &mut syn::ExprForLoop) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_for_loop_mut(self, e);
        }
        fn visit_expr_while_mut(&mut self, e: &mut syn::ExprWhile) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_while_mut(self, e);
        }
        fn visit_expr_loop_mut(&mut self, e: &mut syn::ExprLoop) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_loop_mut(self, e);
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut AttributeStripper, block);
    fallback::take_attributes(block, &["save", "recompute", "checkpoint"]);
}

/// Removes `#[checkpoint(every = k)]` from a loop of the user's function, and adds a use of `k`.
fn take_checkpoint(attrs: &mut Vec<Attribute>, body: &mut syn::Block) {
    let (taken, kept) = std::mem::take(attrs).into_iter().partition(is_checkpoint);
    *attrs = kept;
    let taken: Vec<Attribute> = taken;
    for attr in taken {
        let every = attr.parse_args::<syn::MetaNameValue>().map(|m| m.value);
        if let Ok(every) = every
            && !matches!(every, syn::Expr::Lit(_))
        {
            body.stmts.insert(0, syn::parse_quote!(let _ = &(#every);));
        }
    }
}
