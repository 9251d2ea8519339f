use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Param, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `broadcast_like x, like from, like to`: `x`, which has the shape of `from`, repeated to the shape of `to`.
pub(super) struct BroadcastLike;

impl OpDef for BroadcastLike {
    fn name(&self) -> &'static str {
        "broadcast_like"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 2)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        check(&args[0].shape, &args[2].shape)?;
        Ok(vec![args[2].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor("broadcast_like", &[Param::Data, Param::Like])]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![dx[0].map(|d| b.emit(Op::BroadcastLike, &[], &[d, eqn.args[1], eqn.args[2]]))]
    }
    fn transpose(&self, b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>], _: &[bool]) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.emit(Op::Unbroadcast, &[], &[ct, eqn.args[1], eqn.args[2]]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::BroadcastLike)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[3], y: f64[2, 3]) { z = broadcast_like x, like x, like y return z }",
                "(x: f64[], y: f64[0, 3]) { z = broadcast_like x, like x, like y return z }",
                "(x: f64[2, 1], y: f64[2, 3]) { z = broadcast_like x, like x, like y return z }",
            ],
        )
    }
}

/// Whether a value of shape `x` can be repeated to the shape `to`.
pub(super) fn check(x: &Shape, to: &Shape) -> Result<(), Fault> {
    let refused = || Fault::BroadcastTo { shape: to.clone() };
    let shape = shape::broadcast(x, to).map_err(|_| refused())?;
    match (shape.dims(), to.dims()) {
        (Some(found), Some(dims))
            if found.len() != dims.len() || found.iter().zip(dims).any(|(a, b)| a.differs(*b)) =>
        {
            Err(refused())
        }
        _ => Ok(()),
    }
}
