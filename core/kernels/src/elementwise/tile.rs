//! Division of a group into pieces, and the sums over them.

use crate::reduce;
use crate::simd::number::Number;
use crate::simd::vector::LANES;
use gradloom_ir::DType;

/// Number of elements that an instruction processes at a time.
pub const CHUNK: usize = 1024;
const _: () = assert!(CHUNK == crate::simd::lanes::CHUNK);

/// Sum over the elements of a member, computed while they are in the cache.
///
/// It has the bits of the sum that `reduce` makes of the stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusedSum {
    /// Over all elements: writes the total of each chunk, which [`reduce::join_totals`] adds up.
    All,
    /// Over each row of `.0` elements, at most [`CHUNK`].
    Rows(usize),
    /// Over the rows of each matrix: writes the totals of each block of rows, which
    /// [`reduce::join_totals`] adds up.
    Columns(Matrices),
}

/// Matrices of `rows` rows of `cols` elements. The last one may have fewer rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    rows: usize,
    cols: usize,
}

/// Block of rows of a matrix, which become one row of totals.
struct Block {
    /// Index of its first total.
    total: usize,
    /// Index in the block of the element that was asked for.
    at: usize,
    /// Number of elements.
    len: usize,
}

impl Matrices {
    /// A single matrix, which threads share in whole blocks.
    pub fn one(rows: usize, cols: usize) -> Matrices {
        Matrices {
            rows: rows.next_multiple_of(reduce::BLOCK),
            cols,
        }
    }

    /// Matrices of equal shape.
    pub fn several(rows: usize, cols: usize) -> Matrices {
        Matrices { rows, cols }
    }

    fn numel(self) -> usize {
        self.rows * self.cols
    }

    /// Returns the number of elements whose multiples end blocks.
    fn unit(self) -> usize {
        match self.rows.is_multiple_of(reduce::BLOCK) {
            true => reduce::BLOCK * self.cols,
            false => self.numel(),
        }
    }

    fn blocks(self) -> usize {
        self.rows.div_ceil(reduce::BLOCK)
    }

    /// Returns how many blocks of [`reduce::BLOCK`] rows of one matrix are in `n` elements from `element` on, or 0 if no
    /// block begins there.
    fn whole_blocks(self, element: usize, n: usize) -> usize {
        let (element, len) = (element % self.numel(), reduce::BLOCK * self.cols);
        match element.is_multiple_of(len) {
            true => n.min(self.numel() - element) / len,
            false => 0,
        }
    }

    /// Returns the block of an element.
    fn block(self, element: usize) -> Block {
        let (matrix, element) = (element / self.numel(), element % self.numel());
        let len = reduce::BLOCK * self.cols;
        let (block, at) = (element / len, element % len);
        Block {
            total: (matrix * self.blocks() + block) * self.cols,
            at,
            len: len.min(self.numel() - block * len),
        }
    }
}

impl FusedSum {
    /// Returns the number of totals that a group of `n` elements writes.
    pub fn len(self, n: usize) -> usize {
        match self {
            FusedSum::All => n.div_ceil(CHUNK),
            FusedSum::Rows(cols) => n / cols,
            FusedSum::Columns(of) => {
                let blocks = of.rows.min(n / of.cols).div_ceil(reduce::BLOCK);
                n.div_ceil(of.numel()) * blocks * of.cols
            }
        }
    }

    /// Returns the number of neighbouring results that [`reduce::join_totals`] adds up together.
    pub fn joined(self) -> usize {
        self.columns().unwrap_or(1)
    }

    /// Returns the length of the rows that are added up.
    fn columns(self) -> Option<usize> {
        match self {
            FusedSum::All | FusedSum::Rows(_) => None,
            FusedSum::Columns(of) => Some(of.cols),
        }
    }

    /// Returns the number of elements whose multiples end pieces.
    fn grain(self) -> usize {
        match self {
            FusedSum::All => CHUNK,
            FusedSum::Rows(cols) => cols,
            FusedSum::Columns(_) => 1,
        }
    }

