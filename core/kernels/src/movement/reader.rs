//! Reads an operand whose elements are not all those of its data in order.

use crate::memory::data::{Data, on_bytes};
use crate::movement::gather::Gather;
use crate::movement::placed::{Part, Placed};

/// Where an operand of a group has its elements.
pub(crate) enum Reader {
    View(Gather),
    /// In other places, with zeros around them.
    Placed(Placed),
}

/// Rows that follow each other at equal distances.
pub(crate) struct EvenRows {
    /// Index of the first element, or `None` if all elements are zeros.
    pub(crate) first: Option<usize>,
    /// Number of rows.
    pub(crate) n: usize,
    /// Distance of their starts.
    pub(crate) apart: usize,
}

impl Reader {
    /// Returns the index of element `from`, if the elements `from..from + n` are neighbours.
    pub(crate) fn run(&self, from: usize, n: usize) -> Option<usize> {
        match self {
            Reader::View(view) => view.run(from, n),
            Reader::Placed(placed) => placed.run(from, n),
        }
    }

    /// Copies the elements `from..from + n` to a register.
    ///
    /// # Safety
    ///
    /// `to` must have `n` initialised elements of the type of the data, aligned, and belong to this thread.
    pub(crate) unsafe fn read(&self, data: Data<'_>, from: usize, to: *mut u8, n: usize) {
        on_bytes!(data, xs => {
            // SAFETY: the caller guarantees `n` elements. Every bit pattern of numbers and bytes is valid.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast(), n) };
            match self {
                Reader::View(view) => view.read(xs, from, to),
                Reader::Placed(placed) => placed.read(xs, from, to),
            }
        });
    }

    /// Returns where the row of `n` elements from `at` on starts and the position of the first one in it, if all of
    /// them are in repetitions of one row.
    pub(crate) fn repeated(&self, at: usize, n: usize) -> Option<(usize, usize)> {
        match self {
            Reader::View(view) => view.repeated(at, n),
            Reader::Placed(_) => None,
        }
    }

    /// Returns whether each row is read again right after itself.
    pub(crate) fn repeats_rows(&self) -> bool {
        matches!(self, Reader::View(view) if view.repeats_rows())
    }

    /// Returns the number of elements of the data for each of `n_rows` equal parts, if they are read one after the other.
    pub(crate) fn row_len(&self, n_rows: usize) -> Option<usize> {
        match self {
            Reader::View(view) => view.row_len(n_rows),
            Reader::Placed(_) => None,
        }
    }

    /// Returns the length of a row, if its elements are neighbours or one repeated element, perhaps with zeros around and
    /// between them.
    pub(crate) fn row_of_memory(&self) -> Option<usize> {
        match self {
            Reader::View(view) => view.row_of_memory(),
            Reader::Placed(placed) => placed.row_of_memory(),
        }
    }

    /// Returns the length of a row if its elements are neighbours.
    pub(crate) fn len_in_memory(&self) -> Option<usize> {
        match self {
            Reader::View(view) => view.len_in_memory(),
            Reader::Placed(placed) => placed.len_in_memory(),
        }
    }

    /// Returns the parts of a row of `len` elements that has zeros, if the elements of each part are neighbours.
    pub(crate) fn parts(&self, len: usize) -> Option<&[Part]> {
        match self {
            Reader::View(_) => None,
            Reader::Placed(placed) => placed.parts_in_memory(len),
        }
    }

    /// Returns the rows of `len` elements from number `row` on. They divide the rows whose elements are neighbours, or
    /// have [parts](Self::parts).
    pub(crate) fn rows(&self, row: usize, len: usize) -> EvenRows {
        match self {
            Reader::View(view) => view.rows(row, len),
            Reader::Placed(placed) => placed.rows(row, len),
        }
    }
}
