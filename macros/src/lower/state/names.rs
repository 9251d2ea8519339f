//! Names in the emitted code.

use crate::input::unraw;
use crate::lower::Cx;
use crate::program::ident_of;
use gradloom_ir::Var;
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};

/// Set of names with a counter for fresh ones.
#[derive(Clone, Debug, Default)]
pub(in crate::lower) struct HostNames {
    taken: BTreeSet<String>,
    /// Number of the last fresh name for each base name.
    last: BTreeMap<String, usize>,
}

impl HostNames {
    pub(in crate::lower) fn push(&mut self, name: String) {
        self.taken.insert(name);
    }

    pub(in crate::lower) fn contains(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// Returns `name_1`, or the next such name that is not taken here or by `elsewhere`.
    pub(in crate::lower) fn fresh(
        &mut self,
        name: &str,
        elsewhere: impl Fn(&str) -> bool,
    ) -> String {
        let mut last = self.last.get(name).copied().unwrap_or(0);
        let fresh = loop {
            last += 1;
            let fresh = format!("{name}_{last}");
            if !self.taken.contains(&fresh) && !elsewhere(&fresh) {
                break fresh;
            }
        };
        self.last.insert(name.to_owned(), last);
        self.taken.insert(fresh.clone());
        fresh
    }
}

impl Cx<'_> {
    /// Gives a variable the user's name, if it has none.
    pub(in crate::lower) fn name(&mut self, var: Var, ident: &Ident) {
        if self.builder.b.name_of(var).is_some() || self.names.named_by_host_code.contains(&var) {
            return;
        }
        let mut name = unraw(ident);
        // `v3` is how an unnamed variable prints.
        if name
            .strip_prefix('v')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        {
            name.push('_');
        }
        // A name made unique by a number must not clash with a host local.
        loop {
            self.builder.b.name(var, &name);
            let unique = self.builder.b.name_of(var).unwrap_or(&name);
            if !self.names.host_names.contains(unique) {
                break;
            }
            name.push('_');
        }
        if self.builder.b.name_of(var) == Some(unraw(ident).as_str()) {
            self.names.idents.insert(unraw(ident), ident.clone());
        }
    }

    /// Returns the identifier of `var` in the emitted code.
    pub(in crate::lower) fn ident(&self, var: Var) -> Ident {
        let name = self
            .builder
            .b
            .name_of(var)
            .map_or_else(|| var.to_string(), str::to_owned);
        ident_of(&name, &self.names.idents)
    }

    /// Returns the identifier of a variable that host code mentions, and fixes its name.
    pub(in crate::lower) fn named_by_host(&mut self, var: Var) -> Ident {
        self.names.named_by_host_code.insert(var);
        self.ident(var)
    }

    /// Returns an unused name for a host local: the user's identifier, if it is free.
    pub(in crate::lower) fn host_ident(&mut self, ident: &Ident) -> Ident {
        let name = unraw(ident);
        let (b, params) = (&self.builder.b, &self.func.params);
        // The emitted code refers to the parameters after this local is in scope, so their names
        // are taken.
        let is_taken =
            |name: &str| b.is_taken(name) || params.iter().any(|p| unraw(&p.ident) == name);
        if !self.names.host_names.contains(&name) && !is_taken(&name) {
            self.names.host_names.push(name);
            return ident.clone();
        }
        let fresh = self.names.host_names.fresh(&name, is_taken);
        Ident::new(&fresh, Span::mixed_site())
    }
}

/// Returns tokens as a name, with `_` for other characters and none at the ends.
pub(in crate::lower) fn spelt(tokens: &TokenStream) -> String {
    let letters = tokens.to_string();
    let letters = letters.chars().filter(|c| !c.is_whitespace());
    let letters: String = letters
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    letters.trim_matches('_').to_owned()
}
