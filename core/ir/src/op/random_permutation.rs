use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{DType, Shape, StaticKind};

/// `random_permutation[len] key`: the numbers 0, 1, ..., `len - 1` in a random order.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_permutation",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Count.named("len")],
    shape: |statics, args| {
        shape::key(args[0])?;
        Ok(Shape(Some(vec![shape::dim(&statics[0])])))
    },
    dtype: |_, _| Ok(Some(DType::I64)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomPermutation,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_permutation[len=5] key return y }",
            "(key: i64[2]) { y = random_permutation[len=0] key return y }",
        ],
    ),
};
