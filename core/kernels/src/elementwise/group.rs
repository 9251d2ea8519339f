//! Elementwise groups: small programs that run over a chunk of elements at a time.
//!
//! - An instruction is the loop of one op, or of several, over a *piece*: at most a chunk of
//!   elements.
//! - A *slot* is a pointer to the current piece of an operand, a result or a register.
//! - A contiguous operand is read in place. One whose axes change places is copied by tiles ([`Walk`]), and
//!   any other is gathered piece by piece, also one with zeros around it ([`Placed`]), or read row by row ([`ByRow`]).
//! - A *register* is a chunk of scratch in the L1 cache, which holds an intermediate value.
//!
//! So a group reads each operand once and writes each result once. Every element has the bits that
//! the ops would compute one by one.

use crate::elementwise::by_row::ByRow;
use crate::elementwise::bytecode::{Instr, Slot};
use crate::elementwise::piece::Piece;
use crate::elementwise::tile::{CHUNK, FusedSum, Grid, Order, lcm, on_total};
use crate::elementwise::walk::{Span, Walk};
use crate::memory::aligned_vec::ALIGN;
use crate::memory::data::{Data, DataMut, WIDEST, on_bytes};
use crate::memory::layout::Layout;
use crate::memory::scratch;
use crate::movement::gather::Gather;
use crate::movement::placed::Placed;
use crate::movement::reader::Reader;
use crate::task::Kernel;
use crate::threads::for_each;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// Access to an operand, broadcast to the shape of the group.
pub(crate) enum Input {
    /// Contiguous in row-major order: read in place.
    Direct { dtype: DType },
    /// One repeated element, at index `at`: a register holds a chunk of it.
    Splat { at: usize },
    /// Copied by tiles to scratch, from this byte on.
    Tiled { size: usize, start: usize },
    /// In any other order: a piece is read in place if its elements are neighbours, else copied to a
    /// register.
    Apart { dtype: DType, reader: Reader },
}

impl Input {
    pub(crate) fn reader(&self) -> Option<&Reader> {
        match self {
            Input::Apart { reader, .. } => Some(reader),
            Input::Direct { .. } | Input::Splat { .. } | Input::Tiled { .. } => None,
        }
    }
}

/// Where an operand of a group has its elements.
pub enum Source {
    /// A view, broadcast to the shape of the group.
    View(Layout),
    Placed(Placed),
}

impl Source {
    /// Returns the layout of a view.
    pub(crate) fn view(&self) -> Option<&Layout> {
        match self {
            Source::View(layout) => Some(layout),
            Source::Placed(_) => None,
        }
    }
}

/// A group, resolved for its shape.
pub struct Group {
    pub(crate) n: usize,
    grid: Grid,
    /// Order of the elements, if there are operands that are read by tiles.
    walk: Option<Walk>,
    /// Set if pieces are computed row by row.
    by_row: Option<Box<ByRow>>,
    pub(crate) inputs: Box<[Input]>,
    /// Element sizes of the results, in bytes.
    pub(crate) outputs: Box<[usize]>,
    pub(crate) instrs: Box<[Instr]>,
    /// Sums with the slot and dtype of their terms. Their totals follow the other results.
    pub(crate) sums: Box<[(Slot, DType, FusedSum)]>,
    pub(crate) n_registers: u32,
    /// Size of a register in bytes.
    pub(crate) stride: usize,
}

/// Part of an operand or a result that belongs to one row of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPart {
    /// Number of elements.
    pub(crate) len: usize,
    /// Size of an element in bytes.
    pub(crate) size: usize,
}

/// An operand of a part of a group.
pub(crate) struct PartOperand<'a> {
    /// Elements of the operand, or of the rows of the part.
    pub(crate) data: Data<'a>,
    /// Address of element 0, which may be out of bounds.
    pub(crate) start: *mut u8,
    /// Element of the group that reads the first element of `data`.
    pub(crate) origin: usize,
}

