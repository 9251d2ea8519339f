//! Lowers `#[save]` and `#[recompute]`, with which users choose the residuals.

use crate::input::is_remat_hint;
use crate::input::text;
use crate::lower::{Cx, Value};
use gradloom_ir::program::RematHint;

impl Cx<'_> {
    /// Applies `#[save]` and `#[recompute]` on a `let`.
    pub(in crate::lower) fn remat_hint(&mut self, local: &syn::Local, value: &Value) {
        let marks: Vec<_> = local.attrs.iter().filter(|a| is_remat_hint(a)).collect();
        let Some(first) = marks.first() else { return };
        if let Some(second) = marks.get(1) {
            self.diagnostics.errors.push(
                second,
                "a value is either saved or recomputed; remove one of the two attributes",
            );
        }
        if !matches!(first.meta, syn::Meta::Path(_)) {
            let name = text(first.path());
            self.diagnostics
                .errors
                .push(first, format!("`#[{name}]` takes no arguments"));
        }
        let keep = if first.path().is_ident("save") {
            RematHint::Save
        } else {
            RematHint::Recompute
        };
        let mut any = false;
        for value in if let Value::Tuple(values) = value {
            &**values
        } else {
            std::slice::from_ref(value)
        } {
            if let Value::Tensor { var, .. } = value {
                self.builder.remat_hints.push((*var, keep));
                any = true;
            }
        }
        if !any {
            self.diagnostics.errors.push(first, "this `let` binds no computed tensor, so there is nothing to save or recompute; remove the attribute");
        }
    }
}
