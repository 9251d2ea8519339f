//! Indices of numbers, ranges and tensors: `x.i((0, 1..3, ..))`.

use super::{Operand, Tensor, record};
use crate::raise::expect;
use crate::statics::TupleInt;
use crate::{DType, Error, Result};
use gradloom_ir::indexing::{Argument, Emit, Entry, Indexing, Write};
use gradloom_ir::{Op, OpError, Static};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Entry of an index: what [`Tensor::i`] selects along one axis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AxisIndex {
    /// One index, which drops the axis. A negative one counts from the end.
    At(i64),
    /// Every `step`-th index from `start` until before `stop`.
    ///
    /// Negative ends count from the end. If `step` is negative, the range runs backwards, and the
    /// ends default to the last index and the start of the axis.
    Range {
        /// First index; `None` for the first one of the axis.
        start: Option<i64>,
        /// End, which is excluded; `None` for the end of the axis.
        stop: Option<i64>,
        /// Distance between indices.
        step: i64,
    },
    /// The whole axis.
    Whole,
    /// As many whole axes as no other entry names.
    Rest,
    /// An additional axis of length 1.
    NewAxis,
    /// Indices, whose axes replace the axis.
    Tensor(Tensor),
}

/// Entry of an index that stands for all axes that no other entry names.
///
/// ```
/// # use gradloom::{DType, Rest, Tensor};
/// let x = Tensor::zeros([2, 3, 4], DType::F32);
/// assert_eq!(x.i((Rest, 0)).shape(), [2, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest;

/// Entry of an index that inserts an axis of length 1.
///
/// ```
/// # use gradloom::{DType, NewAxis, Tensor};
/// let x = Tensor::zeros([2, 3], DType::F32);
/// assert_eq!(x.i((.., NewAxis)).shape(), [2, 1, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// Conversion to an entry of an index: a number, a range, [`Rest`], [`NewAxis`] or a tensor of integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index of an axis",
    label = "not an index",
    note = "write a number, a range such as `1..-1`, `..`, `Rest`, `NewAxis`, or a tensor of integers"
)]
pub trait IntoAxisIndex {
    /// Returns the entry.
    fn into_axis_index(self) -> AxisIndex;
}

/// Conversion to an index of a tensor: one entry, or a tuple or list of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index of a tensor",
    label = "not an index",
    note = "write an entry or a tuple of entries: numbers, ranges such as `1..-1`, `..`, `Rest`, `NewAxis`, or tensors of integers"
)]
pub trait IntoIndex {
    /// Returns the entries.
    fn into_index(self) -> Vec<AxisIndex>;
}

/// Ranges with a step: `(1..9).by(2)`.
pub trait RangeStep: IntoAxisIndex + Sized {
    /// Returns every `step`-th index of the range. A negative step runs backwards, from `start` down to
    /// before `stop`, as in NumPy: `(..).by(-1)` reverses an axis.
    ///
    /// ```
    /// # use gradloom::{RangeStep, Tensor};
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.i((..).by(2)).to_vec::<f32>(), [0.0, 2.0, 4.0]);
    /// assert_eq!(x.i((3..).by(-2)).to_vec::<f32>(), [3.0, 1.0]);
    /// ```
    fn by(self, step: i64) -> AxisIndex {
        let (start, stop) = match self.into_axis_index() {
            AxisIndex::Range { start, stop, .. } => (start, stop),
            _ => (None, None),
        };
        AxisIndex::Range { start, stop, step }
    }
}

/// Returns the range of step 1.
fn range(start: Option<i64>, stop: Option<i64>) -> AxisIndex {
    AxisIndex::Range {
        start,
        stop,
        step: 1,
    }
}

/// Returns a number in an index of a traced function.
#[doc(hidden)]
pub fn index_number(n: impl TupleInt) -> i64 {
    n.into_int()
}

/// Returns the end, which is excluded, of a range up to and with an index, as `slice` takes it.
#[doc(hidden)]
pub fn index_after(last: i64) -> i64 {
    after(last).unwrap_or(i64::MAX)
}

/// Returns the end, which is excluded, of a range up to and with an index.
fn after(last: i64) -> Option<i64> {
    // The end after the last index is that of the axis.
    (last != -1).then(|| last.saturating_add(1))
}

impl IntoAxisIndex for AxisIndex {
    fn into_axis_index(self) -> AxisIndex {
        self
    }
}

macro_rules! entries {
    ($([$($t:ident)?] $ty:ty: |$x:pat_param| $entry:expr;)*) => {$(
        impl$(<$t: TupleInt>)? IntoAxisIndex for $ty {
            fn into_axis_index(self) -> AxisIndex {
                let $x = self;
                $entry
            }
        }
    )*};
}

