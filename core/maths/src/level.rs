//! What a CPU can do, and loops in a version for each answer.

/// A set of vector instructions. A greater one has those of the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What every CPU of the target has.
    Baseline,
    /// AVX2 and a fused multiply-add.
    Avx2,
    /// AVX-512 (F, VL, DQ, BW).
    Avx512,
}

impl Level {
    /// All levels, the smallest first.
    pub const ALL: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

    /// The greatest level of this CPU. It does not look at the environment, and costs a few loads.
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

/// One function, compiled for each [`Level`]; [`versions!`](crate::versions!) makes it.
///
/// `S` is the type of a safe function and `U` the same, unsafe: to call the version of a level that the CPU does not
/// have is undefined behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Versions<S, U> {
    /// The version that runs everywhere.
    pub baseline: S,
    /// The versions in the order of [`Level::ALL`].
    pub levels: [U; 3],
}

impl<S, U: Copy> Versions<S, U> {
    /// The version for `level`, which only a CPU of at least that level may run.
    #[inline]
    pub fn get(&self, level: Level) -> U {
        self.levels[level as usize]
    }
}

/// The [`Versions`] of a function: `versions!(|xs: &[f32], ys: &mut [f32]| A => body)`. In the body, `A` is the
/// [`Arith`](crate::Arith) of the level. What the body calls is compiled for the level if it is `#[inline(always)]`.
#[macro_export]
macro_rules! versions {
    (|$($arg:ident: $ty:ty),*| $arith:ident => $body:expr) => {{
        fn baseline($($arg: $ty),*) {
            #[allow(dead_code)] // arithmetic that is exact does not ask
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
            levels: [baseline, avx2, avx512],
        }
    }};
}
