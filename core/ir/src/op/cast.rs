use super::nd_array::{Application, NdArray, truth};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, Range, shape};
use crate::{DType, Op, StaticKind};

methods! { cast {
    /// The elements converted to another dtype, in the same shape.
    ///
    /// A float becomes an integer by truncation and saturation, and NaN becomes 0. A number becomes
    /// a bool by comparison with 0. An `i64` that does not fit an `i32` wraps. A cast to an integer
    /// or a bool has no derivative.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::from([1.9f32, -1.9, f32::NAN]);
    /// assert_eq!(x.cast(DType::I64).to_vec::<i64>(), [1, -1, 0]);
    /// ```
    fn cast(x: Data + Like, dtype: DType);
} }

/// `cast[dtype] x, like x`: the elements converted to another dtype.
///
/// - A float becomes an integer by truncation. It saturates at the ends of the range, and NaN
///   becomes 0.
/// - An `i64` becomes an `i32` by wrapping.
/// - A number becomes a bool by comparison with 0.
///
/// The derivative is a cast of the tangent. A cast to an integer or a bool has no derivative.
pub(super) static OP: Linear = Linear {
    name: "cast",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::DType.named("dtype")],
    shape: |_, args| shape::same(&args[0].shape, &args[1].shape),
    dtype: |statics, args| {
        shape::same_dtypes(args)?;
        Ok(statics[0].dtype())
    },
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::CastT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Cast,
    count: Count::Copy,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .equal(Equal::SameAval)
        .range(|of| {
            // A float below 1 becomes the integer 0.
            let to = of.program.aval(of.eqn.out()).dtype;
            Range {
                not_0: of.x().not_0 && to.is_some_and(DType::is_float),
                ..of.x()
            }
        }),
    samples: &[
        "(x: f64[2, 3]) { y = cast[dtype=f64] x, like x return y }",
        "(x: f64[2, 3]) { y = cast[dtype=i32] x, like x return y }",
        "(x: f64[]) { y = cast[dtype=f64] x, like x return y }",
        "(x: f64[0, 3]) { y = cast[dtype=i64] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| match of.statics[0].dtype() {
        Some(DType::Bool) => truth(of.x().get(&i) != 0.0),
        Some(dtype) if !dtype.is_float() => of.x().get(&i).trunc(),
        _ => of.x().get(&i),
    })
}
