use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, permute, shape};
use crate::{Op, StaticKind};

/// `permute_t[axes] y`: axis `axes[i]` of the result is axis `i` of `y`.
///
/// This is the transpose of `permute`.
pub(super) static OP: Linear = Linear {
    name: "permute_t",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Permutation.named("axes")],
    shape: |statics, args| {
        permute::reorder(&args[0].shape, |rank| {
            let order = permute::order(&statics[0], rank)?;
            Ok(order.map(|order| {
                let mut inverse = vec![0; rank];
                for (i, a) in order.into_iter().enumerate() {
                    inverse[a] = i;
                }
                inverse
            }))
        })
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Permute, &eqn.attrs, &[ct]),
    kernel: Kernel::PermuteT,
    count: Count::View,
    facts: OpFacts::view(axes::REORDERED),
    samples: &[
        "(x: f64[2, 3, 4]) { y = permute_t[axes=[2, 0, 1]] x return y }",
        "(x: f64[2, 0, 3]) { y = permute_t[axes=[-1, 0, -2]] x return y }",
        "(x: f64[]) { y = permute_t[axes=[]] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axes = of.axes_in_order(0, of.rank());
    of.build(|i| {
        let from: Vec<usize> = axes.iter().map(|&axis| i[axis]).collect();
        of.x().get(&from)
    })
}