entries! {
    [] usize: |n| AxisIndex::At(n.into_int());
    [] isize: |n| AxisIndex::At(n.into_int());
    [] u32: |n| AxisIndex::At(n.into_int());
    [] i32: |n| AxisIndex::At(n.into_int());
    [] u64: |n| AxisIndex::At(n.into_int());
    [] i64: |n| AxisIndex::At(n);
    [] &usize: |n| AxisIndex::At(n.into_int());
    [] &i64: |n| AxisIndex::At(*n);
    [] RangeFull: |_| AxisIndex::Whole;
    [T] Range<T>: |r| range(Some(r.start.into_int()), Some(r.end.into_int()));
    [T] RangeFrom<T>: |r| range(Some(r.start.into_int()), None);
    [T] RangeTo<T>: |r| range(None, Some(r.end.into_int()));
    [T] RangeInclusive<T>: |r| {
        let (start, last) = r.into_inner();
        range(Some(start.into_int()), after(last.into_int()))
    };
    [T] RangeToInclusive<T>: |r| range(None, after(r.end.into_int()));
    [] Rest: |_| AxisIndex::Rest;
    [] NewAxis: |_| AxisIndex::NewAxis;
    [] Tensor: |x| AxisIndex::Tensor(x);
    [] &Tensor: |x| AxisIndex::Tensor(x.clone());
}

macro_rules! ranges {
    ($($ty:ty),*) => {$(impl<T: TupleInt> RangeStep for $ty {})*};
}

ranges! { Range<T>, RangeFrom<T>, RangeTo<T>, RangeInclusive<T>, RangeToInclusive<T> }
impl RangeStep for RangeFull {}

impl<T: IntoAxisIndex> IntoIndex for T {
    fn into_index(self) -> Vec<AxisIndex> {
        vec![self.into_axis_index()]
    }
}

impl<T: IntoAxisIndex> IntoIndex for Vec<T> {
    fn into_index(self) -> Vec<AxisIndex> {
        self.into_iter().map(T::into_axis_index).collect()
    }
}

/// The whole tensor.
impl IntoIndex for () {
    fn into_index(self) -> Vec<AxisIndex> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($($($ty:ident)*;)*) => {$(
        impl<$($ty: IntoAxisIndex),*> IntoIndex for ($($ty,)*) {
            #[allow(non_snake_case, reason = "a local for each type parameter")]
            fn into_index(self) -> Vec<AxisIndex> {
                let ($($ty,)*) = self;
                vec![$($ty.into_axis_index()),*]
            }
        }
    )*};
}

tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; }

/// Indices of numbers, ranges and tensors.
///
/// An index is an entry, or a tuple of entries, for the leading axes. The other axes are whole.
///
/// | entry | selects |
/// |---|---|
/// | `2`, `-1` | one index, and drops the axis; a negative one counts from the end |
/// | `1..3`, `..-1`, `2..` | a range; negative ends count from the end |
/// | `(1..).by(2)`, `(..).by(-1)` | every `n`-th index of a range, backwards if `n` is negative |
/// | `..` | the whole axis |
/// | [`Rest`] | as many whole axes as no other entry names |
/// | [`NewAxis`] | nothing, and inserts an axis of length 1 |
/// | a tensor of integers | these indices; its axes replace the axis |
///
/// Several tensors broadcast against each other, and select an element for each position. If they are
/// next to each other, the axes of the result are in the place of theirs, else they are the first.
/// Numbers drop their axes before that. Nothing is copied without tensors and negative steps.
///
/// Clippy takes the literal range `1..-1` for an empty one and denies it (`reversed_empty_ranges`): allow
/// the lint, or write the end as the variable that it often is.
impl Tensor {
    /// The elements at an index. See the table above for entries.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    /// assert_eq!(x.i(1).to_vec::<f32>(), [3.0, 4.0, 5.0]);
    /// assert_eq!(x.i((.., -1)).to_vec::<f32>(), [2.0, 5.0]);
    /// assert_eq!(x.i((1, 1..)).to_vec::<f32>(), [4.0, 5.0]);
    /// let (rows, columns) = (Tensor::from([1i64, 0]), Tensor::from([0i64, 2]));
    /// assert_eq!(x.i((&rows, &columns)).to_vec::<f32>(), [3.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are more entries than axes, a number is out of range, or a range does not lie inside of
    /// its axis. An element of a tensor of indices that is out of range is an error when the
    /// result is computed.
    #[track_caller]
    pub fn i(&self, index: impl IntoIndex) -> Tensor {
        let entries = index.into_index();
        let of = Emitter::new("i", self, &entries);
        expect(of.and_then(|(mut e, of)| of.read(&mut e, self)))
    }

