//! Tracks the signs of values, and the values that the user has bounded.

use gradloom_ir::op::{OperandRanges, Range};
use gradloom_ir::{Eqn, Program, SecondaryMap, Var};

/// Ranges of the variables, learnt block by block in order.
#[derive(Default)]
pub(super) struct Signs(SecondaryMap<Var, Range>);

impl Signs {
    pub(super) fn range_of(&self, var: Var) -> Range {
        self.0.get(var).copied().unwrap_or_default()
    }

    /// Records that a variable does not depend on the function's arguments, so that its value is
    /// trusted.
    pub(super) fn trust(&mut self, var: Var) {
        self.0.insert(var, Range::TRUSTED);
    }

    /// Records that other blocks store to a variable: the user may have excluded some of its values
    /// by branches.
    pub(super) fn guard(&mut self, var: Var) {
        self.0.insert(var, Range::UNKNOWN.guarded());
    }

    /// Returns the ranges of the operands of an equation.
    pub(super) fn operands<'a>(&self, program: &'a Program, eqn: &'a Eqn) -> OperandRanges<'a> {
        OperandRanges {
            program,
            eqn,
            ranges: eqn.data().iter().map(|v| self.range_of(*v)).collect(),
        }
    }

    /// Learns the ranges of the variables that a program binds.
    pub(super) fn learn(&mut self, program: &Program) {
        for eqn in &program.eqns {
            let rule = eqn.op.def().facts().range;
            let range = rule(&self.operands(program, eqn));
            for out in &eqn.outs {
                self.0.insert(*out, range);
            }
        }
    }
}
