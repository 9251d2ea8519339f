//! Facts about ops that passes, plans and lints ask for.

use super::{AxesRule, OperandRanges, Range, RangeRule, axes};
use crate::{Builder, Eqn, Op, Program, Static, Var};

/// Facts about an op.
///
/// An op starts from [`OpFacts::opaque`], [`OpFacts::view`] or [`OpFacts::ELEMENTWISE`] and adds
/// what else holds for it.
pub struct OpFacts {
    /// True if each element of the result is computed from the operand elements at its index.
    pub elementwise: bool,
    /// True if the op costs about as much as reading its result from memory.
    pub cheap: bool,
    /// True if the elements of the result are elements of operands or constants, unchanged, whatever
    /// their dtype.
    pub moves: bool,
    /// True if IEEE 754 determines every bit of the result.
    pub exact: bool,
    /// When the result has the bits of an operand.
    pub equal: Equal,
    /// The signs of both operands, if the result is their sum.
    pub terms: Option<[TermSign; 2]>,
    /// The axes that the result is a sum over, if it is the sum of its operand.
    pub sum: Option<SumOver>,
    /// An op whose result the kernel can compute as a by-product, on the same operands.
    pub byproduct: Option<Op>,
    /// The values for which the op fails.
    pub fails: Fails,
    /// The signs and bounds of the results.
    pub range: RangeRule,
    /// Where the slope is infinite, if the result is finite there or a limit.
    pub steep: Option<Steep>,
    /// A cheaper function of `gradloom_maths` that is valid where its `in_fast_range` holds.
    pub fast: Option<&'static str>,
    /// The operands in which the op is linear, as far as passes know.
    pub linear: Linearity,
    /// Which operand has the aval of a linear one, if the linear operands differ in theirs.
    pub aval_of: Option<AvalOf>,
    /// True if each element of the result is a nondecreasing function of that of each operand, for
    /// all values. NaN gives NaN.
    pub rises: bool,
    /// True if the op divides by the number of elements that it adds up or repeats.
    pub averages: bool,
    /// How the axes of operands and results correspond.
    pub axes: AxesRule,
    /// The same results by simpler ops. `None` if the op is primitive.
    pub decompose: Option<Decompose>,
}

/// Emits and returns results equal to those of an equation, by ops that are simpler than its own.
///
/// Returns `None` if that takes a length that is unknown. See [`decompose`](crate::pass::decompose).
pub type Decompose = fn(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>>;

/// Returns the position of an operand that has the aval of the linear operand at the given position.
///
/// Zeros take the place of a tangent that is zero, although the others are not. See
/// [`OpFacts::aval_of`].
pub type AvalOf = fn(program: &Program, eqn: &Eqn, operand: usize) -> usize;

/// The condition under which the result of an op has the bits of an operand.
///
/// All of these hold for infinities, NaN and zeros of both signs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Equal {
    /// The result is in general not an operand.
    Never,
    /// The result is the operand. Such an op takes every dtype.
    Always,
    /// The result is the first operand if both have the same dtype and shape.
    SameAval,
    /// As `SameAval`, if no step is negative.
    WholeSlice,
    /// The op undoes itself: applied twice, it gives the operand.
    Twice,
    /// The result is one operand if all elements of the other are a number, given by position.
    Neutral([Option<f64>; 2]),
    /// The result is an operand of the `stack` that it selects from.
    Stacked,
    /// The result is the second operand if the third is the same.
    SameBranches,
}

impl Equal {
    /// Returns whether an op with these static arguments is its first operand if its result has the
    /// same dtype and shape.
    pub fn same_aval<'a>(self, mut statics: impl Iterator<Item = &'a Static>) -> bool {
        match self {
            Equal::SameAval => true,
            Equal::WholeSlice => {
                let steps = statics.nth(2).and_then(Static::ints);
                steps.is_some_and(|steps| steps.iter().all(|step| *step > 0))
            }
            _ => false,
        }
    }
}

/// The data operands in which an op on floats is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearity {
    /// No operand that passes know.
    No,
    /// Each operand of the list, while the others are fixed.
    Each(&'static [usize]),
    /// The operands from the given one on, taken together.
    From(usize),
}

/// The sign of a term of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermSign {
    /// The operand is added.
    Plus,
    /// The operand is subtracted.
    Minus,
}

/// The axes of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOver {
    /// The axes of a static argument.
    Axes,
    /// The axes along which the operand repeats a value of the shape of the result.
    Repeated,
}

/// The values for which an op fails when it is computed.
#[derive(Clone, Copy)]
pub enum Fails {
    /// The op never fails.
    Never,
    /// Operands are integers, and the second one has elements for which this returns true.
    IntegerBy(fn(f64) -> bool),
    /// A label or an index is out of range. The error names this op.
    Labels(Op),
}

