//! What the system knows about an op.

use super::{BinaryFns, CompareFns, Count, Kernel, Method, UnaryFns};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};
use std::fmt;

/// Everything the system knows about an op. No method has a default that could hide a missing rule.
pub trait OpDef: Sync {
    /// The name in the text form, of the method on `Tensor`, and in messages.
    fn name(&self) -> &'static str;

    /// How many operands it reads, and how.
    fn operands(&self) -> Operands;

    /// The names of its static arguments.
    fn statics(&self) -> &'static [&'static str];

    /// The shape rule: the shapes of the results, from the operands' (data, then like) avals.
    /// An operand that is not known in full must not be refused unless it is wrong for certain.
    fn shape(&self, statics: &[Static], args: &[&Aval], n_outs: usize)
    -> Result<Vec<Shape>, Fault>;

    /// The dtype rule: the dtype of every result.
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault>;

    /// How user code calls it, on a tensor or as `Tensor::name(..)`; empty for ops that only rules emit.
    /// The macro lowers calls by this table, and the run time has a method for each row.
    fn methods(&self) -> Vec<Method>;

    /// What its derivative is like, in words where there is none.
    fn diff(&self) -> Diff;

    /// Tangents of `eqn.outs`, given the tangents `dx` of the data operands. `None` is zero.
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>>;

    /// Cotangents of the data operands, given those of `eqn.outs` (at least one is not `None`).
    /// `linear[i]` says whether operand `i` is linear here; the others get `None`.
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>>;

    /// What it computes.
    fn eval(&self) -> Eval;

    /// The arithmetic that it does.
    fn count(&self) -> Count;

    /// Where the laws that every op obeys are tested.
    fn laws(&self) -> Laws;
}

/// How many operands an op reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// So many data operands, then so many `Like` operands.
    Fixed(usize, usize),
    /// Data operands, at least and at most so many.
    Between(usize, usize),
    /// Any number of data operands, at least one.
    Many,
    /// Any number of data operands, at least one, then as many `Like` operands.
    ManyLike,
    /// One data operand, then any number of `Like` operands, at least one.
    OneManyLike,
}

impl Operands {
    /// How many of `n_args` operands are data.
    pub fn n_data(self, n_args: usize) -> usize {
        match self {
            Operands::Fixed(data, _) => data,
            Operands::Between(..) | Operands::Many => n_args,
            Operands::ManyLike => n_args / 2,
            Operands::OneManyLike => 1,
        }
    }

    /// Whether an op can have `n_args` operands.
    pub fn fits(self, n_args: usize) -> bool {
        match self {
            Operands::Fixed(data, likes) => n_args == data + likes,
            Operands::Between(least, most) => (least..=most).contains(&n_args),
            Operands::Many => n_args >= 1,
            Operands::ManyLike => n_args >= 2 && n_args.is_multiple_of(2),
            Operands::OneManyLike => n_args >= 2,
        }
    }
}

impl fmt::Display for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operands::Fixed(data, likes) => {
                let s = |n: usize| if n == 1 { "" } else { "s" };
                write!(f, "{data} operand{}", s(data))?;
                if likes > 0 {
                    write!(f, " and {likes} like{}", s(likes))?;
                }
                Ok(())
            }
            Operands::Between(least, most) => write!(f, "{least} to {most} operands"),
            Operands::Many => write!(f, "at least 1 operand"),
            Operands::ManyLike => write!(f, "at least 1 operand, each with its like"),
            Operands::OneManyLike => write!(f, "1 operand and at least 1 like"),
        }
    }
}

/// What the derivative of an op is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diff {
    /// It has a derivative, and may also be applied to tangents: it has a transpose.
    Linear,
    /// It has a derivative.
    Smooth,
    /// Its derivative is zero by definition, for the reason given.
    Zero(&'static str),
}

/// What an op computes.
#[derive(Clone, Copy)]
pub enum Eval {
    /// One operand, element by element.
    Unary(UnaryFns),
    /// Two operands of one dtype, element by element.
    Binary(BinaryFns),
    /// Two operands of one dtype, element by element, to `bool`.
    Compare(CompareFns),
    /// A kernel that the run time supplies.
    Kernel(Kernel),
    /// A call of another traced function: no kernel, and in no plan.
    Call,
}

/// Where the laws that every op obeys are tested.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// The interval that float inputs are drawn from.
    pub domain: (f64, f64),
    /// Programs in text form, of one equation each, with typed `f64` (or integer or bool) parameters.
    /// Integers are drawn from `0..3`.
    pub samples: &'static [&'static str],
    /// The tolerance of the derivative against differences of 4th order, relative to the largest entry.
    pub tolerance: f64,
}

impl Laws {
    /// The laws hold on `domain` at the given programs, to the usual tolerance.
    pub const fn new(domain: (f64, f64), samples: &'static [&'static str]) -> Laws {
        Laws {
            domain,
            samples,
            tolerance: 1e-6,
        }
    }
}

/// For `transpose` of ops that never lie on a linear path.
pub(crate) fn not_linear(op: &dyn OpDef) -> ! {
    unreachable!(
        "`{}` is not linear, so no jvp may apply it to a tangent",
        op.name()
    )
}
