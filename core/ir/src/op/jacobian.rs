//! The class of ops that apply a matrix, made of primal values, to one operand: the Jacobians of some ops on rows.

use super::{Count, Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, Operands, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// An op that is linear in its first operand, of the shape of the result.
pub struct Jacobian {
    /// The name.
    pub name: &'static str,
    /// How many operands it reads.
    pub n_operands: usize,
    /// The names of its static arguments.
    pub statics: &'static [&'static str],
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The tangent of the result from those of the operands after the first.
    pub tangent: fn(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Option<Var>,
    /// The op that applies the transposed matrix, on the same other operands: the op itself where the matrix is symmetric.
    pub transpose: Op,
    /// The kernel.
    pub kernel: Kernel,
    /// The arithmetic that it does.
    pub count: Count,
    /// The interval that the operands are drawn from where the laws are tested.
    pub domain: (f64, f64),
    /// The programs on which the laws are tested.
    pub samples: &'static [&'static str],
}

/// The equation with another op and another first operand.
fn apply(b: &mut Builder, op: Op, eqn: &Eqn, x: Var) -> Var {
    let mut args = eqn.args.clone();
    args[0] = x;
    b.emit(op, &eqn.attrs, &args)
}

impl OpDef for Jacobian {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(self.n_operands, 0)
    }
    fn statics(&self) -> &'static [&'static str] {
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
        let linear = dx[0].map(|dx| apply(b, eqn.op, eqn, dx));
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
            .map(|ct| apply(b, self.transpose, eqn, ct));
        all
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(self.kernel)
    }
    fn count(&self) -> Count {
        self.count
    }
    fn laws(&self) -> Laws {
        Laws::new(self.domain, self.samples)
    }
}

/// The shape rule of Jacobians along one axis, whose operands have one shape.
pub(super) fn same_along_axis(statics: &[Static], args: &[&Aval]) -> Result<Shape, Fault> {
    let shape = shape::same(&args[0].shape, &args[1].shape)?;
    shape::along(&shape, &statics[0])
}
