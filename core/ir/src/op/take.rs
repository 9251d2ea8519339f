use super::axes::Role;
use super::nd_array::{Application, NdArray};
use super::{AxesRule, Count, Fails, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Aval, Builder, Dim, Eqn, Fault, Ids, Op, Shape, Static, StaticArg, StaticKind, Var};

methods! { take {
    /// Slices at the given indices of an axis: rows of an embedding, for example.
    ///
    /// The axis is replaced by the axes of the indices. Indices are integers, may repeat, and count
    /// from the end if they are negative. An index out of range is an error when the value is
    /// computed.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let table = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.take(&Tensor::from([2i64, 0, -1]), 0);
    /// assert_eq!(rows.to_vec::<f32>(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or the indices are not integers.
    fn take(x: Data + Like, indices: Data, axis: Static, along: Switch(false), last: Switch(false));
    /// As [`Tensor::take`], with the axis first.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.index_select(1, &Tensor::from([1i64])).to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or the indices are not integers.
    fn index_select(x: Data + Like, axis: Static, indices: Data, along: Switch(false), last: Switch(false));
    /// The elements of each row along an axis at the indices of that row.
    ///
    /// The tensor and the indices have the same rank, and broadcast along the other axes. The indices
    /// are as in [`Tensor::take`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let best = x.argmax_keepdims(1);
    /// assert_eq!(x.take_along_axis(&best, 1).to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, the indices are not integers, or the shapes do not fit.
    fn take_along_axis(x: Data + Like, indices: Data, axis: Static, along: Switch(true), last: Switch(false));
} }

const AXES: AxesRule = AxesRule {
    signature: |of| axes::indexed(of, &[Role::Whole, Role::Indices], Role::Part),
    batch: |b, of| lanes::indexed(b, of, true, to_along),
};

/// The static arguments of ops on indices along an axis.
///
/// If `along` is true, the indices have the rank of the tensor, and broadcast along the other axes.
/// If `last` is true, only the last of equal indices counts.
pub(super) const STATICS: &[StaticArg] = &[
    StaticKind::Axis.named("axis"),
    StaticKind::KnownFlag.named("along"),
    StaticKind::KnownFlag.named("last"),
];

/// `take[axis, along, last] x, i, like x`: the elements of `x` at the indices `i` along an axis.
///
/// If `last` is true, the result is 0 for an index that a later one repeats.
pub(super) static OP: Linear = Linear {
    name: "take",
    operands: Operands::Fixed(2, 1),
    statics: STATICS,
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[2].shape)?;
        taken(statics, &x, &args[1].shape)
    },
    dtype: |_, args| {
        shape::indices(args[1].dtype)?;
        Ok(args[0].dtype)
    },
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit_on(Op::TakeT, eqn, ct)[0],
    kernel: Kernel::Take,
    count: Count::Copy,
    facts: OpFacts::opaque(AXES)
        .moves()
        .fails(Fails::Labels(Op::Take))
        .range(|of| of.x().unknown()),
    samples: &[
        "(x: f64[3, 2], i: i64[4]) { y = take[axis=0, along=false, last=false] x, i, like x return y }",
        "(x: f64[2, 3, 2], i: i32[2, 2]) { y = take[axis=1, along=false, last=false] x, i, like x return y }",
        "(x: f64[4], i: i64[]) { y = take[axis=-1, along=false, last=false] x, i, like x return y }",
        "(x: f64[3, 2], i: i64[5]) { y = take[axis=0, along=false, last=true] x, i, like x return y }",
        "(x: f64[3, 2], i: i64[0]) { y = take[axis=0, along=false, last=false] x, i, like x return y }",
        "(x: f64[2, 4], i: i64[2, 3]) { y = take[axis=1, along=true, last=false] x, i, like x return y }",
        "(x: f64[3, 2], i: i32[4, 2]) { y = take[axis=0, along=true, last=true] x, i, like x return y }",
        "(x: f64[1, 3, 2], i: i64[2, 4, 1]) { y = take[axis=1, along=true, last=false] x, i, like x return y }",
        "(x: f64[2, 3, 1], i: i64[1, 4, 2]) { y = take[axis=-2, along=true, last=true] x, i, like x return y }",
        "(x: f64[3, 0], i: i64[2]) { y = take[axis=0, along=false, last=false] x, i, like x return y }",
    ],
};

/// Returns the shape of the elements of `x` at indices `i`.
pub(super) fn taken(statics: &[Static], x: &Shape, i: &Shape) -> Result<Shape, Fault> {
    let along = statics[1] == Static::Bool(true);
    let Some(dims) = x.dims() else {
        return Ok(match (along, i.dims()) {
            (true, Some(i)) => Shape::from(vec![Dim::Unknown; i.len()]),
            _ => Shape::UNKNOWN,
        });
    };
    if dims.is_empty() {
        return Err(Fault::Rank {
            found: 0,
            expected: "at least 1".to_owned(),
        });
    }
    let axis = shape::known_axis(&statics[0], dims.len())?;
    let Some(indices) = i.dims() else {
        return Ok(match along {
            true => Shape::from(vec![Dim::Unknown; dims.len()]),
            false => Shape::UNKNOWN,
        });
    };
    if along && indices.len() != dims.len() {
        return Err(Fault::Rank {
            found: indices.len(),
            expected: format!("{}, that of the tensor", dims.len()),
        });
    }
    let Some(axis) = axis else {
        let rank = if along {
            dims.len()
        } else {
            dims.len() - 1 + indices.len()
        };
        return Ok(Shape::from(vec![Dim::Unknown; rank]));
    };
    if along {
        return shape::broadcast(&with_length(dims, axis, Dim::Known(1)), i);
    }
    let (before, after) = (&dims[..axis], &dims[axis + 1..]);
    Ok(Shape::from([before, indices, after].concat()))
}

