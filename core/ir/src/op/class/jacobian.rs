//! The class of ops that apply a Jacobian to their first operand.

use crate::op::{
    Count, Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, OpFacts, Operands, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, Var};

/// An op that is linear in its first operand, with a matrix computed from the other operands.
///
/// The result has the shape of the first operand.
pub struct Jacobian {
    /// The name in the text form.
    pub name: &'static str,
    /// The number of operands, all of them data.
    pub n_operands: usize,
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// Emits the tangent of the result due to the operands after the first.
    pub tangent: fn(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Option<Var>,
    /// The op that applies the transposed matrix, given the same other operands.
    ///
    /// It is the op itself if the matrix is symmetric.
    pub transpose: Op,
    /// The kernel.
    pub kernel: Kernel,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The interval for inputs in tests of the laws.
    pub domain: (f64, f64),
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

impl OpDef for Jacobian {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(self.n_operands, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let dtype = args.iter().try_fold(None, |dtype: Option<DType>, arg| {
            shape::same_dtype(dtype, arg.dtype)
        });
        shape::number(dtype?, false)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let linear = dx[0].map(|dx| b.emit_on(eqn.op, eqn, dx)[0]);
        let others = (self.tangent)(b, eqn, dx);
        vec![b.add_tangents(linear, others)]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let mut all = vec![None; self.n_operands];
        all[0] = cts[0]
            .filter(|_| linear[0])
            .map(|ct| b.emit_on(self.transpose, eqn, ct)[0]);
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
        Laws::new(self.domain, self.samples)
    }
}

/// The shape rule of Jacobians along one axis, whose operands have the same shape.
pub(crate) fn same_along_axis(statics: &[Static], args: &[&Aval]) -> Result<Shape, Fault> {
    let shape = shape::same(&args[0].shape, &args[1].shape)?;
    shape::along(&shape, &statics[0])
}
