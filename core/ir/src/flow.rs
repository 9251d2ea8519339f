//! Programs under host control flow.
//!
//! Loops, branches and exits stay host code; between them stand straight-line [`Block`]s. A variable that one block
//! binds and another reads *crosses*. One that is assigned to more than once is a *slot*: blocks read it as a
//! parameter and store into it. So each block is an ordinary program for the rules and the passes, and the derivative
//! of the whole is made of theirs:
//!
//! - forward mode runs the same host code with the jvp of each block, and a tangent for each variable that crosses;
//! - reverse mode runs the host code with the primal of each block and records which blocks ran, each with its
//!   residuals. The pullback goes through the record backwards: a block takes the cotangents of what it stored and adds
//!   to those of what it read. What steered the host code need not be known again.

use crate::ad::{self, Calls};
use crate::{Program, SecondaryMap, Var};

/// A straight-line piece of a function.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it computes. Its parameters are what it reads, its results what is stored.
    pub program: Program,
    /// For each result the variable that holds it afterwards: the variable itself, or a slot.
    pub targets: Vec<Var>,
}

/// A piece of a function. `H` is host code.
#[derive(Clone, Debug)]
pub enum Node<H> {
    /// Runs the block of this number.
    Block(usize),
    /// Host code that stands as it is: a declaration, `break`.
    Host(H),
    /// Host code with a body: `for i in 0..n`, `if c`, `else`, the arm of a `match`.
    Scope {
        /// What stands before the brace.
        head: H,
        /// What stands between the braces.
        body: Vec<Node<H>>,
    },
    /// Leaves the function with these results.
    Return(Vec<Var>),
}

/// A function with host control flow.
#[derive(Clone, Debug)]
pub struct Flow<H> {
    /// The parameters that are tensors.
    pub params: Vec<Var>,
    /// The blocks, in the order in which they stand.
    pub blocks: Vec<Block>,
    /// What runs them.
    pub body: Vec<Node<H>>,
    /// The slots of the results: blocks store into them before the function returns.
    pub results: Vec<Var>,
}

/// The variables with a derivative, where those in `wrt` have one: what is computed from them, and the slots that it
/// is stored in. The order of the blocks says nothing here, because a loop may run any of them after any other.
pub fn active(blocks: &[Block], wrt: &[Var]) -> SecondaryMap<Var, ()> {
    let mut active: SecondaryMap<Var, ()> = wrt.iter().map(|v| (*v, ())).collect();
    loop {
        let mut changed = false;
        for block in blocks {
            let found = ad::jvp(&block.program, &block.wrt(&active), Calls::Joint).active;
            for (target, _) in block.targets.iter().zip(found).filter(|(_, found)| *found) {
                changed |= active.insert(*target, ()).is_none();
            }
        }
        if !changed {
            return active;
        }
    }
}

impl Block {
    /// The parameters that are among `active`.
    pub fn wrt(&self, active: &SecondaryMap<Var, ()>) -> Vec<Var> {
        let params = self.program.params.iter().copied();
        params.filter(|v| active.contains(*v)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, targets: &[u32]) -> Block {
        Block {
            program: text.parse().expect("the test's program parses"),
            targets: targets.iter().map(|v| Var(*v)).collect(),
        }
    }

    #[test]
    fn a_slot_is_active_if_any_block_stores_something_active_in_it() {
        let blocks = [
            block("(v0) { v1 = tanh v0 return v1 }", &[7]),
            block("(v2) { v3 = neg v2 return v3 }", &[8]),
            block("(v7, v8) { v9 = neg v7 return v8 }", &[0]),
        ];
        let found = active(&blocks, &[Var(2)]);
        let found: Vec<u32> = found.iter().map(|(v, _)| v.0).collect();
        // v2 makes v8 active, v8 is stored in v0, v0 makes v7 active.
        assert_eq!(found, [0, 2, 7, 8]);
    }
}
