//! Lowering of ops whose results are numbers that the program gives.

use super::Equation;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::StaticKind;
use gradloom_kernels::movement;

/// Lowers `scalar`, `full_like` and `full`: one number, repeated.
pub(super) fn full(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    b.constant(of.value(StaticKind::Number), of.out().dtype(), of.shape())
}

pub(super) use {full as full_like, full as scalar};

pub(super) fn iota(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    b.kernel(&[], of.out(), movement::iota(of.out().dtype()))
}

pub(super) fn eye(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    b.kernel(
        &[],
        of.out(),
        movement::eye(of.out().dtype(), of.shape()[0]),
    )
}
