//! Names of the body: its locals, and the names that the emitted code uses.

use super::names::HostNames;
use super::value::Local;
use gradloom_ir::{Dim, Var};
use proc_macro2::Ident;
use std::collections::{BTreeMap, BTreeSet};

/// Names in scope, and names that are taken.
#[derive(Clone)]
pub(super) struct Scope {
    /// Locals by name, the innermost scope last.
    pub(super) scopes: Vec<BTreeMap<String, Local>>,
    /// The user's identifiers, by their names in the program.
    pub(super) idents: BTreeMap<String, Ident>,
    /// Names of the host locals in the emitted code so far.
    pub(super) host_names: HostNames,
    /// Mutable host locals.
    pub(super) host_mut: BTreeSet<String>,
    /// Lengths known of host numbers.
    pub(super) host_dims: BTreeMap<String, Dim>,
    /// Variables mentioned by host code, which must keep their names.
    pub(super) named_by_host_code: BTreeSet<Var>,
}

impl Scope {
    pub(super) fn new() -> Scope {
        Scope {
            scopes: vec![BTreeMap::new()],
            idents: BTreeMap::new(),
            host_names: HostNames::default(),
            host_mut: BTreeSet::new(),
            host_dims: BTreeMap::new(),
            named_by_host_code: BTreeSet::new(),
        }
    }
}
