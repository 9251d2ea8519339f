use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Attr, Aval, Builder, Fault, Op, Shape, Static, StaticKind};

methods! { cumsum {
    /// Sums of the elements up to each one along `axes`, in the same dtype; of integers of 8 bits and `bool`, as `i64`.
    /// Integers wrap.
    ///
    /// Several axes are walked in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.cumsum(1).to_vec::<f32>(), [1.0, 3.0, 3.0, 7.0]);
    /// assert_eq!(x.cumsum(..).to_vec::<f32>(), [1.0, 3.0, 6.0, 10.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cumsum(x: Data, axes: Static, reverse: Switch(false));

    /// [`Tensor::cumsum`] from the last element back to each one.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.cumsum_reverse(0).to_vec::<f32>(), [6.0, 5.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cumsum_reverse(x: Data, axes: Static, reverse: Switch(true));
} }

/// `cumsum[axes, reverse] x`: the sum of the elements up to each one along `axes`. Integers wrap.
pub(super) static OP: Linear = Linear {
    name: "cumsum",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    shape: scanned,
    dtype: |_, args| shape::added(args[0].dtype),
    methods: METHODS,
    // The sum over all earlier elements is the transpose of the sum over all later ones.
    transpose: |b, eqn, ct| {
        let back = negated(b, eqn.attrs[1]);
        b.emit(Op::Cumsum, &[eqn.attrs[0], back], &[ct])
    },
    kernel: Kernel::Cumsum,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ALONG),
    samples: &[
        "(x: f64[2, 3]) { y = cumsum[axes=[1], reverse=false] x return y }",
        "(x: f64[3, 2]) { y = cumsum[axes=[-2], reverse=true] x return y }",
        "(x: f64[2, 3, 2]) { y = cumsum[axes=[0, 2], reverse=false] x return y }",
        "(x: f64[2, 3]) { y = cumsum[axes=all, reverse=true] x return y }",
        "(x: f64[2, 0]) { y = cumsum[axes=[1], reverse=false] x return y }",
        "(x: f64[]) { y = cumsum[axes=all, reverse=false] x return y }",
        "(x: i64[2, 3]) { y = cumsum[axes=[1], reverse=false] x return y }",
        "(x: i32[4]) { y = cumsum[axes=[0], reverse=true] x return y }",
    ],
};

/// The shape rule of ops along the axes of the first static argument, on operands of one shape.
pub(super) fn scanned(statics: &[Static], args: &[&Aval]) -> Result<Shape, Fault> {
    let x = args[1..]
        .iter()
        .try_fold(args[0].shape.clone(), |x, arg| shape::same(&x, &arg.shape))?;
    if let Some(dims) = x.dims() {
        shape::axes(&statics[0], dims.len())?;
    }
    Ok(x)
}

/// Returns the opposite of a flag that is known.
pub(super) fn negated(b: &mut Builder, flag: Attr) -> Attr {
    let flag = b.static_of(flag).bool();
    b.attr(!flag.expect("the flag is known"))
}

/// Walks each row along the axes of the first static argument. `at` computes a result from the
/// elements of the operands up to its own.
///
/// The second static argument is true if rows are walked from their ends.
pub(super) fn walk(of: &Application<'_>, at: impl Fn(&[Vec<f64>]) -> f64) -> NdArray {
    let axes = of.axes(0, of.rank());
    let lens: Vec<usize> = axes.iter().map(|&a| of.x().shape[a]).collect();
    let mut places = indices(&lens);
    if of.flag(1) {
        places.reverse();
    }
    of.build(|index| {
        let own: Vec<usize> = axes.iter().map(|&a| index[a]).collect();
        let n = places.iter().position(|place| *place == own);
        let n = n.expect("the walk visits each element");
        let element = |x: &NdArray, place: &Vec<usize>| {
            let mut index = index.clone();
            for (&axis, &i) in axes.iter().zip(place) {
                index[axis] = i;
            }
            x.get(&index)
        };
        let row = |x: &NdArray| places[..=n].iter().map(|p| element(x, p)).collect();
        at(&of.args.iter().map(row).collect::<Vec<_>>())
    })
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| rows[0].iter().sum())
}
