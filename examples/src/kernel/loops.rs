//! Loops that do nothing but read, write or copy memory, or multiply and add in registers.
//!
//! They measure how fast a CPU can do either. They use plain stores: where a cache is too small, the copies and fills
//! of the standard library may be faster.

use gradloom_maths::Level;
use std::hint::black_box;

/// Number of vectors that a loop works on at once: enough to hide the latency of two operations a cycle.
const AT_ONCE: usize = 12;

/// Defines loops for a vector type: they read, write and copy, and multiply and add.
#[cfg(target_arch = "x86_64")]
macro_rules! loops {
    (
        $read:ident, $write:ident, $copy:ident, $fused_f32:ident, $fused_f64:ident, $features:literal,
        $bits:ident, $load:ident, $store:ident, $or:ident, $zero:ident,
        $singles:ident, $splat_f32:ident, $fma_f32:expr,
        $doubles:ident, $splat_f64:ident, $fma_f64:expr
    ) => {
        #[target_feature(enable = $features)]
        fn $read(xs: &[u8]) {
            use std::arch::x86_64::*;
            const STEP: usize = 8 * size_of::<$bits>();
            let mut all = [$zero(); 8];
            for chunk in xs.chunks_exact(STEP) {
                for (i, all) in all.iter_mut().enumerate() {
                    // SAFETY: the chunk has eight vectors, and the load takes any address.
                    let x = unsafe { $load(chunk.as_ptr().cast::<$bits>().add(i)) };
                    *all = $or(*all, x);
                }
            }
            black_box(all);
        }

        #[target_feature(enable = $features)]
        fn $write(xs: &mut [u8]) {
            use std::arch::x86_64::*;
            const STEP: usize = 8 * size_of::<$bits>();
            let x = black_box($zero());
            for chunk in xs.chunks_exact_mut(STEP) {
                let to = chunk.as_mut_ptr().cast::<$bits>();
                for i in 0..8 {
                    // SAFETY: the chunk has eight vectors, and the store takes any address.
                    unsafe { $store(to.add(i), x) };
                }
            }
        }

        #[target_feature(enable = $features)]
        fn $copy(from: &[u8], to: &mut [u8]) {
            use std::arch::x86_64::*;
            const STEP: usize = 8 * size_of::<$bits>();
            for (from, to) in from.chunks_exact(STEP).zip(to.chunks_exact_mut(STEP)) {
                let (from, to) = (
                    from.as_ptr().cast::<$bits>(),
                    to.as_mut_ptr().cast::<$bits>(),
                );
                for i in 0..8 {
                    // SAFETY: both chunks have eight vectors, and the instructions take any address.
                    unsafe { $store(to.add(i), $load(from.add(i))) };
                }
            }
        }

        #[target_feature(enable = $features)]
        fn $fused_f32(turns: usize) -> usize {
            use std::arch::x86_64::*;
            let (a, b) = ($splat_f32(black_box(0.999)), $splat_f32(black_box(0.001)));
            let mut all: [$singles; AT_ONCE] = [$splat_f32(0.5); AT_ONCE];
            for _ in 0..turns {
                for x in &mut all {
                    *x = $fma_f32(*x, a, b);
                }
            }
            black_box(all);
            turns * AT_ONCE * size_of::<$singles>() / size_of::<f32>() * 2
        }

        #[target_feature(enable = $features)]
        fn $fused_f64(turns: usize) -> usize {
            use std::arch::x86_64::*;
            let (a, b) = ($splat_f64(black_box(0.999)), $splat_f64(black_box(0.001)));
            let mut all: [$doubles; AT_ONCE] = [$splat_f64(0.5); AT_ONCE];
            for _ in 0..turns {
                for x in &mut all {
                    *x = $fma_f64(*x, a, b);
                }
            }
            black_box(all);
            turns * AT_ONCE * size_of::<$doubles>() / size_of::<f64>() * 2
        }
    };
}

#[cfg(target_arch = "x86_64")]
loops! {
    read_avx512, write_avx512, copy_avx512, fused_f32_avx512, fused_f64_avx512, "avx2,fma,avx512f",
    __m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_or_si512, _mm512_setzero_si512,
    __m512, _mm512_set1_ps, |x, a, b| _mm512_fmadd_ps(x, a, b),
    __m512d, _mm512_set1_pd, |x, a, b| _mm512_fmadd_pd(x, a, b)
}

#[cfg(target_arch = "x86_64")]
loops! {
    read_avx2, write_avx2, copy_avx2, fused_f32_avx2, fused_f64_avx2, "avx2,fma",
    __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_or_si256, _mm256_setzero_si256,
    __m256, _mm256_set1_ps, |x, a, b| _mm256_fmadd_ps(x, a, b),
    __m256d, _mm256_set1_pd, |x, a, b| _mm256_fmadd_pd(x, a, b)
}

