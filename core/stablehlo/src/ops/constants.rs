//! Ops whose results are numbers that the program gives.

use crate::equation::Equation;
use crate::text::{Order, Text, Value};
use gradloom_ir::StaticKind;

pub(super) fn full(t: &mut Text, of: &Equation<'_>) -> Value {
    let at = of
        .op
        .static_at(StaticKind::Number)
        .expect("the op has a number");
    let out = of.out();
    t.full(&of.statics[at], out.element, &out.shape)
}

pub(super) use {full as full_like, full as scalar};

pub(super) fn iota(t: &mut Text, of: &Equation<'_>) -> Value {
    t.iota(0, of.out().element, of.shape())
}

pub(super) fn eye(t: &mut Text, of: &Equation<'_>) -> Value {
    let diagonal = super::movement::diagonal_mask(t, Order::Eq, 0, of.shape());
    t.convert(&diagonal, of.out().element)
}
