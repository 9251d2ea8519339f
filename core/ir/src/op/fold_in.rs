use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{DType, Dim, Shape};

/// `fold_in key data`: a key derived from each key and a number, of which the low 32 bits count.
///
/// Key `i` of a split is `fold_in key i`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "fold_in",
    operands: Operands::Fixed(2, 0),
    statics: &[],
    shape: |_, args| {
        let made = shape::drawn(args[0], Shape::from([Dim::Known(2)]))?;
        let keys = args[0].shape.dims();
        let keys = keys.map(|dims| dims[..dims.len() - 1].into());
        shape::same(&Shape(keys), &args[1].shape)?;
        shape::words(args[1])?;
        Ok(made)
    },
    dtype: |_, _| Ok(Some(DType::I64)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::FoldIn,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2], data: i64[]) { y = fold_in key, data return y }",
            "(key: i64[3, 2], data: i64[3]) { y = fold_in key, data return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut data = of.args[1].data.iter().map(|n| u64::from(*n as i64 as u32));
    threefry::per_key(of, |key, _| {
        let data = data.next().expect("a number for each key");
        threefry::hash(key, data).map(f64::from).to_vec()
    })
}
