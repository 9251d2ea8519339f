//! Finds the items inside of a body.

use crate::parse::unraw;
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{Block, ItemFn};

/// Returns the names of the functions in the body that do not carry `#[traced]`.
pub(super) fn untraced_functions(body: &Block) -> BTreeSet<String> {
    #[derive(Default)]
    struct Functions(BTreeSet<String>);

    impl<'ast> Visit<'ast> for Functions {
        fn visit_item_fn(&mut self, item: &'ast ItemFn) {
            let attrs = item.attrs.iter();
            let mut names = attrs.filter_map(|attr| attr.path().segments.last());
            if !names.any(|name| name.ident == "traced") {
                self.0.insert(unraw(&item.sig.ident));
            }
            syn::visit::visit_item_fn(self, item);
        }
    }

    let mut functions = Functions::default();
    functions.visit_block(body);
    functions.0
}
