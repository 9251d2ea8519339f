use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// `mean_t[axes, keepdims] y, like x`: the transpose of `mean`, `y` repeated along `axes` to the shape of `x` and
/// divided by the number of repetitions.
pub(super) struct MeanT;

impl OpDef for MeanT {
    fn name(&self) -> &'static str {
        "mean_t"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 1)
    }
    fn statics(&self) -> &'static [&'static str] {
        &["axes", "keepdims"]
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        shape::reduce(&args[1].shape, &statics[0], &statics[1])?;
        Ok(vec![args[1].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(args[0].dtype, false)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![dx[0].map(|d| b.mean_t(d, eqn.args[1], eqn.attrs[0], eqn.attrs[1]))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.mean(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::MeanT)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(y: f64[2], x: f64[2, 3]) { z = mean_t[axes=[1], keepdims=false] y, like x return z }",
                "(y: f64[], x: f64[2, 3]) { z = mean_t[axes=all, keepdims=false] y, like x return z }",
            ],
        )
    }
}
