//! The class of ops that move the elements of one tensor and are undone by another op on the same operands.

use super::{Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, Operands};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// An op with one data operand and one result of its dtype, of which each element is an element of the operand
/// or 0, at a place that the shapes alone decide.
///
/// It is linear. Where its transpose needs a shape, the `Like` operand is the primal with that shape.
pub struct Movement {
    /// The name.
    pub name: &'static str,
    /// The names of its static arguments.
    pub statics: &'static [&'static str],
    /// How many `Like` operands it has.
    pub n_likes: usize,
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// How user code calls it.
    pub methods: &'static [Method],
    /// The transpose: the cotangent of the operand.
    pub undo: fn(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var,
    /// The kernel.
    pub kernel: Kernel,
    /// The programs on which the laws are tested.
    pub samples: &'static [&'static str],
}

impl OpDef for Movement {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, self.n_likes)
    }
    fn statics(&self) -> &'static [&'static str] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy is moved as y is.
        let mut args = eqn.args.clone();
        vec![dx[0].map(|d| {
            args[0] = d;
            b.emit(eqn.op, &eqn.attrs, &args)
        })]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| (self.undo)(b, eqn, ct))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(self.kernel)
    }
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), self.samples)
    }
}
