//! Indices as users write them, as in `x.i((0, 1..3, .., -1))`: the ops that compute them.
//!
//! The run time and the macro resolve an index here, so that both emit the same ops. An index has an
//! *entry* for each axis: a number, a range or a tensor of integers. Entries without an axis are
//! `Rest`, for any number of whole axes, and `NewAxis`.
//!
//! A read is at most one `slice`, a `select_index` for each number, an `unsqueeze` and a `take`. The
//! *region* is the result of all of these except the `take`.

use crate::{Fault, Op};

/// Kind of an entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A number: the axis is dropped.
    Number,
    /// A range of the axis.
    Range,
    /// The whole axis: `..`.
    Whole,
    /// As many whole axes as no other entry names.
    Rest,
    /// An axis of length 1, which the tensor does not have.
    NewAxis,
    /// A tensor of integers, whose axes replace the axis.
    Tensor,
}

/// Index with the axes that its entries stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexing {
    /// The entry of each leading axis, if it is a number or a range, up to the last one.
    cuts: Vec<Option<(usize, Entry)>>,
    /// Axes of the region that the tensor lacks, ascending.
    new_axes: Vec<i64>,
    /// Axis of the region and entry of each tensor, ascending.
    tensors: Vec<(usize, usize)>,
}

/// A static argument of an op that reads or writes an index.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// An axis.
    Axis(usize),
    /// Axes of length 1.
    UnitAxes(&'a [i64]),
    /// A flag.
    Flag(bool),
    /// The number of an entry.
    Number(usize),
    /// Starts of a slice: the entries of the leading axes. `None` is a whole axis, and a number is a
    /// range of length 1.
    Starts(&'a [Option<usize>]),
    /// Stops of the same slice.
    Stops(&'a [Option<usize>]),
    /// Steps of the same slice.
    Steps(&'a [Option<usize>]),
}

/// Emits the ops of an index.
pub trait Emit {
    /// A tensor.
    type Value: Clone;
    /// The error of an op.
    type Error;

    /// Emits an op with one result.
    fn emit(
        &mut self,
        op: Op,
        statics: &[Argument<'_>],
        data: &[&Self::Value],
        likes: &[&Self::Value],
    ) -> Result<Self::Value, Self::Error>;

    /// Returns the tensor of an entry.
    fn tensor(&mut self, entry: usize) -> Result<Self::Value, Self::Error>;

    /// Merges the axes of several tensors of `x`, and returns the result, the axis and its indices.
    fn merge(
        &mut self,
        x: &Self::Value,
        tensors: &[(usize, usize)],
    ) -> Result<(Self::Value, usize, Self::Value), Self::Error>;

    /// Undoes [`Emit::merge`] on a value of the shape of its result.
    fn split(
        &mut self,
        merged: &Self::Value,
        x: &Self::Value,
        tensors: &[(usize, usize)],
    ) -> Result<Self::Value, Self::Error>;
}

/// How a write combines updates with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The updates replace the elements.
    Set,
    /// The updates are added. They add up where an index repeats.
    Add,
}

impl Indexing {
    /// Resolves the entries of an index of a tensor with `rank` axes.
    ///
    /// Returns `None` if that takes a rank that is unknown.
    ///
    /// # Errors
    ///
    /// If there are more entries than axes, or several `Rest`.
    pub fn new(entries: &[Entry], rank: Option<usize>) -> Result<Option<Indexing>, Fault> {
        let count = |kinds: &[Entry]| entries.iter().filter(|e| kinds.contains(e)).count();
        let n_rests = count(&[Entry::Rest]);
        if n_rests > 1 {
            return Err(Fault::Length {
                what: "the number of `Rest` in an index".to_owned(),
                found: n_rests.to_string(),
                expected: "at most 1".to_owned(),
            });
        }
        let n_named = entries.len() - n_rests - count(&[Entry::NewAxis]);
        if let Some(rank) = rank
            && n_named > rank
        {
            return Err(Fault::Rank {
                found: rank,
                expected: format!("at least {n_named}, the number of indices"),
            });
        }
        let mut of = Indexing {
            cuts: Vec::new(),
            new_axes: Vec::new(),
            tensors: Vec::new(),
        };
        // The next axis of the tensor, and of the region.
        let (mut axis, mut to) = (0, 0);
        for (i, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Rest => {
                    if let Some(rank) = rank {
                        axis += rank - n_named;
                        to += rank - n_named;
                    } else if i + 1 < entries.len() {
                        return Ok(None);
                    }
                    continue;
                }
                Entry::NewAxis => {
                    of.new_axes.push(to as i64);
                    to += 1;
                    continue;
                }
                Entry::Number | Entry::Range => {
                    of.cuts.resize(axis, None);
                    of.cuts.push(Some((i, *entry)));
                }
                Entry::Tensor => of.tensors.push((to, i)),
                Entry::Whole => {}
            }
            axis += 1;
            to += usize::from(*entry != Entry::Number);
        }
        Ok(Some(of))
    }

    /// Emits the elements of `x` at the index.
    ///
    /// # Errors
    ///
    /// The error of an op.
    pub fn read<E: Emit>(&self, e: &mut E, x: &E::Value) -> Result<E::Value, E::Error> {
        let region = self.region(e, x)?;
        let (x, axis, indices) = match self.tensors[..] {
            [] => return Ok(region),
            [(axis, entry)] => (region, axis, e.tensor(entry)?),
            _ => e.merge(&region, &self.tensors)?,
        };
        take(e, &x, axis, &indices)
    }

    /// Emits `x` with `updates` written at the index. They are repeated to the shape of what
    /// [`Indexing::read`] emits.
    ///
    /// # Errors
    ///
    /// The error of an op.
    pub fn write<E: Emit>(
        &self,
        e: &mut E,
        x: &E::Value,
        updates: &E::Value,
        how: Write,
    ) -> Result<E::Value, E::Error> {
        let region = self.region(e, x)?;
        let updates = match self.tensors[..] {
            [] => {
                let updates = e.emit(Op::BroadcastLike, &[], &[updates], &[updates, &region])?;
                return self.replace(e, x, updates, how);
            }
            [(axis, entry)] => {
                let indices = e.tensor(entry)?;
                scatter(e, &region, axis, &indices, updates, how)?
            }
            _ => {
                let (merged, axis, indices) = e.merge(&region, &self.tensors)?;
                let merged = scatter(e, &merged, axis, &indices, updates, how)?;
                e.split(&merged, &region, &self.tensors)?
            }
        };
        self.replace(e, x, updates, Write::Set)
    }

    /// Returns the entries of the numbers, each with its axis.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + '_ {
        let cuts = self.cuts.iter().enumerate();
        cuts.filter_map(|(axis, cut)| match cut {
            Some((entry, Entry::Number)) => Some((axis, *entry)),
            _ => None,
        })
    }

    /// Emits the region of `x`.
    fn region<E: Emit>(&self, e: &mut E, x: &E::Value) -> Result<E::Value, E::Error> {
        let mut x = x.clone();
        let range = |cut: &Option<(usize, Entry)>| match cut {
            Some((entry, Entry::Range)) => Some(*entry),
            _ => None,
        };
        let ranges: Vec<Option<usize>> = self.cuts.iter().map(range).collect();
        if let Some(last) = ranges.iter().rposition(Option::is_some) {
            let statics = slice(&ranges[..=last]);
            x = e.emit(Op::Slice, &statics, &[&x], &[&x])?;
        }
        for (axis, entry) in self.numbers().rev() {
            let statics = [Argument::Axis(axis), Argument::Number(entry)];
            x = e.emit(Op::SelectIndex, &statics, &[&x], &[&x])?;
        }
        if !self.new_axes.is_empty() {
            let axes = [Argument::UnitAxes(&self.new_axes)];
            x = e.emit(Op::Unsqueeze, &axes, &[&x], &[])?;
        }
        Ok(x)
    }

    /// Emits `x` with `region` written to its region.
    fn replace<E: Emit>(
        &self,
        e: &mut E,
        x: &E::Value,
        mut region: E::Value,
        how: Write,
    ) -> Result<E::Value, E::Error> {
        if !self.new_axes.is_empty() {
            let axes = [Argument::UnitAxes(&self.new_axes)];
            region = e.emit(Op::Squeeze, &axes, &[&region], &[])?;
        }
        let numbers: Vec<i64> = self.numbers().map(|(axis, _)| axis as i64).collect();
        if !numbers.is_empty() {
            let axes = [Argument::UnitAxes(&numbers)];
            region = e.emit(Op::Unsqueeze, &axes, &[&region], &[])?;
        }
        if self.cuts.is_empty() {
            return match how {
                Write::Set => Ok(region),
                Write::Add => e.emit(Op::Add, &[], &[x, &region], &[]),
            };
        }
        let cut = |cut: &Option<(usize, Entry)>| cut.map(|(entry, _)| entry);
        let ranges: Vec<Option<usize>> = self.cuts.iter().map(cut).collect();
        let [starts, stops, steps] = slice(&ranges);
        let statics = [starts, stops, steps, Argument::Flag(how == Write::Set)];
        e.emit(Op::SetSlice, &statics, &[x, &region], &[x, &region])
    }
}

/// Returns the static arguments of a slice.
fn slice(ranges: &[Option<usize>]) -> [Argument<'_>; 3] {
    [
        Argument::Starts(ranges),
        Argument::Stops(ranges),
        Argument::Steps(ranges),
    ]
}

/// Emits the slices of `x` at indices of an axis.
fn take<E: Emit>(
    e: &mut E,
    x: &E::Value,
    axis: usize,
    indices: &E::Value,
) -> Result<E::Value, E::Error> {
    let statics = [
        Argument::Axis(axis),
        Argument::Flag(false),
        Argument::Flag(false),
    ];
    e.emit(Op::Take, &statics, &[x, indices], &[x])
}

/// Emits `x` with updates at indices of an axis.
fn scatter<E: Emit>(
    e: &mut E,
    x: &E::Value,
    axis: usize,
    indices: &E::Value,
    updates: &E::Value,
    how: Write,
) -> Result<E::Value, E::Error> {
    let taken = take(e, x, axis, indices)?;
    let updates = e.emit(Op::BroadcastLike, &[], &[updates], &[updates, &taken])?;
    let statics = [
        Argument::Axis(axis),
        Argument::Flag(false),
        Argument::Flag(how == Write::Set),
    ];
    e.emit(
        Op::Scatter,
        &statics,
        &[x, indices, &updates],
        &[x, &updates],
    )
}
