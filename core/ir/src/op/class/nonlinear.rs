//! The class of ops with a kernel and one result that are never applied to tangents.

use crate::op::{Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, not_linear};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// A rule that infers a property of the result from the static arguments and the operands' avals.
///
/// `args` holds the avals of the data operands, then those of the like operands.
pub type InferRule<T> = fn(statics: &[Static], args: &[&Aval]) -> Result<T, Fault>;

/// An op with a kernel and one result that is not linear in any operand, so it has no transpose.
pub struct Nonlinear {
    /// The name in the text form.
    pub name: &'static str,
    /// The number of operands.
    pub operands: Operands,
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The dtype rule.
    pub dtype: InferRule<Option<DType>>,
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// The derivative.
    pub rule: NonlinearRule,
    /// The kernel.
    pub kernel: Kernel,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The inputs and the tolerance for tests of the laws.
    pub laws: Laws,
}

/// The derivative of a [`Nonlinear`] op.
#[derive(Clone, Copy)]
pub enum NonlinearRule {
    /// Emits the tangent of the result, given those of the data operands.
    Tangent(fn(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Option<Var>),
    /// Zero, for the given reason.
    Zero(&'static str),
}

impl OpDef for Nonlinear {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        self.operands
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        (self.dtype)(statics, args)
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        match self.rule {
            NonlinearRule::Tangent(_) => Diff::Smooth,
            NonlinearRule::Zero(why) => Diff::Zero(why),
        }
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![match self.rule {
            NonlinearRule::Tangent(tangent) => tangent(b, eqn, dx),
            NonlinearRule::Zero(_) => None,
        }]
    }
    fn transpose(
        &self,
        _: &mut Builder,
        _: &Eqn,
        _: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        not_linear(self)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(self.kernel)
    }
    fn count(&self) -> Count {
        self.count
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    fn laws(&self) -> Laws {
        self.laws
    }
}
