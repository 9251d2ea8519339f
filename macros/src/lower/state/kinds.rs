//! Which variables are tensors and which are trees.
//!
//! The macro does not see the result type of a callee, so the result of a call may be either until
//! it is used. Variables that are stored in one slot have one kind.

use crate::lower::Choice;
use gradloom_ir::Var;
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Kind {
    Tensor,
    Tree,
    /// No use so far tells.
    Open,
}

/// Kinds of the variables that are not known to be tensors from the start.
#[derive(Clone, Debug, Default)]
pub(in crate::lower) struct Kinds {
    /// Another variable of the same kind; a variable that is not a key is a tensor.
    same: BTreeMap<Var, Var>,
    kinds: BTreeMap<Var, Kind>,
    /// Values that have operators of their own, if they are trees: parameters and results of such
    /// operators.
    own_operators: BTreeSet<Var>,
    clash: bool,
    /// Parts of parameters that are read as tensors, with the choices to read them as trees.
    guesses: Vec<(Var, Choice)>,
}

impl Kinds {
    /// Adds a variable whose kind is not known.
    pub(in crate::lower) fn open(&mut self, var: Var) {
        self.same.insert(var, var);
        self.kinds.insert(var, Kind::Open);
    }

    /// Adds a variable that has operators of its own, unless it is a tensor.
    pub(in crate::lower) fn open_with_own_operators(&mut self, var: Var) {
        self.open(var);
        self.own_operators.insert(var);
    }

    /// Adds a part of a parameter that is read as a tensor, although no use of it tells so yet.
    pub(in crate::lower) fn guess(&mut self, var: Var, choice: Choice) {
        if self.first(var).is_none() {
            self.open(var);
            self.guesses.push((var, choice));
        }
    }

    /// Returns the choice to read a part as a tree that no use shows to be a tensor.
    pub(in crate::lower) fn wrong_guess(&self) -> Option<Choice> {
        let mut guesses = self.guesses.iter();
        let wrong = guesses.find(|(var, _)| self.of(*var) != Kind::Tensor);
        wrong.map(|(_, choice)| *choice)
    }

    pub(in crate::lower) fn of(&self, var: Var) -> Kind {
        self.first(var).map_or(Kind::Tensor, |var| self.kinds[&var])
    }

    /// Returns whether an operator on a variable is one of a type of the user's, not of `Tensor`.
    pub(in crate::lower) fn has_own_operators(&self, var: Var) -> bool {
        self.first(var)
            .is_some_and(|first| match self.kinds[&first] {
                Kind::Tensor => false,
                Kind::Tree => true,
                Kind::Open => self.own_operators.contains(&first),
            })
    }

    /// Returns the variable that stands for all of the same kind.
    fn first(&self, mut var: Var) -> Option<Var> {
        loop {
            let next = *self.same.get(&var)?;
            if next == var {
                return Some(var);
            }
            var = next;
        }
    }

    /// Fixes the kind of a variable. Returns false if it has another kind already.
    pub(in crate::lower) fn decide(&mut self, var: Var, kind: Kind) -> bool {
        match self.first(var) {
            Some(first) => {
                let known = self.kinds.get_mut(&first).expect("the first has a kind");
                if *known == Kind::Open {
                    *known = kind;
                }
                *known == kind
            }
            None => kind != Kind::Tree,
        }
    }

    /// Gives two variables the same kind.
    pub(in crate::lower) fn unite(&mut self, a: Var, b: Var) {
        match (self.first(a), self.first(b)) {
            (Some(first), Some(other)) if first != other => {
                let kind = self.kinds[&other];
                self.clash |= kind != Kind::Open && !self.decide(first, kind);
                if self.own_operators.contains(&other) {
                    self.own_operators.insert(first);
                }
                self.same.insert(other, first);
            }
            (Some(known), None) | (None, Some(known)) => {
                self.clash |= !self.decide(known, Kind::Tensor);
            }
            _ => {}
        }
    }

    /// Gives `copy` the kind of `var`.
    pub(in crate::lower) fn copy(&mut self, var: Var, copy: Var) {
        if self.first(var).is_some() {
            self.open(copy);
            self.unite(var, copy);
        }
    }

    /// Returns whether some variable would have to be a tensor and a tree.
    pub(in crate::lower) fn clash(&self) -> bool {
        self.clash
    }

    /// Returns the variables that are emitted as trees.
    ///
    /// A tensor is a tree of one leaf, so code for trees is right for variables that are still open;
    /// `open` is true if they are to be emitted so.
    pub(in crate::lower) fn trees(&self, open: bool) -> BTreeSet<Var> {
        let is_tree = |var: &&Var| match self.of(**var) {
            Kind::Tree => true,
            Kind::Open => open,
            Kind::Tensor => false,
        };
        self.same.keys().filter(is_tree).copied().collect()
    }
}
