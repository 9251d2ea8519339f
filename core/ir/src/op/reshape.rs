use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Poly, Shape, Static, StaticKind};

methods! { reshape {
    /// Returns the elements, in row-major order, in another shape.
    ///
    /// One length may be -1 and is inferred.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// assert_eq!(x.reshape([2, -1]).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number of elements differs, a length is less than -1, or several lengths are -1.
    fn reshape(x: Data + Like, shape: Static);
} }

/// `reshape[shape] x, like x`: the elements, in row-major order, in another shape.
///
/// One length may be -1, which is then inferred from the number of elements.
pub(super) static OP: Linear = Linear {
    name: "reshape",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Reshape.named("shape")],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        reshaped(&x, &statics[0])
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::ReshapeT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Reshape,
    count: Count::View,
    facts: OpFacts::view(axes::RESHAPED).equal(Equal::SameAval),
    samples: &[
        "(x: f64[2, 6]) { y = reshape[shape=[3, -1, 2]] x, like x return y }",
        "(x: f64[2, 3, 4]) { y = reshape[shape=[2, 12]] x, like x return y }",
        "(x: f64[2, 0]) { y = reshape[shape=[0, 5]] x, like x return y }",
        "(x: f64[1]) { y = reshape[shape=[]] x, like x return y }",
        "(x: f64[]) { y = reshape[shape=[-1]] x, like x return y }",
    ],
};

/// Returns the requested shape, with the inferred length filled in.
pub(super) fn reshaped(x: &Shape, to: &Static) -> Result<Shape, Fault> {
    let Some(lens) = shape::asked_lengths(to)? else {
        return Ok(Shape::UNKNOWN);
    };
    let n_inferred = lens.iter().filter(|len| len.is_none()).count();
    let below = to.ints().is_some_and(|lens| lens.iter().any(|n| *n < -1));
    if below || n_inferred > 1 {
        return Err(Fault::BadShape {
            shape: shape::shown(to),
        });
    }
    let infers = n_inferred == 1;
    let mut inferred = Dim::Unknown;
    if let Some(dims) = x.dims() {
        // Each unknown length is a fresh name, so that it cancels if it occurs on both sides.
        let all = dims.iter().chain(lens.iter().flatten()).enumerate();
        let mut all = all.map(|(i, dim)| dim.poly_or_fresh(i));
        let found = elements(all.by_ref().take(dims.len()));
        let asked = elements(all);
        let factor = match infers {
            true => Dim::Unknown.poly_or_fresh(dims.len() + lens.len()),
            false => Poly::constant(1),
        };
        let filled = asked.as_ref().and_then(|asked| asked.times(&factor));
        let refused = match (&found, &asked) {
            // Any inferred length would fit, so none is determined.
            (Some(_), Some(asked)) if infers && *asked == Poly::ZERO => true,
            (Some(found), Some(_)) => {
                let rest = filled.and_then(|filled| found.minus(&filled));
                rest.is_some_and(|rest| rest.is_never_zero())
            }
            // The requested number overflows, so it exceeds every addressable number of elements.
            (Some(found), None) => found.as_constant().is_some(),
            (None, _) => false,
        };
        if refused {
            let known = found.filter(|n| Dim::from(n.clone()) != Dim::Unknown);
            return Err(Fault::Elements {
                found: known.map_or("these".to_owned(), |n| n.to_string()),
                shape: shape::shown(to),
            });
        }
        // If another length is unknown, that one may be the -1.
        let certain = infers && !lens.contains(&Some(Dim::Unknown));
        let quotient = found.zip(asked).filter(|_| certain);
        let quotient = quotient.and_then(|(found, asked)| found.quotient(&asked));
        inferred = quotient.map_or(Dim::Unknown, Dim::from);
    }
    let dims = lens.into_iter().map(|len| len.unwrap_or(inferred));
    Ok(Shape(Some(dims.collect())))
}

/// Returns the number of elements, if it can be computed. One axis of length 0 suffices.
fn elements(lens: impl Iterator<Item = Poly>) -> Option<Poly> {
    let lens: Vec<Poly> = lens.collect();
    if lens.contains(&Poly::ZERO) {
        return Some(Poly::ZERO);
    }
    Poly::product(&lens)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
