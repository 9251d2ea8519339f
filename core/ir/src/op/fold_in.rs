use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{DType, Dim, Shape, StaticKind};

/// `fold_in[data] key`: a key derived from `key` and the number `data`.
///
/// Key `i` of a split is `fold_in[i]`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "fold_in",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Count.named("data")],
    shape: |_, args| shape::drawn(args[0], Shape(Some(vec![Dim::Known(2)]))),
    dtype: |_, _| Ok(Some(DType::I64)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::FoldIn,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = fold_in[data=7] key return y }",
            "(key: i64[3, 2]) { y = fold_in[data=7] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let data = u64::from(of.int(0) as u32);
    threefry::per_key(of, |key, _| {
        threefry::hash(key, data).map(f64::from).to_vec()
    })
}
