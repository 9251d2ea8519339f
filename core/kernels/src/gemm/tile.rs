//! Innermost loops of a matrix product, which hold a tile of the result in registers.
//!
//! A tile has up to [`Tiles::rows`] rows and one or two vectors of columns, or four if it has few
//! rows. For each `p`, its rows are multiplied by one row of the right operand: `acc[i][j] =
//! fma(a[i, p], b[p, j], acc[i][j])`. So each element is one chain of fused multiply-adds in the
//! order of `p`. It has the same bits in every tile, on AVX2 and on AVX-512.

use crate::gemm::pack::MatVecs;
use crate::gemm::single::Single;
use crate::simd::number::Float;
use gradloom_maths::Level;

/// Function that computes a tile: `c = a b`, or `c += a b` if `add`.
///
/// `stride` is the distance between the rows of `a`, or between its columns (see [`Tiles::tile`]).
/// The rows of `b` and `c` are `b_stride` and `c_stride` apart, and their columns are contiguous.
/// The last vector has `last` columns; no element beyond them is read or written.
pub(crate) type Tile<T> = unsafe fn(
    k: usize,
    a: *const T,
    stride: usize,
    b: *const T,
    b_stride: usize,
    c: *mut T,
    c_stride: usize,
    last: usize,
    add: bool,
);

/// A [`Tile`] with all rows and two whole vectors that also packs the right operand.
///
/// It copies the rows of the right operand that it reads to `panel`.
pub(crate) type PackingTile<T> = unsafe fn(
    k: usize,
    a: *const T,
    stride: usize,
    b: *const T,
    b_stride: usize,
    c: *mut T,
    c_stride: usize,
    panel: *mut T,
    add: bool,
);