impl Group {
    /// Creates a group of `n` elements.
    ///
    /// `inputs` are the dtypes and sources of the operands; the slice of a contiguous operand has exactly
    /// its elements. The slots of `instrs` count
    /// inputs, then outputs, then registers. The `sums` must fit [together](FusedSum::together).
    ///
    /// # Panics
    ///
    /// Panics if an instruction writes an input or a slot that it reads, or if a slot is out of
    /// range.
    pub fn new(
        n: usize,
        inputs: &[(DType, Source)],
        outputs: &[DType],
        instrs: Vec<Instr>,
        sums: Vec<(Slot, DType, FusedSum)>,
        n_registers: usize,
    ) -> Group {
        let n_slots = (inputs.len() + outputs.len() + n_registers) as u32;
        for instr in &instrs {
            let (args, outs) = instr.slots();
            let free = |out: &Slot| *out as usize >= inputs.len() && *out < n_slots;
            let apart = args
                .iter()
                .all(|slot| *slot < n_slots && !outs.contains(slot));
            let once = (1..outs.len()).all(|i| !outs[..i].contains(&outs[i]));
            let sound = outs.iter().all(free) && apart && once;
            assert!(sound, "an instruction must not write a slot that it reads");
        }
        let kinds = sums.iter().map(|sum| sum.2);
        assert!(
            FusedSum::together(kinds.clone(), n) && sums.iter().all(|sum| sum.0 < n_slots),
            "the sums of a group must fit one grid and sum existing slots"
        );
        let walk = Walk::new(n, inputs, Order::of(kinds.clone()));
        let input = |(i, (dtype, source)): (usize, &(DType, Source))| {
            let (dtype, size) = (*dtype, dtype.size());
            let layout = match source {
                Source::View(layout) => layout,
                Source::Placed(placed) => {
                    let reader = Reader::Placed(placed.clone());
                    return Input::Apart { dtype, reader };
                }
            };
            if layout.is_contiguous() {
                return Input::Direct { dtype };
            }
            if let Some(start) = walk.as_ref().and_then(|walk| walk.start(i)) {
                return Input::Tiled { size, start };
            }
            let gather = Gather::new(layout);
            match gather.splat() {
                Some(at) => Input::Splat { at },
                None => {
                    let reader = Reader::View(gather);
                    Input::Apart { dtype, reader }
                }
            }
        };
        let inputs: Box<[Input]> = inputs.iter().enumerate().map(input).collect();
        let rows = inputs.iter().filter_map(Input::reader);
        let rows = rows.filter_map(Reader::row_of_memory);
        let grid = match rows.max() {
            Some(len) if sums.is_empty() && walk.is_none() => Grid::of_rows(len),
            _ => Grid::new(kinds),
        };
        let outputs: Box<[usize]> = outputs.iter().map(|d| d.size()).collect();
        // Registers of smaller groups have less than a chunk.
        let rows = n >= CHUNK && walk.is_none();
        let by_row = match rows {
            true => ByRow::new(&inputs, &outputs, &instrs, &sums).map(Box::new),
            false => None,
        };
        let stride = (n.min(CHUNK) * WIDEST).next_multiple_of(ALIGN);
        Group {
            n,
            grid,
            inputs,
            walk,
            by_row,
            outputs,
            instrs: instrs.into(),
            sums: sums.into(),
            n_registers: n_registers as u32,
            stride,
        }
    }

    /// Turns the group into a kernel.
    pub fn prepare(self) -> Kernel {
        if Piece::can_run(&self) {
            return Kernel::Addresses(Box::new(Piece::new(self)));
        }
        Kernel::Slices(Box::new(move |args, outs| {
            self.run(args, outs);
            Ok(())
        }))
    }

    pub(crate) fn run(&self, args: &[Data<'_>], outs: &mut [DataMut<'_>]) {
        if self.n == 0 {
            return;
        }
        let ends = self.ends(args, outs, None);
        if let Some(walk) = &self.walk {
            let n_tiles = walk.n_tiles();
            return for_each(n_tiles.div_ceil(walk.task), self.nanos(), |task| {
                let from = task * walk.task;
                let tiles = from..n_tiles.min(from + walk.task);
                // SAFETY: tiles do not overlap, so one thread writes each element of a result. Tasks
                // end where the sums need it (`Walk`).
                unsafe { self.run_tiles(walk, &ends, tiles) };
            });
        }
        let n_tasks = self.n.div_ceil(self.grid.task);
        for_each(n_tasks, self.nanos(), |task| {
            let from = task * self.grid.task;
            let to = self.n.min(from + self.grid.task);
            let span = (Span::new(from, to), std::ptr::null_mut());
            // SAFETY: the spans of tasks do not overlap, so one thread writes each element of a
            // result. `task` is a multiple of what the sums need (`Grid`).
            unsafe { self.run_spans(&ends, std::ptr::null_mut(), [span].into_iter()) };
        });
    }

