//! Products with one row or one column: a vector times a matrix, or a matrix times a vector.
//!
//! Each element of the matrix is read once, so the goal is memory bandwidth in either layout. A
//! single chain of multiply-adds per sum, as in the tiles, would be bound by its latency where the
//! elements of a sum are contiguous. So each sum has as many chains as a cache line has elements,
//! 16 for `f32`: chain `l` adds up the products `l`, `l + 16`, `l + 32` and so on. The chains are
//! then added in halves, `l` and `l + 8`, then `l` and `l + 4`, until one is left.

use crate::gemm::pack::{MatrixPtr, copy_each, with_room};
use crate::gemm::tile::{TileElement, Tiles};
use crate::threads;

/// Function for `c[j] = sum over p of a[p] b[p, j]` with `[k, n]` elements of `b`.
///
/// The arguments are `([k, n], a, b, b_stride, c, c_stride, add)`. The elements of `a` are
/// contiguous. `b_stride` is the distance between the rows or columns of `b`, and `c_stride` that
/// between elements of `c`, whose contents are added if `add`.
type Loop<T, B> = unsafe fn([usize; 2], *const T, *const B, usize, *mut T, usize, bool);

/// Loops of an element type at a SIMD level, for a matrix with elements of type `B`.
pub(crate) struct Single<T: 'static, B: 'static = T> {
    /// For a `b` with contiguous rows.
    pub(crate) down: Loop<T, B>,
    /// For a `b` with contiguous columns.
    pub(crate) across: Loop<T, B>,
}

/// Returns whether the sums of a product are computed in this way.
///
/// Short sums do not fill a cache line, and short rows do not justify a chain per element of a
/// line.
pub(crate) fn is_single([m, k, n]: [usize; 3]) -> bool {
    (n == 1 && k >= 32) || (m == 1 && k >= 128 && n >= 128)
}

/// Maximum number of steps that are summed before they are added to `c`.
const STEPS: usize = 4096;
/// Number of columns that are copied at a time if the matrix has neither contiguous rows nor
/// contiguous columns.
const COPIED: usize = 32;

/// Returns the estimated time on one thread, from the memory bandwidth.
pub(crate) fn nanos<T>(k: usize, n: usize) -> usize {
    k.saturating_mul(n).saturating_mul(size_of::<T>()) / 32
}

/// Computes `c = a b`, or `c += a b` if `add`. None of the lengths is 0.
///
/// `a` is a row of `k` elements, `b` is `[k, n]`, and the elements of `c` are `stride` apart.
///
/// # Safety
///
/// The CPU must have the tiles. The elements of `a` and `b` must be valid for reads and those of
/// `c` for writes. The elements of `c` must be distinct and must not overlap `a` or `b`.
pub(crate) unsafe fn product<T: TileElement>(
    tiles: &Tiles<T>,
    [k, n]: [usize; 2],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: (*mut T, usize),
    add: bool,
) {
    let loops = (tiles.single, tiles.single.across);
    // SAFETY: the caller guarantees the requirements, which are the same.
    unsafe { product_of(loops, |x| x, [k, n], a, b, c, add) }
}

/// As [`product`], with a matrix of another type. `widen` converts an element to what the loops multiply.
///
/// The second loop is for a copy of a matrix that has neither contiguous rows nor contiguous columns.
///
/// # Safety
///
/// As for [`product`], and the CPU must have the features of the loops.
pub(crate) unsafe fn product_of<T: TileElement, B: Copy + Sync>(
    loops: (&Single<T, B>, Loop<T, T>),
    widen: impl Fn(B) -> T + Copy + Sync,
    [k, n]: [usize; 2],
    a: MatrixPtr<T>,
    b: MatrixPtr<B>,
    (c, stride): (*mut T, usize),
    add: bool,
) {
    struct Place<T>(*mut T);
    // SAFETY: tasks access disjoint elements through the pointer.
    unsafe impl<T: Send> Sync for Place<T> {}
    impl<T> Place<T> {
        fn at(&self, i: usize) -> *mut T {
            self.0.wrapping_add(i)
        }
    }
    let c = Place(c);
    let nanos = nanos::<B>(k, n);
    let n_parts = threads::worth(nanos);
    // Parts are whole cache lines of the result, if its elements are contiguous.
    let len = n.div_ceil(n_parts).next_multiple_of(64 / size_of::<T>());
    threads::for_each(n.div_ceil(len), nanos, |i| {
        let j = i * len;
        let n = len.min(n - j);
        // SAFETY: the columns lie inside the matrix, which the caller guarantees to be valid. No
        // two parts share an element of `c`.
        unsafe {
            let c = (c.at(j * stride), stride);
            part(loops, widen, [k, n], a, b.from(0, j), c, add)
        };
    });
}

