//! Ops that read and write at computed indices.
//!
//! A negative index counts from the end. An index out of range is an error in gradloom; here the nearest
//! slice is read, and nothing is written.

use super::reduce::unrepeated;
use crate::equation::Equation;
use crate::text::{Element, Order, Text, Value};

pub(super) fn one_hot(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes: Vec<usize> = (0..of.x().rank()).collect();
    let labels = t.broadcast(of.x(), &axes, of.shape());
    let classes = t.iota(axes.len(), labels.element, of.shape());
    let hit = t.compare(Order::Eq, &labels, &classes);
    t.convert(&hit, of.out().element)
}

/// Appends indices of an axis of length `len` from its start.
fn from_start(t: &mut Text, i: &Value, len: usize) -> Value {
    let negative = t.compare_to(Order::Lt, i, 0);
    let wrapped = t.plus(i, len);
    t.select(&negative, &wrapped, i)
}

/// The slices of a tensor that indices of one axis take.
///
/// Without `along`, an index takes a slice. With `along`, it takes an element: the tensor is then flat, and an
/// index is the position of the element.
struct Slices {
    /// The shape of the tensor. It is broadcast to the indices if the same element is not the same slice.
    whole: Vec<usize>,
    /// The shape of the tensor as it is read and written.
    storage: Vec<usize>,
    /// The axis of the indices in `storage`.
    axis: usize,
    indices: Value,
    /// The shape of what the indices take, as it is read and written.
    part: Vec<usize>,
}

/// Way in which a tensor meets the indices.
#[derive(Clone, Copy, PartialEq)]
enum Spread {
    Own,
    ToIndices,
}

impl Spread {
    /// The last of equal indices counts: of those in the tensor as if it were broadcast.
    fn of(of: &Equation<'_>) -> Spread {
        if of.flag(2) {
            Spread::ToIndices
        } else {
            Spread::Own
        }
    }
}

impl Slices {
    /// Returns the slices of shape `part` of a tensor of shape `x`.
    fn new(t: &mut Text, of: &Equation<'_>, x: &[usize], part: &[usize], spread: Spread) -> Slices {
        let i = of.y();
        let axis = of.axis(0, x.len());
        let i = t.convert(i, Element::I64);
        let i = from_start(t, &i, x[axis]);
        if !of.flag(1) {
            return Slices {
                whole: x.to_vec(),
                storage: x.to_vec(),
                axis,
                indices: i,
                part: part.to_vec(),
            };
        }
        let mut whole = x.to_vec();
        if spread == Spread::ToIndices {
            whole = part.to_vec();
            whole[axis] = x[axis];
        }
        let n: usize = whole.iter().product();
        let i = t.spread(&i, part);
        let mut position: Option<Value> = None;
        for at in 0..whole.len() {
            let place = match at == axis {
                true => i.clone(),
                false => t.iota(at, Element::I64, part),
            };
            // An axis of length 1 has one element for all indices.
            let stride = match whole[at] == 1 && at != axis {
                true => 0,
                false => whole[at + 1..].iter().product::<usize>(),
            };
            let place = t.times(&place, stride);
            position = Some(match position {
                None => place,
                Some(before) => t.add(&before, &place),
            });
        }
        let position = position.expect("the tensor has an axis");
        // An index out of range must not lead to another row.
        let low = t.compare_to(Order::Lt, &i, 0);
        let high = t.compare_to(Order::Ge, &i, x[axis]);
        let outside = t.or(&low, &high);
        let position = t.replace(&outside, n, &position);
        let len = part.iter().product();
        Slices {
            whole,
            storage: vec![n],
            axis: 0,
            indices: t.reshape(&position, &[len]),
            part: vec![len],
        }
    }

    /// Appends the tensor as it is read and written.
    fn stored(&self, t: &mut Text, x: &Value) -> Value {
        let x = t.spread(x, &self.whole);
        t.reshape(&x, &self.storage)
    }

    /// Appends the slices at the indices of a stored tensor.
    fn read(&self, t: &mut Text, x: &Value) -> Value {
        // There is nothing to read from, and StableHLO refuses it.
        match x.numel() {
            0 => t.full(0, x.element, &self.part),
            _ => t.gather(x, &self.indices, self.axis),
        }
    }

    /// Appends whether no later index takes the same slice, for each index.
    fn is_last(&self, t: &mut Text) -> Value {
        let n = self.storage[self.axis];
        let numbers = self.numbers(t);
        let none = t.full(-1, Element::I64, &[n]);
        let last = t.scatter(&none, &self.indices, &numbers, 0, Text::max);
        let last = match n {
            0 => t.full(-1, Element::I64, &self.indices.shape),
            _ => t.gather(&last, &self.indices, 0),
        };
        t.compare(Order::Eq, &numbers, &last)
    }

    /// Appends the number of each index.
    fn numbers(&self, t: &mut Text) -> Value {
        let shape = &self.indices.shape;
        let numbers = t.iota(0, Element::I64, &[shape.iter().product()]);
        t.reshape(&numbers, shape)
    }

