//! Pieces that are computed row by row, so that rows with gaps between them are read in place.
//!
//! Copying rows to registers takes longer than most groups compute on them: a stencil reads each element many times,
//! each time in another row of memory. A row among zeros is copied, but its zeros are written once.

use crate::elementwise::bytecode::{Instr, Slot};
use crate::elementwise::group::Input;
use crate::elementwise::tile::{CHUNK, FusedSum};
use crate::memory::data::Data;
use crate::movement::placed::Part;
use crate::movement::reader::Reader;
use gradloom_ir::DType;
use smallvec::SmallVec;

/// How the pieces of a group are computed row by row.
pub(crate) struct ByRow {
    /// Number of elements of a row.
    len: usize,
    /// For each operand whether its rows are read here.
    reads: Box<[bool]>,
    /// Slots that advance after each row, with the sizes of their elements in bytes. Most registers stay where they are.
    steps: Box<[(usize, usize)]>,
}

/// Rows are computed in multiples of this number of elements, if memory allows.
const VECTOR: usize = 16;

/// Zeros for rows that have no elements in an operand.
static ZEROS: [u64; CHUNK] = [0; CHUNK];

/// Number of elements of the longest rows. Pieces of longer ones seldom cross their ends.
const LONGEST: usize = 4 * CHUNK;

/// Fixed time of copying a row, in tenths of a nanosecond.
const COPY: usize = 20;

/// Number of bytes that are copied in a tenth of a nanosecond.
const BYTES: usize = 10;

/// Time of a call of an instruction, and of the work around a row, in tenths of a nanosecond.
const CALL: usize = 40;

impl ByRow {
    /// Returns `None` if it takes longer than to copy the rows. The group has at least a chunk of elements.
    pub(crate) fn new(
        inputs: &[Input],
        outputs: &[usize],
        instrs: &[Instr],
        sums: &[(Slot, DType, FusedSum)],
    ) -> Option<ByRow> {
        // A register keeps a row that is repeated.
        let readers = || {
            inputs
                .iter()
                .filter_map(Input::reader)
                .filter(|reader| !reader.repeats_rows())
        };
        let len = readers().filter_map(Reader::len_in_memory).min();
        let len = len.or(readers().find_map(Reader::row_of_memory))?;
        let reads = |input: &Input| {
            input.reader().is_some_and(|reader| {
                let row = reader.len_in_memory();
                let whole = row.is_some_and(|row| row.is_multiple_of(len));
                whole || len <= CHUNK && reader.parts(len).is_some()
            })
        };
        let size = |input: &Input| match input {
            Input::Direct { dtype } | Input::Apart { dtype, .. } => dtype.size(),
            Input::Splat { .. } | Input::Tiled { .. } => 0,
        };
        let time = |input: &Input| match input.reader() {
            Some(reader) if reads(input) && !reader.repeats_rows() => {
                let own_len = reader.len_in_memory().unwrap_or(len);
                COPY * len / own_len + len * size(input) / BYTES
            }
            _ => 0,
        };
        let copies: usize = inputs.iter().map(time).sum();
        // A register whose values are summed moves with the rows. A wider value in it would not be aligned.
        let moves = |(slot, dtype, _): &(Slot, DType, FusedSum)| {
            let writes = |instr: &&Instr| instr.slots().1.contains(slot);
            let mut writers = instrs.iter().filter(writes);
            *slot as usize >= inputs.len() && writers.all(|by| by.result_size() == dtype.size())
        };
        let slow = len > LONGEST || copies < CALL * (1 + instrs.len());
        if slow || !sums.iter().all(moves) {
            return None;
        }
        let other = |(i, input): (usize, &Input)| (!reads(input)).then(|| (i, size(input)));
        let of_inputs = inputs.iter().enumerate().filter_map(other);
        let of_outputs = (inputs.len()..).zip(outputs.iter().copied());
        let first_register = inputs.len() + outputs.len();
        let summed = sums
            .iter()
            .map(|(slot, dtype, _)| (*slot as usize, dtype.size()));
        let summed = summed.filter(|(slot, _)| *slot >= first_register);
        let mut steps: Vec<(usize, usize)> = of_inputs.chain(of_outputs).chain(summed).collect();
        steps.sort_unstable();
        steps.dedup();
        steps.retain(|(_, size)| *size > 0);
        Some(ByRow {
            len,
            reads: inputs.iter().map(reads).collect(),
            steps: steps.into(),
        })
    }

    /// Returns whether the rows of an operand are read here.
    pub(crate) fn reads(&self, operand: usize) -> bool {
        self.reads[operand]
    }