/// An operand with values where the slope of an op is infinite.
///
/// Zero times an infinite slope is NaN, so these values spoil a gradient even if a `select` does not
/// take the result.
#[derive(Clone, Copy)]
pub struct Steep {
    /// The position of the operand.
    pub operand: usize,
    /// Returns whether the operand has no such value. `varies` tells which variables have tangents.
    pub is_safe: fn(of: &OperandRanges<'_>, varies: &dyn Fn(Var) -> bool) -> bool,
    /// A value of the operand where the slope is finite: 0 or 1.
    pub harmless: f64,
}

impl OpFacts {
    /// A primitive op of which only the signature of its axes is known.
    pub const fn opaque(axes: AxesRule) -> OpFacts {
        OpFacts {
            elementwise: false,
            cheap: false,
            moves: false,
            exact: false,
            equal: Equal::Never,
            terms: None,
            sum: None,
            byproduct: None,
            fails: Fails::Never,
            range: |_| Range::UNKNOWN,
            steep: None,
            fast: None,
            linear: Linearity::No,
            aval_of: None,
            rises: false,
            averages: false,
            axes,
            decompose: None,
        }
    }

    /// A composite op: it has a kernel of its own, and the value of simpler ops.
    pub const fn composite(axes: AxesRule, decompose: Decompose) -> OpFacts {
        let mut facts = OpFacts::opaque(axes);
        facts.decompose = Some(decompose);
        facts
    }

    /// An op whose results are elements of its operand, rearranged, or one number, repeated.
    pub const fn view(axes: AxesRule) -> OpFacts {
        OpFacts::opaque(axes).cheap().moves().range(|of| of.x())
    }

    /// An elementwise op.
    pub const ELEMENTWISE: OpFacts = OpFacts {
        elementwise: true,
        range: |of| of.unknown(),
        ..OpFacts::opaque(axes::ELEMENTWISE)
    };

    /// Returns whether the op takes each element from its second or third operand, as the first says.
    pub fn selects(&self) -> bool {
        self.equal == Equal::SameBranches
    }

    /// Returns whether the op only converts its operand to another dtype.
    pub fn converts(&self) -> bool {
        self.elementwise && self.equal == Equal::SameAval
    }

    /// Adds that the op costs about as much as reading its result.
    pub const fn cheap(mut self) -> OpFacts {
        self.cheap = true;
        self
    }

    /// Adds that the op moves elements.
    pub const fn moves(mut self) -> OpFacts {
        self.moves = true;
        self
    }

    /// Adds that IEEE 754 determines every bit.
    pub const fn exact(mut self) -> OpFacts {
        self.exact = true;
        self
    }

    /// Adds when the result has the bits of an operand.
    pub const fn equal(mut self, equal: Equal) -> OpFacts {
        self.equal = equal;
        self
    }

    /// Adds that the result is a sum of both operands.
    pub const fn terms(mut self, terms: [TermSign; 2]) -> OpFacts {
        self.terms = Some(terms);
        self
    }

    /// Adds that the result is a sum over axes of the operand.
    pub const fn sum(mut self, over: SumOver) -> OpFacts {
        self.sum = Some(over);
        self
    }

    /// Adds an op whose result the kernel can compute as a by-product.
    pub const fn byproduct(mut self, op: Op) -> OpFacts {
        self.byproduct = Some(op);
        self
    }

    /// Adds the values for which the op fails.
    pub const fn fails(mut self, fails: Fails) -> OpFacts {
        self.fails = fails;
        self
    }

    /// Adds the signs and bounds of the results.
    pub const fn range(mut self, range: RangeRule) -> OpFacts {
        self.range = range;
        self
    }

    /// Adds where the slope is infinite.
    pub const fn steep(mut self, steep: Steep) -> OpFacts {
        self.steep = Some(steep);
        self
    }

    /// Adds that the slope in the only operand is infinite for some values.
    pub const fn steep_unless(
        self,
        is_safe: fn(of: &OperandRanges<'_>, varies: &dyn Fn(Var) -> bool) -> bool,
        harmless: f64,
    ) -> OpFacts {
        self.steep(Steep {
            operand: 0,
            is_safe,
            harmless,
        })
    }

    /// Adds the operands in which the op is linear.
    pub const fn linear(mut self, linear: Linearity) -> OpFacts {
        self.linear = linear;
        self
    }

    /// Adds which operand has the aval of a linear one.
    pub const fn aval_of(mut self, aval_of: AvalOf) -> OpFacts {
        self.aval_of = Some(aval_of);
        self
    }

    /// Adds that the result does not decrease where an operand increases.
    pub const fn rises(mut self) -> OpFacts {
        self.rises = true;
        self
    }

    /// Adds that the op divides by the number of elements that it adds up or repeats.
    pub const fn averages(mut self) -> OpFacts {
        self.averages = true;
        self
    }

    /// Adds the name of a cheaper function of `gradloom_maths` for arguments in the fast range.
    pub const fn fast(mut self, function: &'static str) -> OpFacts {
        self.fast = Some(function);
        self
    }
}
