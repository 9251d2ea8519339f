use super::{Kernel, Linear, Method, Operands, Param, shape};
use crate::{Dim, Fault, Op, Shape, Static};

/// `reshape[shape] x, like x`: the elements, in row-major order, in another shape. One length may be -1: what the
/// number of elements leaves for it.
pub(super) static OP: Linear = Linear {
    name: "reshape",
    operands: Operands::Fixed(1, 1),
    statics: &["shape"],
    shape: |statics, args| reshaped(&args[0].shape, &statics[0]),
    dtype: shape::of_operand,
    methods: &[Method::on_tensor("reshape", &[Param::Data, Param::Static])],
    transpose: |b, eqn, ct| b.emit(Op::ReshapeT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Reshape,
    samples: &[
        "(x: f64[2, 6]) { y = reshape[shape=[3, -1, 2]] x, like x return y }",
        "(x: f64[2, 0]) { y = reshape[shape=[0, 5]] x, like x return y }",
        "(x: f64[1]) { y = reshape[shape=[]] x, like x return y }",
        "(x: f64[]) { y = reshape[shape=[-1]] x, like x return y }",
    ],
};

/// The shape asked for, with -1 filled in.
pub(super) fn reshaped(x: &Shape, to: &Static) -> Result<Shape, Fault> {
    let Some(lens) = shape::ints(to, "shape")? else {
        return Ok(Shape::UNKNOWN);
    };
    let asked = to.to_string();
    if lens.iter().any(|n| *n < -1) || lens.iter().filter(|n| **n == -1).count() > 1 {
        return Err(Fault::BadShape { shape: asked });
    }
    let infers = lens.contains(&-1);
    let rest = product(lens.iter().filter_map(|n| usize::try_from(*n).ok()));
    let mut inferred = Dim::Unknown;
    if let Some(found) = x.known() {
        let found = product(found).unwrap_or(usize::MAX);
        match rest {
            Some(rest) if infers && rest > 0 && found.is_multiple_of(rest) => {
                inferred = Dim::Known(found / rest);
            }
            Some(rest) if !infers && rest == found => {}
            _ => {
                return Err(Fault::Elements {
                    found,
                    shape: asked,
                });
            }
        }
    } else if let Some(dims) = x.dims() {
        // A length that is not known passes through where the others cancel.
        let mut open = dims.iter().filter(|d| d.known().is_none());
        let known = product(dims.iter().filter_map(|d| d.known()));
        if let (Some(&dim), None) = (open.next(), open.next())
            && rest.is_some_and(|n| n > 0)
            && known == rest
        {
            inferred = dim;
        }
    }
    let dims = lens
        .iter()
        .map(|n| usize::try_from(*n).map_or(inferred, Dim::Known));
    Ok(Shape(Some(dims.collect())))
}

/// The number of elements, if it can be addressed.
fn product(lens: impl IntoIterator<Item = usize>) -> Option<usize> {
    let lens: Vec<usize> = lens.into_iter().collect();
    if lens.contains(&0) {
        return Some(0);
    }
    lens.into_iter()
        .try_fold(1usize, |n, len| n.checked_mul(len))
}