    /// Runs some tiles.
    ///
    /// # Safety
    ///
    /// As for [`run_spans`](Self::run_spans) with the spans of these tiles.
    unsafe fn run_tiles(&self, walk: &Walk, ends: &GroupOperands<'_>, tiles: Range<usize>) {
        walk.spans(&ends.args, tiles, |start, spans| {
            let spans = spans.map(|span| (span, start));
            // SAFETY: the caller guarantees the requirements. The elements of a tile are in scratch when
            // its spans run.
            unsafe { self.run_spans(ends, std::ptr::null_mut(), spans) };
        });
    }

    /// Returns whether all elements are one piece of the grid, in the order of the results.
    pub(crate) fn is_one_piece(&self) -> bool {
        self.n > 0 && self.grid.piece(0, self.n) == self.n && self.walk.is_none()
    }

    /// Returns the number of elements.
    #[expect(
        clippy::len_without_is_empty,
        reason = "it is compared with the length of a product"
    )]
    pub fn len(&self) -> usize {
        self.n
    }

    pub(crate) fn n_outs(&self) -> usize {
        self.outputs.len() + self.sums.len()
    }

    /// Returns the estimated run time on one thread, from a fixed rate per instruction and element.
    pub(crate) fn nanos(&self) -> usize {
        self.n.saturating_mul(self.instrs.len()) / 4
    }

    /// Returns whether operands are read by tiles.
    pub(crate) fn has_tiles(&self) -> bool {
        self.walk.is_some()
    }

    /// Returns the number of elements whose multiples end parts of the group that can be computed one
    /// after the other.
    ///
    /// Returns `None` if the elements are not computed in order.
    pub(crate) fn multiple(&self) -> Option<usize> {
        let elements = match self.order() {
            Order::Any => 1,
            Order::Whole(piece) => piece,
            Order::Rows { block, .. } => block,
        };
        match &self.walk {
            None => Some(elements),
            Some(walk) => walk.is_in_order().then(|| lcm(elements, walk.unit())),
        }
    }

    /// Returns the order in which the sums need the elements.
    pub(crate) fn order(&self) -> Order {
        Order::of(self.sums.iter().map(|sum| sum.2))
    }

    /// Resolves the operands and results of one run of the group.
    ///
    /// `args` are all operands except that of `taken`, which is computed while the group runs and
    /// must be contiguous.
    pub(crate) fn ends<'a>(
        &self,
        args: &'a [Data<'a>],
        outs: &mut [DataMut<'_>],
        taken: Option<ComputedOperand>,
    ) -> GroupOperands<'a> {
        assert_eq!(outs.len(), self.n_outs());
        assert_eq!(args.len() + usize::from(taken.is_some()), self.inputs.len());
        let mut args = args.iter().copied();
        let operand = |(i, input): (usize, &Input)| {
            let direct = matches!(input, Input::Direct { .. });
            if taken.is_some_and(|taken| taken.operand == i) {
                assert!(direct, "the taken operand must be contiguous");
                return Data::Bool(&[]);
            }
            let arg = args
                .next()
                .expect("the number of operands is asserted above");
            match (input, arg) {
                (Input::Direct { dtype }, Data::Same(out)) => {
                    assert_eq!(self.outputs[out], dtype.size())
                }
                (Input::Direct { .. }, arg) => assert!(arg.len() >= self.n),
                _ => {}
            }
            arg
        };
        let args: SmallVec<[Data<'a>; 16]> = self.inputs.iter().enumerate().map(operand).collect();
        let start = |arg: &Data<'_>| match arg {
            Data::Same(_) => Start(std::ptr::null_mut()),
            arg => Start(arg.as_ptr().cast_mut()),
        };
        let direct = args.iter().map(start).collect();
        let origins = SmallVec::from_elem(0, args.len());
        let (results, totals) = outs.split_at_mut(self.outputs.len());
        assert!(results.iter().all(|out| out.len() >= self.n));
        for ((_, dtype, sum), out) in self.sums.iter().zip(&*totals) {
            assert!(out.dtype() == *dtype && out.len() == sum.len(self.n));
        }
        let starts = |outs: &mut [DataMut<'_>]| {
            let starts = outs.iter_mut().map(|out| Start(out.as_mut_ptr()));
            starts.collect::<SmallVec<[Start; 8]>>()
        };
        GroupOperands {
            args,
            origins,
            direct,
            results: starts(results),
            totals: starts(totals),
            taken,
        }
    }

    /// Runs the elements `from..to`.
    ///
    /// `outs` are the addresses of element 0 of the results and, after them, of the totals. They may be out of bounds.
    ///
    /// # Safety
    ///
    /// As for [`run_spans`](Self::run_spans) with this span. The elements of the span must be valid
    /// for the operands that are read in place, for the results, and for the totals. Of the other
    /// operands, those that the span reads must be valid.
    pub(crate) unsafe fn run_part<'a>(
        &self,
        of: impl Iterator<Item = PartOperand<'a>>,
        outs: impl Iterator<Item = *mut u8>,
        from: usize,
        to: usize,
    ) {
        let (mut args, mut origins, mut direct) =
            <(SmallVec<_>, SmallVec<_>, SmallVec<_>)>::default();
        for operand in of {
            args.push(operand.data);
            origins.push(operand.origin);
            direct.push(Start(operand.start));
        }
        let mut results: SmallVec<[Start; 8]> = outs.map(Start).collect();
        let totals = results.drain(self.outputs.len()..).collect();
        let ends = GroupOperands {
            args,
            origins,
            direct,
            results,
            totals,
            taken: None,
        };
        if let Some(walk) = &self.walk {
            assert!(walk.is_in_order(), "the rows of a chain are in order");
            let tiles = walk.number(from)..walk.number(to);
            // SAFETY: the caller guarantees the requirements of `run_spans` for the span. The tiles lie
            // in it, because it ends at multiples of `multiple`.
            return unsafe { self.run_tiles(walk, &ends, tiles) };
        }
        let span = (Span::new(from, to), std::ptr::null_mut());
        // SAFETY: the caller guarantees the requirements of `run_spans` for this span.
        unsafe { self.run_spans(&ends, std::ptr::null_mut(), [span].into_iter()) }
    }

    /// Returns the part of an operand that each of `n_rows` rows reads, or `None` if they do not read it one after the
    /// other.
    pub(crate) fn reads(&self, operand: usize, n_rows: usize) -> Option<RowPart> {
        let (len, size) = match &self.inputs[operand] {
            Input::Direct { dtype } => (self.n / n_rows, dtype.size()),
            // Tiles are not in the order of rows.
            Input::Apart { dtype, reader } if self.walk.is_none() => {
                (reader.row_len(n_rows)?, dtype.size())
            }
            Input::Splat { .. } | Input::Tiled { .. } | Input::Apart { .. } => return None,
        };
        Some(RowPart { len, size })
    }

    /// Returns the number of rows that sums are taken over, if there are such sums.
    pub(crate) fn n_rows(&self) -> Option<usize> {
        self.sums.iter().find_map(|(.., sum)| match sum {
            FusedSum::Rows(_) => Some(sum.len(self.n)),
            FusedSum::All | FusedSum::Columns(_) => None,
        })
    }

    /// Returns whether an operand of `len` elements has those that are read in place. Others are checked when they are
    /// read: the last row of a view may be shorter than the distance of rows.
    pub(crate) fn fits_operand(&self, operand: usize, len: usize) -> bool {
        !matches!(self.inputs[operand], Input::Direct { .. }) || len >= self.n
    }

    /// Returns whether a result or a total fits in `len` elements of `dtype`.
    pub(crate) fn fits(&self, result: usize, dtype: DType, len: usize) -> bool {
        match result.checked_sub(self.outputs.len()) {
            None => self.outputs[result] == dtype.size() && len >= self.n,
            Some(total) => {
                let (_, own, sum) = self.sums[total];
                own == dtype && len == sum.len(self.n)
            }
        }
    }

    /// Returns the part of a result or a total that each of `n_rows` rows writes, or `None` if it belongs to several rows.
    pub(crate) fn writes(&self, result: usize, n_rows: usize) -> Option<RowPart> {
        let cols = self.n / n_rows;
        let (len, size) = match result.checked_sub(self.outputs.len()) {
            None => (cols, self.outputs[result]),
            Some(total) => match self.sums[total] {
                (_, dtype, FusedSum::Rows(len)) if cols.is_multiple_of(len) => {
                    (cols / len, dtype.size())
                }
                _ => return None,
            },
        };
        Some(RowPart { len, size })
    }

    /// Returns whether a result is a total, a sum over elements.
    pub(crate) fn is_total(&self, result: usize) -> bool {
        result >= self.outputs.len()
    }

    /// Runs over spans, each with the address of its first element of the [`ComputedOperand`], or the start
    /// of the scratch of its tile.
    ///
    /// `result` is the start of the result that may share memory with that operand.
    ///
    /// # Safety
    ///
    /// The spans must lie in the group, and nothing else may use the elements of the results there.
    /// The spans of each thread and of all threads together must follow [`order`](Self::order). The
    /// elements of the [`ComputedOperand`] must be valid.
    pub(crate) unsafe fn run_spans(
        &self,
        ends: &GroupOperands<'_>,
        result: *mut u8,
        spans: impl Iterator<Item = (Span, *mut u8)>,
    ) {
        let GroupOperands {
            args,
            origins,
            taken,
            ..
        } = ends;
        let mut scratch = scratch::take(&SCRATCH);
        // Each operand may need a register, too.
        let n_registers = self.n_registers as usize + args.len();
        let registers = scratch.registers(n_registers * self.stride);
        let register = |i: usize| registers.wrapping_add(i * self.stride);
        let of_operand = |i: usize| register(self.n_registers as usize + i);

        let slots = &mut scratch.slots;
        slots.clear();
        for (i, (input, arg)) in self.inputs.iter().zip(args).enumerate() {
            slots.push(of_operand(i));
            if let Input::Splat { at } = input {
                // SAFETY: as for `read` below.
                unsafe { fill(*arg, *at, of_operand(i), self.n.min(CHUNK)) };
            }
        }
        slots.extend(ends.results.iter().map(|start| start.0));
        slots.extend((0..self.n_registers as usize).map(register));
        let mut filled: SmallVec<[Option<RegisterContent>; 16]> =
            SmallVec::from_elem(None, args.len());
        let n_args = args.len();
        // Operands in the memory of a result, with that result. A piece of the result is computed in the register
        // of the operand, which the instructions may read to the end.
        let mut shared: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (span, first) in spans {
            let Span { from, to, in_tile } = span;
            for (i, (input, arg)) in self.inputs.iter().zip(args).enumerate() {
                if let Input::Tiled { size, start } = input {
                    slots[i] = first.wrapping_add(start + in_tile * size);
                }
                if let Input::Direct { dtype } = input {
                    let size = dtype.size();
                    slots[i] = match (taken, *arg) {
                        (Some(taken), _) if taken.operand == i => first,
                        (_, Data::Same(out)) => ends.results[out].0.wrapping_add(from * size),
                        _ => ends.direct[i].0.wrapping_add(from * size),
                    };
                }
            }
            shared.clear();
            for (i, (start, size)) in ends.results.iter().zip(&self.outputs).enumerate() {
                let into = taken.filter(|taken| taken.into == Some(i));
                let start = into.map_or(start.0, |_| result).wrapping_add(from * size);
                slots[n_args + i] = start;
                let same = |arg: &Data<'_>| matches!(arg, Data::Same(out) if *out == i);
                let operand = match into {
                    Some(taken) => (start == first).then_some(taken.operand),
                    None => args.iter().position(same),
                };
                shared.extend(operand.map(|operand| (operand, i)));
            }
            let by_row = self.by_row.as_ref().filter(|_| taken.is_none());
            // SAFETY: groups with rows have registers of a whole chunk, each of which belongs to its operand.
            let mut rows = by_row.and_then(|rows| unsafe {
                rows.rows_from(from, &self.inputs, args, origins, of_operand)
            });
            let by_row = by_row.filter(|_| rows.is_some());
            let mut at = from;
            while at < to {
                let n = self.grid.piece(at, to);
                for (i, (input, arg)) in self.inputs.iter().zip(args).enumerate() {
                    if by_row.is_some_and(|rows| rows.reads(i)) {
                        continue;
                    }
                    if let Input::Apart { dtype, reader } = input {
                        let at = at - origins[i];
                        slots[i] = match reader.run(at, n) {
                            Some(at) => arg.as_ptr().cast_mut().wrapping_add(at * dtype.size()),
                            None => {
                                let wanted = reader.repeated(at, n);
                                let wanted =
                                    wanted.map(|(row, phase)| RegisterContent { row, phase, n });
                                // The register may already hold the repeated elements.
                                let there = filled[i].zip(wanted);
                                if !there.is_some_and(|(f, w)| f.holds(w)) {
                                    // SAFETY: the register belongs to the operand and has initialised space for a
                                    // chunk of the widest elements.
                                    unsafe { reader.read(*arg, at, of_operand(i), n) };
                                    filled[i] = wanted;
                                }
                                of_operand(i)
                            }
                        };
                    }
                }
                for (operand, result) in &shared {
                    slots[n_args + result] = of_operand(*operand);
                }
                // SAFETY: a slot is a piece of an operand or of a result, which have at least
                // `at + n` elements, or a register for `min(self.n, CHUNK)` of the widest
                // elements. `new` checked that the instruction writes neither an operand nor a
                // slot that it reads. The planner gives each slot values of one dtype at a
                // time.
                unsafe {
                    match &mut rows {
                        Some(rows) => rows.run(&self.instrs, slots, n),
                        None => self.instrs.iter().for_each(|instr| instr.run(slots, n)),
                    }
                }
                for ((slot, dtype, sum), total) in self.sums.iter().zip(&ends.totals) {
                    let slot = slots[*slot as usize];
                    // SAFETY: the slot holds `n` elements of the dtype, and the totals have
                    // `FusedSum::len` elements (asserted in `ends`).
                    unsafe { on_total(*dtype, *sum, slot, total.0, at, n) };
                }
                for (operand, result) in &shared {
                    let (from, to) = (of_operand(*operand), slots[*operand]);
                    let size = self.outputs[*result];
                    // SAFETY: this thread owns the piece of the result, in which the operand is. The register has
                    // space for a chunk of the widest elements and belongs to this thread.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, n * size) };
                }
                for (slot, input) in slots.iter_mut().zip(&self.inputs) {
                    let size = match input {
                        Input::Direct { dtype } => dtype.size(),
                        Input::Tiled { size, .. } => *size,
                        Input::Splat { .. } | Input::Apart { .. } => continue,
                    };
                    *slot = slot.wrapping_add(n * size);
                }
                for (slot, size) in slots[n_args..].iter_mut().zip(&self.outputs) {
                    *slot = slot.wrapping_add(n * size);
                }
                at += n;
            }
        }
        scratch::restore(&SCRATCH, scratch);
    }
}

