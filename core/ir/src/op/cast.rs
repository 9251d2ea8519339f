use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Param, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `cast[dtype] x, like x`: the elements in another dtype. A float becomes an integer by truncation, saturating at
/// the ends of the range, and NaN becomes 0; anything becomes a bool by comparison with 0.
///
/// The derivative is a cast of the tangent; a cast to an integer or a bool has none.
pub(super) struct Cast;

impl OpDef for Cast {
    fn name(&self) -> &'static str {
        "cast"
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
    fn dtype(&self, statics: &[Static], _: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::dtype(&statics[0], "dtype")
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor("cast", &[Param::Data, Param::Static])]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let to_float = b
            .static_of(eqn.attrs[0])
            .dtype()
            .is_none_or(DType::is_float);
        vec![
            dx[0]
                .filter(|_| to_float)
                .map(|d| b.emit(Op::Cast, &eqn.attrs, &[d, eqn.args[1]])),
        ]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![cts[0].map(|ct| b.emit(Op::CastT, &eqn.attrs, &[ct, eqn.args[1]]))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Cast)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3]) { y = cast[dtype=f64] x, like x return y }",
                "(x: f64[2, 3]) { y = cast[dtype=i32] x, like x return y }",
            ],
        )
    }
}