    /// Returns a cursor at element `at`. `origins` are the elements that read the first element of each operand.
    ///
    /// Returns `None` if an origin is not the start of a row.
    ///
    /// # Safety
    ///
    /// The register of each operand must have initialised space for a chunk of the widest elements, aligned for them, and
    /// be used by nothing else as long as the cursor is.
    pub(crate) unsafe fn rows_from<'a>(
        &'a self,
        at: usize,
        inputs: &'a [Input],
        args: &[Data<'a>],
        origins: &[usize],
        registers: impl Fn(usize) -> *mut u8,
    ) -> Option<RowCursors<'a>> {
        let len = self.len;
        let mut cursors = SmallVec::new();
        for (operand, input) in inputs.iter().enumerate() {
            let Input::Apart { dtype, reader } = input else {
                continue;
            };
            if !self.reads(operand) {
                continue;
            }
            let (origin, size) = (origins[operand], dtype.size());
            if !origin.is_multiple_of(len) {
                return None;
            }
            let start = args[operand].as_ptr();
            let copied = reader.parts(len).filter(|parts| parts.len() > 1);
            let copied = copied.map(|parts| {
                let register = registers(operand);
                // SAFETY: the caller guarantees the space.
                unsafe { register.write_bytes(0, CHUNK * size) };
                (parts, register)
            });
            let mut cursor = Cursor {
                operand,
                reader,
                size,
                start,
                end: start.wrapping_add(args[operand].len() * size),
                copied,
                row: (at - origin) / len,
                left: 0,
                apart: 0,
                first: None,
                elements: start,
                readable: 0,
            };
            cursor.find(len);
            cursors.push(cursor);
        }
        Some(RowCursors {
            of: self,
            in_row: at % len,
            is_read: false,
            cursors,
            slots: SmallVec::new(),
        })
    }
}

/// The row of an operand that is read next.
struct Cursor<'a> {
    operand: usize,
    reader: &'a Reader,
    /// Size of an element in bytes.
    size: usize,
    /// Start and end of the operand.
    start: *const u8,
    end: *const u8,
    /// The parts of a row that is copied to a register, which has zeros between them.
    copied: Option<(&'a [Part], *mut u8)>,
    /// Number of the row among those of the operand.
    row: usize,
    /// Number of rows at equal distances, from this one on.
    left: usize,
    /// Their distance in bytes.
    apart: usize,
    /// Where the row begins in the operand. Without it, the row has only zeros.
    first: Option<*const u8>,
    /// Where its elements are read.
    elements: *const u8,
    /// Number of bytes that can be read there.
    readable: usize,
}

impl Cursor<'_> {
    /// Finds the row in the operand.
    fn find(&mut self, len: usize) {
        let rows = self.reader.rows(self.row, len);
        (self.left, self.apart) = (rows.n, rows.apart * self.size);
        self.first = rows.first.map(|i| self.start.wrapping_add(i * self.size));
        self.elements = ZEROS.as_ptr().cast();
        self.readable = size_of_val(&ZEROS);
    }

    /// Goes to the `n`th row after this one. `n` is at most `left`.
    fn skip(&mut self, n: usize, len: usize) {
        self.row += n;
        self.left -= n;
        match self.left {
            0 => self.find(len),
            _ => self.first = self.first.map(|at| at.wrapping_add(n * self.apart)),
        }
    }

    /// Returns the address of this row, if `n` rows from it on are at equal distances and `bytes` bytes of each can be read
    /// in the operand.
    fn in_place(&self, n: usize, bytes: usize) -> Option<*const u8> {
        let first = self.first?;
        let last = first.wrapping_add((n - 1) * self.apart);
        // All other rows lie between these two.
        let is_readable = |row: *const u8| {
            let readable = self.end.addr().checked_sub(row.addr());
            row >= self.start && readable.is_some_and(|readable| bytes <= readable)
        };
        let is_in_place = self.copied.is_none() && n <= self.left;
        (is_in_place && is_readable(first) && is_readable(last)).then_some(first)
    }

    /// Makes the elements of the row readable.
    ///
    /// # Panics
    ///
    /// Panics if the operand does not have the row.
    fn read(&mut self) {
        let bytes_from = |at: *const u8| {
            let bytes = self.end.addr().checked_sub(at.addr());
            bytes.expect("a row lies in its operand")
        };
        match (self.first, self.copied) {
            (None, _) => {}
            (Some(first), None) => {
                self.readable = bytes_from(first);
                self.elements = first;
            }
            (Some(first), Some((parts, register))) => {
                let mut to = register;
                for part in parts {
                    let bytes = part.len * self.size;
                    if let Some(from) = part.from {
                        let from = first.wrapping_add(from * self.size);
                        assert!(bytes <= bytes_from(from), "a row lies in its operand");
                        // SAFETY: the part lies in the operand, and the row fits in the register.
                        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                    }
                    to = to.wrapping_add(bytes);
                }
                self.elements = register;
                self.readable = CHUNK * self.size;
            }
        }
    }
}

