//! Values of static arguments, which the shape rules have checked.

use gradloom_ir::op::shape;
use gradloom_ir::{Op, Static, StaticKind};
use gradloom_kernels::movement::Write;

const CHECKED: &str = "the static arguments are checked when avals are inferred";

/// Returns the value of the static argument of a kind that the op takes.
pub(super) fn value(op: Op, values: &[Static], kind: StaticKind) -> &Static {
    &values[op.static_at(kind).expect("the op takes it")]
}

pub(super) fn int(value: &Static) -> i64 {
    value.int().expect(CHECKED)
}

pub(super) fn float(value: &Static) -> f64 {
    value.float().expect(CHECKED)
}

pub(super) fn flag(value: &Static) -> bool {
    value.bool().expect(CHECKED)
}

/// Returns how an op whose static argument `set` is given combines updates with elements.
pub(super) fn write(set: &Static) -> Write {
    match flag(set) {
        true => Write::Set,
        false => Write::Add,
    }
}

pub(super) fn ints(value: &Static) -> &[i64] {
    value.ints().expect(CHECKED)
}

/// Returns the axis that a static argument names.
pub(super) fn axis(value: &Static, rank: usize) -> usize {
    axis_of(int(value), rank)
}

/// Returns the axes that a static argument names, ascending.
pub(super) fn axes(value: &Static, rank: usize) -> Vec<usize> {
    shape::axes(value, rank).expect(CHECKED).expect(CHECKED)
}

/// Returns the axes that a static argument names, in its order.
pub(super) fn permutation(axes: &Static, rank: usize) -> Vec<usize> {
    ints(axes).iter().map(|&a| axis_of(a, rank)).collect()
}

/// Returns which of the first three operands the static argument `active` lists.
pub(super) fn active(value: &Static) -> [bool; 3] {
    [0, 1, 2].map(|i| ints(value).contains(&i))
}

fn axis_of(axis: i64, rank: usize) -> usize {
    shape::axis(axis, rank).expect(CHECKED)
}
