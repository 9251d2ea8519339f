use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, not_linear, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// `scalar[value] like x`: a number with rank 0 and the dtype of `x`.
///
/// The number has to be a value of that dtype: `1.5` is not one of `i32`. Rounding to `f32` is no loss.
pub(super) struct Scalar;

impl OpDef for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(0, 1)
    }
    fn statics(&self) -> &'static [&'static str] {
        &["value"]
    }
    fn shape(&self, _: &[Static], _: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![Shape::scalar()])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::holds(&statics[0], args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Zero("a constant")
    }
    fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![None]
    }
    fn transpose(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>], _: &[bool]) -> Vec<Option<Var>> {
        not_linear(self)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Scalar)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2]) { y = scalar[value=0.5] like x return y }",
            ],
        )
    }
}