    /// Returns the number of elements whose multiples end the parts that threads compute.
    fn unit(self) -> usize {
        match self {
            FusedSum::All => CHUNK,
            FusedSum::Rows(cols) => CHUNK / cols * cols,
            FusedSum::Columns(of) => of.unit(),
        }
    }

    /// Returns whether one group of `n` elements can compute these sums. Sums of one kind always fit together.
    pub fn together(sums: impl Iterator<Item = FusedSum> + Clone, n: usize) -> bool {
        /// Least number of tasks of a large group with several kinds of sums.
        const TASKS: usize = 8;
        let grid = Grid::new(sums.clone());
        let fits = grid.grain <= CHUNK && grid.task <= (2 * TASK).max(n / TASKS);
        fits || are_one_kind(sums)
    }
}

fn are_one_kind(mut sums: impl Iterator<Item = FusedSum>) -> bool {
    let first = sums.next();
    sums.all(|sum| Some(sum) == first)
}

/// Division of a group into pieces, so that its sums see whole rows. It depends on shapes alone.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// Number of elements whose multiples end pieces.
    grain: usize,
    /// Maximum number of elements of a piece.
    piece: usize,
    /// Length of a row that is longer than a piece, whose multiples no piece crosses.
    end: usize,
    /// Number of elements of a task for one thread.
    pub(crate) task: usize,
}

/// Approximate number of elements of a task for one thread.
pub(crate) const TASK: usize = 16 * CHUNK;

impl Grid {
    pub(crate) fn new(sums: impl Iterator<Item = FusedSum> + Clone) -> Grid {
        let grain = sums.clone().map(FusedSum::grain).fold(1, lcm);
        // Whole rows, if they fit, read a repeated row from its start each time.
        let rows = sums.clone().filter_map(FusedSum::columns);
        let whole = rows.clone().filter(|cols| *cols <= CHUNK).fold(grain, lcm);
        let whole = if whole <= CHUNK { whole } else { grain };
        let piece = (CHUNK / whole).max(1) * whole;
        let unit = sums.clone().map(FusedSum::unit).fold(1, lcm);
        Grid {
            grain,
            piece,
            end: rows
                .filter(|cols| *cols > CHUNK && cols.is_multiple_of(grain))
                .min()
                .unwrap_or(usize::MAX),
            task: (TASK / unit).max(1) * unit,
        }
    }

    /// Returns the division of a group without sums whose pieces lie in rows of `len` elements or have whole rows, so
    /// that an operand is read in place, or its repeated rows are the same in each piece.
    pub(crate) fn of_rows(len: usize) -> Grid {
        if len <= CHUNK {
            let piece = CHUNK / len * len;
            return Grid {
                grain: 1,
                piece,
                end: usize::MAX,
                task: (TASK / piece).max(1) * piece,
            };
        }
        let piece = len.div_ceil(len.div_ceil(CHUNK));
        Grid {
            grain: 1,
            piece: piece.next_multiple_of(LANES),
            end: len,
            task: TASK,
        }
    }

    /// Returns the length of the piece that begins at `from`, in a task that ends at `to`.
    #[inline]
    pub(crate) fn piece(&self, from: usize, to: usize) -> usize {
        self.piece.min(to - from).min(self.end - from % self.end)
    }
}

/// Order in which a group must see its elements, so that its sums have fixed bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Without sums, elements may come in any order.
    Any,
    /// Pieces that end at multiples of `.0` elements.
    Whole(usize),
    /// Rows of `len` elements, or parts of them, in order within each block of `block` elements.
    /// One thread computes a block.
    Rows { len: usize, block: usize },
}

