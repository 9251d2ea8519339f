use super::{Count, Kernel, Linear, Method, Operands, Param, shape};
use crate::{Dim, Fault, Op, Poly, Shape, Static};

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
    count: Count::View,
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
    if lens.iter().any(|n| *n < -1) || lens.iter().filter(|n| **n == -1).count() > 1 {
        return Err(Fault::BadShape {
            shape: to.to_string(),
        });
    }
    let infers = lens.contains(&-1);
    let mut inferred = Dim::Unknown;
    if let Some(dims) = x.dims() {
        // Each length that is not known is a number of its own: it passes through where the others cancel.
        let found = elements(dims.iter().enumerate().map(|(i, d)| d.poly_or_fresh(i)));
        let asked = elements(
            lens.iter()
                .filter(|n| **n >= 0)
                .map(|n| Poly::constant(i128::from(*n))),
        );
        let asked_number = asked.as_ref().and_then(Poly::as_constant);
        let refused = match (&found, asked_number) {
            (Some(_), Some(0)) if infers => true,
            (Some(found), Some(n)) if infers => found.is_never_multiple_of(n),
            (Some(found), Some(n)) => {
                let rest = found.minus(&Poly::constant(n));
                rest.is_some_and(|rest| rest.is_never_zero())
            }
            // Fewer elements than can be addressed are never so many.
            (Some(found), None) => found.as_constant().is_some(),
            (None, _) => false,
        };
        if refused {
            let known = found.filter(|n| Dim::from(n.clone()) != Dim::Unknown);
            return Err(Fault::Elements {
                found: known.map_or("these".to_owned(), |n| n.to_string()),
                shape: to.to_string(),
            });
        }
        let quotient = found
            .zip(asked_number)
            .and_then(|(found, n)| found.exact_div(n));
        inferred = quotient.filter(|_| infers).map_or(Dim::Unknown, Dim::from);
    }
    let dims = lens
        .iter()
        .map(|n| usize::try_from(*n).map_or(inferred, Dim::Known));
    Ok(Shape(Some(dims.collect())))
}

/// The number of elements, if it can be told. An axis of length 0 leaves none, whatever the others are.
fn elements(lens: impl Iterator<Item = Poly>) -> Option<Poly> {
    let lens: Vec<Poly> = lens.collect();
    if lens.contains(&Poly::ZERO) {
        return Some(Poly::ZERO);
    }
    Poly::product(&lens)
}
