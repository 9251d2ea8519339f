//! Programs with host control flow.
//!
//! Loops, branches and exits stay host code, and straight-line [`Block`]s run between them. A
//! variable *crosses* if one block binds it and another reads it. A variable that is assigned more
//! than once is a *slot*: blocks read it as a parameter and store into it. Each block is thus an
//! ordinary program for the rules and the passes, and the derivative of the function consists of
//! the derivatives of its blocks:
//!
//! - Forward mode runs the same host code with the jvp of each block, and adds a tangent for each
//!   active variable that crosses.
//! - Reverse mode runs the host code with the primal of each block, and records which blocks ran,
//!   with their residuals. The pullback goes through the record backwards: each block takes the
//!   cotangents of its stores and adds to the cotangents of its parameters. The conditions of the
//!   host code are not needed again.

use crate::ad::{self, Calls};
use crate::{Program, SecondaryMap, Var};

/// A straight-line piece of a function.
#[derive(Clone, Debug)]
pub struct Block {
    /// The computation. Its parameters are the variables read, its results the values stored.
    pub program: Program,
    /// The variable that holds each result afterwards: the result itself, or a slot.
    pub targets: Vec<Var>,
}

/// A node of a function body. `H` is host code.
#[derive(Clone, Debug)]
pub enum Node<H> {
    /// Runs the block with this index.
    Block(usize),
    /// Host code that is emitted unchanged: a declaration, `break`.
    Host(H),
    /// Host code with a body: `for i in 0..n`, `if c`, `else`, the arm of a `match`.
    Scope {
        /// The code before the brace.
        head: H,
        /// The nodes between the braces.
        body: Vec<Node<H>>,
    },
    /// Returns from the function with these results.
    Return(Vec<Var>),
}

/// A function with host control flow.
#[derive(Clone, Debug)]
pub struct Flow<H> {
    /// The tensor parameters.
    pub params: Vec<Var>,
    /// The blocks, in source order.
    pub blocks: Vec<Block>,
    /// The host code that runs the blocks.
    pub body: Vec<Node<H>>,
    /// The slots of the results. Blocks store into them before the function returns.
    pub results: Vec<Var>,
}

/// Returns the variables that depend on a variable in `wrt`, slots included.
///
/// The search ignores the order of the blocks and runs to a fixed point, because a loop may run any
/// block after any other.
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
    /// Returns the parameters that are in `active`.
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
    fn a_slot_is_active_if_any_block_stores_an_active_value_in_it() {
        let blocks = [
            block("(v0) { v1 = tanh v0 return v1 }", &[7]),
            block("(v2) { v3 = neg v2 return v3 }", &[8]),
            block("(v7, v8) { v9 = neg v7 return v8 }", &[0]),
        ];
        let found = active(&blocks, &[Var(2)]);
        let found: Vec<u32> = found.iter().map(|(v, _)| v.0).collect();
        // v2 makes v8 active, which block 2 stores in v0, which makes v7 active.
        assert_eq!(found, [0, 2, 7, 8]);
    }
}
