//! The level of the CPU, found once, and the versions of loops for it.

use gradloom_ir::op::{BinaryLoop, CompareLoop, UnaryLoop};
use gradloom_maths::Level;
use std::sync::OnceLock;

/// The level that kernels run at: that of the CPU, or a lower one that `GRADLOOM_LEVEL` names (`baseline`, `avx2`,
/// `avx512`). It never changes.
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let named = match std::env::var("GRADLOOM_LEVEL").as_deref() {
            Ok("baseline") => Level::Baseline,
            Ok("avx2") => Level::Avx2,
            _ => Level::Avx512,
        };
        named.min(Level::detect())
    })
}

/// The version of a loop for this CPU.
pub(crate) fn unary<T>(versions: &UnaryLoop<T>) -> impl Fn(&[T], &mut [T]) + use<T> {
    let f = versions.get(level());
    // SAFETY: the CPU has the level.
    move |xs, ys| unsafe { f(xs, ys) }
}

/// The version of a loop for this CPU.
pub(crate) fn binary<T>(versions: &BinaryLoop<T>) -> impl Fn(&[T], &[T], &mut [T]) + use<T> {
    let f = versions.get(level());
    // SAFETY: the CPU has the level.
    move |xs, ys, zs| unsafe { f(xs, ys, zs) }
}

/// The version of a loop for this CPU.
pub(crate) fn compare<T>(versions: &CompareLoop<T>) -> impl Fn(&[T], &[T], &mut [bool]) + use<T> {
    let f = versions.get(level());
    // SAFETY: the CPU has the level.
    move |xs, ys, zs| unsafe { f(xs, ys, zs) }
}
