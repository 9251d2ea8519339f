use super::matmul::{bilinear, emit, product};
use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `matmul_rhs_t x, c, like x, like y`: the transpose of `matmul` in its second operand, `x^T c` summed to the shape
/// of `y`; `c` has the shape of `x y`.
pub(super) struct MatmulRhsT;

impl OpDef for MatmulRhsT {
    fn name(&self) -> &'static str {
        "matmul_rhs_t"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 2)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        product(&args[2].shape, &args[3].shape)?;
        Ok(vec![args[3].shape.clone()])
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
            linear[0].then(|| emit(b, Op::MatmulLhsT, eqn.args[1], ct, eqn)),
            linear[1].then(|| emit(b, Op::Matmul, eqn.args[0], ct, eqn)),
        ]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::MatmulRhsT)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3], c: f64[2, 4], y: f64[3, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
                "(x: f64[3], c: f64[2], y: f64[3, 2]) { z = matmul_rhs_t x, c, like x, like y return z }",
                "(x: f64[2, 3], c: f64[2], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
                "(x: f64[3], c: f64[], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
                "(x: f64[2, 1, 2, 3], c: f64[2, 3, 2, 2], y: f64[3, 3, 2]) { z = matmul_rhs_t x, c, like x, like y return z }",
                "(x: f64[2, 2, 3], c: f64[2, 2], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
            ],
        )
    }
}