/// Returns the shape with another length of an axis.
pub(super) fn with_length(dims: &[Dim], axis: usize, len: Dim) -> Shape {
    let mut dims = dims.to_vec();
    dims[axis] = len;
    Shape::from(dims)
}

/// The shapes of an equation with `along = false`, as one with `along = true`.
pub(super) struct AsAlong {
    /// The static arguments.
    attrs: Ids<crate::Attr>,
    /// The shape of the indices, with length 1 along the other axes.
    indices: Vec<i64>,
    /// The shape of the elements at the indices, along one axis.
    pub(super) flat: Vec<i64>,
    /// The shape of the elements at the indices.
    pub(super) taken: Vec<i64>,
}

impl AsAlong {
    /// Returns `None` if a length is unknown, or if `along` is true already.
    pub(super) fn new(b: &Builder, eqn: &Eqn, x: Var, i: Var) -> Option<AsAlong> {
        if b.static_of(eqn.attrs[1]).bool()? {
            return None;
        }
        let (x, i) = (b.aval(x).shape.known()?, b.aval(i).shape.known()?);
        let axis = shape::known_axis(b.static_of(eqn.attrs[0]), x.len()).ok()??;
        let n: usize = i.iter().product();
        let ints = |parts: [&[usize]; 3]| -> Vec<i64> {
            parts.concat().into_iter().map(|len| len as i64).collect()
        };
        let (before, after) = (&x[..axis], &x[axis + 1..]);
        Some(AsAlong {
            attrs: eqn.attrs.clone(),
            indices: ints([&vec![1; before.len()], &[n], &vec![1; after.len()]]),
            flat: ints([before, &[n], after]),
            taken: ints([before, &i, after]),
        })
    }

    /// Emits a reshape.
    pub(super) fn reshape(b: &mut Builder, x: Var, shape: &[i64]) -> Var {
        let shape = b.attr(shape.to_vec());
        b.emit(Op::Reshape, &[shape], &[x, x])
    }

    /// Emits the op along the axis. Operand 1 holds the indices.
    pub(super) fn emit(&self, b: &mut Builder, op: Op, mut args: Ids<Var>) -> Var {
        args[1] = AsAlong::reshape(b, args[1], &self.indices);
        let mut attrs = self.attrs.clone();
        attrs[1] = b.attr(true);
        b.emit(op, &attrs, &args)
    }
}

/// With indices along one axis, for each row.
fn to_along(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let along = AsAlong::new(b, eqn, eqn.args[0], eqn.args[1])?;
    let y = along.emit(b, eqn.op, eqn.args.clone());
    Some(vec![AsAlong::reshape(b, y, &along.taken)])
}

/// An element that an op reads or writes at an index.
pub(super) struct Place {
    /// The index in the tensor.
    pub(super) whole: Vec<usize>,
    /// The index among the elements at the indices.
    pub(super) part: Vec<usize>,
    /// True if no later index is equal.
    pub(super) is_last: bool,
}

/// Returns the places of all elements at the indices, in order.
///
/// `taken` is the shape of these elements, and `x` that of the tensor.
pub(super) fn places(of: &Application<'_>, x: &[usize], taken: &[usize]) -> Vec<Place> {
    let (axis, along) = (of.axis(0, x.len()), of.flag(1));
    let i = of.y();
    let n = if along { 1 } else { i.shape.len() };
    // An index in the tensor as if it were repeated to the shape of the indices.
    let whole = |part: &Vec<usize>| -> Vec<usize> {
        let index = match along {
            true => i.spread(part),
            false => i.get(&part[axis..axis + n]),
        };
        let from_end = if index < 0.0 { x[axis] as f64 } else { 0.0 };
        let mut whole = part.clone();
        whole.splice(axis..axis + n, [(index + from_end) as usize]);
        whole
    };
    let parts = super::indices(taken);
    let wholes: Vec<Vec<usize>> = parts.iter().map(whole).collect();
    let place = |(n, part): (usize, &Vec<usize>)| Place {
        whole: super::nd_array::aligned(x, &wholes[n]),
        part: part.clone(),
        is_last: !wholes[n + 1..].contains(&wholes[n]),
    };
    parts.iter().enumerate().map(place).collect()
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = NdArray::zeros(of.out());
    for place in places(of, &of.x().shape, of.out()) {
        if place.is_last || !of.flag(2) {
            y.add(&place.part, of.x().get(&place.whole));
        }
    }
    y
}

/// Returns the shape of the tensor that elements at indices are written to, after a check that it
/// has an element for each.
pub(super) fn written(
    statics: &[Static],
    x: &Shape,
    i: &Aval,
    updates: &Shape,
) -> Result<Shape, Fault> {
    let part = taken(statics, x, &i.shape)?;
    shape::same(&part, updates)?;
    Ok(x.clone())
}