/// Computes [`product_of`] on one thread.
///
/// # Safety
///
/// As for [`product_of`].
unsafe fn part<T: TileElement, B: Copy>(
    (loops, across_copy): (&Single<T, B>, Loop<T, T>),
    widen: impl Fn(B) -> T,
    [k, n]: [usize; 2],
    a: MatrixPtr<T>,
    b: MatrixPtr<B>,
    (c, stride): (*mut T, usize),
    add: bool,
) {
    let Single { down, across } = *loops;
    let copied = b.rows != 1 && b.cols != 1;
    let room_a = if a.cols == 1 { 0 } else { STEPS.min(k) };
    let room_b = if copied { STEPS.min(k) * COPIED } else { 0 };
    with_room::<T, _>(room_a + room_b, |scratch| {
        let room_b = scratch.wrapping_add(room_a);
        for p in (0..k).step_by(STEPS) {
            let (k, add) = (STEPS.min(k - p), add || p > 0);
            // SAFETY: the caller guarantees that the operands and the result are valid. `scratch` has
            // space for the copies.
            unsafe {
                let x = match a.cols {
                    1 => a.element(0, p),
                    _ => {
                        copy_each([1, k], a.from(0, p), scratch, k);
                        scratch.cast_const()
                    }
                };
                if b.rows == 1 {
                    across([k, n], x, b.element(p, 0), b.cols, c, stride, add);
                } else if b.cols == 1 {
                    down([k, n], x, b.element(p, 0), b.rows, c, stride, add);
                } else {
                    for j in (0..n).step_by(COPIED) {
                        let n = COPIED.min(n - j);
                        let b = b.from(p, j);
                        for (i, p) in (0..n).flat_map(|i| (0..k).map(move |p| (i, p))) {
                            *room_b.add(i * k + p) = widen(*b.element(p, i));
                        }
                        let c = c.wrapping_add(j * stride);
                        across_copy([k, n], x, room_b, k, c, stride, add);
                    }
                }
            }
        }
    });
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::Single;
    use crate::memory::half_floats::Widen;
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    macro_rules! single {
        (
            $name:ident: $t:ident, $b:ident by $widen:expr, $features:literal, lanes $lanes:literal, rows $rows:literal;
            $zero:ident $splat:ident $fma:ident $load:ident $store:ident $load_b:ident
        ) => {
            pub(crate) mod $name {
                use super::*;

                pub(crate) static SINGLE: Single<$t, $b> = Single { down, across };

                /// Number of chains of a sum.
                const LANES: usize = 64 / size_of::<$t>();
                /// Number of vectors that hold the chains.
                const VECTORS: usize = LANES / $lanes;
                /// Number of elements from an element to the one that is prefetched.
                const AHEAD: usize = 1024 / size_of::<$b>();
                /// Number of rows that [`down`] reads at once.
                const ROWS: usize = 8;
                /// Number of columns whose chains fit in the L1 cache.
                const COLUMNS: usize = 512;

                /// Implements [`Single::down`].
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The operands must be valid for reads and `c` for
                /// writes.
                #[target_feature(enable = $features)]
                unsafe fn down(
                    [k, n]: [usize; 2],
                    a: *const $t,
                    b: *const $b,
                    b_stride: usize,
                    c: *mut $t,
                    c_stride: usize,
                    add: bool,
                ) {
                    let mut sums = [[0.0; COLUMNS]; LANES];
                    // SAFETY: `p < k` and `j < n`; the caller guarantees that these elements are
                    // valid.
                    unsafe {
                        for j in (0..n).step_by(COLUMNS) {
                            let n = COLUMNS.min(n - j);
                            let (b, c) = (b.add(j), c.add(j * c_stride));
                            for start in (0..k).step_by(ROWS * LANES) {
                                for (l, sums) in sums.iter_mut().enumerate() {
                                    let mut p = start + l;
                                    let end = k.min(start + ROWS * LANES);
                                    while p < end {
                                        let (a, b) = (a.add(p), b.add(p * b_stride));
                                        let first = p == l;
                                        p += LANES
                                            * match (end - p).div_ceil(LANES) {
                                                ROWS.. => {
                                                    rows::<ROWS>(n, a, b, b_stride, sums, first)
                                                }
                                                4.. => rows::<4>(n, a, b, b_stride, sums, first),
                                                2.. => rows::<2>(n, a, b, b_stride, sums, first),
                                                _ => rows::<1>(n, a, b, b_stride, sums, first),
                                            };
                                    }
                                }
                            }
                            // Chains without elements are zero.
                            for sums in sums.iter_mut().skip(k) {
                                sums[..n].fill(0.0);
                            }
                            let mut half = LANES / 2;
                            while half > 0 {
                                let (low, high) = sums.split_at_mut(half);
                                for (low, high) in low.iter_mut().zip(high) {
                                    for (low, high) in low[..n].iter_mut().zip(&high[..n]) {
                                        *low += *high;
                                    }
                                }
                                half /= 2;
                            }
                            for (j, sum) in sums[0][..n].iter().enumerate() {
                                let c = c.add(j * c_stride);
                                *c = if add { *c + sum } else { *sum };
                            }
                        }
                    }
                }

                /// Adds the products of `R` rows, `LANES` apart, to a chain of each column, and
                /// returns the number of rows.
                ///
                /// Starts the chains if `first`.
                ///
                /// # Safety
                ///
                /// As for [`down`], for these rows.
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn rows<const R: usize>(
                    n: usize,
                    a: *const $t,
                    b: *const $b,
                    b_stride: usize,
                    sums: &mut [$t; COLUMNS],
                    first: bool,
                ) -> usize {
                    // SAFETY: `r < R` and `j < n`; the caller guarantees that these elements are
                    // valid.
                    unsafe {
                        let mut x = [0.0; R];
                        let mut row = [b; R];
                        for r in 0..R {
                            x[r] = *a.add(r * LANES);
                            row[r] = b.add(r * LANES * b_stride);
                        }
                        let (whole, sums) = (n - n % $lanes, &mut sums[..n]);
                        for j in (0..whole).step_by($lanes) {
                            let place = sums.as_mut_ptr().add(j);
                            let mut sum = if first { $zero() } else { $load(place) };
                            for r in 0..R {
                                sum = $fma($splat(x[r]), $load_b(row[r].add(j)), sum);
                            }
                            $store(place, sum);
                        }
                        for (j, place) in sums.iter_mut().enumerate().skip(whole) {
                            let mut sum = if first { 0.0 } else { *place };
                            for r in 0..R {
                                sum = x[r].mul_add($widen(*row[r].add(j)), sum);
                            }
                            *place = sum;
                        }
                    }
                    R
                }

                /// Implements [`Single::across`].
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The operands must be valid for reads and `c` for
                /// writes.
                #[target_feature(enable = $features)]
                unsafe fn across(
                    [k, n]: [usize; 2],
                    a: *const $t,
                    b: *const $b,
                    b_stride: usize,
                    c: *mut $t,
                    c_stride: usize,
                    add: bool,
                ) {
                    // SAFETY: `j < n`; the caller guarantees that these columns are valid.
                    unsafe {
                        let mut j = 0;
                        while j < n {
                            let (b, c) = (b.add(j * b_stride), c.add(j * c_stride));
                            j += match n - j {
                                $rows.. => columns::<$rows>(k, a, b, b_stride, c, c_stride, add),
                                2.. => columns::<2>(k, a, b, b_stride, c, c_stride, add),
                                _ => columns::<1>(k, a, b, b_stride, c, c_stride, add),
                            };
                        }
                    }
                }

                /// Computes `C` columns of [`across`] and returns `C`.
                ///
                /// # Safety
                ///
                /// As for [`across`], for these columns.
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn columns<const C: usize>(
                    k: usize,
                    a: *const $t,
                    b: *const $b,
                    b_stride: usize,
                    c: *mut $t,
                    c_stride: usize,
                    add: bool,
                ) -> usize {
                    // SAFETY: `p < k` and `j < C`; the caller guarantees that these elements are
                    // valid.
                    unsafe {
                        let mut chains = [[$zero(); VECTORS]; C];
                        let whole = k - k % LANES;
                        for p in (0..whole).step_by(LANES) {
                            for v in 0..VECTORS {
                                let x = $load(a.add(p + v * $lanes));
                                for j in 0..C {
                                    if v == 0 {
                                        // The hardware does not predict this many streams at once.
                                        let ahead = b.wrapping_add(j * b_stride + p + AHEAD);
                                        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                                    }
                                    let y = $load_b(b.add(j * b_stride + p + v * $lanes));
                                    chains[j][v] = $fma(x, y, chains[j][v]);
                                }
                            }
                        }
                        for (j, chains) in chains.iter().enumerate() {
                            let mut sums = [0.0; LANES];
                            for (v, chain) in chains.iter().enumerate() {
                                $store(sums.as_mut_ptr().add(v * $lanes), *chain);
                            }
                            for p in whole..k {
                                let sum = &mut sums[p - whole];
                                *sum = (*a.add(p)).mul_add($widen(*b.add(j * b_stride + p)), *sum);
                            }
                            let mut half = LANES / 2;
                            while half > 0 {
                                for l in 0..half {
                                    sums[l] += sums[l + half];
                                }
                                half /= 2;
                            }
                            let c = c.add(j * c_stride);
                            *c = if add { *c + sums[0] } else { sums[0] };
                        }
                    }
                    C
                }
            }
        };
    }

    /// Defines the loops of `f32` with a matrix of each small type.
    macro_rules! small {
        (
            $features:literal, lanes $lanes:literal, rows $rows:literal;
            $zero:ident $splat:ident $fma:ident $load:ident $store:ident;
            $($name:ident, $b:ident: $load_b:ident |$p:ident| $vector:expr;)*
        ) => {$(
            /// Loads and widens elements.
            ///
            /// # Safety
            ///
            /// The elements of a vector must be valid for reads, and the CPU must have the features.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn $load_b($p: *const $b) -> Vector {
                // SAFETY: the caller guarantees the elements.
                unsafe { $vector }
            }

            single! {
                $name: f32, $b by Widen::widen, $features, lanes $lanes, rows $rows;
                $zero $splat $fma $load $store $load_b
            }
        )*};
    }

    pub(crate) mod avx512 {
        use super::*;

        type Vector = __m512;

        single! {
            f32: f32, f32 by std::convert::identity, "avx512f,avx512vl,avx2,fma", lanes 16, rows 8;
            _mm512_setzero_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_loadu_ps
        }

        single! {
            f64: f64, f64 by std::convert::identity, "avx512f,avx512vl,avx2,fma", lanes 8, rows 8;
            _mm512_setzero_pd _mm512_set1_pd _mm512_fmadd_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_loadu_pd
        }

        small! {
            "avx512f,avx512vl,avx2,fma", lanes 16, rows 8;
            _mm512_setzero_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_loadu_ps _mm512_storeu_ps;
            of_bf16, bf16: load_bf16 |p| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
            of_f16, f16: load_f16 |p| _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
            of_i8, i8: load_i8 |p| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())));
            of_u8, u8: load_u8 |p| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
        }
    }

    pub(crate) mod avx2 {
        use super::*;

        type Vector = __m256;

        single! {
            f32: f32, f32 by std::convert::identity, "avx2,fma", lanes 8, rows 4;
            _mm256_setzero_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_loadu_ps
        }

        single! {
            f64: f64, f64 by std::convert::identity, "avx2,fma", lanes 4, rows 4;
            _mm256_setzero_pd _mm256_set1_pd _mm256_fmadd_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_loadu_pd
        }

        small! {
            "avx2,fma,f16c", lanes 8, rows 4;
            _mm256_setzero_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_loadu_ps _mm256_storeu_ps;
            of_bf16, bf16: load_bf16 |p| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))));
            of_f16, f16: load_f16 |p| _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
            of_i8, i8: load_i8 |p| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())));
            of_u8, u8: load_u8 |p| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())));
        }
    }
}
