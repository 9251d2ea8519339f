use super::nd_array::{Application, NdArray, truth};
use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Param, Range, axes,
    lanes, shape,
};
use crate::{Shape, StaticKind};

/// `eye[len, dtype]`: a square matrix with 1 on the diagonal and 0 elsewhere.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "eye",
    operands: Operands::Fixed(0, 0),
    statics: &[
        StaticKind::Count.named("len"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, _| Ok(Shape::from([shape::dim(&statics[0]); 2])),
    dtype: |statics, _| Ok(statics[1].dtype()),
    methods: &[Method::on_type("eye", &[Param::Static, Param::Static])],
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::Eye,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::without_operands))
        .cheap()
        .range(|_| Range::UNKNOWN.magnitude().bounded()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "() { y = eye[len=4, dtype=f64] return y }",
            "() { y = eye[len=0, dtype=i64] return y }",
            "() { y = eye[len=3, dtype=bool] return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| truth(i[0] == i[1]))
}
