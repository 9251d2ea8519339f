//! Items that a body contains or names.

use crate::digest::names_of_items;
use crate::input::{Func, is_traced, unraw};
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{Block, ItemFn};

/// Names of items that locals and traced functions may share.
pub(in crate::lower) struct Items {
    /// Functions in the body without `#[traced]`, which shadow traced functions of the same name.
    pub(in crate::lower) functions: BTreeSet<String>,
    /// Single names in the body that refer to items outside of it.
    pub(in crate::lower) names: BTreeSet<String>,
}

impl Items {
    pub(in crate::lower) fn new(func: &Func, body: &Block) -> Items {
        let mut functions = UntracedFunctions::default();
        functions.visit_block(body);
        Items {
            functions: functions.0,
            names: names_of_items(func, body),
        }
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
