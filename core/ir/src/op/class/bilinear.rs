//! The class of ops with one result that are linear in each of their two data operands.

use crate::op::{
    Count, Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, OpFacts, Operands, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, Var};

/// One of three ops derived from a product `z = f(x, y)`: `f`, or its transpose in `x` or in `y`.
///
/// It is linear in each of its two data operands, which are numbers of one dtype. Its `Like`
/// operands are the primal values `x` and `y`.
pub struct Bilinear {
    /// The name in the text form.
    pub name: &'static str,
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// Emits the cotangent of each operand.
    pub transpose: [fn(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var; 2],
    /// The kernel.
    pub kernel: Kernel,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

/// Emits `op` with the static arguments and the `Like` operands of the equation `of`.
pub(crate) fn bilinear(b: &mut Builder, op: Op, [x, y]: [Var; 2], of: &Eqn) -> Var {
    b.emit(op, &of.attrs, &[x, y, of.args[2], of.args[3]])
}

/// Returns the dtype of the first two operands, which must be the same number.
pub(crate) fn same_numbers(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    shape::number(shape::promoted(args[0].dtype, args[1].dtype)?, true)
}

impl OpDef for Bilinear {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 2)
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        same_numbers(args)
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dz = f(dx, y) + f(x, dy)
        let left = dx[0].map(|d| bilinear(b, eqn.op, [d, eqn.args[1]], eqn));
        let right = dx[1].map(|d| bilinear(b, eqn.op, [eqn.args[0], d], eqn));
        vec![b.add_tangents(left, right)]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let operand = |i: usize| {
            let ct = cts[0].filter(|_| linear[i])?;
            Some((self.transpose[i])(b, eqn, ct))
        };
        (0..2).map(operand).collect()
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
