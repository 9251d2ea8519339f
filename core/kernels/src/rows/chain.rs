//! Chains: tasks that run together on a block of rows at a time.
//!
//! A task finds the results of the task before it in a cache. The result has the bits of the tasks
//! run one after the other:
//!
//! - A row of a [kernel on rows](RowKernel) depends on the same row of its operands alone.
//! - An element of a group depends on the elements at its index.
//! - Sums of a group get the same pieces ([`Order`](crate::elementwise::tile::Order)), because a block is a
//!   multiple of these.

use crate::elementwise::group::{Group, PartOperand, RowPart};
use crate::memory::aligned_vec::ALIGN;
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::data::{Data, DataMut};
use crate::memory::scratch::{Scratch, lines_for, with_lines};
use crate::rows::forward;
use crate::rows::forward::copy_non_temporal;
use crate::rows::row_kernel::{Fusable, RowKernel};
use crate::simd::vector::fence;
use crate::simd::vector::non_temporal;
use crate::task::Prepared;
use crate::threads::for_each;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;

/// Location of an operand or a result of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOperand {
    /// Operand of the chain.
    Arg(usize),
    /// Result of the chain.
    Out(usize),
    /// Intermediate value in scratch: only the rows of the current block exist.
    Local(usize),
}

/// A kernel or group of a chain, with the locations of its operands and results.
pub struct Stage {
    pub work: Fusable,
    pub args: Vec<StageOperand>,
    pub outs: Vec<StageOperand>,
}

/// Approximate number of bytes per row-wise operand or result that one thread reads or computes at a time.
const TASK_BYTES: usize = 1 << 17;

/// Size in bytes of most elements, to estimate that of an operand.
const USUAL_SIZE: usize = 4;

/// Approximate number of nanoseconds for the rows that one thread computes at a time, at most.
const TASK_NANOS: usize = 100_000;

