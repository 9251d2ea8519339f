//! Interned names.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// The interned name of a dim. Symbols are equal, and ordered, as their names are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(&'static String);

static SYMBOLS: Mutex<BTreeSet<&'static String>> = Mutex::new(BTreeSet::new());

impl Symbol {
    /// Interns `name`.
    pub fn new(name: &str) -> Symbol {
        Symbol(intern(&SYMBOLS, name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the interned copy of `value`. It is never freed, so that handles are `Copy`.
pub(crate) fn intern<T: Ord>(table: &Mutex<BTreeSet<&'static T>>, value: T) -> &'static T {
    // The table only grows, so a poisoned lock still guards a consistent table.
    let mut table = table.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(found) = table.get(&value) {
        return found;
    }
    let kept: &'static T = Box::leak(Box::new(value));
    table.insert(kept);
    kept
}

/// Blocks the interning of names on all other threads until the returned guard is dropped.
pub(crate) fn hold() -> impl Sized + 'static {
    SYMBOLS.lock().unwrap_or_else(|e| e.into_inner())
}
