//! Ops that combine each element with those before it. Several axes are walked in row-major order.

use super::elementwise::log_add_exp;
use super::reduce::joined;
use crate::equation::Equation;
use crate::text::{Element, Margin, Number, Order, Text, Value};

/// The axes of a walk, joined to the last one.
struct Walk {
    /// The order of axes in which those of the walk are the last.
    order: Vec<usize>,
    axes: Vec<usize>,
    is_reversed: bool,
    /// The shape of the operand.
    shape: Vec<usize>,
}

impl Walk {
    fn new(of: &Equation<'_>) -> Walk {
        let shape = of.shape().to_vec();
        let axes = of.axes(0, shape.len());
        let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
        Walk {
            order: kept.chain(axes.iter().copied()).collect(),
            axes,
            is_reversed: of.flag(1),
            shape,
        }
    }

    /// Appends `x` with the walk along its last axis.
    fn rows(&self, t: &mut Text, x: &Value) -> Value {
        joined(t, x, &self.axes)
    }

    /// Appends the tensor whose [`rows`](Walk::rows) are `y`.
    fn back(&self, t: &mut Text, y: &Value) -> Value {
        let lens: Vec<usize> = self.order.iter().map(|axis| self.shape[*axis]).collect();
        let y = t.reshape(y, &lens);
        let mut inverse = vec![0; self.order.len()];
        for (i, axis) in self.order.iter().enumerate() {
            inverse[*axis] = i;
        }
        t.transpose(&y, &inverse)
    }
}

/// Appends the combination of each element with those before it: a window that ends at each element.
fn cumulated(
    t: &mut Text,
    of: &Equation<'_>,
    init: impl Into<Number>,
    combine: impl Fn(&mut Text, &Value, &Value) -> Value,
) -> Value {
    let walk = Walk::new(of);
    let x = walk.rows(t, of.x());
    if x.numel() == 0 {
        return of.x().clone();
    }
    let init = init.into();
    let axis = x.rank() - 1;
    let before = x.shape[axis] as i64 - 1;
    let mut margins = vec![Margin::default(); x.rank()];
    match walk.is_reversed {
        true => margins[axis].high = before,
        false => margins[axis].low = before,
    }
    let mut window = vec![1; x.rank()];
    window[axis] = x.shape[axis];
    let padded = t.pad(&x, init, &margins);
    let y = t.reduce_window(&padded, init, [&window, &vec![1; x.rank()]], combine);
    walk.back(t, &y)
}

pub(super) fn cumsum(t: &mut Text, of: &Equation<'_>) -> Value {
    cumulated(t, of, 0, Text::add)
}

pub(super) fn cumprod(t: &mut Text, of: &Equation<'_>) -> Value {
    let y = cumulated(t, of, 1, Text::mul);
    let is_exclusive = of.flag(2);
    match is_exclusive {
        true => shifted(t, of, &y, 1),
        false => y,
    }
}

pub(super) fn cummax(t: &mut Text, of: &Equation<'_>) -> Value {
    cumulated(t, of, of.x().element.least(), Text::max)
}

pub(super) fn cummin(t: &mut Text, of: &Equation<'_>) -> Value {
    cumulated(t, of, of.x().element.greatest(), Text::min)
}

pub(super) fn cumlogsumexp(t: &mut Text, of: &Equation<'_>) -> Value {
    cumulated(t, of, f64::NEG_INFINITY, log_add_exp)
}

/// A loop over the turns: the product of many factors might overflow where the recurrence does not.
///
/// Operands: `x, a`.
pub(super) fn recurrence(t: &mut Text, of: &Equation<'_>) -> Value {
    let walk = Walk::new(of);
    let is_late = of.flag(2);
    let [x, a] = [of.x(), of.y()].map(|x| walk.rows(t, x));
    if x.numel() == 0 {
        return of.x().clone();
    }
    let axis = x.rank() - 1;
    let n = x.shape[axis];
    let mut one = x.shape.clone();
    one[axis] = 1;
    let before = t.full(0, x.element, &one);
    let zeros = t.full_like(0, &x);
    let outs = t.turns::<()>(n, &[x, a, before, zeros], |t, turn, states| {
        let [x, a, before, ys] = [0, 1, 2, 3].map(|i| &states[i]);
        let zero = t.full(0, Element::I64, &[]);
        let place = |t: &mut Text, turn: &Value| {
            let at = match walk.is_reversed {
                true => {
                    let last = t.full(n - 1, Element::I64, &[]);
                    t.sub(&last, turn)
                }
                false => turn.clone(),
            };
            let mut starts = vec![zero.clone(); axis];
            starts.push(at);
            starts
        };
        let here = place(t, turn);
        let element = t.dynamic_slice(x, &here, &one);
        let of_factor = match is_late {
            true => {
                let before = t.plus(turn, -1);
                place(t, &before)
            }
            false => here.clone(),
        };
        let factor = t.dynamic_slice(a, &of_factor, &one);
        let product = t.mul(&factor, before);
        let sum = t.add(&element, &product);
        // The first factor is not read.
        let is_first = t.compare_to(Order::Eq, turn, 0);
        let is_first = t.spread(&is_first, &one);
        let y = t.select(&is_first, &element, &sum);
        let ys = t.dynamic_update(ys, &y, &here);
        Ok(vec![x.clone(), a.clone(), y, ys])
    });
    let ys = outs
        .into_iter()
        .flatten()
        .last()
        .expect("the loop has states");
    walk.back(t, &ys)
}

/// Appends the element of `y` before each one, and a number at the start.
fn shifted(t: &mut Text, of: &Equation<'_>, y: &Value, first: i64) -> Value {
    let walk = Walk::new(of);
    let x = walk.rows(t, y);
    if x.numel() == 0 {
        return y.clone();
    }
    let by = if walk.is_reversed { -1 } else { 1 };
    let mut margins = vec![Margin::default(); x.rank()];
    margins[x.rank() - 1] = Margin {
        low: by,
        high: -by,
        interior: 0,
    };
    let y = t.pad(&x, first, &margins);
    walk.back(t, &y)
}

pub(super) fn shift(t: &mut Text, of: &Equation<'_>) -> Value {
    shifted(t, of, of.x(), 0)
}
