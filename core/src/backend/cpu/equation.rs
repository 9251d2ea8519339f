//! An equation to lower, with accessors for its parts.

use super::statics;
use crate::Aval;
use crate::backend::View;
use gradloom_ir::{Op, Static, StaticKind};

/// An equation to lower, with views of its operands.
#[derive(Clone, Copy)]
pub(crate) struct Equation<'a> {
    pub(crate) op: Op,
    pub(crate) statics: &'a [Static],
    /// The data operands.
    pub(crate) args: &'a [View],
    pub(crate) likes: &'a [Aval],
    pub(crate) outs: &'a [Aval],
}

impl<'a> Equation<'a> {
    /// Returns the first operand.
    pub(super) fn x(&self) -> &'a View {
        &self.args[0]
    }

    /// Returns the second operand.
    pub(super) fn y(&self) -> &'a View {
        &self.args[1]
    }

    /// Returns the first result.
    pub(super) fn out(&self) -> &'a Aval {
        &self.outs[0]
    }

    /// Returns the shape of the first result.
    pub(super) fn shape(&self) -> &'a [usize] {
        self.out().shape()
    }

    /// Returns the value of the static argument of a kind.
    pub(super) fn value(&self, kind: StaticKind) -> &'a Static {
        statics::value(self.op, self.statics, kind)
    }

    /// Returns the axis that a static argument names, for a value of a rank.
    pub(super) fn axis(&self, rank: usize) -> usize {
        statics::axis(self.value(StaticKind::Axis), rank)
    }

    /// Returns the axes of the first operand that a static argument names, ascending.
    pub(super) fn axes(&self) -> Vec<usize> {
        statics::axes(self.value(StaticKind::Axes), self.x().rank())
    }

    pub(super) fn eps(&self) -> f64 {
        statics::float(self.value(StaticKind::Epsilon))
    }

    /// Returns which of the first three operands the static argument `active` lists.
    pub(super) fn active(&self) -> [bool; 3] {
        statics::active(self.value(StaticKind::Active))
    }

    /// Returns the value of the flag that is known when a program is made.
    pub(super) fn flag(&self) -> bool {
        statics::flag(self.value(StaticKind::KnownFlag))
    }
}