    /// The tensor with the elements at an index replaced by `updates`, which are repeated to the shape
    /// of `self.i(index)`. See [`Tensor::i`] for indices.
    ///
    /// If an element of a tensor of indices repeats, the last update counts.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32, 1.0], [2.0, 3.0]]);
    /// assert_eq!(x.set((.., 0), &Tensor::from([8.0f32, 9.0])).to_vec::<f32>(), [8.0, 1.0, 9.0, 3.0]);
    /// assert_eq!(x.set(1, 0.0).to_vec::<f32>(), [0.0, 1.0, 0.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If [`Tensor::i`] refuses the index, or if the updates do not broadcast or have another dtype.
    #[track_caller]
    pub fn set(&self, index: impl IntoIndex, updates: impl Operand) -> Tensor {
        self.written("set", index.into_index(), updates, Write::Set)
    }

    /// The tensor with `updates` added to the elements at an index. See [`Tensor::set`].
    ///
    /// Updates add up if an element of a tensor of indices repeats.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0]);
    /// assert_eq!(x.add_at(1.., 10.0).to_vec::<f32>(), [0.0, 11.0, 12.0]);
    /// let twice = Tensor::from([0i64, 0]);
    /// assert_eq!(x.add_at(&twice, 1.0).to_vec::<f32>(), [2.0, 1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If [`Tensor::i`] refuses the index, or if the updates do not broadcast or have another dtype.
    #[track_caller]
    pub fn add_at(&self, index: impl IntoIndex, updates: impl Operand) -> Tensor {
        self.written("add_at", index.into_index(), updates, Write::Add)
    }

    #[track_caller]
    fn written(
        &self,
        called: &'static str,
        entries: Vec<AxisIndex>,
        updates: impl Operand,
        how: Write,
    ) -> Tensor {
        let updates = updates.beside(self);
        let of = Emitter::new(called, self, &entries);
        expect(of.and_then(|(mut e, of)| of.write(&mut e, self, &updates, how)))
    }
}

/// Records the ops of an index.
struct Emitter<'a> {
    /// Method that the user called.
    called: &'static str,
    /// Tensor that the user indexes.
    x: &'a Tensor,
    entries: &'a [AxisIndex],
}

impl<'a> Emitter<'a> {
    fn new(
        called: &'static str,
        x: &'a Tensor,
        entries: &'a [AxisIndex],
    ) -> Result<(Emitter<'a>, Indexing)> {
        let kind = |entry: &AxisIndex| match entry {
            AxisIndex::At(_) => Entry::Number,
            AxisIndex::Range { .. } => Entry::Range,
            AxisIndex::Whole => Entry::Whole,
            AxisIndex::Rest => Entry::Rest,
            AxisIndex::NewAxis => Entry::NewAxis,
            AxisIndex::Tensor(_) => Entry::Tensor,
        };
        let kinds: Vec<Entry> = entries.iter().map(kind).collect();
        let of = Indexing::new(&kinds, Some(x.rank())).map_err(|fault| {
            Error::Op(OpError {
                op: Op::SelectIndex,
                called,
                args: vec![x.aval().to_ir()],
                fault,
            })
        })?;
        let of = of.expect("the rank is known");
        Ok((Emitter { called, x, entries }, of))
    }

    /// Returns start, stop and step of an entry, as `slice` takes them.
    fn range(&self, entry: Option<usize>) -> [i64; 3] {
        match entry.map(|entry| &self.entries[entry]) {
            Some(AxisIndex::At(i)) => [*i, index_after(*i), 1],
            Some(AxisIndex::Range { start, stop, step }) => [
                start.unwrap_or(if *step < 0 { -1 } else { 0 }),
                stop.unwrap_or(i64::MAX),
                *step,
            ],
            _ => [0, i64::MAX, 1],
        }
    }

    fn value(&self, argument: &Argument<'_>) -> Static {
        let ranges = |entries: &[Option<usize>], part: usize| -> Static {
            let part = |entry: &Option<usize>| self.range(*entry)[part];
            entries.iter().map(part).collect::<Vec<_>>().into()
        };
        match argument {
            Argument::Axis(axis) => (*axis as i64).into(),
            Argument::UnitAxes(axes) => axes.to_vec().into(),
            Argument::Flag(on) => (*on).into(),
            Argument::Number(entry) => self.range(Some(*entry))[0].into(),
            Argument::Starts(entries) => ranges(entries, 0),
            Argument::Stops(entries) => ranges(entries, 1),
            Argument::Steps(entries) => ranges(entries, 2),
        }
    }
}

