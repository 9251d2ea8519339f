//! Ops that combine the elements over axes.

use crate::equation::Equation;
use crate::text::{Element, Order, Text, Value};

/// Appends the sum over axes, with the shape of the result.
fn summed(t: &mut Text, of: &Equation<'_>, axes: &[usize]) -> Value {
    // The sum of no elements is 0, and that of zeros of one sign keeps the sign only without the initial 0.
    let total = t.reduce("add", of.x(), 0, axes);
    t.reshape(&total, of.shape())
}

pub(super) fn sum(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.x().rank());
    summed(t, of, &axes)
}

pub(super) fn mean(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.x().rank());
    let n: usize = axes.iter().map(|axis| of.x().shape[*axis]).product();
    let total = summed(t, of, &axes);
    let n = t.full_like(n as f64, &total);
    t.div(&total, &n)
}

/// Appends the operand repeated along the axes that were reduced.
pub(super) fn sum_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let shape = of.shape();
    let axes = of.axes(0, shape.len());
    let kept: Vec<usize> = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .collect();
    let lens: Vec<usize> = kept.iter().map(|axis| shape[*axis]).collect();
    let y = t.reshape(of.x(), &lens);
    t.broadcast(&y, &kept, shape)
}

pub(super) fn mean_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.shape().len());
    let n: usize = axes.iter().map(|axis| of.shape()[*axis]).product();
    let y = sum_t(t, of);
    let n = t.full_like(n as f64, &y);
    t.div(&y, &n)
}

/// Appends the sum of `x` over the axes along which a value of the shape `to` was repeated.
pub(super) fn unrepeated(t: &mut Text, x: &Value, to: &[usize]) -> Value {
    let first = x.rank() - to.len();
    let repeated = |axis: &usize| match axis.checked_sub(first) {
        Some(i) => to[i] != x.shape[*axis],
        None => true,
    };
    let axes: Vec<usize> = (0..x.rank()).filter(repeated).collect();
    let total = t.reduce("add", x, 0, &axes);
    t.reshape(&total, to)
}

pub(super) fn unbroadcast(t: &mut Text, of: &Equation<'_>) -> Value {
    unrepeated(t, of.x(), of.shape())
}

/// Appends the greatest or the least element over axes.
fn extremum(t: &mut Text, of: &Equation<'_>, is_max: bool) -> Value {
    let x = of.x();
    let axes = of.axes(0, x.rank());
    let (op, init) = match (is_max, x.element) {
        (true, Element::I1) => ("or", x.element.least()),
        (false, Element::I1) => ("and", x.element.greatest()),
        (true, _) => ("maximum", x.element.least()),
        (false, _) => ("minimum", x.element.greatest()),
    };
    let y = t.reduce(op, x, init, &axes);
    t.reshape(&y, of.shape())
}

pub(super) fn max(t: &mut Text, of: &Equation<'_>) -> Value {
    extremum(t, of, true)
}

pub(super) fn min(t: &mut Text, of: &Equation<'_>) -> Value {
    extremum(t, of, false)
}

fn reduced(t: &mut Text, of: &Equation<'_>, op: &str, init: i64) -> Value {
    let axes = of.axes(0, of.x().rank());
    let y = t.reduce(op, of.x(), init, &axes);
    t.reshape(&y, of.shape())
}

pub(super) fn prod(t: &mut Text, of: &Equation<'_>) -> Value {
    reduced(t, of, "multiply", 1)
}

pub(super) fn any(t: &mut Text, of: &Equation<'_>) -> Value {
    reduced(t, of, "or", 0)
}

pub(super) fn all(t: &mut Text, of: &Equation<'_>) -> Value {
    reduced(t, of, "and", 1)
}

/// Appends `x` with `axes` moved behind the others and joined to one.
pub(super) fn joined(t: &mut Text, x: &Value, axes: &[usize]) -> Value {
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let x = t.transpose(x, &[&kept, axes].concat());
    let (lens, last) = x.shape.split_at(kept.len());
    let shape = [lens, &[last.iter().product()]].concat();
    t.reshape(&x, &shape)
}

/// Appends the index of the first greatest or least element of each row along the last axis. A NaN is better
/// than any number.
pub(super) fn first_best(t: &mut Text, x: &Value, is_max: bool) -> Value {
    let axis = x.rank() - 1;
    let (op, init) = match (is_max, x.element) {
        (true, Element::I1) => ("or", x.element.least()),
        (false, Element::I1) => ("and", x.element.greatest()),
        (true, _) => ("maximum", x.element.least()),
        (false, _) => ("minimum", x.element.greatest()),
    };
    let best = t.reduce(op, x, init, &[axis]);
    let kept: Vec<usize> = (0..axis).collect();
    let best = t.broadcast(&best, &kept, &x.shape);
    let mut hit = t.compare(Order::Eq, x, &best);
    if x.element.is_float() {
        let is_nan = t.is_nan(x);
        hit = t.or(&hit, &is_nan);
    }
    let index = t.iota(axis, Element::I64, &x.shape);
    let beyond = t.full_like(x.shape[axis], &index);
    let index = t.select(&hit, &index, &beyond);
    t.reduce("minimum", &index, Element::I64.greatest(), &[axis])
}

fn index_of(t: &mut Text, of: &Equation<'_>, is_max: bool) -> Value {
    let axes = of.axes(0, of.x().rank());
    let rows = joined(t, of.x(), &axes);
    let index = first_best(t, &rows, is_max);
    t.reshape(&index, of.shape())
}

pub(super) fn argmax(t: &mut Text, of: &Equation<'_>) -> Value {
    index_of(t, of, true)
}

pub(super) fn argmin(t: &mut Text, of: &Equation<'_>) -> Value {
    index_of(t, of, false)
}
