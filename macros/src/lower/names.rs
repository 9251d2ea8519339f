//! Names that the emitted code has.

use std::collections::{BTreeMap, BTreeSet};

/// A set of names that finds fresh ones without trying all.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// The number that the last fresh name of each kind has.
    last: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn push(&mut self, name: String) {
        self.taken.insert(name);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// `name_1`, or the first after it that is taken neither here nor elsewhere.
    pub(super) fn fresh(&mut self, name: &str, elsewhere: impl Fn(&str) -> bool) -> String {
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