impl Emit for Emitter<'_> {
    type Value = Tensor;
    type Error = Error;

    fn emit(
        &mut self,
        op: Op,
        statics: &[Argument<'_>],
        data: &[&Tensor],
        likes: &[&Tensor],
    ) -> Result<Tensor> {
        let statics: Vec<Static> = statics.iter().map(|arg| self.value(arg)).collect();
        let likes: Vec<_> = likes.iter().map(|like| like.aval()).collect();
        record::record_one(op, statics, data, &likes).map_err(|error| match error {
            // The user wrote one index of one tensor.
            Error::Op(mut error) => {
                error.called = self.called;
                if matches!(op, Op::Slice | Op::SelectIndex) {
                    error.args = vec![self.x.aval().to_ir()];
                }
                Error::Op(error)
            }
            error => error,
        })
    }

    fn tensor(&mut self, entry: usize) -> Result<Tensor> {
        match &self.entries[entry] {
            AxisIndex::Tensor(indices) => Ok(indices.clone()),
            other => unreachable!("{other:?} is not a tensor"),
        }
    }

    fn merge(&mut self, x: &Tensor, tensors: &[(usize, usize)]) -> Result<(Tensor, usize, Tensor)> {
        let places = Places::new(x, tensors);
        let len: usize = places.lens.iter().product();
        let mut index: Option<Tensor> = None;
        let mut inside: Option<Tensor> = None;
        for (&len, &(_, entry)) in places.lens.iter().zip(tensors) {
            let i = self.tensor(entry)?;
            if !matches!(i.dtype(), DType::I32 | DType::I64) {
                // `take` names the dtypes that it takes.
                let statics = [
                    Argument::Axis(0),
                    Argument::Flag(false),
                    Argument::Flag(false),
                ];
                self.emit(Op::Take, &statics, &[x, &i], &[x])?;
            }
            let i = i.cast(DType::I64);
            let n = len as i64;
            let is_in = i.ge(-n).select(i.lt(n), false_like(&i));
            let i = i.lt(0).select(&i + n, &i);
            inside = Some(match inside {
                Some(before) => before.select(&is_in, false_like(&is_in)),
                None => is_in,
            });
            index = Some(match index {
                Some(before) => before * n + i,
                None => i,
            });
        }
        let (index, inside) = (index.expect("several"), inside.expect("several"));
        // Past the end, `take` and `scatter` report it.
        let index = inside.select(&index, len as i64);
        Ok((places.merged(x), places.axis, index))
    }

    fn split(&mut self, merged: &Tensor, x: &Tensor, tensors: &[(usize, usize)]) -> Result<Tensor> {
        Ok(Places::new(x, tensors).undone(merged))
    }
}

/// Returns false, in the shape of `x`.
fn false_like(x: &Tensor) -> Tensor {
    x.zeros_like().cast(DType::Bool)
}

/// The axes of several tensors of indices.
struct Places {
    /// The axes of `x` in the order in which those of the tensors are neighbours.
    order: Vec<usize>,
    /// Shape of `x` in that order.
    shape: Vec<usize>,
    /// First of these axes in that order.
    axis: usize,
    /// Their lengths.
    lens: Vec<usize>,
}

impl Places {
    fn new(x: &Tensor, tensors: &[(usize, usize)]) -> Places {
        let axes: Vec<usize> = tensors.iter().map(|(axis, _)| *axis).collect();
        let is_run = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let axis = if is_run { axes[0] } else { 0 };
        let mut order: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
        order.splice(axis..axis, axes.iter().copied());
        Places {
            shape: order.iter().map(|a| x.shape()[*a]).collect(),
            order,
            axis,
            lens: axes.iter().map(|a| x.shape()[*a]).collect(),
        }
    }

    /// Returns `x` with one axis for those of the tensors.
    fn merged(&self, x: &Tensor) -> Tensor {
        let mut shape = self.shape.clone();
        let axes = self.axis..self.axis + self.lens.len();
        shape.splice(axes, [self.lens.iter().product()]);
        x.permute(&self.order).reshape(shape)
    }

    fn undone(&self, merged: &Tensor) -> Tensor {
        let mut back = vec![0; self.order.len()];
        for (to, from) in self.order.iter().enumerate() {
            back[*from] = to;
        }
        merged.reshape(&self.shape).permute(back)
    }
}
