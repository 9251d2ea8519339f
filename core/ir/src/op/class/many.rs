//! The class of elementwise ops of three or four floats.

use crate::op::{
    Count, Diff, Eval, Laws, ManyFns, Method, OpDef, OpFacts, Operands, not_linear, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// An elementwise op of three or four floats with NumPy broadcasting.
pub struct Many {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: ManyFns,
    /// The derivative with respect to each operand.
    pub rules: &'static [ManyRule],
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The inputs and the tolerance for tests of the laws.
    pub laws: Laws,
}

/// The contribution of the tangent of an operand to that of the result. Both have the same shape.
#[derive(Clone, Copy)]
pub enum ManyRule {
    /// Emits the contribution.
    Tangent(fn(b: &mut Builder, eqn: &Eqn, d: Var) -> Var),
    /// Zero: the operand is rounded to an integer.
    Rounded,
}

impl OpDef for Many {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(self.fns.n_operands(), 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let mut all = args[0].shape.clone();
        for arg in &args[1..] {
            all = shape::broadcast(&all, &arg.shape)?;
        }
        Ok(vec![all])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let mut all = args[0].dtype;
        for arg in &args[1..] {
            all = shape::promoted(all, arg.dtype)?;
        }
        shape::number(all, false)
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Smooth
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let mut sum = None;
        for (i, (d, rule)) in dx.iter().zip(self.rules).enumerate() {
            if let (Some(d), ManyRule::Tangent(rule)) = (d, rule) {
                let d = b.broadcast(*d, eqn.args[i], eqn.out());
                let part = rule(b, eqn, d);
                sum = b.add_tangents(sum, Some(part));
            }
        }
        vec![sum]
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
        Eval::Many(self.fns)
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