/// An operand that is computed while the group runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComputedOperand {
    /// Index of the operand.
    pub(crate) operand: usize,
    /// Result that shares its memory, if any.
    pub(crate) into: Option<usize>,
}

/// Elements of a repeated row that a register holds: `n` of them from index `phase` of the row on.
#[derive(Clone, Copy)]
struct RegisterContent {
    /// Index of the first element of the row.
    row: usize,
    phase: usize,
    n: usize,
}

impl RegisterContent {
    fn holds(self, wanted: RegisterContent) -> bool {
        (self.row, self.phase) == (wanted.row, wanted.phase) && self.n >= wanted.n
    }
}

/// Resolved operands and results of one run of a group.
pub(crate) struct GroupOperands<'a> {
    args: SmallVec<[Data<'a>; 16]>,
    /// Element of the group that reads the first element of each operand.
    origins: SmallVec<[usize; 16]>,
    /// Start of each operand, used if it is read in place.
    direct: SmallVec<[Start; 16]>,
    results: SmallVec<[Start; 8]>,
    totals: SmallVec<[Start; 8]>,
    taken: Option<ComputedOperand>,
}

/// Start of an operand or a result.
#[derive(Clone, Copy)]
struct Start(*mut u8);

// SAFETY: threads access disjoint spans through the pointer.
unsafe impl Sync for Start {}

/// Thread-local memory of a group. All of it is initialised, because loops take slices of it.
#[derive(Default)]
pub(crate) struct GroupScratch {
    words: Vec<u64>,
    slots: Vec<*mut u8>,
}

impl GroupScratch {
    /// Returns the start of at least `bytes` bytes, aligned to a cache line. They hold old data.
    pub(crate) fn registers(&mut self, bytes: usize) -> *mut u8 {
        let words = bytes.div_ceil(WIDEST) + ALIGN / WIDEST;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        let start = self.words.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(ALIGN))
    }
}

thread_local! {
    pub(crate) static SCRATCH: Cell<GroupScratch> = const {
        Cell::new(GroupScratch { words: Vec::new(), slots: Vec::new() })
    };
}

/// Writes `n` copies of element `at` to a register.
///
/// # Safety
///
/// `to` must have `n` initialised elements of the type of the data, aligned, and belong to this thread.
pub(crate) unsafe fn fill(data: Data<'_>, at: usize, to: *mut u8, n: usize) {
    on_bytes!(data, xs => {
        // SAFETY: the caller guarantees the elements. Every bit pattern of numbers and bytes is valid.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast(), n) };
        to.fill(xs[at]);
    })
}
