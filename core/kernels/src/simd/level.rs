//! SIMD level of the CPU, detected once.

use crate::lock::get_or_init;
use gradloom_maths::Level;
use std::sync::OnceLock;

/// Returns the SIMD level that kernels run at. It never changes.
///
/// It is the level of the CPU, or a lower one that `GRADLOOM_LEVEL` names (`baseline`, `avx2`,
/// `avx512`).
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = tests::CHOSEN.get() {
        return level;
    }
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

#[cfg(test)]
pub(crate) mod tests {
    use gradloom_maths::Level;
    use std::cell::Cell;

    thread_local! {
        pub(super) static CHOSEN: Cell<Option<Level>> = const { Cell::new(None) };
    }

    /// Calls `f` for each level of the CPU. Kernels run at this level on the calling thread.
    pub(crate) fn at_each_level(mut f: impl FnMut(Level)) {
        for level in Level::ALL {
            if level <= Level::detect() {
                CHOSEN.set(Some(level));
                f(level);
            }
        }
        CHOSEN.set(None);
    }
}
