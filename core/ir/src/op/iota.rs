use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Param, Range, axes,
    lanes, shape,
};
use crate::{Shape, StaticKind};

/// `iota[len, dtype]`: the numbers 0, 1, 2, ..., `len - 1`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "iota",
    operands: Operands::Fixed(0, 0),
    statics: &[
        StaticKind::Count.named("len"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, _| Ok(Shape::from([shape::dim(&statics[0])])),
    dtype: |statics, _| shape::number(statics[1].dtype(), true),
    methods: &[Method::on_type("arange", &[Param::Static, Param::Static])],
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::Iota,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::without_operands))
        .cheap()
        .range(|_| Range::UNKNOWN.magnitude()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "() { y = iota[len=4, dtype=f64] return y }",
            "() { y = iota[len=0, dtype=i64] return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| i[0] as f64)
}
