//! Items that a body contains or names.

use crate::digest::names_of_items;
use crate::input::{Func, is_traced, unraw};
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{Block, Expr, ItemFn};

/// Names of items that locals and traced functions may share.
pub(in crate::lower) struct Items {
    /// Functions in the body without `#[traced]`, which shadow traced functions of the same name.
    pub(in crate::lower) functions: BTreeSet<String>,
    /// Single names in the body that refer to items outside of it.
    pub(in crate::lower) names: BTreeSet<String>,
    /// Names of the types in the signature.
    pub(in crate::lower) types: BTreeSet<String>,
    /// Locals that are arguments of calls.
    pub(in crate::lower) passed: BTreeSet<String>,
}

impl Items {
    pub(in crate::lower) fn new(func: &Func, body: &Block) -> Items {
        let mut functions = UntracedFunctions::default();
        functions.visit_block(body);
        let (mut types, mut passed) = (BTreeSet::from(["Self".to_owned()]), Arguments::default());
        let params = func.params.iter().map(|p| &p.ty);
        for ty in params.chain([&func.output.ty]) {
            super::in_tokens(ty.to_token_stream(), &mut |ident| {
                types.insert(unraw(ident));
            });
        }
        passed.visit_block(body);
        Items {
            types,
            passed: passed.0,
            functions: functions.0,
            names: names_of_items(func, body),
        }
    }
}

/// Locals that calls take, by value or by reference.
#[derive(Default)]
struct Arguments(BTreeSet<String>);

impl Arguments {
    fn note(&mut self, arg: &Expr) {
        match arg {
            Expr::Reference(e) => self.note(&e.expr),
            Expr::Paren(e) => self.note(&e.expr),
            Expr::Path(p) => self.0.extend(p.path.get_ident().map(unraw)),
            Expr::MethodCall(m) if m.method == "clone" => self.note(&m.receiver),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Arguments {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        call.args.iter().for_each(|arg| self.note(arg));
        syn::visit::visit_expr_call(self, call);
    }
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        call.args.iter().for_each(|arg| self.note(arg));
        syn::visit::visit_expr_method_call(self, call);
    }
}

#[derive(Default)]
struct UntracedFunctions(BTreeSet<String>);

impl<'ast> Visit<'ast> for UntracedFunctions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !item.attrs.iter().any(is_traced) {
            self.0.insert(unraw(&item.sig.ident));
        }
        syn::visit::visit_item_fn(self, item);
    }
}
