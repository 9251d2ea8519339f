//! CPU levels, and loops compiled for each of them.

/// A set of vector instructions. A greater level includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The instructions that every CPU of the target has.
    Baseline,
    /// AVX2 and a fused multiply-add.
    Avx2,
    /// AVX-512 (F, VL, DQ and BW).
    Avx512,
}

impl Level {
    /// All levels, the smallest first.
    pub const ALL: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

    /// Returns the greatest level of this CPU.
    ///
    /// The result is cached by the standard library and does not depend on the environment.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw");
            match (avx2, avx512) {
                (true, true) => Level::Avx512,
                (true, false) => Level::Avx2,
                (false, _) => Level::Baseline,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Level::Baseline
    }
}

/// A function compiled for each [`Level`], made by [`versions!`](crate::versions!).
///
/// `S` is a safe function type, and `U` is the same type but unsafe. To call the version of a level
/// that the CPU does not have is undefined behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Versions<S, U> {
    /// The version that runs on every CPU.
    pub baseline: S,
    /// The versions in the order of [`Level::ALL`].
    pub levels: [U; 3],
}

impl<S, U: Copy> Versions<S, U> {
    /// Returns the version for `level`, which only a CPU of at least that level may run.
    #[inline]
    pub fn get(&self, level: Level) -> U {
        self.levels[level as usize]
    }
}

/// Makes the [`Versions`] of a function: `versions!(|xs: &[f32], ys: &mut [f32]| A => body)`.
///
/// In the body, `A` is the [`Arith`](crate::Arith) of the level. Functions that the body calls are
/// compiled for the level if they are `#[inline(always)]`.
#[macro_export]
macro_rules! versions {
    (|$($arg:ident: $ty:ty),*| $arith:ident => $body:expr) => {{
        fn baseline($($arg: $ty),*) {
            #[allow(dead_code)] // a body of exact arithmetic does not use it
            type $arith = $crate::Base;
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn avx2($($arg: $ty),*) {
            #[allow(dead_code)]
            type $arith = $crate::Fused;
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
        fn avx512($($arg: $ty),*) {
            #[allow(dead_code)]
            type $arith = $crate::Fused;
            $body
        }
        #[cfg(not(target_arch = "x86_64"))]
        use {baseline as avx2, baseline as avx512};
        $crate::Versions {
            baseline,
            // Without a cast, three functions that are the same one would have its type.
            levels: [
                baseline as unsafe fn($($ty),*),
                avx2 as unsafe fn($($ty),*),
                avx512 as unsafe fn($($ty),*),
            ],
        }
    }};
}