/// Returns the kernel that runs `stages` in order on `block` of `n_rows` rows at a time.
///
/// `block` must be a multiple of the [row multiple](Fusable::row_multiple) of each stage. `outs` are the dtypes and
/// lengths of the results; `local` are the dtypes and row lengths of the intermediate values.
pub fn chain(
    stages: Vec<Stage>,
    [n_rows, block]: [usize; 2],
    outs: &[(DType, usize)],
    local: &[(DType, usize)],
) -> Prepared {
    let mut end = 0;
    let local: Vec<Local> = local
        .iter()
        .map(|&(dtype, row)| {
            let start = end;
            end += (block * row * dtype.size()).next_multiple_of(ALIGN);
            Local { start, dtype, row }
        })
        .collect();
    let is_read = |at: &StageOperand| stages.iter().any(|stage| stage.args.contains(at));
    let mut nanos = 0;
    let mut row_bytes = 1;
    let mut modes = Vec::new();
    let mut next = prefetch(&stages, n_rows).into_iter();
    for stage in &stages {
        let results = (0..stage.outs.len()).filter_map(|i| {
            let row = stage.work.writes(i, n_rows)?;
            let (dtype, last) = match stage.outs[i] {
                StageOperand::Out(out) => (outs[out].0, !is_read(&stage.outs[i])),
                StageOperand::Local(i) => (local[i].dtype, false),
                StageOperand::Arg(_) => unreachable!("an operand is not written"),
            };
            Some((i, row * dtype.size(), dtype, last))
        });
        let results: Vec<_> = results.collect();
        let written = results.iter().map(|r| r.1).max().unwrap_or(0);
        let read = (0..stage.args.len()).filter_map(|i| stage.work.reads(i, n_rows));
        let most = written.max(read.max().unwrap_or(0) * USUAL_SIZE);
        row_bytes = row_bytes.max(most);
        let large = |row: usize, last: bool| last && non_temporal(row * n_rows);
        modes.push(match &stage.work {
            Fusable::Rows(kernel) => {
                nanos += n_rows * kernel.nanos.unwrap_or(most / 16);
                let made = !matches!(stage.args[0], StageOperand::Arg(_));
                StageMode::Rows {
                    non_temporal: results.iter().any(|r| large(r.1, r.3)),
                    prefetched: [if made { next.next() } else { None }, next.next()],
                }
            }
            Fusable::Group(group) => {
                for (i, at) in stage.outs.iter().enumerate() {
                    let (dtype, len) = match *at {
                        StageOperand::Out(i) => outs[i],
                        StageOperand::Local(i) => (local[i].dtype, local[i].row * n_rows),
                        StageOperand::Arg(_) => unreachable!("an operand is not written"),
                    };
                    assert!(
                        group.fits(i, dtype, len),
                        "each result of a group must fit where it is stored"
                    );
                }
                nanos += group.nanos();
                let copied = |r: &&(usize, usize, DType, bool)| {
                    let (result, row, dtype, last) = **r;
                    let last = last && !group.is_total(result);
                    let aligned = (block * row).is_multiple_of(ALIGN);
                    let float = matches!(dtype, DType::F32 | DType::F64);
                    large(row, last) && aligned && float
                };
                let copied: Vec<CopiedResult> = results
                    .iter()
                    .filter(copied)
                    .map(|&(result, row, ..)| {
                        let start = end;
                        end += block * row;
                        let prefetch = next.next();
                        CopiedResult {
                            result,
                            start,
                            prefetch,
                        }
                    })
                    .collect();
                StageMode::Group(copied)
            }
        });
    }
    let task = (TASK_BYTES / row_bytes).min(TASK_NANOS.saturating_mul(n_rows) / nanos.max(1));
    let task = task.max(1).next_multiple_of(block);
    let chain = Chain {
        stages: stages.into_iter().zip(modes).collect(),
        n_rows,
        block,
        local,
        bytes: end,
    };
    Box::new(move |args, outs| {
        for (Stage { work, args: at, .. }, _) in &chain.stages {
            if let Fusable::Rows(kernel) = work {
                kernel.check(|i| match at[i] {
                    StageOperand::Arg(i) => args[i],
                    StageOperand::Out(_) | StageOperand::Local(_) => {
                        unreachable!("a checked value is an operand")
                    }
                })?;
            }
        }
        let ends: SmallVec<[ResultPtr; 16]> = outs.iter_mut().map(ResultPtr::of).collect();
        for_each(n_rows.div_ceil(task), nanos, |i| {
            // SAFETY: `ends` are the results, which are borrowed mutably until all tasks are done.
            // `task` is a multiple of the block, and no two tasks share a row.
            unsafe { chain.run(args, &ends, i * task, n_rows.min((i + 1) * task)) };
        });
        // SAFETY: `ends` are the results, and all tasks are done.
        unsafe { chain.finish(&ends) };
        Ok(())
    })
}

/// Returns the operands to prefetch: those with the longest rows among the operands that groups
/// read row by row.
///
/// They are prefetched one block ahead, by kernels on rows and by non-temporal copies. Groups do
/// not prefetch: they rely on the hardware, which looks ahead within a page only, and memory is
/// idle while kernels on rows compute.
fn prefetch(stages: &[Stage], n_rows: usize) -> Vec<usize> {
    let mut prefetched: Vec<(usize, usize)> = Vec::new();
    for Stage { work, args, .. } in stages {
        for (i, at) in args.iter().enumerate() {
            if let (Fusable::Group(_), StageOperand::Arg(arg)) = (work, *at)
                && let Some(row) = work.reads(i, n_rows)
                && !prefetched.contains(&(arg, row))
            {
                prefetched.push((arg, row));
            }
        }
    }
    let longest = prefetched.iter().map(|(_, row)| *row).max();
    let prefetched = prefetched
        .into_iter()
        .filter(|(_, row)| Some(*row) == longest);
    prefetched.map(|(arg, _)| arg).collect()
}

