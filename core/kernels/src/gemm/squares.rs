//! Transposition of small square blocks in registers, and products of matrices and vectors by it.

use crate::array;
use crate::gemm::pack::MatVecs;
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

macro_rules! mat_vecs {
    ($t:ident, $name:ident, $columns:ident, $side:literal; $zero:ident $splat:ident $fma:ident $add:ident $load:ident $store:ident) => {
        /// Computes products. Each sum is a chain of fused multiply-adds from 0, in the order of the columns.
        ///
        /// # Safety
        ///
        /// The CPU must have AVX2 and FMA. The elements must be valid, and those of results distinct from all others.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $name(of: &MatVecs<$t>) {
            let ([m, k], (a, stride), (x, x_stride)) = (of.size, of.a, of.x);
            let (whole_m, whole_k) = (m - m % $side, k - k % $side);
            for product in 0..of.n_products {
                let [to_a, to_x, to_y] = of.steps.map(|step| product * step);
                // SAFETY: the caller guarantees the elements of each product.
                unsafe {
                    let (a, x, y) = (a.add(to_a), x.add(to_x), of.y.add(to_y));
                    for i in (0..whole_m).step_by($side) {
                        let mut sums = $zero();
                        for p in (0..whole_k).step_by($side) {
                            let columns = $columns(a.add(i * stride + p), stride);
                            for (l, column) in columns.into_iter().enumerate() {
                                sums = $fma(column, $splat(*x.add((p + l) * x_stride)), sums);
                            }
                        }
                        for p in whole_k..k {
                            let column: [$t; $side] =
                                array::from_fn(|l| *a.add((i + l) * stride + p));
                            sums = $fma($load(column.as_ptr()), $splat(*x.add(p * x_stride)), sums);
                        }
                        if of.add {
                            sums = $add($load(y.add(i)), sums);
                        }
                        $store(y.add(i), sums);
                    }
                    for i in whole_m..m {
                        let each = |sum: $t, p: usize| {
                            (*a.add(i * stride + p)).mul_add(*x.add(p * x_stride), sum)
                        };
                        let sum = (0..k).fold(0.0, each);
                        *y.add(i) = if of.add { *y.add(i) + sum } else { sum };
                    }
                }
            }
        }
    };
}

mat_vecs!(f32, mat_vecs_f32, columns_f32, 8; _mm256_setzero_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_add_ps _mm256_loadu_ps _mm256_storeu_ps);
mat_vecs!(f64, mat_vecs_f64, columns_f64, 4; _mm256_setzero_pd _mm256_set1_pd _mm256_fmadd_pd _mm256_add_pd _mm256_loadu_pd _mm256_storeu_pd);
