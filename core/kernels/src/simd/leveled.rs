//! Generic functions that are compiled once per SIMD level.

/// Defines a function compiled per SIMD level and dispatches at run time.
///
/// The first type parameter is the level, with its [vectors](super::vector::Simd) and its
/// [`Arith`](gradloom_maths::Arith); callers do not pass it. A function that the body calls is
/// compiled for the level only if it is inlined.
macro_rules! leveled {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$arith:ident, $t:ident: $bound:ident>(
            $($arg:ident: $ty:ty),* $(,)?
        ) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)] // exact arithmetic does not need the level
            fn body<$arith: $crate::simd::vector::Simd, $t: $bound>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
                body::<$crate::simd::vector::Avx2, $t>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
            fn avx512<$t: $bound>($($arg: $ty),*) $(-> $ret)? {
                body::<$crate::simd::vector::Avx512, $t>($($arg),*)
            }

            match $crate::simd::level::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` returns a level that the CPU supports.
                gradloom_maths::Level::Avx2 => unsafe { avx2::<$t>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` returns a level that the CPU supports.
                gradloom_maths::Level::Avx512 => unsafe { avx512::<$t>($($arg),*) },
                _ => body::<$crate::simd::vector::Portable, $t>($($arg),*),
            }
        }
    };
}

pub(crate) use leveled;
