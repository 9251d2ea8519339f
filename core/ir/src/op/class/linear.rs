//! The class of ops with one result that are linear in their first operand.

use crate::op::{Count, Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, OpFacts, Operands};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// An op with a kernel and one result that is linear in its first operand.
///
/// Other data operands are integers, such as indices, which have no tangents.
///
/// Its tangent is the same op applied to the tangent, with the same static arguments and `Like`
/// operands. The `Like` operands are primal values, whose shapes the transpose needs.
pub struct Linear {
    /// The name in the text form.
    pub name: &'static str,
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// The number of operands.
    pub operands: Operands,
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The dtype rule.
    pub dtype: InferRule<Option<DType>>,
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// Emits the cotangent of the first operand.
    pub transpose: fn(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var,
    /// The kernel.
    pub kernel: Kernel,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

/// Emits the tangents of an op that is linear in its first operand: the op itself, applied to `dx`.
pub(crate) fn linear_tangents(b: &mut Builder, eqn: &Eqn, dx: Option<Var>) -> Vec<Option<Var>> {
    match dx {
        Some(dx) => b.emit_on(eqn.op, eqn, dx).into_iter().map(Some).collect(),
        None => vec![None; eqn.outs.len()],
    }
}

impl OpDef for Linear {
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
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy = f(dx). An integer or bool result of a cast has no tangent.
        let dtype = b.aval(eqn.out()).dtype;
        let dx = dx[0].filter(|_| dtype.is_none_or(DType::is_float));
        linear_tangents(b, eqn, dx)
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        let mut all = vec![None; eqn.data().len()];
        all[0] = cts[0].map(|ct| (self.transpose)(b, eqn, ct));
        all
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
        Laws::new((-2.0, 2.0), self.samples)
    }
}