    /// Appends a value for each index, broadcast to what the indices take.
    fn for_part(&self, t: &mut Text, x: &Value) -> Value {
        let axes: Vec<usize> = (self.axis..self.axis + x.rank()).collect();
        t.broadcast(x, &axes, &self.part)
    }

    /// Appends a tensor in storage in the shape of the tensor. Elements that were repeated are added.
    fn summed(&self, t: &mut Text, x: &Value, shape: &[usize]) -> Value {
        let x = t.reshape(x, &self.whole);
        unrepeated(t, &x, shape)
    }
}

/// Appends `x`, or 0 where a slice is not taken by the last index that takes it.
fn only_last(t: &mut Text, slices: &Slices, x: &Value) -> Value {
    let is_last = slices.is_last(t);
    let is_last = slices.for_part(t, &is_last);
    let zero = t.full_like(0, x);
    t.select(&is_last, x, &zero)
}

pub(super) fn take(t: &mut Text, of: &Equation<'_>) -> Value {
    let slices = Slices::new(t, of, &of.x().shape, of.shape(), Spread::of(of));
    let x = slices.stored(t, of.x());
    let mut y = slices.read(t, &x);
    if of.flag(2) {
        y = only_last(t, &slices, &y);
    }
    t.reshape(&y, of.shape())
}

pub(super) fn take_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let slices = Slices::new(t, of, of.shape(), &of.x().shape, Spread::of(of));
    let mut y = t.reshape(of.x(), &slices.part);
    if of.flag(2) {
        y = only_last(t, &slices, &y);
    }
    let zeros = t.full(0, y.element, &slices.storage);
    let total = t.scatter(&zeros, &slices.indices, &y, slices.axis, Text::add);
    slices.summed(t, &total, of.shape())
}

/// Operands: `x, indices, updates`.
pub(super) fn scatter(t: &mut Text, of: &Equation<'_>) -> Value {
    let (x, updates) = (of.x(), &of.args[2]);
    let mut slices = Slices::new(t, of, &x.shape, &updates.shape, Spread::Own);
    let updates = t.reshape(updates, &slices.part);
    if !of.flag(2) {
        let stored = slices.stored(t, x);
        let y = t.scatter(&stored, &slices.indices, &updates, slices.axis, Text::add);
        return t.reshape(&y, &x.shape);
    }
    // The last of several updates counts. The others are moved out of range.
    let is_last = slices.is_last(t);
    let beyond = t.full_like(slices.storage[slices.axis], &slices.indices);
    slices.indices = t.select(&is_last, &slices.indices, &beyond);
    let stored = slices.stored(t, x);
    let y = t.scatter(
        &stored,
        &slices.indices,
        &updates,
        slices.axis,
        |_, _, new| new.clone(),
    );
    t.reshape(&y, &x.shape)
}

pub(super) fn scatter_extreme(t: &mut Text, of: &Equation<'_>) -> Value {
    let (x, updates) = (of.x(), &of.args[2]);
    let slices = Slices::new(t, of, &x.shape, &updates.shape, Spread::Own);
    let updates = t.reshape(updates, &slices.part);
    let combine = if of.flag(2) { Text::max } else { Text::min };
    let stored = slices.stored(t, x);
    let y = t.scatter(&stored, &slices.indices, &updates, slices.axis, combine);
    t.reshape(&y, &x.shape)
}

/// Appends the index of each axis of a value of shape `whole` from which a part starts.
fn starts(t: &mut Text, of: &Value, whole: &[usize]) -> Vec<Value> {
    let all = t.reshape(of, &[of.numel()]);
    let start = |axis: usize| {
        if axis >= all.numel() {
            return t.full(0, of.element, &[]);
        }
        let start = t.part(&all, 0, axis, axis + 1);
        let start = t.reshape(&start, &[]);
        from_start(t, &start, whole[axis])
    };
    (0..whole.len()).map(start).collect()
}

pub(super) fn dynamic_slice(t: &mut Text, of: &Equation<'_>) -> Value {
    let starts = starts(t, of.y(), &of.x().shape);
    t.dynamic_slice(of.x(), &starts, of.shape())
}

pub(super) use dynamic_slice as dynamic_slice_like;

pub(super) fn dynamic_slice_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let zeros = t.full(0, of.x().element, of.shape());
    let starts = starts(t, of.y(), of.shape());
    t.dynamic_update(&zeros, of.x(), &starts)
}

/// Operands: `x, starts, updates`.
pub(super) fn dynamic_update_slice(t: &mut Text, of: &Equation<'_>) -> Value {
    let (x, updates) = (of.x(), &of.args[2]);
    let starts = starts(t, of.y(), of.shape());
    if of.flag(0) {
        return t.dynamic_update(x, updates, &starts);
    }
    let part = t.dynamic_slice(x, &starts, &updates.shape);
    let part = t.add(&part, updates);
    t.dynamic_update(x, &part, &starts)
}
