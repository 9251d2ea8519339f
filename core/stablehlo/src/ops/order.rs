//! Sorting. NaN is greater than any number, and equal elements keep their order.

use crate::equation::Equation;
use crate::text::{Element, Order, Text, Value};

/// Appends whether `x` comes before `y`.
fn comes_before(t: &mut Text, x: &Value, y: &Value, is_descending: bool) -> Value {
    let order = if is_descending { Order::Gt } else { Order::Lt };
    let before = t.compare(order, x, y);
    if !x.element.is_float() {
        return before;
    }
    let (greatest, other) = if is_descending { (x, y) } else { (y, x) };
    let is_nan = t.is_nan(greatest);
    let is_number = t.compare(Order::Eq, other, other);
    let beyond = t.and(&is_nan, &is_number);
    t.or(&before, &beyond)
}

/// Appends the elements along an axis in order, and their indices.
pub(super) fn sorted(t: &mut Text, x: &Value, axis: usize, is_descending: bool) -> [Value; 2] {
    let index = t.iota(axis, Element::I64, &x.shape);
    let both = [x.clone(), index];
    let mut outs = t
        .sort(&both, axis, |t, args| {
            comes_before(t, &args[0], &args[1], is_descending)
        })
        .into_iter();
    [(); 2].map(|()| outs.next().expect("as many results as operands"))
}

pub(super) fn sort(t: &mut Text, of: &Equation<'_>) -> Value {
    let axis = of.axis(0, of.x().rank());
    let is_descending = of.flag(1);
    let before = |t: &mut Text, args: &[Value]| comes_before(t, &args[0], &args[1], is_descending);
    let outs = t.sort(std::slice::from_ref(of.x()), axis, before);
    outs.into_iter()
        .next()
        .expect("as many results as operands")
}

pub(super) fn argsort(t: &mut Text, of: &Equation<'_>) -> Value {
    let axis = of.axis(0, of.x().rank());
    let [_, index] = sorted(t, of.x(), axis, of.flag(1));
    index
}

/// Appends the first of the elements in descending order, and their indices.
fn first(t: &mut Text, of: &Equation<'_>) -> [Value; 2] {
    let axis = of.axis(1, of.x().rank());
    let n = of.shape()[axis];
    sorted(t, of.x(), axis, true).map(|x| t.part(&x, axis, 0, n))
}

pub(super) fn top_k(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, _] = first(t, of);
    x
}

pub(super) fn top_k_indices(t: &mut Text, of: &Equation<'_>) -> Value {
    let [_, index] = first(t, of);
    index
}
