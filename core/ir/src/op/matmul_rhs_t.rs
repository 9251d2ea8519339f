use super::class::bilinear;
use super::matmul::{product, products};
use super::nd_array::{Application, NdArray};
use super::{Bilinear, Count, Kernel, Linearity, OpFacts, axes, shape};
use crate::Op;

/// `matmul_rhs_t x, c, like x, like y`: `x^T c` summed to the shape of `y`.
///
/// This is the transpose of `matmul` in its second operand. `c` has the shape of `x y`.
pub(super) static OP: Bilinear = Bilinear {
    name: "matmul_rhs_t",
    statics: &[],
    shape: |_, args| {
        let x = shape::same(&args[2].shape, &args[0].shape)?;
        let z = product(&x, &args[3].shape)?;
        shape::same(&z, &args[1].shape)?;
        Ok(args[3].shape.clone())
    },
    methods: &[],
    transpose: [
        |b, eqn, ct| bilinear(b, Op::MatmulLhsT, [eqn.args[1], ct], eqn),
        |b, eqn, ct| bilinear(b, Op::Matmul, [eqn.args[0], ct], eqn),
    ],
    kernel: Kernel::MatmulRhsT,
    count: Count::Product,
    facts: OpFacts::opaque(axes::MATMUL_RHS_T).linear(Linearity::Each(&[0, 1])),
    samples: &[
        "(x: f64[2, 3], c: f64[2, 4], y: f64[3, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[3], c: f64[2], y: f64[3, 2]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[2, 3], c: f64[2], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[3], c: f64[], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[2, 1, 2, 3], c: f64[2, 3, 2, 2], y: f64[3, 3, 2]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[2, 2, 3], c: f64[2, 2], y: f64[3]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[2, 3], c: f64[2, 0], y: f64[3, 0]) { z = matmul_rhs_t x, c, like x, like y return z }",
        "(x: f64[0, 3], c: f64[0, 4], y: f64[3, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    products(of, [0, 2, 1])
}
