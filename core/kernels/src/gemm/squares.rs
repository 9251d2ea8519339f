//! Transposition of small square blocks in registers.

use std::arch::x86_64::*;

/// Returns the columns of an 8 by 8 block whose rows are `stride` apart.
///
/// # Safety
///
/// The CPU must have AVX, and all elements must be valid for reads.
#[inline]
#[target_feature(enable = "avx")]
pub(crate) unsafe fn columns_f32(from: *const f32, stride: usize) -> [__m256; 8] {
    // SAFETY: the caller guarantees that the CPU has AVX and that the 8 rows of 8 elements are
    // valid.
    unsafe {
        // Each register holds half of row `i` beside half of row `i + 4`; then rows are interleaved
        // in pairs, and pairs in fours.
        let halves = |i: usize, at: usize| {
            let low = _mm256_castps128_ps256(_mm_loadu_ps(from.add(i * stride + at)));
            _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(from.add((i + 4) * stride + at)))
        };
        let four = |at: usize| {
            let (r0, r1, r2, r3) = (halves(0, at), halves(1, at), halves(2, at), halves(3, at));
            let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            [
                _mm256_shuffle_ps::<0b01_00_01_00>(a0, a2),
                _mm256_shuffle_ps::<0b11_10_11_10>(a0, a2),
                _mm256_shuffle_ps::<0b01_00_01_00>(a1, a3),
                _mm256_shuffle_ps::<0b11_10_11_10>(a1, a3),
            ]
        };
        let ([c0, c1, c2, c3], [c4, c5, c6, c7]) = (four(0), four(4));
        [c0, c1, c2, c3, c4, c5, c6, c7]
    }
}

/// Returns the columns of a 4 by 4 block whose rows are `stride` apart.
///
/// # Safety
///
/// As for [`columns_f32`].
#[inline]
#[target_feature(enable = "avx")]
pub(crate) unsafe fn columns_f64(from: *const f64, stride: usize) -> [__m256d; 4] {
    // SAFETY: the caller guarantees that the CPU has AVX and that the 4 rows of 4 elements are
    // valid.
    unsafe {
        let halves = |i: usize, at: usize| {
            let low = _mm256_castpd128_pd256(_mm_loadu_pd(from.add(i * stride + at)));
            _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(from.add((i + 2) * stride + at)))
        };
        let two = |at: usize| {
            let (r0, r1) = (halves(0, at), halves(1, at));
            [_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1)]
        };
        let ([c0, c1], [c2, c3]) = (two(0), two(2));
        [c0, c1, c2, c3]
    }
}
