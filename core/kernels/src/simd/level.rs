//! SIMD level of the CPU, detected once.

use crate::lock::get_or_init;
use gradloom_maths::Level;
use std::sync::OnceLock;

/// Returns the SIMD level that kernels run at. It never changes.
///
/// It is the level of the CPU, or a lower one that `GRADLOOM_LEVEL` names (`baseline`, `avx2`,
/// `avx512`).
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *get_or_init(&LEVEL, || {
        let named = match std::env::var("GRADLOOM_LEVEL").as_deref() {
            Ok("baseline") => Level::Baseline,
            Ok("avx2") => Level::Avx2,
            _ => Level::Avx512,
        };
        named.min(Level::detect())
    })
}
