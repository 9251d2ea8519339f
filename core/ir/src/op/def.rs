//! The interface of an op to the rest of the system.

use super::{
    BinaryFns, BitFns, CompareFns, Control, Count, Kernel, ManyFns, Method, OpFacts, Operands,
    TestFns, UnaryFns,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// The rules and properties of an op.
///
/// Methods have no defaults, so that no rule can be forgotten.
pub trait OpDef: Sync {
    /// Returns the name in the text form and in messages.
    fn name(&self) -> &'static str;

    /// Returns how many operands the op reads, and how.
    fn operands(&self) -> Operands;

    /// Returns the static arguments.
    fn statics(&self) -> &'static [StaticArg];

    /// The shape rule: returns the shapes of the results.
    ///
    /// `args` holds the avals of the data operands, then those of the like operands. The rule must
    /// not refuse partly known operands unless they are wrong for all values of the unknowns.
    fn shape(&self, statics: &[Static], args: &[&Aval], n_outs: usize)
    -> Result<Vec<Shape>, Fault>;

    /// The dtype rule: returns the dtype of every result.
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault>;

    /// Returns how user code calls the op, as `x.name(..)` or `Tensor::name(..)`.
    ///
    /// Empty for ops that only rules emit. The macro lowers calls by this table, and `Tensor` has a
    /// method for each row.
    fn methods(&self) -> Vec<Method>;

    /// Returns the kind of derivative.
    fn diff(&self) -> Diff;

    /// Emits and returns the tangents of `eqn.outs`, given the tangents `dx` of the data operands.
    ///
    /// A tangent of `None` is zero.
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>>;

    /// Emits and returns the cotangents of the data operands, given those of `eqn.outs`.
    ///
    /// At least one of `cts` is not `None`. If `linear[i]` is false, operand `i` is not linear here
    /// and its cotangent is `None`.
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>>;

    /// Returns how the op is evaluated.
    fn eval(&self) -> Eval;

    /// Returns the arithmetic cost.
    fn count(&self) -> Count;

    /// Returns what passes, plans and lints may assume about the op.
    fn facts(&self) -> &OpFacts;

    /// Returns the inputs and the tolerance for tests of the laws that every op obeys.
    fn laws(&self) -> Laws;
}

/// The kind of derivative of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diff {
    /// The op has a derivative and a transpose, and can be applied to tangents.
    Linear,
    /// The op has a derivative.
    Smooth,
    /// The derivative is zero by definition, for the given reason.
    Zero(&'static str),
}

/// The evaluation of an op.
#[derive(Clone, Copy)]
pub enum Eval {
    /// One operand, element by element.
    Unary(UnaryFns),
    /// Two operands of one dtype, element by element.
    Binary(BinaryFns),
    /// Two operands of one dtype, element by element, to `bool`.
    Compare(CompareFns),
    /// One float operand, element by element, to `bool`.
    Test(TestFns),
    /// Integer or bool operands of one dtype, element by element.
    Bits(BitFns),
    /// Three or four float operands of one dtype, element by element.
    Many(ManyFns),
    /// A kernel that the runtime supplies.
    Kernel(Kernel),
    /// A control flow op, which runs the programs among its static arguments.
    Control(&'static dyn Control),
    /// An op on the values of several devices. `shard_map` runs it, and no plan contains it.
    Collective,
    /// A call of another traced function, which has no kernel and is part of no plan.
    Call,
}

/// The inputs and the tolerance for tests of the laws that every op obeys.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// The interval from which float inputs are drawn.
    pub domain: (f64, f64),
    /// Programs in text form, with one equation each. Float parameters have dtype `f64`.
    ///
    /// Integers are drawn from `0..3`.
    pub samples: &'static [&'static str],
    /// Whether float inputs are matrices that dominate by their diagonals.
    pub dominant: bool,
    /// The tolerance of the derivative against 4th-order differences.
    ///
    /// It is relative to the largest entry.
    pub tolerance: f64,
}

impl Laws {
    /// Returns laws with the default tolerance.
    pub const fn new(domain: (f64, f64), samples: &'static [&'static str]) -> Laws {
        Laws {
            domain,
            samples,
            dominant: false,
            tolerance: 1e-6,
        }
    }

    /// Adds that float inputs are matrices that dominate by their diagonals, with distinct
    /// eigenvalues.
    pub const fn dominant(mut self) -> Laws {
        self.dominant = true;
        self
    }

    /// Returns what is added to the element at `index` of a float input that is drawn from the domain.
    pub fn added(&self, index: &[usize]) -> f64 {
        match index {
            [.., i, j] if self.dominant && i == j => 4.0 * (*i as f64 + 1.0),
            _ => 0.0,
        }
    }
}

/// Panics. Implements `transpose` for ops that are never applied to tangents.
pub(crate) fn not_linear(op: &dyn OpDef) -> ! {
    unreachable!(
        "`{}` is not linear, so no jvp may apply it to a tangent",
        op.name()
    )
}