impl Order {
    /// Returns the order that the sums of a group need.
    pub(crate) fn of(sums: impl Iterator<Item = FusedSum> + Clone) -> Order {
        let Some(first) = sums.clone().next() else {
            return Order::Any;
        };
        match first {
            _ if !are_one_kind(sums.clone()) => {
                Order::Whole(sums.map(|s| lcm(s.grain(), s.unit())).fold(1, lcm))
            }
            FusedSum::All | FusedSum::Rows(_) => Order::Whole(first.grain()),
            FusedSum::Columns(of) => Order::Rows {
                len: of.cols,
                block: of.unit(),
            },
        }
    }
}

/// Adds the `n` elements of a piece that begins at element `at` to the totals.
///
/// # Safety
///
/// `slot` must hold `n` elements of the dtype. `totals` must have [`FusedSum::len`] elements, and
/// nothing else may use those of this piece.
#[inline]
pub(crate) unsafe fn on_total(
    dtype: DType,
    sum: FusedSum,
    slot: *mut u8,
    totals: *mut u8,
    at: usize,
    n: usize,
) {
    unsafe fn of<T: Number>(sum: FusedSum, slot: *mut u8, totals: *mut u8, at: usize, n: usize) {
        // SAFETY: the caller guarantees that the slot holds `n` elements of type `T`.
        let xs = unsafe { std::slice::from_raw_parts(slot.cast::<T>().cast_const(), n) };
        let part = |start: usize, len: usize| {
            // SAFETY: `start + len` is at most `FusedSum::len`, and the caller guarantees exclusive use
            // of the totals of this piece.
            unsafe { std::slice::from_raw_parts_mut(totals.cast::<T>().wrapping_add(start), len) }
        };
        match sum {
            FusedSum::All => reduce::row_totals(xs, n, part(at / CHUNK, 1)),
            FusedSum::Rows(cols) if cols <= CHUNK => {
                reduce::row_totals(xs, cols, part(at / cols, n / cols));
            }
            FusedSum::Rows(_) => unreachable!("`fused_sum` refuses rows longer than a chunk"),
            FusedSum::Columns(of) => {
                let (mut at, mut xs) = (at, xs);
                while !xs.is_empty() {
                    let block = of.block(at);
                    let n_blocks = match of.cols {
                        2..=reduce::FEW_COLS => of.whole_blocks(at, xs.len()),
                        _ => 0,
                    };
                    if n_blocks > 0 {
                        let (now, later) = xs.split_at(n_blocks * block.len);
                        let totals = part(block.total, n_blocks * of.cols);
                        reduce::block_totals(now, of.cols, totals);
                        (at, xs) = (at + now.len(), later);
                        continue;
                    }
                    let (now, later) = xs.split_at(xs.len().min(block.len - block.at));
                    add_to_block(now, block.at, part(block.total, of.cols));
                    (at, xs) = (at + now.len(), later);
                }
            }
        }
    }
    // SAFETY: the caller guarantees that `slot` and `totals` have elements of this dtype, and that
    // nothing else uses the totals of this piece.
    unsafe {
        match dtype {
            DType::F32 => of::<f32>(sum, slot, totals, at, n),
            DType::F64 => of::<f64>(sum, slot, totals, at, n),
            DType::I32 => of::<i32>(sum, slot, totals, at, n),
            DType::I64 => of::<i64>(sum, slot, totals, at, n),
            dtype => unreachable!("sums are not computed in {dtype}"),
        }
    }
}

/// Adds elements of a block of rows, from its element `at` on, to the totals of its columns.
fn add_to_block<T: Number>(xs: &[T], at: usize, totals: &mut [T]) {
    let cols = totals.len();
    let column = at % cols;
    let (head, rows) = xs.split_at(xs.len().min(cols - column));
    let of_head = &mut totals[column..column + head.len()];
    match at < cols {
        true => of_head.copy_from_slice(head),
        false => reduce::add_rows(of_head, head),
    }
    reduce::add_rows(totals, rows);
}

/// Returns the least common multiple of lengths above zero.
pub(crate) fn lcm(a: usize, b: usize) -> usize {
    a / gcd(a, b) * b
}

