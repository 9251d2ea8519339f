use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Param, not_linear, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// `full_like[value] like x`: one number in the dtype and shape of `x`.
pub(super) struct FullLike;

impl OpDef for FullLike {
    fn name(&self) -> &'static str {
        "full_like"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(0, 1)
    }
    fn statics(&self) -> &'static [&'static str] {
        &["value"]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[0].shape.clone()])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::holds(&statics[0], args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        vec![
            Method::on_tensor("full_like", &[Param::Like, Param::Static]),
            Method::on_tensor("zeros_like", &[Param::Like, Param::Number(0)]),
            Method::on_tensor("ones_like", &[Param::Like, Param::Number(1)]),
        ]
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
        Eval::Kernel(Kernel::FullLike)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2]) { y = full_like[value=0.5] like x return y }",
            ],
        )
    }
}
