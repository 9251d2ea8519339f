use super::matmul::{bilinear, emit, product};
use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `matmul_lhs_t c, y, like x, like y`: the transpose of `matmul` in its first operand, `c y^T` summed to the shape
/// of `x`; `c` has the shape of `x y`.
pub(super) struct MatmulLhsT;

impl OpDef for MatmulLhsT {
    fn name(&self) -> &'static str {
        "matmul_lhs_t"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 2)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        product(&args[2].shape, &args[3].shape)?;
        Ok(vec![args[2].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(shape::same_dtype(args[0].dtype, args[1].dtype)?, true)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![bilinear(b, eqn, dx)]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let Some(ct) = cts[0] else {
            return vec![None; 2];
        };
        vec![
            linear[0].then(|| emit(b, Op::Matmul, ct, eqn.args[1], eqn)),
            linear[1].then(|| emit(b, Op::MatmulRhsT, ct, eqn.args[0], eqn)),
        ]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::MatmulLhsT)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(c: f64[2, 4], y: f64[3, 4], x: f64[2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
                "(c: f64[2], y: f64[3, 2], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
                "(c: f64[2], y: f64[3], x: f64[2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
                "(c: f64[], y: f64[3], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
                "(c: f64[2, 3, 2, 2], y: f64[3, 3, 2], x: f64[2, 1, 2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
                "(c: f64[2, 2], y: f64[2, 3, 2], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
            ],
        )
    }
}
