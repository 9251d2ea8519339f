//! Vectors of AVX2 and AVX-512.

use crate::simd::vector::{Floats, LANES, Simd, Vector, fold4, fold8, fold16};
use gradloom_maths::Arith;
use std::arch::x86_64::*;

/// AVX2 with fused multiply-add.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// AVX-512 (F, VL, DQ, BW).
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Arith for Avx2 {
    const FUSED: bool = true;
}

impl Arith for Avx512 {
    const FUSED: bool = true;
}

impl Simd for Avx2 {
    type F32 = __m256;
    type F64 = __m256d;
    type Bytes = __m256i;
}

impl Simd for Avx512 {
    type F32 = __m512;
    type F64 = __m512d;
    type Bytes = __m512i;
}

/// Implements [`Vector`] and [`Floats`] with the given instructions.
///
/// The CPU has these instructions: only code that is compiled for the level, and that runs on CPUs
/// of the level, names its vectors ([`leveled`](crate::simd::leveled)). The `SAFETY` comments
/// below refer to this.
macro_rules! vector {
    (
        $v:ident of $t:ident, $n:literal, $folded:ident;
        $splat:ident $load:ident $store:ident $stream:ident;
        $add:ident $sub:ident $mul:ident $fma:ident $max:ident;
        mask: $mask:expr;
        chosen: $chosen:expr;
        load_some: |$from:ident, $m:ident| $load_some:expr;
        store_some: |$to:ident, $m2:ident, $x:ident| $store_some:expr;
        blend: |$m3:ident, $a:ident, $b:ident| $blend:expr;
        total: |$whole:ident| $total:expr;
        greatest: |$all:ident| $greatest:expr;
        mark_nan: |$marks:ident, $first:ident, $second:ident| $mark_nan:expr;
        any_nan: |$marked:ident| $any_nan:expr;
        equal: |$one:ident, $another:ident| $equal:expr;
        scaled: |$p:ident, $e:ident| $scaled:expr;
        greater: |$g:ident, $h:ident| $greater:expr;
        choose_above: |$left:ident, $right:ident, $if_above:ident, $if_not:ident| $choose_above:expr;
        interleave: |$even:ident, $odd:ident| $interleave:expr;
        deinterleave: |$low:ident, $high:ident| $deinterleave:expr;
    ) => {
        impl Vector for $v {
            type T = $t;
            const N: usize = $n;
            type Lanes = [$v; LANES / $n];
            #[inline(always)]
            fn fma(self, b: $v, c: $v) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $fma(self, b, c) }
            }
            #[inline(always)]
            fn lanes(self) -> Self::Lanes {
                [self; LANES / $n]
            }
            #[inline(always)]
            fn fold(lanes: Self::Lanes) -> $v {
                $folded(lanes)
            }
            #[inline(always)]
            fn total(self) -> $t {
                let $whole = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $total }
            }
            #[inline(always)]
            fn splat(x: $t) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`). The caller guarantees `N`
                // numbers.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn load_some($from: *const $t, n: usize) -> $v {
                // SAFETY: the CPU has the instructions (`vector!`). The caller guarantees `n`
                // numbers, and the mask hides the others.
                unsafe {
                    let $m = $mask(n);
                    $load_some
                }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the CPU has the instruction (`vector!`). The caller guarantees space for
                // `N` numbers.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn store_some(self, $to: *mut $t, n: usize) {
                let $x = self;
                // SAFETY: the CPU has the instructions (`vector!`). The caller guarantees space for
                // `n` numbers, and the mask hides the others.
                unsafe {
                    let $m2 = $mask(n);
                    $store_some
                }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut $t) {
                // SAFETY: the CPU has the instruction (`vector!`). The caller guarantees space for
                // `N` numbers and the alignment.
                unsafe { $stream(to, self) }
            }
            #[inline(always)]
            fn keep(self, n: usize, $b: $v) -> $v {
                let $a = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe {
                    let $m3 = $mask(n);
                    $blend
                }
            }
            #[inline(always)]
            fn choose(self, bits: u16, $b: $v) -> $v {
                let $a = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe {
                    let $m3 = $chosen(bits);
                    $blend
                }
            }
            #[inline(always)]
            fn plus(self, other: $v) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            fn times(self, other: $v) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            fn greater(self, $h: $v) -> $v {
                let $g = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $greater }
            }
            #[inline(always)]
            fn choose_above(self, $right: $v, $if_above: $v, $if_not: $v) -> $v {
                let $left = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $choose_above }
            }
            #[inline(always)]
            fn interleave(self, $odd: $v) -> [$v; 2] {
                let $even = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $interleave }
            }
            #[inline(always)]
            fn deinterleave(self, $high: $v) -> [$v; 2] {
                let $low = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $deinterleave }
            }
        }

        impl Floats for $v {
            #[inline(always)]
            fn minus(self, other: $v) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            fn most(self, other: $v) -> $v {
                // SAFETY: the CPU has the instruction (`vector!`).
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            fn greatest(self) -> $t {
                let $all = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $greatest }
            }
            #[inline(always)]
            fn mark_nan(self, $first: $v, $second: $v) -> $v {
                let $marks = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $mark_nan }
            }
            #[inline(always)]
            fn any_nan(self) -> bool {
                let $marked = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $any_nan }
            }
            #[inline(always)]
            fn equal(self, $another: $v) -> u16 {
                let $one = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $equal }
            }
            #[inline(always)]
            fn scaled(self, $e: $v) -> $v {
                let $p = self;
                // SAFETY: the CPU has the instructions (`vector!`).
                unsafe { $scaled }
            }
        }
    };
}

/// Returns the mask of the first `n` of 16 elements.
#[inline(always)]
fn bits16(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

/// Returns the mask of the first `n` of 8 elements.
#[inline(always)]
fn bits8(n: usize) -> __mmask8 {
    ((1u32 << n) - 1) as __mmask8
}

/// Returns the mask of the first `n` of 8 elements.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn words8(n: usize) -> __m256i {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), places)
    }
}

/// Returns the mask of the first `n` of 4 elements.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn words4(n: usize) -> __m256i {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let places = _mm256_setr_epi64x(0, 1, 2, 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), places)
    }
}

/// Returns the lowest 8 bits.
#[inline(always)]
fn low8(bits: u16) -> __mmask8 {
    bits as __mmask8
}

/// Returns the mask of the elements, out of 8, whose bits are set.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn chosen8(bits: u16) -> __m256i {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let own = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), places);
        _mm256_cmpeq_epi32(own, places)
    }
}

/// Returns the mask of the elements, out of 4, whose bits are set.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn chosen4(bits: u16) -> __m256i {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let places = _mm256_setr_epi64x(1, 2, 4, 8);
        let own = _mm256_and_si256(_mm256_set1_epi64x(i64::from(bits)), places);
        _mm256_cmpeq_epi64(own, places)
    }
}

/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn total8(x: __m256) -> f32 {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
        _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
    }
}

/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn total4(x: __m256d) -> f64 {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
        _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
    }
}

/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn greatest8(x: __m256) -> f32 {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
        _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
    }
}

/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn greatest4(x: __m256d) -> f64 {
    // SAFETY: the caller guarantees that the CPU has AVX2.
    unsafe {
        let x = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
        _mm_cvtsd_f64(_mm_max_sd(x, _mm_unpackhi_pd(x, x)))
    }
}

vector! {
    __m512 of f32, 16, fold4;
    _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps;
    _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_fmadd_ps _mm512_max_ps;
    mask: bits16;
    chosen: __mmask16::from;
    load_some: |from, mask| _mm512_maskz_loadu_ps(mask, from);
    store_some: |to, mask, x| _mm512_mask_storeu_ps(to, mask, x);
    blend: |mask, a, b| _mm512_mask_blend_ps(mask, b, a);
    total: |x| total8(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x)));
    greatest: |x| greatest8(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x)));
    mark_nan: |marks, x, y| {
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, y);
        _mm512_mask_blend_ps(nan, marks, _mm512_set1_ps(f32::NAN))
    };
    any_nan: |x| _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x) != 0;
    equal: |x, y| _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(x, y);
    scaled: |x, n| _mm512_scalef_ps(x, n);
    greater: |x, y| {
        // The instruction orders -0 below 0, but prefers a number to NaN.
        let most = _mm512_range_ps::<0b0101>(x, y);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, y);
        _mm512_mask_blend_ps(nan, most, _mm512_set1_ps(f32::NAN))
    };
    choose_above: |x, y, a, b| {
        // Not at most: greater, or one of the two is NaN.
        let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, y);
        let above = _mm512_mask_cmp_ps_mask::<_CMP_ORD_Q>(above, y, y);
        _mm512_mask_blend_ps(above, b, a)
    };
    interleave: |x, y| {
        let low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
        let high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
        [_mm512_permutex2var_ps(x, low, y), _mm512_permutex2var_ps(x, high, y)]
    };
    deinterleave: |x, y| {
        let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        let odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
        [_mm512_permutex2var_ps(x, even, y), _mm512_permutex2var_ps(x, odd, y)]
    };
}

vector! {
    __m512d of f64, 8, fold8;
    _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd;
    _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_fmadd_pd _mm512_max_pd;
    mask: bits8;
    chosen: low8;
    load_some: |from, mask| _mm512_maskz_loadu_pd(mask, from);
    store_some: |to, mask, x| _mm512_mask_storeu_pd(to, mask, x);
    blend: |mask, a, b| _mm512_mask_blend_pd(mask, b, a);
    total: |x| total4(_mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd::<1>(x)));
    greatest: |x| greatest4(_mm256_max_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd::<1>(x)));
    mark_nan: |marks, x, y| {
        let nan = _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, y);
        _mm512_mask_blend_pd(nan, marks, _mm512_set1_pd(f64::NAN))
    };
    any_nan: |x| _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x) != 0;
    equal: |x, y| u16::from(_mm512_cmp_pd_mask::<_CMP_EQ_OQ>(x, y));
    scaled: |x, n| _mm512_scalef_pd(x, n);
    greater: |x, y| {
        // The instruction orders -0 below 0, but prefers a number to NaN.
        let most = _mm512_range_pd::<0b0101>(x, y);
        let nan = _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, y);
        _mm512_mask_blend_pd(nan, most, _mm512_set1_pd(f64::NAN))
    };
    choose_above: |x, y, a, b| {
        // Not at most: greater, or one of the two is NaN.
        let above = _mm512_cmp_pd_mask::<_CMP_NLE_UQ>(x, y);
        let above = _mm512_mask_cmp_pd_mask::<_CMP_ORD_Q>(above, y, y);
        _mm512_mask_blend_pd(above, b, a)
    };
    interleave: |x, y| {
        let low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
        let high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
        [_mm512_permutex2var_pd(x, low, y), _mm512_permutex2var_pd(x, high, y)]
    };
    deinterleave: |x, y| {
        let even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
        let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
        [_mm512_permutex2var_pd(x, even, y), _mm512_permutex2var_pd(x, odd, y)]
    };
}

// The AVX2 versions split 2^n into two factors, so that only the last product may be denormal.
// Adding `1.5 * 2^p` leaves `n` in the low bits.

vector! {
    __m256 of f32, 8, fold8;
    _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps;
    _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_fmadd_ps _mm256_max_ps;
    mask: words8;
    chosen: chosen8;
    load_some: |from, mask| _mm256_maskload_ps(from, mask);
    store_some: |to, mask, x| _mm256_maskstore_ps(to, mask, x);
    blend: |mask, a, b| _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask));
    total: |x| total8(x);
    greatest: |x| greatest8(x);
    mark_nan: |marks, x, y| _mm256_or_ps(marks, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, y));
    any_nan: |x| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)) != 0;
    equal: |x, y| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(x, y)) as u16;
    scaled: |x, n| {
        let n = _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(12_582_912.0)));
        let n = _mm256_add_epi32(_mm256_slli_epi32::<23>(n), _mm256_set1_epi32((127 + 64) << 23));
        let lifted = _mm256_mul_ps(x, _mm256_castsi256_ps(n));
        _mm256_mul_ps(lifted, _mm256_set1_ps(f32::from_bits((127 - 64) << 23)))
    };
    greater: |x, y| {
        // The instruction returns its second operand if both are zeros, which may differ in sign.
        let most = _mm256_and_ps(_mm256_max_ps(x, y), _mm256_max_ps(y, x));
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, y);
        _mm256_blendv_ps(most, _mm256_set1_ps(f32::NAN), nan)
    };
    choose_above: |x, y, a, b| {
        // Not at most: greater, or one of the two is NaN.
        let above = _mm256_cmp_ps::<_CMP_NLE_UQ>(x, y);
        let above = _mm256_and_ps(above, _mm256_cmp_ps::<_CMP_ORD_Q>(y, y));
        _mm256_blendv_ps(b, a, above)
    };
    interleave: |x, y| {
        let [a, b] = [_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y)];
        [_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)]
    };
    deinterleave: |x, y| {
        let even = _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(x, y));
        let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0xDD>(x, y));
        let even = _mm256_permute4x64_pd::<0xD8>(even);
        let odd = _mm256_permute4x64_pd::<0xD8>(odd);
        [_mm256_castpd_ps(even), _mm256_castpd_ps(odd)]
    };
}

vector! {
    __m256d of f64, 4, fold16;
    _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd;
    _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_max_pd;
    mask: words4;
    chosen: chosen4;
    load_some: |from, mask| _mm256_maskload_pd(from, mask);
    store_some: |to, mask, x| _mm256_maskstore_pd(to, mask, x);
    blend: |mask, a, b| _mm256_blendv_pd(b, a, _mm256_castsi256_pd(mask));
    total: |x| total4(x);
    greatest: |x| greatest4(x);
    mark_nan: |marks, x, y| _mm256_or_pd(marks, _mm256_cmp_pd::<_CMP_UNORD_Q>(x, y));
    any_nan: |x| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_UNORD_Q>(x, x)) != 0;
    equal: |x, y| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_EQ_OQ>(x, y)) as u16;
    scaled: |x, n| {
        let n = _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(6_755_399_441_055_744.0)));
        let n = _mm256_add_epi64(_mm256_slli_epi64::<52>(n), _mm256_set1_epi64x((1023 + 512) << 52));
        let lifted = _mm256_mul_pd(x, _mm256_castsi256_pd(n));
        _mm256_mul_pd(lifted, _mm256_set1_pd(f64::from_bits((1023 - 512) << 52)))
    };
    greater: |x, y| {
        // The instruction returns its second operand if both are zeros, which may differ in sign.
        let most = _mm256_and_pd(_mm256_max_pd(x, y), _mm256_max_pd(y, x));
        let nan = _mm256_cmp_pd::<_CMP_UNORD_Q>(x, y);
        _mm256_blendv_pd(most, _mm256_set1_pd(f64::NAN), nan)
    };
    choose_above: |x, y, a, b| {
        // Not at most: greater, or one of the two is NaN.
        let above = _mm256_cmp_pd::<_CMP_NLE_UQ>(x, y);
        let above = _mm256_and_pd(above, _mm256_cmp_pd::<_CMP_ORD_Q>(y, y));
        _mm256_blendv_pd(b, a, above)
    };
    interleave: |x, y| {
        let [a, b] = [_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y)];
        [_mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b)]
    };
    deinterleave: |x, y| {
        let even = _mm256_permute4x64_pd::<0xD8>(_mm256_unpacklo_pd(x, y));
        let odd = _mm256_permute4x64_pd::<0xD8>(_mm256_unpackhi_pd(x, y));
        [even, odd]
    };
}