/// Tile functions of an element type at a SIMD level.
pub(crate) struct Tiles<T: 'static> {
    /// Number of elements of a vector.
    pub(crate) lanes: usize,
    /// Maximum number of rows of a tile.
    pub(crate) rows: usize,
    /// Maximum number of rows of a tile of four vectors.
    pub(crate) wide_rows: usize,
    /// Approximate number of multiply-adds that a core does in a microsecond.
    pub(crate) rate: usize,
    /// Tiles for one, two and four vectors, each by the number of rows, less one.
    by_row: [&'static [Tile<T>]; 3],
    by_column: [&'static [Tile<T>]; 3],
    packing: [PackingTile<T>; 2],
    pub(crate) single: &'static Single<T>,
    /// Copies the transpose of a matrix: `(size, from, from_stride, to, to_stride)`.
    ///
    /// The columns of the matrix are contiguous and `from_stride` apart. The rows of the copy are
    /// `to_stride` apart.
    pub(crate) transpose: unsafe fn([usize; 2], *const T, usize, *mut T, usize),
    /// Copies `k` columns of `rows` elements, `stride` apart, to places [`Tiles::rows`] apart.
    ///
    /// The arguments are `([k, rows], whole, from, stride, to)`. If `whole`, each column has
    /// [`Tiles::rows`] elements, and all are copied.
    pub(crate) columns: unsafe fn([usize; 2], bool, *const T, usize, *mut T),
    /// Copies rows into panels of two vectors.
    ///
    /// The arguments are `([k, n], from, stride, to)`: `k` rows, `stride` apart, of `n` times two
    /// vectors.
    pub(crate) panels: unsafe fn([usize; 2], *const T, usize, *mut T),
    /// Computes products of small matrices and vectors.
    pub(crate) mat_vecs: unsafe fn(&MatVecs<T>),
    /// Number of rows from which on [`Tiles::mat_vecs`] uses vectors.
    pub(crate) side: usize,
}

impl<T> Tiles<T> {
    /// Returns the tile of `rows` rows and `vectors` vectors.
    ///
    /// The elements of a column of `a` are contiguous if `by_column`, and those of a row otherwise.
    #[inline]
    pub(crate) fn tile(&self, by_column: bool, rows: usize, vectors: usize) -> Tile<T> {
        let tiles = match by_column {
            true => &self.by_column,
            false => &self.by_row,
        };
        tiles[vectors.ilog2() as usize][rows - 1]
    }

    /// Returns the tile that also packs.
    pub(crate) fn packing(&self, by_column: bool) -> PackingTile<T> {
        self.packing[usize::from(by_column)]
    }
}

/// Element type that has tiles at some SIMD levels.
pub(crate) trait TileElement: Float {
    /// Returns the tiles for a level, or `None` if it has none.
    fn tiles(level: Level) -> Option<&'static Tiles<Self>>;
}

#[cfg(not(target_arch = "x86_64"))]
mod none {
    use super::{TileElement, Tiles};
    use gradloom_maths::Level;

    impl TileElement for f32 {
        fn tiles(_: Level) -> Option<&'static Tiles<f32>> {
            None
        }
    }

    impl TileElement for f64 {
        fn tiles(_: Level) -> Option<&'static Tiles<f64>> {
            None
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{PackingTile, Tile, TileElement, Tiles};
    use crate::gemm::single::x86 as single;
    use crate::gemm::squares;
    use gradloom_maths::Level;
    use std::arch::x86_64::*;

    macro_rules! tiled {
        ($t:ident) => {
            impl TileElement for $t {
                fn tiles(level: Level) -> Option<&'static Tiles<$t>> {
                    match level {
                        Level::Avx512 => Some(&avx512::$t::TILES),
                        Level::Avx2 => Some(&avx2::$t::TILES),
                        Level::Baseline => None,
                    }
                }
            }
        };
    }

    tiled!(f32);
    tiled!(f64);

    /// Prefetch distance in rows of the right operand, which comes from memory.
    const AHEAD: usize = 32;

    /// Prefetch distance in rows of a packed right operand, which comes from the L2 cache.
    const NEAR: usize = 8;

    /// Expands to the tiles of all given numbers of rows.
    macro_rules! heights {
        ($v:literal $columns:literal: $($m:literal)*) => { &[$(tile::<$m, $v, $columns> as Tile<_>),*] };
    }

    macro_rules! tiles {
        (
            $t:ident, $level:ident $features:literal, lanes $lanes:literal, rate $rate:literal, rows $($m:literal)*, wide $($w:literal)*;
            $zero:ident $splat:ident $fma:ident $add:ident;
            $load:ident $store:ident; $mask:ident $load_some:ident $store_some:ident;
            $side:literal $columns:ident $store_column:ident $mat_vecs:ident
        ) => {
            pub(crate) mod $t {
                use super::*;

                const ROWS: usize = [$($m),*].len();

                pub(crate) static TILES: Tiles<$t> = Tiles {
                    lanes: $lanes,
                    rows: ROWS,
                    wide_rows: [$($w),*].len(),
                    rate: $rate,
                    by_row: [heights!(1 false: $($m)*), heights!(2 false: $($m)*), heights!(4 false: $($w)*)],
                    by_column: [heights!(1 true: $($m)*), heights!(2 true: $($m)*), heights!(4 true: $($w)*)],
                    packing: [packing::<false> as PackingTile<_>, packing::<true>],
                    single: &single::$level::$t::SINGLE,
                    transpose,
                    columns,
                    panels,
                    mat_vecs: squares::$mat_vecs,
                    side: $side,
                };

                /// Implements [`Tiles::columns`].
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The elements must be valid for reads and writes.
                #[target_feature(enable = $features)]
                unsafe fn columns(
                    [k, rows]: [usize; 2],
                    whole: bool,
                    from: *const $t,
                    stride: usize,
                    to: *mut $t,
                ) {
                    // SAFETY: the caller guarantees that the CPU has the features and that the
                    // elements are valid.
                    unsafe {
                        for p in 0..k {
                            let (from, to) = (from.add(p * stride), to.add(p * ROWS));
                            if whole {
                                *to.cast::<[$t; ROWS]>() = *from.cast::<[$t; ROWS]>();
                            } else {
                                for i in 0..rows {
                                    *to.add(i) = *from.add(i);
                                }
                            }
                        }
                    }
                }

                /// Implements [`Tiles::panels`].
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The elements must be valid for reads and writes.
                #[target_feature(enable = $features)]
                unsafe fn panels([k, n]: [usize; 2], from: *const $t, stride: usize, to: *mut $t) {
                    // SAFETY: the caller guarantees that the CPU has the features and that the
                    // elements are valid.
                    unsafe {
                        for p in 0..k {
                            for j in 0..n {
                                let from = from.add(p * stride + j * 2 * $lanes);
                                let to = to.add((j * k + p) * 2 * $lanes);
                                $store(to, $load(from));
                                $store(to.add($lanes), $load(from.add($lanes)));
                            }
                        }
                    }
                }

                /// Implements [`Tiles::transpose`].
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The elements must be valid for reads and writes.
                #[target_feature(enable = $features)]
                unsafe fn transpose(
                    [m, n]: [usize; 2],
                    from: *const $t,
                    from_stride: usize,
                    to: *mut $t,
                    to_stride: usize,
                ) {
                    // SAFETY: the caller guarantees that the CPU has the features and that the
                    // elements are valid.
                    unsafe {
                        let (whole_m, whole_n) = (m - m % $side, n - n % $side);
                        for j in (0..whole_n).step_by($side) {
                            for i in (0..whole_m).step_by($side) {
                                let columns = squares::$columns(from.add(j * from_stride + i), from_stride);
                                for (l, column) in columns.into_iter().enumerate() {
                                    $store_column(to.add((i + l) * to_stride + j), column);
                                }
                            }
                        }
                        let one = |i: usize, j: usize| {
                            *to.add(i * to_stride + j) = *from.add(j * from_stride + i);
                        };
                        for j in 0..whole_n {
                            (whole_m..m).for_each(|i| one(i, j));
                        }
                        for j in whole_n..n {
                            (0..m).for_each(|i| one(i, j));
                        }
                    }
                }

                /// A [`Tile`] of `M` rows and `V` vectors.
                ///
                /// # Safety
                ///
                /// The CPU must have the features. The elements that the strides reach must be
                /// valid for reads, and those of `c` for writes.
                #[target_feature(enable = $features)]
                #[expect(clippy::too_many_arguments, reason = "each argument is a number or an address in a register")]
                unsafe fn tile<const M: usize, const V: usize, const BY_COLUMN: bool>(
                    k: usize,
                    a: *const $t,
                    stride: usize,
                    b: *const $t,
                    b_stride: usize,
                    c: *mut $t,
                    c_stride: usize,
                    last: usize,
                    add: bool,
                ) {
                    // SAFETY: the caller guarantees `M` rows, `V` vectors of which the last has
                    // `last` columns, and `k` steps. Pointers beyond that are computed with
                    // wrapping arithmetic and never dereferenced.
                    unsafe {
                        let mask = $mask(last);
                        let mut acc = [[$zero(); V]; M];
                        // A pointer to every third row: the two rows after it are one and two
                        // strides away, which an addressing mode can express.
                        let mut rows = [a; ROWS.div_ceil(3)];
                        for (i, row) in rows.iter_mut().enumerate() {
                            *row = a.wrapping_add(3 * i * stride);
                        }
                        let mut b = b;
                        for i in 0..M {
                            let c = c.wrapping_add(i * c_stride);
                            _mm_prefetch::<_MM_HINT_T0>(c.cast());
                            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(V * $lanes - 1).cast());
                        }
                        // Fewer multiply-adds, as with shorter vectors, leave no time for these instructions.
                        let ahead = V == 2 && size_of::<[$t; $lanes]>() == 64;
                        for _ in 0..k {
                            if ahead {
                                let near = b.wrapping_add(NEAR * b_stride);
                                _mm_prefetch::<_MM_HINT_T0>(near.cast());
                                _mm_prefetch::<_MM_HINT_T0>(near.wrapping_add($lanes).cast());
                            }
                            let mut y = [$zero(); V];
                            for v in 0..V {
                                y[v] = match v + 1 < V {
                                    true => $load(b.wrapping_add($lanes * v)),
                                    false => $load_some(b.wrapping_add($lanes * v), mask),
                                };
                            }
                            for i in 0..M {
                                let x = match BY_COLUMN {
                                    true => a_at(rows[0], i),
                                    false => a_at(rows[i / 3], (i % 3) * stride),
                                };
                                let x = $splat(*x);
                                for v in 0..V {
                                    acc[i][v] = $fma(x, y[v], acc[i][v]);
                                }
                            }
                            for row in rows.iter_mut() {
                                *row = row.wrapping_add(if BY_COLUMN { stride } else { 1 });
                            }
                            b = b.wrapping_add(b_stride);
                        }
                        for (i, acc) in acc.iter().enumerate() {
                            for (v, total) in acc.iter().enumerate() {
                                let c = c.wrapping_add(i * c_stride + $lanes * v);
                                if v + 1 < V {
                                    let z = if add { $add($load(c), *total) } else { *total };
                                    $store(c, z);
                                } else {
                                    let z = if add { $add($load_some(c, mask), *total) } else { *total };
                                    $store_some(c, mask, z);
                                }
                            }
                        }
                    }
                }

                /// A [`PackingTile`].
                ///
                /// # Safety
                ///
                /// As for [`tile`], and the panel must have space for `k` rows of two vectors.
                #[target_feature(enable = $features)]
                #[expect(clippy::too_many_arguments, reason = "each argument is a number or an address in a register")]
                unsafe fn packing<const BY_COLUMN: bool>(
                    k: usize,
                    a: *const $t,
                    stride: usize,
                    b: *const $t,
                    b_stride: usize,
                    c: *mut $t,
                    c_stride: usize,
                    panel: *mut $t,
                    add: bool,
                ) {
                    // SAFETY: the caller guarantees `ROWS` rows, two vectors of columns, `k` steps
                    // and the panel. Pointers beyond that are computed with wrapping arithmetic and
                    // never dereferenced.
                    unsafe {
                        let mut acc = [[$zero(); 2]; ROWS];
                        let mut rows = [a; ROWS.div_ceil(3)];
                        for (i, row) in rows.iter_mut().enumerate() {
                            *row = a.wrapping_add(3 * i * stride);
                        }
                        let (mut b, mut panel) = (b, panel);
                        for i in 0..ROWS {
                            let c = c.wrapping_add(i * c_stride);
                            _mm_prefetch::<_MM_HINT_T0>(c.cast());
                            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(2 * $lanes - 1).cast());
                        }
                        for p in 0..k {
                            // The last rows are followed by the first rows of the next columns.
                            let ahead = match p + AHEAD < k {
                                true => b.wrapping_add(AHEAD * b_stride),
                                false => b.wrapping_add(2 * $lanes).wrapping_sub(k.saturating_sub(AHEAD) * b_stride),
                            };
                            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(2 * $lanes - 1).cast());
                            let y = [$load(b), $load(b.wrapping_add($lanes))];
                            $store(panel, y[0]);
                            $store(panel.wrapping_add($lanes), y[1]);
                            for i in 0..ROWS {
                                let x = match BY_COLUMN {
                                    true => a_at(rows[0], i),
                                    false => a_at(rows[i / 3], (i % 3) * stride),
                                };
                                let x = $splat(*x);
                                for v in 0..2 {
                                    acc[i][v] = $fma(x, y[v], acc[i][v]);
                                }
                            }
                            for row in rows.iter_mut() {
                                *row = row.wrapping_add(if BY_COLUMN { stride } else { 1 });
                            }
                            b = b.wrapping_add(b_stride);
                            panel = panel.wrapping_add(2 * $lanes);
                        }
                        for (i, acc) in acc.iter().enumerate() {
                            for (v, total) in acc.iter().enumerate() {
                                let c = c.wrapping_add(i * c_stride + $lanes * v);
                                $store(c, if add { $add($load(c), *total) } else { *total });
                            }
                        }
                    }
                }

                #[inline(always)]
                fn a_at(a: *const $t, i: usize) -> *const $t {
                    a.wrapping_add(i)
                }
            }
        };
    }

    mod avx512 {
        use super::*;

        #[target_feature(enable = "avx512f")]
        fn mask_f32(n: usize) -> __mmask16 {
            (0xffff_u32 >> (16 - n)) as __mmask16
        }

        #[target_feature(enable = "avx512f")]
        unsafe fn load_f32(x: *const f32, mask: __mmask16) -> __m512 {
            // SAFETY: the caller guarantees that the elements selected by `mask` are valid.
            unsafe { _mm512_maskz_loadu_ps(mask, x) }
        }

        #[target_feature(enable = "avx512f")]
        fn mask_f64(n: usize) -> __mmask8 {
            (0xff_u32 >> (8 - n)) as __mmask8
        }

        #[target_feature(enable = "avx512f")]
        unsafe fn load_f64(x: *const f64, mask: __mmask8) -> __m512d {
            // SAFETY: the caller guarantees that the elements selected by `mask` are valid.
            unsafe { _mm512_maskz_loadu_pd(mask, x) }
        }

        tiles! {
            f32, avx512 "avx512f,fma", lanes 16, rate 120_000, rows 1 2 3 4 5 6 7 8 9 10 11 12, wide 1 2 3 4 5 6;
            _mm512_setzero_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_add_ps;
            _mm512_loadu_ps _mm512_storeu_ps; mask_f32 load_f32 _mm512_mask_storeu_ps; 8 columns_f32 _mm256_storeu_ps mat_vecs_f32
        }

        tiles! {
            f64, avx512 "avx512f,fma", lanes 8, rate 60_000, rows 1 2 3 4 5 6 7 8 9 10 11 12, wide 1 2 3 4 5 6;
            _mm512_setzero_pd _mm512_set1_pd _mm512_fmadd_pd _mm512_add_pd;
            _mm512_loadu_pd _mm512_storeu_pd; mask_f64 load_f64 _mm512_mask_storeu_pd; 4 columns_f64 _mm256_storeu_pd mat_vecs_f64
        }
    }

    mod avx2 {
        use super::*;

        /// A window that starts at `8 - n` has its first `n` lanes set.
        static MASK_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        static MASK_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

        #[target_feature(enable = "avx2")]
        fn mask_f32(n: usize) -> __m256i {
            // SAFETY: `n` is 1 to 8, so the window lies inside the table.
            unsafe { _mm256_loadu_si256(MASK_32.as_ptr().add(8 - n).cast()) }
        }

        #[target_feature(enable = "avx2")]
        fn mask_f64(n: usize) -> __m256i {
            // SAFETY: `n` is 1 to 4, so the window lies inside the table.
            unsafe { _mm256_loadu_si256(MASK_64.as_ptr().add(4 - n).cast()) }
        }

        tiles! {
            f32, avx2 "avx2,fma", lanes 8, rate 50_000, rows 1 2 3 4 5 6, wide 1 2;
            _mm256_setzero_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_add_ps;
            _mm256_loadu_ps _mm256_storeu_ps; mask_f32 _mm256_maskload_ps _mm256_maskstore_ps; 8 columns_f32 _mm256_storeu_ps mat_vecs_f32
        }

        tiles! {
            f64, avx2 "avx2,fma", lanes 4, rate 25_000, rows 1 2 3 4 5 6, wide 1 2;
            _mm256_setzero_pd _mm256_set1_pd _mm256_fmadd_pd _mm256_add_pd;
            _mm256_loadu_pd _mm256_storeu_pd; mask_f64 _mm256_maskload_pd _mm256_maskstore_pd; 4 columns_f64 _mm256_storeu_pd mat_vecs_f64
        }
    }
}
