use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `unbroadcast y, like from, like to`: the transpose of `broadcast_like`, `y` with the shape of `to` summed to the
/// shape of `from`.
pub(super) struct Unbroadcast;

impl OpDef for Unbroadcast {
    fn name(&self) -> &'static str {
        "unbroadcast"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 2)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[1].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(args[0].dtype, true)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![dx[0].map(|d| b.emit(Op::Unbroadcast, &[], &[d, eqn.args[1], eqn.args[2]]))]
    }
    fn transpose(&self, b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>], _: &[bool]) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.emit(Op::BroadcastLike, &[], &[ct, eqn.args[1], eqn.args[2]]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Unbroadcast)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(y: f64[2, 3], x: f64[3]) { z = unbroadcast y, like x, like y return z }",
                "(y: f64[0, 3], x: f64[]) { z = unbroadcast y, like x, like y return z }",
            ],
        )
    }
}