/// Mode in which a stage reads and writes rows.
enum StageMode {
    Rows {
        non_temporal: bool,
        /// Operands of the chain whose next block is prefetched: `prefetch` and `prefetch_also` of
        /// [`forward::RowMode`].
        prefetched: [Option<usize>; 2],
    },
    /// Results that are copied to memory with non-temporal stores.
    Group(Vec<CopiedResult>),
}

/// Result of a group that is computed in scratch and copied with non-temporal stores.
struct CopiedResult {
    /// Index of the result.
    result: usize,
    /// Offset of its block in scratch, in bytes.
    start: usize,
    /// Operand of the chain that is prefetched during the copy.
    prefetch: Option<usize>,
}

impl StageMode {
    fn is_past_caches(&self) -> bool {
        match self {
            StageMode::Rows { non_temporal, .. } => *non_temporal,
            StageMode::Group(copied) => !copied.is_empty(),
        }
    }
}

/// Intermediate value, stored for one block of rows.
struct Local {
    /// Offset of its rows in scratch, in bytes.
    start: usize,
    dtype: DType,
    /// Elements per row.
    row: usize,
}

struct Chain {
    stages: Vec<(Stage, StageMode)>,
    n_rows: usize,
    block: usize,
    local: Vec<Local>,
    /// Size of the scratch in bytes.
    bytes: usize,
}

/// Address, dtype and length of a result.
#[derive(Clone, Copy)]
struct ResultPtr {
    start: *mut u8,
    dtype: DType,
    len: usize,
}

// SAFETY: threads access disjoint rows through the pointer.
unsafe impl Sync for ResultPtr {}

impl ResultPtr {
    fn of(out: &mut DataMut<'_>) -> ResultPtr {
        ResultPtr {
            start: out.as_mut_ptr(),
            dtype: out.dtype(),
            len: out.len(),
        }
    }
}

thread_local! {
    /// Thread-local scratch for intermediate values.
    static SCRATCH: Scratch = const { Cell::new(AlignedVec::new()) };
}