/// Returns the greatest common divisor.
pub fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{FusedSum, Grid, Matrices, on_total};
    use crate::memory::{Data, DataMut};
    use crate::reduce::{Fold, fold_axis, join_totals};
    use gradloom_ir::DType;

    /// Returns the sums of `[a, rows, cols]` over `rows`, as a group with all of `sums` computes those of `sum`.
    fn fused(xs: &mut [f32], sum: FusedSum, sums: &[FusedSum], n_out: usize) -> Vec<f32> {
        let n = xs.len();
        let grid = Grid::new(sums.iter().copied());
        let mut totals = vec![9.0f32; sum.len(n)];
        let mut at = 0;
        while at < n {
            let end = n.min((at / grid.task + 1) * grid.task);
            let len = grid.piece(at, end);
            assert!(len > 0);
            let (slot, to) = (xs[at..].as_mut_ptr().cast(), totals.as_mut_ptr().cast());
            // SAFETY: the slot holds `len` elements, and the totals have the length of the sum.
            unsafe { on_total(DType::F32, sum, slot, to, at, len) };
            at += len;
        }
        if totals.len() == n_out {
            return totals;
        }
        let mut out = vec![9.0f32; n_out];
        let join = join_totals(DType::F32, sum.joined());
        join(
            &[],
            &mut [DataMut::F32(&mut totals), DataMut::F32(&mut out)],
        )
        .unwrap();
        out
    }

    #[test]
    fn sums_of_one_kind_fit_together() {
        // One block of rows is the whole group.
        let wide = FusedSum::Columns(Matrices::one(32, 5000));
        assert!(FusedSum::together([wide; 2].into_iter(), 32 * 5000));
        let mixed = [wide, FusedSum::Rows(5)];
        assert!(!FusedSum::together(mixed.into_iter(), 32 * 5000));
    }

    #[test]
    fn sums_of_a_group_have_the_bits_of_a_reduction() {
        for shape in [
            [5, 77, 5],
            [3, 20, 13],
            [3, 77, 50],
            [2, 64, 16],
            [2, 33, 1500],
            [64, 70, 2],
            [3, 333, 3],
            [5, 160, 4],
            // The last chunk of all elements has 5.
            [1, 1, 1029],
        ] {
            let [a, b, c] = shape;
            let n = a * b * c;
            let mut xs: Vec<f32> = (0..n)
                .map(|i| (i * 7919 % 1009) as f32 / 7.0 - 60.0)
                .collect();
            xs[c / 2] = -0.0;
            let mut kinds = vec![
                (FusedSum::Columns(Matrices::one(a, b * c)), [1, a, b * c]),
                (FusedSum::Columns(Matrices::one(a * b, c)), [1, a * b, c]),
                (FusedSum::Columns(Matrices::several(b, c)), [a, b, c]),
                (FusedSum::All, [1, n, 1]),
            ];
            if c <= super::CHUNK {
                kinds.push((FusedSum::Rows(c), [a * b, c, 1]));
            }
            for subset in 1..1 << kinds.len() {
                let chosen = |i: &usize| subset >> i & 1 == 1;
                let chosen: Vec<_> = (0..kinds.len()).filter(chosen).map(|i| kinds[i]).collect();
                let sums: Vec<FusedSum> = chosen.iter().map(|kind| kind.0).collect();
                if !FusedSum::together(sums.iter().copied(), 1 << 40) {
                    continue;
                }
                for (sum, arb) in chosen {
                    let n_out = arb[0] * arb[2];
                    let found = fused(&mut xs, sum, &sums, n_out);
                    let mut want = vec![9.0f32; n_out];
                    let kernel = fold_axis(DType::F32, arb, Fold::Sum);
                    kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut want)]).unwrap();
                    let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found), bits(&want), "{shape:?} {sum:?} of {sums:?}");
                }
            }
        }
    }
}
