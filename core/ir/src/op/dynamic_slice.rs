use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{Aval, Builder, DType, Dim, Fault, Op, Shape, StaticKind, Var};

methods! { dynamic_slice {
    /// A part of the given size, from an index of each leading axis that is computed.
    ///
    /// `starts` are integers: one for each entry of `sizes`, or of rank 0 if there is one entry. The
    /// other axes are whole. A negative start counts from the end. A start that is too small or too
    /// large is moved so that the part lies inside of the tensor.
    ///
    /// Starts that are computed one by one, each of rank 0, become one tensor by `Tensor::stack`. A single
    /// one of rank 0 is taken as it is, or as `i.reshape([1])`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0]);
    /// assert_eq!(x.dynamic_slice(&Tensor::scalar(1i64), [2]).to_vec::<f32>(), [1.0, 2.0]);
    /// assert_eq!(x.dynamic_slice(&Tensor::from([9i64]), [2]).to_vec::<f32>(), [2.0, 3.0]);
    /// let (row, column) = (Tensor::scalar(1i64), Tensor::scalar(0i64));
    /// let corner = x.reshape([2, 2]).dynamic_slice(&Tensor::stack(&[row, column], 0), [1, 1]);
    /// assert_eq!(corner.to_vec::<f32>(), [2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a size is larger than the axis, there are more sizes than axes, the number of starts is not
    /// that of sizes, or the starts are not integers.
    fn dynamic_slice(x: Data, starts: Data, sizes: Static);
} }

/// `dynamic_slice[sizes] x, starts`: a part of `x` with the given lengths of the leading axes.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "dynamic_slice",
    operands: Operands::Fixed(2, 0),
    statics: &[StaticKind::Shape.named("sizes")],
    shape: |statics, args| {
        let sizes = shape::lengths(&statics[0])?;
        let n = sizes.dims().map(<[_]>::len);
        check_starts(&args[1].shape, n)?;
        let Some(dims) = args[0].shape.dims() else {
            return Ok(Shape(None));
        };
        let (needed, of_what) = match n {
            Some(n) => (n, "`sizes`"),
            None => (number_of_starts(&args[1].shape).unwrap_or(0), "`starts`"),
        };
        let Some(rest) = dims.get(needed..) else {
            return Err(Fault::Rank {
                found: dims.len(),
                expected: format!("at least {needed}, the number of {of_what}"),
            });
        };
        let Some(sizes) = sizes.dims() else {
            return Ok(Shape::from(vec![Dim::Unknown; dims.len()]));
        };
        let part = [sizes, rest].concat();
        check_fits(dims, &part)?;
        Ok(Shape::from(part))
    },
    dtype: |_, args| dtype(args),
    methods: METHODS,
    // dy = dx at the same indices.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let [x, starts, y] = [eqn.args[0], eqn.args[1], eqn.out()];
        Some(b.emit(Op::DynamicSliceLike, &[], &[dx[0]?, starts, x, y]))
    }),
    kernel: Kernel::DynamicSlice,
    count: Count::Copy,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), |b, eqn| {
        let x = eqn.args[0];
        let dims = b.aval(x).shape.known()?;
        let sizes = shape::lengths(b.static_of(eqn.attrs[0])).ok()?.known()?;
        let part = [&sizes, dims.get(sizes.len()..)?].concat();
        let dtype = b.aval(x).dtype?;
        let like = zeros(b, &part, dtype);
        let args = [x, eqn.args[1], x, like];
        Some(vec![b.emit(Op::DynamicSliceLike, &[], &args)])
    })
    .moves()
    .range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[5, 2], s: i64[1]) { y = dynamic_slice[sizes=[3]] x, s return y }",
            "(x: f64[4, 3], s: i32[2]) { y = dynamic_slice[sizes=[2, 2]] x, s return y }",
            "(x: f64[4], s: i64[]) { y = dynamic_slice[sizes=[3]] x, s return y }",
            "(x: bool[4], s: i64[]) { y = dynamic_slice[sizes=[2]] x, s return y }",
            "(x: f64[2, 3], s: i64[0]) { y = dynamic_slice[sizes=[]] x, s return y }",
            "(x: f64[3, 0], s: i64[2]) { y = dynamic_slice[sizes=[0, 0]] x, s return y }",
            "(x: f64[2, 5], s: i64[2]) { y = dynamic_slice[sizes=[0, 2]] x, s return y }",
        ],
    ),
};

/// The dtype rule of ops on a tensor and the starts of a part.
pub(super) fn dtype(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    shape::integer(args[1].dtype, "an integer for the starts")?;
    Ok(args[0].dtype)
}

/// Checks the shape of `starts`: one for each of `n` axes.
fn check_starts(starts: &Shape, n: Option<usize>) -> Result<(), Fault> {
    let Some(dims) = starts.dims() else {
        return Ok(());
    };
    match (dims, n) {
        ([], Some(n)) if n != 1 => Err(Fault::Rank {
            found: 0,
            expected: "1 for `starts`".to_owned(),
        }),
        ([len], Some(n)) if len.differs(Dim::Known(n)) => Err(Fault::Length {
            what: "the number of `starts`".to_owned(),
            found: len.to_string(),
            expected: format!("{n}, the number of `sizes`"),
        }),
        ([] | [_], _) => Ok(()),
        _ => Err(Fault::Rank {
            found: dims.len(),
            expected: "0 or 1 for `starts`".to_owned(),
        }),
    }
}