/// The rows of a group that are computed next.
pub(crate) struct RowCursors<'a> {
    of: &'a ByRow,
    /// Index in its row of the next element.
    in_row: usize,
    /// True if the row is read.
    is_read: bool,
    cursors: SmallVec<[Cursor<'a>; 8]>,
    /// Slots of the current row.
    slots: SmallVec<[*mut u8; 32]>,
}

impl RowCursors<'_> {
    /// Computes the next `n` elements, at most a chunk. `slots` are those of a piece of them. The slots of operands that
    /// are read here are not used.
    ///
    /// # Panics
    ///
    /// Panics if an operand does not have the rows of these elements.
    ///
    /// # Safety
    ///
    /// As [`Instr::run`] for the other slots and `n` elements. A register that is not summed may hold any values after.
    pub(crate) unsafe fn run(&mut self, instrs: &[Instr], slots: &[*mut u8], n: usize) {
        let len = self.of.len;
        self.slots.clear();
        self.slots.extend_from_slice(slots);
        let mut left = n;
        while left > 0 {
            // SAFETY: the caller guarantees the slots of the piece, which ends `left` elements from here.
            let n_rows = unsafe { self.run_in_place(instrs, left) };
            if n_rows > 0 {
                left -= n_rows * len;
                continue;
            }
            let now = left.min(len - self.in_row);
            // Elements after the row fill its last vector. The next row overwrites their results.
            let mut wide = now.next_multiple_of(VECTOR).min(left);
            for cursor in &mut self.cursors {
                if !self.is_read {
                    cursor.read();
                }
                let before = match cursor.first {
                    Some(_) => self.in_row * cursor.size,
                    // All elements are zeros, of which there are enough for a piece.
                    None => 0,
                };
                if before + wide * cursor.size > cursor.readable {
                    wide = now;
                }
                let end = before + now * cursor.size;
                assert!(end <= cursor.readable, "a row lies in its operand");
                self.slots[cursor.operand] = cursor.elements.wrapping_add(before).cast_mut();
            }
            self.is_read = true;
            for instr in instrs {
                // SAFETY: the caller guarantees the slots of the piece, which ends `left` elements from here. Of the rows
                // that are read here, `wide` elements can be read, as checked above: all are elements of the operand,
                // zeros, or in a register.
                unsafe { instr.run(&self.slots, wide) };
            }
            for (slot, size) in &self.of.steps {
                self.slots[*slot] = self.slots[*slot].wrapping_add(size * now);
            }
            self.in_row += now;
            left -= now;
            if self.in_row == len {
                (self.in_row, self.is_read) = (0, false);
                self.cursors
                    .iter_mut()
                    .for_each(|cursor| cursor.skip(1, len));
            }
        }
    }

    /// Computes the next rows if they are at equal distances in every operand, and returns their number.
    ///
    /// From one such row to the next only addresses change. Returns 0, and computes nothing, for less than two rows.
    ///
    /// # Safety
    ///
    /// As for [`RowCursors::run`], for the slots in `self` and `left` elements.
    unsafe fn run_in_place(&mut self, instrs: &[Instr], left: usize) -> usize {
        let len = self.of.len;
        // As in `run`, elements after a row fill its last vector.
        let wide = len.next_multiple_of(VECTOR);
        if self.in_row > 0 || left < len + wide {
            return 0;
        }
        let n = self.cursors.iter().map(|cursor| cursor.left).min();
        let n = n.map_or(0, |n| n.min((left - wide) / len + 1));
        if n < 2 {
            return 0;
        }
        for cursor in &self.cursors {
            let Some(first) = cursor.in_place(n, wide * cursor.size) else {
                return 0;
            };
            self.slots[cursor.operand] = first.cast_mut();
        }
        for _ in 0..n {
            for instr in instrs {
                // SAFETY: the caller guarantees the slots of the piece, which has `wide` elements from each of these rows on.
                // `in_place` checked that as many can be read of the operands whose rows are read here.
                unsafe { instr.run(&self.slots, wide) };
            }
            for (slot, size) in &self.of.steps {
                self.slots[*slot] = self.slots[*slot].wrapping_add(size * len);
            }
            for cursor in &self.cursors {
                let slot = &mut self.slots[cursor.operand];
                *slot = slot.wrapping_add(cursor.apart);
            }
        }
        self.cursors
            .iter_mut()
            .for_each(|cursor| cursor.skip(n, len));
        n
    }
}
