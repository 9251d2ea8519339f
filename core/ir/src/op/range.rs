//! Signs and bounds of values, which each op infers from those of its operands.

use crate::{Eqn, Program, Static, StaticKind};

/// Properties that hold for every element of a value; `false` means unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    /// True if no element is below 0.
    pub at_least_0: bool,
    /// True if no element is above 0.
    pub at_most_0: bool,
    /// True if no element is 0.
    pub not_0: bool,
    /// True if no element is arbitrarily large.
    pub bounded: bool,
    /// True if a `select`, a limit or control flow may exclude values where a slope is infinite.
    pub guarded: bool,
}

/// A rule that infers the range of the results from the operands.
pub type RangeRule = fn(of: &OperandRanges<'_>) -> Range;

/// The ranges of the data operands of an equation.
pub struct OperandRanges<'a> {
    /// The program.
    pub program: &'a Program,
    /// The equation.
    pub eqn: &'a Eqn,
    /// The range of each data operand.
    pub ranges: Vec<Range>,
}

impl OperandRanges<'_> {
    /// Returns the range of the first operand.
    pub fn x(&self) -> Range {
        self.ranges.first().copied().unwrap_or_default()
    }

    /// Returns the range of the second operand.
    pub fn y(&self) -> Range {
        self.ranges.get(1).copied().unwrap_or_default()
    }

    /// Returns the range of a result of which nothing is known.
    ///
    /// A guard of a single operand holds for it, too.
    pub fn unknown(&self) -> Range {
        match self.ranges[..] {
            [x] => x.unknown(),
            _ => Range::UNKNOWN,
        }
    }

    /// Returns the properties that all operands have.
    pub fn all(&self) -> Range {
        let all = self.ranges.iter().copied();
        all.reduce(Range::both).unwrap_or_default()
    }

    /// Returns the range of a constant.
    pub fn number(&self) -> Range {
        match number(self.program, self.eqn) {
            Some(value) => value.float().map_or(Range::TRUSTED, Range::number),
            None => Range::UNKNOWN,
        }
    }
}

/// Returns the number that all elements of the results are equal to, if the op makes a constant.
pub fn number<'a>(program: &'a Program, eqn: &Eqn) -> Option<&'a Static> {
    let at = eqn.op.static_at(StaticKind::Number)?;
    Some(program.attr(eqn.attrs[at]))
}

impl Range {
    /// Nothing is known.
    pub const UNKNOWN: Range = Range {
        at_least_0: false,
        at_most_0: false,
        not_0: false,
        bounded: false,
        guarded: false,
    };

    /// Greater than 0.
    pub const POSITIVE: Range = Range {
        at_least_0: true,
        not_0: true,
        ..Range::UNKNOWN
    };

    /// A host number such as an epsilon, which the user is trusted to have chosen well.
    pub const TRUSTED: Range = Range::POSITIVE.bounded();

    /// Returns the range of a number.
    pub fn number(x: f64) -> Range {
        Range {
            at_least_0: x >= 0.0,
            at_most_0: x <= 0.0,
            not_0: x != 0.0,
            bounded: x.is_finite(),
            guarded: false,
        }
    }

    /// Returns whether all elements are greater than 0.
    pub fn is_positive(self) -> bool {
        self.at_least_0 && self.not_0
    }

    /// Returns the range of a function of this value, of which nothing is known.
    pub const fn unknown(self) -> Range {
        Range {
            guarded: self.guarded,
            ..Range::UNKNOWN
        }
    }

    /// Returns the range of a function of this value that is greater than 0.
    pub const fn positive(self) -> Range {
        Range {
            guarded: self.guarded,
            ..Range::POSITIVE
        }
    }

    /// Returns this range for a bounded value.
    pub const fn bounded(self) -> Range {
        Range {
            bounded: true,
            ..self
        }
    }

    /// Returns this range for a value that may be unbounded.
    pub const fn unbounded(self) -> Range {
        Range {
            bounded: false,
            ..self
        }
    }

    /// Returns this range for a value that is guarded.
    pub const fn guarded(self) -> Range {
        Range {
            guarded: true,
            ..self
        }
    }

    /// Returns the range of the absolute value.
    pub const fn magnitude(self) -> Range {
        Range {
            at_least_0: true,
            at_most_0: false,
            ..self
        }
    }

    /// Returns the properties that both values have.
    pub fn both(self, other: Range) -> Range {
        Range {
            at_least_0: self.at_least_0 && other.at_least_0,
            at_most_0: self.at_most_0 && other.at_most_0,
            not_0: self.not_0 && other.not_0,
            bounded: self.bounded && other.bounded,
            guarded: self.guarded || other.guarded,
        }
    }

    /// Returns the range of the negative value.
    pub fn negated(self) -> Range {
        Range {
            at_least_0: self.at_most_0,
            at_most_0: self.at_least_0,
            ..self
        }
    }

    /// Returns the range of the sum: values of one sign do not cancel.
    pub fn plus(self, other: Range) -> Range {
        let one_sign = (self.at_least_0 && other.at_least_0) || (self.at_most_0 && other.at_most_0);
        Range {
            not_0: one_sign && (self.not_0 || other.not_0),
            ..self.both(other)
        }
    }

    /// Returns the range of the product; a quotient has the same signs.
    pub fn times(self, other: Range) -> Range {
        let same = self.both(other);
        let negative = (self.at_most_0 && other.at_least_0) || (self.at_least_0 && other.at_most_0);
        Range {
            at_least_0: same.at_least_0 || same.at_most_0,
            at_most_0: negative,
            ..same
        }
    }
}