impl Chain {
    /// Computes the rows `from..to`, block by block.
    ///
    /// # Safety
    ///
    /// `outs` must be the results, and `from` a multiple of the block. Nothing else may use the
    /// rows `from..to` of the results, nor the sums of these rows in a result without rows.
    unsafe fn run(&self, args: &[Data<'_>], outs: &[ResultPtr], from: usize, to: usize) {
        with_lines(&SCRATCH, lines_for::<u8>(self.bytes), |lines| {
            let scratch = lines.as_mut_ptr().cast();
            // SAFETY: the caller guarantees the requirements of `run`. The scratch has `self.bytes`
            // bytes: a block of each intermediate value.
            unsafe { self.blocks(args, outs, scratch, from, to) };
        });
    }

    /// Does the work of [`run`](Self::run); `scratch` has space for a block of each intermediate
    /// value.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn blocks(
        &self,
        args: &[Data<'_>],
        outs: &[ResultPtr],
        scratch: *mut u8,
        from: usize,
        to: usize,
    ) {
        let mut first = from;
        while first < to {
            let last = to.min(first + self.block);
            for (stage, mode) in &self.stages {
                let rows = RowRange {
                    args,
                    outs,
                    scratch,
                    first,
                    last,
                };
                // SAFETY: the caller guarantees the requirements of `run`, and `scratch` has a block
                // of each intermediate value.
                unsafe {
                    match (&stage.work, mode) {
                        (
                            Fusable::Rows(kernel),
                            StageMode::Rows {
                                non_temporal,
                                prefetched,
                            },
                        ) => {
                            self.rows(kernel, stage, *non_temporal, *prefetched, rows);
                        }
                        (Fusable::Group(group), StageMode::Group(copied)) => {
                            self.group(group, stage, copied, rows);
                        }
                        _ => unreachable!("`chain` gives each stage a mode of its kind"),
                    }
                }
            }
            first = last;
        }
        if self.stages.iter().any(|(_, mode)| mode.is_past_caches()) {
            fence();
        }
    }

    /// # Safety
    ///
    /// As for [`blocks`](Self::blocks), for the rows of `rows`.
    unsafe fn rows(
        &self,
        kernel: &RowKernel,
        stage: &Stage,
        non_temporal: bool,
        prefetched: [Option<usize>; 2],
        rows: RowRange<'_>,
    ) {
        let (n, args) = (rows.last - rows.first, rows.args);
        let arg = |(at, row): (&StageOperand, &Option<usize>)| match (*at, *row) {
            (StageOperand::Arg(i), None) => args[i],
            (StageOperand::Arg(i), Some(row)) => args[i].part(rows.first * row, n * row),
            (at, row) => {
                let row = row.expect("a value of the chain must be read by rows");
                let (dtype, start) = self.place(at, row, rows);
                // SAFETY: an earlier stage has written these rows, and no stage writes them while
                // this one runs.
                unsafe { Data::at(dtype, start, n * row) }
            }
        };
        let read: SmallVec<[Data<'_>; 8]> = stage.args.iter().zip(&kernel.args).map(arg).collect();
        let out = |(at, row): (&StageOperand, &Option<usize>)| {
            let Some(row) = *row else {
                return DataMut::Bool(&mut []);
            };
            let (dtype, start) = self.place(*at, row, rows);
            // SAFETY: the rows lie inside the result or the scratch (`place`), and no other operand
            // or result of the stage overlaps them.
            unsafe { DataMut::at(dtype, start, n * row) }
        };
        let mut write: SmallVec<[DataMut<'_>; 4]> =
            stage.outs.iter().zip(&kernel.outs).map(out).collect();
        // Distance in elements from the first operand to the next block of `operand`.
        let distance = |operand: usize| {
            let size = read[0].dtype()?.size();
            let next = self.next(operand, read[0].dtype()?, rows)?.addr();
            let bytes = next.wrapping_sub(read[0].as_ptr().addr()).cast_signed();
            Some((bytes / size.cast_signed()).cast_unsigned())
        };
        let [prefetch, prefetch_also] = prefetched.map(|operand| operand.and_then(distance));
        let mode = forward::RowMode {
            non_temporal,
            fence: false,
            prefetch,
            prefetch_also,
        };
        kernel.run(&read, &mut write, mode);
    }

    /// # Safety
    ///
    /// As for [`blocks`](Self::blocks), for the rows of `rows`.
    unsafe fn group(
        &self,
        group: &Group,
        stage: &Stage,
        copied: &[CopiedResult],
        rows: RowRange<'_>,
    ) {
        let row = group.len() / self.n_rows;
        let (from, args) = (rows.first * row, rows.args);
        // Address of row 0, which may be out of bounds.
        let row_0 =
            |start: *mut u8, part: RowPart| start.wrapping_sub(rows.first * part.len * part.size);
        let read = stage.args.iter().enumerate().map(|(operand, at)| {
            let part = group.reads(operand, self.n_rows);
            match *at {
                StageOperand::Arg(i) => {
                    let data = args[i];
                    assert!(group.fits_operand(operand, data.len()));
                    PartOperand {
                        data,
                        start: data.as_ptr().cast_mut(),
                        origin: 0,
                    }
                }
                at => {
                    let part = part.expect("a value of the chain must be read by rows");
                    let (dtype, start) = self.place(at, part.len, rows);
                    let n = (rows.last - rows.first) * part.len;
                    PartOperand {
                        // SAFETY: an earlier stage has written these rows, and no stage writes them while
                        // this one runs.
                        data: unsafe { Data::at(dtype, start, n) },
                        start: row_0(start, part),
                        origin: from,
                    }
                }
            }
        });
        let write = stage.outs.iter().enumerate().map(|(i, at)| {
            let copied = copied.iter().find(|copied| copied.result == i);
            match (*at, group.writes(i, self.n_rows), copied) {
                (_, Some(part), Some(copied)) => {
                    row_0(rows.scratch.wrapping_add(copied.start), part)
                }
                (at, Some(part), None) => row_0(self.place(at, part.len, rows).1, part),
                (StageOperand::Out(i), None, _) => rows.outs[i].start,
                (_, None, _) => unreachable!("a total of several rows must be a result"),
            }
        });
        // SAFETY: the block is a multiple of the grain, so it has whole pieces of the sums of the
        // group, and one thread computes the pieces that belong together, in order. The caller
        // guarantees that the rows are valid.
        unsafe { group.run_part(read, write, from, rows.last * row) };
        for copied in copied {
            let (dtype, to) = self.place(stage.outs[copied.result], row, rows);
            let from = rows.scratch.wrapping_add(copied.start);
            let next = copied.prefetch.and_then(|i| self.next(i, dtype, rows));
            let next = next.unwrap_or(std::ptr::null());
            let n = (rows.last - rows.first) * row;
            // SAFETY: the group has just written these elements to scratch. The caller owns these
            // rows of the result.
            unsafe {
                match (Data::at(dtype, from, n), DataMut::at(dtype, to, n)) {
                    (Data::F32(xs), DataMut::F32(out)) => copy_non_temporal(xs, out, next.cast()),
                    (Data::F64(xs), DataMut::F64(out)) => copy_non_temporal(xs, out, next.cast()),
                    _ => unreachable!("only floats are copied"),
                }
            }
        }
    }

    /// Returns the address of the next block of an operand of the chain, if it has this dtype.
    fn next(&self, operand: usize, dtype: DType, rows: RowRange<'_>) -> Option<*const u8> {
        let arg = rows.args[operand];
        let row = arg.len() / self.n_rows;
        let start = arg.as_ptr().wrapping_add(rows.last * row * dtype.size());
        (arg.dtype() == Some(dtype)).then_some(start)
    }

    /// Returns the dtype of a value that a stage writes and the address of its current rows.
    fn place(&self, at: StageOperand, row: usize, rows: RowRange<'_>) -> (DType, *mut u8) {
        match at {
            StageOperand::Out(i) => {
                let ResultPtr { start, dtype, len } = rows.outs[i];
                assert!(
                    rows.last * row <= len,
                    "the rows must lie inside the result"
                );
                (dtype, start.wrapping_add(rows.first * row * dtype.size()))
            }
            StageOperand::Local(i) => {
                let local = &self.local[i];
                assert!(local.row == row && rows.last - rows.first <= self.block);
                (local.dtype, rows.scratch.wrapping_add(local.start))
            }
            StageOperand::Arg(_) => unreachable!("operands are not written"),
        }
    }

    /// Writes the results that are not computed by rows.
    ///
    /// # Safety
    ///
    /// `outs` must be the results, and nothing else may use them.
    unsafe fn finish(&self, outs: &[ResultPtr]) {
        for (stage, _) in &self.stages {
            if let Fusable::Rows(kernel) = &stage.work {
                let out = |at: &StageOperand| match *at {
                    StageOperand::Out(i) => {
                        let ResultPtr { start, dtype, len } = outs[i];
                        // SAFETY: the caller guarantees exclusive use of the results, and the
                        // results of a stage are distinct.
                        unsafe { DataMut::at(dtype, start, len) }
                    }
                    StageOperand::Local(_) | StageOperand::Arg(_) => DataMut::Bool(&mut []),
                };
                let mut outs: SmallVec<[DataMut<'_>; 4]> = stage.outs.iter().map(out).collect();
                kernel.finish(&mut outs);
            }
        }
    }
}

/// The rows `first..last`, with the buffers they are read from and written to.
#[derive(Clone, Copy)]
struct RowRange<'a> {
    args: &'a [Data<'a>],
    outs: &'a [ResultPtr],
    /// Scratch with the intermediate values.
    scratch: *mut u8,
    first: usize,
    last: usize,
}
