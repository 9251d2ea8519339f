//! The pieces that a group runs over, and the sums that are made of them.

use super::number::Number;
use super::reduce;
use crate::DType;

/// How many elements an instruction takes at a time.
pub(crate) const CHUNK: usize = 1024;
const _: () = assert!(CHUNK == super::lanes::CHUNK);

/// A sum over elements of a member, made while they are in the cache. It is the sum that `reduce` makes of the stored
/// elements, to the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Over all elements: the total of each chunk, which [`reduce::join`] adds up.
    All,
    /// Over each row of so many elements, at most [`CHUNK`].
    Rows(usize),
    /// Over all rows of so many elements: the totals of each block of rows, which [`reduce::join`] adds up.
    Columns(usize),
}

impl Sum {
    /// The number of elements that the group writes for it, of `n`.
    pub(crate) fn len(self, n: usize) -> usize {
        match self {
            Sum::All => n.div_ceil(CHUNK),
            Sum::Rows(cols) => n / cols,
            Sum::Columns(cols) => (n / cols).div_ceil(reduce::BLOCK) * cols,
        }
    }
}

/// The pieces of a group that instructions take one after the other, so that a sum sees whole rows. All depends on shapes
/// alone.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Elements of a piece, if none of the other lengths cuts it short.
    piece: usize,
    /// A piece ends where a multiple of these ends: a row that is longer than a piece, a block of rows.
    ends: [usize; 2],
    /// Elements of a task for one thread: a multiple of all of these.
    pub(super) task: usize,
}

/// About so many elements are a task for one thread.
const TASK: usize = 16 * CHUNK;

impl Grid {
    pub(super) fn new(sum: Option<Sum>) -> Grid {
        const NEVER: usize = usize::MAX;
        let (row, block) = match sum {
            None | Some(Sum::All) => {
                return Grid {
                    piece: CHUNK,
                    ends: [NEVER; 2],
                    task: TASK,
                };
            }
            Some(Sum::Rows(cols)) => (cols, NEVER),
            Some(Sum::Columns(cols)) => (cols, cols * reduce::BLOCK),
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

    /// The length of the piece that begins at `from`, in a task that ends at `to`.
    #[inline]
    pub(super) fn piece(&self, from: usize, to: usize) -> usize {
        let ends = self.ends.iter().map(|end| end - from % end);
        ends.fold(self.piece.min(to - from), usize::min)
    }
}

/// In what order a group has to see its elements for its sums to be what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Any.
    Any,
    /// In pieces that end at multiples of so many elements.
    Whole(usize),
    /// Rows of `len` elements, or parts of these, one after the other in each block of so many elements, which one thread
    /// computes.
    Rows { len: usize, block: usize },
}

/// Adds the `n` elements of a piece that begins at element `at` to the totals.
///
/// # Safety
///
/// `slot` holds `n` elements of the dtype, `totals` has as many as [`Sum::len`] says, and nobody else uses those of this
/// piece.
#[inline]
pub(super) unsafe fn on_total(
    dtype: DType,
    sum: Sum,
    slot: *mut u8,
    totals: *mut u8,
    at: usize,
    n: usize,
) {
    unsafe fn of<T: Number>(sum: Sum, slot: *mut u8, totals: *mut u8, at: usize, n: usize) {
        // SAFETY: the caller's.
        let xs = unsafe { std::slice::from_raw_parts(slot.cast::<T>().cast_const(), n) };
        let part = |start: usize, len: usize| {
            // SAFETY: the caller's; `start + len` is at most `Sum::len`.
            unsafe { std::slice::from_raw_parts_mut(totals.cast::<T>().wrapping_add(start), len) }
        };
        match sum {
            Sum::All => reduce::row_totals(xs, n, part(at / CHUNK, 1)),
            Sum::Rows(cols) if cols <= CHUNK => {
                reduce::row_totals(xs, cols, part(at / cols, n / cols));
            }
            Sum::Rows(_) => unreachable!("longer rows are summed by themselves"),
            Sum::Columns(cols) => {
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
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::F32 => of::<f32>(sum, slot, totals, at, n),
            DType::F64 => of::<f64>(sum, slot, totals, at, n),
            DType::I32 => of::<i32>(sum, slot, totals, at, n),
            DType::I64 => of::<i64>(sum, slot, totals, at, n),
            DType::Bool => unreachable!("bools are not summed"),
        }
    }
}