#[cfg(target_arch = "x86_64")]
loops! {
    read_sse2, write_sse2, copy_sse2, fused_f32_sse2, fused_f64_sse2, "sse2",
    __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_or_si128, _mm_setzero_si128,
    __m128, _mm_set1_ps, |x, a, b| _mm_add_ps(_mm_mul_ps(x, a), b),
    __m128d, _mm_set1_pd, |x, a, b| _mm_add_pd(_mm_mul_pd(x, a), b)
}

/// Reads all bytes, but for a rest shorter than eight vectors.
pub fn read(level: Level, xs: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::detect()) {
        // SAFETY: the CPU has the level.
        Level::Avx512 => unsafe { read_avx512(xs) },
        // SAFETY: the CPU has the level.
        Level::Avx2 => unsafe { read_avx2(xs) },
        // SAFETY: every x86-64 CPU has SSE2.
        Level::Baseline => unsafe { read_sse2(xs) },
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        black_box(xs.iter().fold(0, |all, x| all | x));
    }
}

/// Writes zeros, but for a rest shorter than eight vectors.
pub fn write(level: Level, xs: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::detect()) {
        // SAFETY: the CPU has the level.
        Level::Avx512 => unsafe { write_avx512(xs) },
        // SAFETY: the CPU has the level.
        Level::Avx2 => unsafe { write_avx2(xs) },
        // SAFETY: every x86-64 CPU has SSE2.
        Level::Baseline => unsafe { write_sse2(xs) },
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        xs.fill(black_box(0));
    }
}

/// Copies, but for a rest shorter than eight vectors.
pub fn copy(level: Level, from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::detect()) {
        // SAFETY: the CPU has the level.
        Level::Avx512 => unsafe { copy_avx512(from, to) },
        // SAFETY: the CPU has the level.
        Level::Avx2 => unsafe { copy_avx2(from, to) },
        // SAFETY: every x86-64 CPU has SSE2.
        Level::Baseline => unsafe { copy_sse2(from, to) },
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        to.copy_from_slice(from);
    }
}

/// Multiplies and adds numbers of 32 bits in registers. Returns the number of operations, two for a multiply-add.
pub fn multiply_add_f32(level: Level, turns: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return match level.min(Level::detect()) {
        // SAFETY: the CPU has the level.
        Level::Avx512 => unsafe { fused_f32_avx512(turns) },
        // SAFETY: the CPU has the level.
        Level::Avx2 => unsafe { fused_f32_avx2(turns) },
        // SAFETY: every x86-64 CPU has SSE2.
        Level::Baseline => unsafe { fused_f32_sse2(turns) },
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        let mut all = [0.5f32; 4 * AT_ONCE];
        for _ in 0..turns {
            all.iter_mut().for_each(|x| *x = x.mul_add(0.999, 0.001));
        }
        turns * black_box(all).len() * 2
    }
}

/// Multiplies and adds numbers of 64 bits in registers. Returns the number of operations, two for a multiply-add.
pub fn multiply_add_f64(level: Level, turns: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return match level.min(Level::detect()) {
        // SAFETY: the CPU has the level.
        Level::Avx512 => unsafe { fused_f64_avx512(turns) },
        // SAFETY: the CPU has the level.
        Level::Avx2 => unsafe { fused_f64_avx2(turns) },
        // SAFETY: every x86-64 CPU has SSE2.
        Level::Baseline => unsafe { fused_f64_sse2(turns) },
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        let mut all = [0.5f64; 2 * AT_ONCE];
        for _ in 0..turns {
            all.iter_mut().for_each(|x| *x = x.mul_add(0.999, 0.001));
        }
        turns * black_box(all).len() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_and_a_write_fill_whole_vectors() {
        for level in Level::ALL {
            let from: Vec<u8> = (0..1024).map(|i| (i % 251) as u8).collect();
            let mut to = vec![1; 1024];
            copy(level, &from, &mut to);
            assert_eq!(from, to);
            write(level, &mut to);
            assert_eq!(to, [0; 1024]);
        }
    }

    #[test]
    fn a_multiply_add_counts_as_two_operations_in_each_lane() {
        for level in Level::ALL {
            let (singles, doubles) = (multiply_add_f32(level, 3), multiply_add_f64(level, 3));
            assert_eq!(singles, 2 * doubles);
            assert!(singles.is_multiple_of(2 * 3 * AT_ONCE));
        }
    }
}
