use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `cast_t[dtype] y, like x`: the transpose of `cast`, `y` in the dtype of `x`.
pub(super) struct CastT;

impl OpDef for CastT {
    fn name(&self) -> &'static str {
        "cast_t"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 1)
    }
    fn statics(&self) -> &'static [&'static str] {
        &["dtype"]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[0].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(args[1].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![dx[0].map(|d| b.emit(Op::CastT, &eqn.attrs, &[d, eqn.args[1]]))]
    }
    fn transpose(&self, b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>], _: &[bool]) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.emit(Op::Cast, &eqn.attrs, &[ct, eqn.args[1]]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::CastT)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(y: f64[2, 3], x: f64[2, 3]) { z = cast_t[dtype=f64] y, like x return z }",
            ],
        )
    }
}
