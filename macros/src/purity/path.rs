//! Judges paths that are values: locals, constants, functions.

use super::apply::{ends, key};
use super::ty::{Probe, Ty, Val};
use super::{PurityVisitor, Remedy};
use crate::input::{text, unraw};
use crate::method_table::{FUNCTIONS, NUMBERS, associated, is_of_number, is_op};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{ExprPath, Path};

impl PurityVisitor<'_> {
    /// Returns the value of a path that is not called.
    pub(super) fn value(&mut self, expr: &ExprPath) -> Val {
        let path = &expr.path;
        if expr.qself.is_some() {
            return self.constant(expr);
        }
        if let Some(ident) = path.get_ident() {
            if let Some(local) = self.local(&unraw(ident)) {
                return local.clone();
            }
            if ident == "None" {
                return Val::option(Val::unknown());
            }
        }
        let (owner, last) = ends(path);
        if !last.starts_with(char::is_uppercase) {
            return self.function(path);
        }
        if !self.is_outside(path) {
            return self.found(&last, path.span(), "it cannot be resolved", Remedy::Promise);
        }
        match (&*owner, &*last) {
            ("Option", "None") => Val::option(Val::unknown()),
            ("DType", _) | (_, "NewAxis" | "Rest") => {
                Val::from(Ty::Scalar).with(Probe::exact(path.to_token_stream()))
            }
            (owner, _) if NUMBERS.contains(&owner) => {
                Val::from(Ty::Scalar).with(Probe::exact(path.to_token_stream()))
            }
            _ => self.constant(expr),
        }
    }

    /// Returns a constant, a static or a variant, whose type rustc knows.
    fn constant(&mut self, expr: &ExprPath) -> Val {
        let path = &expr.path;
        let (owner, last) = ends(path);
        let of_type = owner.starts_with(char::is_uppercase) || expr.qself.is_some();
        let global = !of_type && !last.contains(char::is_lowercase);
        if self.is_hidden(expr) {
            return match global {
                true => self.found(&last, path.span(), "it cannot be resolved", Remedy::Move),
                false => Val::unknown(),
            };
        }
        if global && !self.globals.contains(path) {
            self.globals.push(path.clone());
        }
        Val::unknown().with(Probe::exact(expr.to_token_stream()))
    }

    /// Returns a function that is used as a value.
    fn function(&mut self, path: &Path) -> Val {
        let (owner, last) = ends(path);
        self.owner(path);
        let gives = |ty: Ty| Val::from(Ty::Pure(Box::new(ty.into())));
        if self.functions.contains_key(&key(path)) {
            return gives(Ty::Opaque);
        }
        if owner == "Tensor" && is_op(&last) {
            return gives(Ty::Tensor);
        }
        if is_of_number(&owner, &last) {
            return gives(Ty::Scalar);
        }
        let name = format!("{owner}::{last}");
        let standard = associated(&owner, &last).is_some()
            || FUNCTIONS.iter().any(|(names, ..)| names.contains(&&*name));
        if standard {
            // Its result is known, so its arguments have to be known too.
            return gives(Ty::Tuple(vec![Val::unknown()]));
        }
        let what = text(path);
        match self.ask_traced(path, &what) {
            true => gives(Ty::Opaque),
            false => self.found(
                &what,
                path.span(),
                "it is not known to be traced",
                Remedy::Trace,
            ),
        }
    }
}
