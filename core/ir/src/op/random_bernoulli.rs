use super::nd_array::{Application, NdArray, truth};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{DType, StaticKind};

/// `random_bernoulli[shape, p] key`: bools that are true with probability `p`, rounded to `f32`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_bernoulli",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Shape.named("shape"),
        StaticKind::Probability.named("p"),
    ],
    shape: |statics, args| shape::drawn(args[0], shape::lengths(&statics[0])?),
    dtype: |_, _| Ok(Some(DType::Bool)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomBernoulli,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_bernoulli[shape=[2, 3], p=0.5] key return y }",
            "(key: i64[2, 2]) { y = random_bernoulli[shape=[3], p=0.5] key return y }",
            "(key: i64[2]) { y = random_bernoulli[shape=[], p=0.0] key return y }",
            "(key: i64[2]) { y = random_bernoulli[shape=[2, 0], p=1.0] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    threefry::draw(of, |key, i| {
        truth(threefry::unit(key, i, &DType::F32.into()) < of.number(1))
    })
}
