use super::Jacobian;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, OpFacts, axes};
use crate::{Fault, Op};

/// `tril x`: the lower triangles of the matrices of the last two axes.
///
/// The elements above the diagonal are zero.
pub(super) static OP: Jacobian = Jacobian {
    name: "tril",
    n_operands: 1,
    statics: &[],
    shape: |_, args| {
        let shape = &args[0].shape;
        match shape.dims() {
            Some(dims) if dims.len() < 2 => Err(Fault::Rank {
                found: dims.len(),
                expected: "at least 2".into(),
            }),
            _ => Ok(shape.clone()),
        }
    },
    tangent: |_, _, _| None,
    transpose: Op::Tril,
    kernel: Kernel::Tril,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::MATRICES),
    domain: (-2.0, 2.0),
    samples: &[
        "(x: f64[3, 3]) { y = tril x return y }",
        "(x: f64[2, 2, 4]) { y = tril x return y }",
        "(x: f64[4, 2]) { y = tril x return y }",
        "(x: f64[0, 2]) { y = tril x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [row, column] = [of.rank() - 2, of.rank() - 1];
    of.build(|i| match i[column] > i[row] {
        true => 0.0,
        false => of.x().get(&i),
    })
}
