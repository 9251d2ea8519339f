use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Poly, Shape, Static, StaticKind};

methods! { slice {
    /// Selects every `steps[i]`-th index of `starts[i]..stops[i]` along each leading axis `i`.
    ///
    /// Axes after those that are given are not sliced.
    ///
    /// A negative start or stop counts from the end, and a stop of `i64::MAX` is the end. A negative
    /// step runs backwards, from `starts[i]` down to before `stops[i]`; its end is the start of the axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.slice([1], [-1], [2]).to_vec::<f32>(), [1.0, 3.0]);
    /// assert_eq!(x.slice([-1], [0], [-2]).to_vec::<f32>(), [4.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a range is not inside of its axis, a step is 0, the three lists differ in length, or they are longer than the rank.
    fn slice(x: Data + Like, starts: Static, stops: Static, steps: Static);
} }

/// `slice[starts, stops, steps] x, like x`: every `step`-th index of `start..stop` of each axis.
///
/// The statics cover the leading axes; the remaining axes are unchanged. A negative start or stop
/// counts from the end, and a stop of `i64::MAX` is the end. Both must lie inside the axis. A negative
/// step runs backwards.
pub(super) static OP: Linear = Linear {
    name: "slice",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Starts.named("starts"),
        StaticKind::Stops.named("stops"),
        StaticKind::Steps.named("steps"),
    ],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        sliced(&x, statics)
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::SliceT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Slice,
    count: Count::View,
    facts: OpFacts::view(axes::RANGES).equal(Equal::WholeSlice),
    samples: &[
        "(x: f64[3, 4]) { y = slice[starts=[1], stops=[3], steps=[1]] x, like x return y }",
        "(x: f64[3, 5]) { y = slice[starts=[0, -4], stops=[-1, 9223372036854775807], steps=[1, 3]] x, like x return y }",
        "(x: f64[3]) { y = slice[starts=[2], stops=[2], steps=[2]] x, like x return y }",
        "(x: f64[0, 2]) { y = slice[starts=[0], stops=[0], steps=[1]] x, like x return y }",
        "(x: f64[]) { y = slice[starts=[], stops=[], steps=[]] x, like x return y }",
        "(x: f64[5]) { y = slice[starts=[-1], stops=[9223372036854775807], steps=[-1]] x, like x return y }",
        "(x: f64[3, 5, 2]) { y = slice[starts=[2, 3], stops=[0, -5], steps=[-1, -2]] x, like x return y }",
        "(x: f64[0, 2]) { y = slice[starts=[-1, 0], stops=[9223372036854775807, 1], steps=[-2, 1]] x, like x return y }",
    ],
};

/// Returns the shape of a slice of a value of shape `x`.
pub(super) fn sliced(x: &Shape, statics: &[Static]) -> Result<Shape, Fault> {
    let starts = statics[0].ints();
    let stops = statics[1].ints();
    let steps = statics[2].ints();
    if let Some(&step) = steps.and_then(|steps| steps.iter().find(|s| [0, i64::MIN].contains(*s))) {
        return Err(Fault::Step { step });
    }
    let (Some(starts), Some(stops), Some(steps)) = (starts, stops, steps) else {
        let dims = x.dims().map(|dims| vec![Dim::Unknown; dims.len()].into());
        return Ok(Shape(dims));
    };
    for (name, other) in [("stops", stops), ("steps", steps)] {
        if other.len() != starts.len() {
            return Err(Fault::Length {
                what: format!("the number of `{name}`"),
                found: other.len().to_string(),
                expected: format!("{}, the number of `starts`", starts.len()),
            });
        }
    }
    let Some(dims) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    if starts.len() > dims.len() {
        return Err(Fault::Rank {
            found: dims.len(),
            expected: format!("at least {}, the number of `starts`", starts.len()),
        });
    }
    let mut sliced = dims.to_vec();
    for (axis, dim) in sliced.iter_mut().enumerate().take(starts.len()) {
        *dim = part(axis, *dim, starts[axis], stops[axis], steps[axis])?;
    }
    Ok(Shape::from(sliced))
}

/// Returns the length of a slice of an axis.
fn part(axis: usize, dim: Dim, start: i64, stop: i64, step: i64) -> Result<Dim, Fault> {
    let whole = dim.poly_or_fresh(0);
    let to_end = stop == i64::MAX;
    let (user_start, user_stop) = (start, stop);
    // Indices from the other end: index -1 is 0, and -2 is 1.
    let (start, stop) = if step < 0 {
        (!start, !stop)
    } else {
        (start, stop)
    };
    let from_left = |i: i64| {
        let i = Poly::constant(i.into());
        if i.is_negative() {
            whole.plus(&i)
        } else {
            Some(i)
        }
    };
    let end = if to_end {
        Some(whole.clone())
    } else {
        from_left(stop)
    };
    let (Some(begin), Some(end)) = (from_left(start), end) else {
        return Ok(Dim::Unknown);
    };
    /// Bound on the length of an axis, because more elements cannot be addressed.
    const LONGEST: u64 = isize::MAX as u64 / 8;
    let beyond = start.unsigned_abs() > LONGEST || stop.unsigned_abs() > LONGEST && !to_end;
    let (len, rest) = (end.minus(&begin), whole.minus(&end));
    let negative = |p: &Option<Poly>| p.as_ref().is_some_and(Poly::is_negative);
    if beyond || begin.is_negative() || negative(&len) || negative(&rest) {
        let stop = match end.as_constant() {
            Some(end) if to_end && step > 0 => end.to_string(),
            _ if to_end => String::new(),
            _ => user_stop.to_string(),
        };
        return Err(Fault::Slice {
            axis,
            range: format!("{user_start}..{stop}"),
            step,
            len: dim.to_string(),
        });
    }
    // The number of every `step`-th index, including the first, is len / step rounded up.
    let step = i128::from(step).abs();
    let parts = len.and_then(|len| match len.as_constant() {
        Some(n) => Some(Poly::constant((n + step - 1) / step)),
        None => len.exact_div(step),
    });
    Ok(parts.map_or(Dim::Unknown, Dim::from))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_whole(of, &of.x().shape, i)))
}

/// Maps an index of a slice to the index of the same element in the whole tensor.
pub(super) fn in_whole(of: &Application<'_>, whole: &[usize], mut index: Vec<usize>) -> Vec<usize> {
    let ranges = of.ints(0).iter().zip(of.ints(2));
    for ((i, len), (&start, &step)) in index.iter_mut().zip(whole).zip(ranges) {
        let first = if start < 0 {
            start + *len as i64
        } else {
            start
        };
        *i = (first + *i as i64 * step) as usize;
    }
    index
}
