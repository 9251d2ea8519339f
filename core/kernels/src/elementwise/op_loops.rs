//! Loops of single ops, at the level that kernels run at.

use crate::simd::level::level;
use gradloom_ir::op::UnaryLoop;
use gradloom_maths::Versions;

/// Loop of a binary op or of a comparison.
pub type BinaryLoop<T, U> = Versions<fn(&[T], &[T], &mut [U]), unsafe fn(&[T], &[T], &mut [U])>;

/// Runs the loop of a unary op.
pub fn unary<T>(versions: &UnaryLoop<T>, xs: &[T], ys: &mut [T]) {
    // SAFETY: the CPU has the level.
    unsafe { versions.get(level())(xs, ys) }
}

/// Runs the loop of a binary op or of a comparison.
pub fn binary<T, U>(versions: &BinaryLoop<T, U>, xs: &[T], ys: &[T], zs: &mut [U]) {
    // SAFETY: the CPU has the level.
    unsafe { versions.get(level())(xs, ys, zs) }
}
