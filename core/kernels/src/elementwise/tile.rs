//! Division of a group into pieces, and the sums over them.

use crate::reduce;
use crate::simd::number::Number;
use gradloom_ir::DType;

/// Number of elements that an instruction processes at a time.
pub const CHUNK: usize = 1024;
const _: () = assert!(CHUNK == crate::simd::lanes::CHUNK);

/// Sum over the elements of a member, computed while they are in the cache.
///
/// It has the bits of the sum that `reduce` makes of the stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusedSum {
    /// Over all elements: writes the total of each chunk, which [`reduce::join`] adds up.
    All,
    /// Over each row of `.0` elements, at most [`CHUNK`].
    Rows(usize),
    /// Over all rows of `.0` elements: writes the totals of each block of rows, which
    /// [`reduce::join`] adds up.
    Columns(usize),
}

impl FusedSum {
    /// Returns the number of totals that a group of `n` elements writes.
    pub fn len(self, n: usize) -> usize {
        match self {
            FusedSum::All => n.div_ceil(CHUNK),
            FusedSum::Rows(cols) => n / cols,
            FusedSum::Columns(cols) => (n / cols).div_ceil(reduce::BLOCK) * cols,
        }
    }
}

/// Division of a group into pieces, so that its sums see whole rows. It depends on shapes alone.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// Maximum number of elements of a piece.
    piece: usize,
    /// Lengths whose multiples no piece crosses: a row, if it is longer than a piece, and a block
    /// of rows.
    ends: [usize; 2],
    /// Number of elements of a task for one thread: a multiple of all lengths above.
    pub(crate) task: usize,
}

/// Approximate number of elements of a task for one thread.
const TASK: usize = 16 * CHUNK;

impl Grid {
    pub(crate) fn new(sum: Option<FusedSum>) -> Grid {
        const NEVER: usize = usize::MAX;
        let (row, block) = match sum {
            None | Some(FusedSum::All) => {
                return Grid {
                    piece: CHUNK,
                    ends: [NEVER; 2],
                    task: TASK,
                };
            }
            Some(FusedSum::Rows(cols)) => (cols, NEVER),
            Some(FusedSum::Columns(cols)) => (cols, cols * reduce::BLOCK),
        };
        let (piece, end) = match row > CHUNK {
            true => (CHUNK, row),
            false => (CHUNK / row * row, NEVER),
        };
        let unit = if block == NEVER {
            piece.max(row)
        } else {
            block
        };
        Grid {
            piece,
            ends: [end, block],
            task: (TASK / unit).max(1) * unit,
        }
    }

    /// Returns the length of the piece that begins at `from`, in a task that ends at `to`.
    #[inline]
    pub(crate) fn piece(&self, from: usize, to: usize) -> usize {
        let ends = self.ends.iter().map(|end| end - from % end);
        ends.fold(self.piece.min(to - from), usize::min)
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
            FusedSum::Columns(cols) => {
                let block = at / (cols * reduce::BLOCK);
                let first = at - block * cols * reduce::BLOCK;
                let total = part(block * cols, cols);
                if first < cols {
                    // The first row of a block, or the part of it that begins at `first`.
                    let (head, rest) = xs.split_at(n.min(cols - first));
                    total[first..first + head.len()].copy_from_slice(head);
                    reduce::add_rows(total, rest);
                } else {
                    reduce::add_rows(&mut total[first % cols..], xs);
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

/// Returns the greatest common divisor.
pub fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