/// The number of starts, if the shape has it. A start of rank 0 is one.
fn number_of_starts(starts: &Shape) -> Option<usize> {
    match starts.dims()? {
        [] => Some(1),
        [len] => len.known(),
        _ => None,
    }
}

/// Checks that no axis of a part is longer than that of the whole.
fn check_fits(whole: &[Dim], part: &[Dim]) -> Result<(), Fault> {
    for (axis, (whole, part)) in whole.iter().zip(part).enumerate() {
        if let (Some(most), Some(found)) = (whole.known(), part.known())
            && found > most
        {
            return Err(Fault::Length {
                what: format!("axis {axis} of the part"),
                found: found.to_string(),
                expected: format!("at most {most}"),
            });
        }
    }
    Ok(())
}

/// Checks that a part with these starts lies in a tensor, given both shapes.
pub(super) fn check_part(whole: &Shape, starts: &Shape, part: &Shape) -> Result<(), Fault> {
    let (Some(whole), Some(part)) = (whole.dims(), part.dims()) else {
        return check_starts(starts, None);
    };
    if whole.len() != part.len() {
        return Err(Fault::Rank {
            found: part.len(),
            expected: format!("{}, that of the tensor", whole.len()),
        });
    }
    check_fits(whole, part)?;
    check_starts(starts, None)?;
    let Some(n) = number_of_starts(starts) else {
        return Ok(());
    };
    if n > whole.len() {
        return Err(Fault::Rank {
            found: whole.len(),
            expected: format!("at least {n}, the number of `starts`"),
        });
    }
    let rest = |dims: &[Dim]| Shape::from(&dims[n..]);
    shape::same(&rest(whole), &rest(part))?;
    Ok(())
}

/// Emits zeros, of which only the shape is used.
pub(super) fn zeros(b: &mut Builder, lens: &[usize], dtype: DType) -> Var {
    let lens: Vec<i64> = lens.iter().map(|len| *len as i64).collect();
    let full = [b.attr(lens), b.attr(0), b.attr(dtype)];
    b.emit(Op::Full, &full, &[])
}

/// The part of a tensor that starts select, as indices of each leading axis.
pub(super) struct Part {
    /// The shape of the tensor.
    pub(super) whole: Vec<usize>,
    /// The shape of the part.
    pub(super) part: Vec<usize>,
    /// The indices of each axis that has a start.
    pub(super) indices: Vec<Var>,
}

impl Part {
    /// Emits the indices of a part of the shape of `part`.
    pub(super) fn new(b: &mut Builder, whole: Var, starts: Var, part: Var) -> Option<Part> {
        let (whole, part) = (b.aval(whole).shape.known()?, b.aval(part).shape.known()?);
        let lens = b.aval(starts).shape.known()?;
        let dtype = b.aval(starts).dtype?;
        let mut indices = Vec::new();
        for axis in 0..lens.iter().product::<usize>() {
            let (n, len) = (whole[axis], part[axis]);
            let start = match lens[..] {
                [] => {
                    let one = b.attr(vec![1i64]);
                    b.emit(Op::Reshape, &[one], &[starts, starts])
                }
                _ => {
                    let ends = [axis as i64, axis as i64 + 1, 1];
                    let ends = ends.map(|end| b.attr(vec![end]));
                    b.emit(Op::Slice, &ends, &[starts, starts])
                }
            };
            let number = |b: &mut Builder, n: usize| b.scalar(n as f64, starts);
            let (zero, n, last) = (number(b, 0), number(b, n), number(b, n - len));
            let from_end = b.binary(Op::Lt, start, zero);
            let wrapped = b.add(start, n);
            let start = b.select(from_end, wrapped, start);
            let start = b.binary(Op::Maximum, start, zero);
            let start = b.binary(Op::Minimum, start, last);
            let iota = [b.attr(len as i64), b.attr(dtype)];
            let iota = b.emit(Op::Iota, &iota, &[]);
            indices.push(b.add(start, iota));
        }
        Some(Part {
            whole,
            part,
            indices,
        })
    }

    /// Returns the static arguments of `take` along an axis.
    pub(super) fn attrs(b: &mut Builder, axis: usize) -> [crate::Attr; 3] {
        [b.attr(axis as i64), b.attr(false), b.attr(false)]
    }

    /// Returns the shape of a value that is cut to the part along the axes before `axis`.
    pub(super) fn cut(&self, axis: usize) -> Vec<usize> {
        [&self.part[..axis], &self.whole[axis..]].concat()
    }
}

/// Maps an index of a part to the index of the same element in the whole tensor.
pub(super) fn in_whole(
    starts: &NdArray,
    whole: &[usize],
    part: &[usize],
    i: &[usize],
) -> Vec<usize> {
    let mut index = i.to_vec();
    for (axis, &start) in starts.data.iter().enumerate() {
        let n = whole[axis] as f64;
        let start = if start < 0.0 { start + n } else { start };
        index[axis] += start.clamp(0.0, n - part[axis] as f64) as usize;
    }
    index
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_whole(of.y(), &of.x().shape, of.out(), &i)))
}
