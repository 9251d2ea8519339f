use super::class::bilinear;
use super::matmul::{product, products};
use super::nd_array::{Application, NdArray};
use super::{Bilinear, Count, Kernel, Linearity, OpFacts, axes, shape};
use crate::Op;

/// `matmul_lhs_t c, y, like x, like y`: `c y^T` summed to the shape of `x`.
///
/// This is the transpose of `matmul` in its first operand. `c` has the shape of `x y`.
pub(super) static OP: Bilinear = Bilinear {
    name: "matmul_lhs_t",
    statics: &[],
    shape: |_, args| {
        let y = shape::same(&args[3].shape, &args[1].shape)?;
        let z = product(&args[2].shape, &y)?;
        shape::same(&z, &args[0].shape)?;
        Ok(args[2].shape.clone())
    },
    methods: &[],
    transpose: [
        |b, eqn, ct| bilinear(b, Op::Matmul, [ct, eqn.args[1]], eqn),
        |b, eqn, ct| bilinear(b, Op::MatmulRhsT, [ct, eqn.args[0]], eqn),
    ],
    kernel: Kernel::MatmulLhsT,
    count: Count::Product,
    facts: OpFacts::opaque(axes::MATMUL_LHS_T).linear(Linearity::Each(&[0, 1])),
    samples: &[
        "(c: f64[2, 4], y: f64[3, 4], x: f64[2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[2], y: f64[3, 2], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[2], y: f64[3], x: f64[2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[], y: f64[3], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[2, 3, 2, 2], y: f64[3, 3, 2], x: f64[2, 1, 2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[2, 2], y: f64[2, 3, 2], x: f64[3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[2, 0], y: f64[3, 0], x: f64[2, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
        "(c: f64[0, 4], y: f64[3, 4], x: f64[0, 3]) { z = matmul_lhs_t c, y, like x, like y return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    products(of, [2, 1, 0])
}
