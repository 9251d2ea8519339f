use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Param, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// `mean[axes, keepdims] x, like x`: the mean over `axes` of floats; that of no elements is NaN.
///
/// The `Like` operand is the primal with the shape of `x`, so that the op can be transposed where `x` is a
/// tangent. Lowering passes `x` itself.
pub(super) struct Mean;

impl OpDef for Mean {
    fn name(&self) -> &'static str {
        "mean"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 1)
    }
    fn statics(&self) -> &'static [&'static str] {
        &["axes", "keepdims"]
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![shape::reduce(
            &args[0].shape,
            &statics[0],
            &statics[1],
        )?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(args[0].dtype, false)
    }
    fn methods(&self) -> Vec<Method> {
        vec![
            Method::on_tensor("mean", &[Param::Data, Param::Static, Param::Switch(false)]),
            Method::on_tensor(
                "mean_keepdims",
                &[Param::Data, Param::Static, Param::Switch(true)],
            ),
        ]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![dx[0].map(|d| b.mean(d, eqn.args[1], eqn.attrs[0], eqn.attrs[1]))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.mean_t(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Mean)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3]) { y = mean[axes=all, keepdims=false] x, like x return y }",
                "(x: f64[2, 3, 2]) { y = mean[axes=[0, -1], keepdims=true] x, like x return y }",
                "(x: f64[2, 0]) { y = mean[axes=[0], keepdims=false] x, like x return y }",
                "(x: f64[]) { y = mean[axes=all, keepdims=false] x, like x return y }",
            ],
        )
    }
}
