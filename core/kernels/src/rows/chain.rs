//! Chains: tasks that run together on a block of rows at a time.
//!
//! A task finds the results of the task before it in a cache. The result has the bits of the tasks
//! run one after the other:
//!
//! - A row of a [kernel on rows](ByRow) depends on the same row of its operands alone.
//! - An element of a group depends on the elements at its index.
//! - Sums of a group get the same pieces ([`Order`](crate::elementwise::tile::Order)), because a block is a
//!   multiple of these.

use crate::elementwise::group::Group;
use crate::memory::aligned_vec::ALIGN;
use crate::memory::aligned_vec::Span;
use crate::memory::data::{Data, DataMut};
use crate::memory::scratch::{Scratch, lines_for, with_lines};
use crate::rows::forward;
use crate::rows::forward::{copy_past_caches, past_caches};
use crate::rows::row_kernel::{ByRow, Link};
use crate::simd::vector::fence;
use crate::task::Prepared;
use crate::threads::for_each;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;

/// Location of an operand or a result of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Operand of the chain.
    Arg(usize),
    /// Result of the chain.
    Out(usize),
    /// Intermediate value in scratch: only the rows of the current block exist.
    Near(usize),
}

/// Stage of a chain: a link with the locations of its operands and results.
pub struct Bound {
    pub link: Link,
    pub args: Vec<At>,
    pub outs: Vec<At>,
}

/// Approximate number of bytes per row-wise result that one thread computes at a time.
const TASK_BYTES: usize = 1 << 17;

/// Returns the kernel that runs `links` in order on `block` of `n_rows` rows at a time.
///
/// `block` must be a multiple of the [grain](Link::grain) of each link. `outs` are the dtypes and
/// lengths of the results; `near` are the dtypes and row lengths of the intermediate values.
pub fn chain(
    links: Vec<Bound>,
    [n_rows, block]: [usize; 2],
    outs: &[(DType, usize)],
    near: &[(DType, usize)],
) -> Prepared {
    let mut end = 0;
    let near: Vec<Near> = near
        .iter()
        .map(|&(dtype, row)| {
            let start = end;
            end += (block * row * dtype.size()).next_multiple_of(ALIGN);
            Near { start, dtype, row }
        })
        .collect();
    let read = |at: &At| links.iter().any(|bound| bound.args.contains(at));
    let mut nanos = 0;
    let mut row_bytes = 1;
    let mut ways = Vec::new();
    let mut next = ahead(&links, n_rows).into_iter();
    for bound in &links {
        let results = (0..bound.outs.len()).filter_map(|i| {
            let row = bound.link.writes(i, n_rows)?;
            let (dtype, last) = match bound.outs[i] {
                At::Out(out) => (outs[out].0, !read(&bound.outs[i])),
                At::Near(i) => (near[i].dtype, false),
                At::Arg(_) => unreachable!("an operand is not written"),
            };
            Some((i, row * dtype.size(), dtype, last))
        });
        let results: Vec<_> = results.collect();
        let most = results.iter().map(|r| r.1).max().unwrap_or(0);
        row_bytes = row_bytes.max(most);
        let large = |row: usize, last: bool| last && past_caches(row * n_rows);
        ways.push(match &bound.link {
            Link::Rows(_) => {
                nanos += n_rows * most / 16;
                let made = !matches!(bound.args[0], At::Arg(_));
                Way::Rows {
                    past_caches: results.iter().any(|r| large(r.1, r.3)),
                    asked: [if made { next.next() } else { None }, next.next()],
                }
            }
            Link::Group(group) => {
                for (i, at) in bound.outs.iter().enumerate() {
                    let (dtype, len) = match *at {
                        At::Out(i) => outs[i],
                        At::Near(i) => (near[i].dtype, near[i].row * n_rows),
                        At::Arg(_) => unreachable!("an operand is not written"),
                    };
                    assert!(
                        group.fits(i, dtype, len),
                        "each result of a group must fit where it is stored"
                    );
                }
                nanos += group.nanos();
                let copied = |r: &&(usize, usize, DType, bool)| {
                    let (_, row, dtype, last) = **r;
                    let aligned = (block * row).is_multiple_of(ALIGN);
                    let float = matches!(dtype, DType::F32 | DType::F64);
                    large(row, last) && aligned && float
                };
                let copied: Vec<Copied> = results
                    .iter()
                    .filter(copied)
                    .map(|&(result, row, ..)| {
                        let start = end;
                        end += block * row;
                        let ahead = next.next();
                        Copied {
                            result,
                            start,
                            ahead,
                        }
                    })
                    .collect();
                Way::Group(copied)
            }
        });
    }
    let task = (TASK_BYTES / row_bytes).max(1).next_multiple_of(block);
    let chain = Chain {
        links: links.into_iter().zip(ways).collect(),
        n_rows,
        block,
        near,
        bytes: end,
    };
    Box::new(move |args, outs| {
        for (Bound { link, args: at, .. }, _) in &chain.links {
            if let Link::Rows(kernel) = link {
                kernel.check(|i| match at[i] {
                    At::Arg(i) => args[i],
                    At::Out(_) | At::Near(_) => unreachable!("a checked value is an operand"),
                })?;
            }
        }
        let ends: SmallVec<[End; 8]> = outs.iter_mut().map(End::of).collect();
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
fn ahead(links: &[Bound], n_rows: usize) -> Vec<usize> {
    let mut asked: Vec<(usize, usize)> = Vec::new();
    for Bound { link, args, .. } in links {
        for (i, at) in args.iter().enumerate() {
            if let (Link::Group(_), At::Arg(arg)) = (link, *at)
                && let Some(row) = link.reads(i, n_rows)
                && !asked.contains(&(arg, row))
            {
                asked.push((arg, row));
            }
        }
    }
    let longest = asked.iter().map(|(_, row)| *row).max();
    let asked = asked.into_iter().filter(|(_, row)| Some(*row) == longest);
    asked.map(|(arg, _)| arg).collect()
}

/// Mode in which a link reads and writes rows.
enum Way {
    Rows {
        past_caches: bool,
        /// Operands of the chain whose next block is prefetched: `ahead` and `also` of
        /// [`forward::Way`].
        asked: [Option<usize>; 2],
    },
    /// Results that are copied to memory with non-temporal stores.
    Group(Vec<Copied>),
}

/// Result of a group that is computed in scratch and copied with non-temporal stores.
struct Copied {
    /// Index of the result.
    result: usize,
    /// Offset of its block in scratch, in bytes.
    start: usize,
    /// Operand of the chain that is prefetched during the copy.
    ahead: Option<usize>,
}

impl Way {
    fn is_past_caches(&self) -> bool {
        match self {
            Way::Rows { past_caches, .. } => *past_caches,
            Way::Group(copied) => !copied.is_empty(),
        }
    }
}

/// Intermediate value, stored for one block of rows.
struct Near {
    /// Offset of its rows in scratch, in bytes.
    start: usize,
    dtype: DType,
    /// Elements per row.
    row: usize,
}

struct Chain {
    links: Vec<(Bound, Way)>,
    n_rows: usize,
    block: usize,
    near: Vec<Near>,
    /// Size of the scratch in bytes.
    bytes: usize,
}

/// Address, dtype and length of a result.
#[derive(Clone, Copy)]
struct End {
    start: *mut u8,
    dtype: DType,
    len: usize,
}

// SAFETY: threads access disjoint rows through the pointer.
unsafe impl Sync for End {}

impl End {
    fn of(out: &mut DataMut<'_>) -> End {
        End {
            start: out.as_mut_ptr(),
            dtype: out.dtype(),
            len: out.len(),
        }
    }
}

thread_local! {
    /// Thread-local scratch for intermediate values.
    static ROOM: Scratch = const { Cell::new(Span::new()) };
}

impl Chain {
    /// Computes the rows `from..to`, block by block.
    ///
    /// # Safety
    ///
    /// `outs` must be the results, and `from` a multiple of the block. Nothing else may use the
    /// rows `from..to` of the results, nor the sums of these rows in a result without rows.
    unsafe fn run(&self, args: &[Data<'_>], outs: &[End], from: usize, to: usize) {
        with_lines(&ROOM, lines_for::<u8>(self.bytes), |lines| {
            let room = lines.as_mut_ptr().cast();
            // SAFETY: the caller guarantees the requirements of `run`. The scratch has `self.bytes`
            // bytes: a block of each intermediate value.
            unsafe { self.blocks(args, outs, room, from, to) };
        });
    }

    /// Does the work of [`run`](Self::run); `room` is scratch for a block of each intermediate
    /// value.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn blocks(
        &self,
        args: &[Data<'_>],
        outs: &[End],
        room: *mut u8,
        from: usize,
        to: usize,
    ) {
        let mut first = from;
        while first < to {
            let last = to.min(first + self.block);
            for (bound, way) in &self.links {
                let rows = Rows {
                    args,
                    outs,
                    room,
                    first,
                    last,
                };
                // SAFETY: the caller guarantees the requirements of `run`, and `room` has a block
                // of each intermediate value.
                unsafe {
                    match (&bound.link, way) {
                        (Link::Rows(kernel), Way::Rows { past_caches, asked }) => {
                            self.rows(kernel, bound, *past_caches, *asked, rows);
                        }
                        (Link::Group(group), Way::Group(copied)) => {
                            self.group(group, bound, copied, rows);
                        }
                        _ => unreachable!("`chain` gives each link a way of its kind"),
                    }
                }
            }
            first = last;
        }
        if self.links.iter().any(|(_, way)| way.is_past_caches()) {
            fence();
        }
    }

    /// # Safety
    ///
    /// As for [`blocks`](Self::blocks), for the rows of `rows`.
    unsafe fn rows(
        &self,
        kernel: &ByRow,
        bound: &Bound,
        past_caches: bool,
        asked: [Option<usize>; 2],
        rows: Rows<'_>,
    ) {
        let (n, args) = (rows.last - rows.first, rows.args);
        let arg = |(at, row): (&At, &Option<usize>)| match (*at, *row) {
            (At::Arg(i), None) => args[i],
            (At::Arg(i), Some(row)) => args[i].part(rows.first * row, n * row),
            (at, row) => {
                let row = row.expect("a value of the chain must be read by rows");
                let (dtype, start) = self.place(at, row, rows);
                // SAFETY: an earlier link has written these rows, and no link writes them while
                // this one runs.
                unsafe { Data::at(dtype, start, n * row) }
            }
        };
        let read: SmallVec<[Data<'_>; 8]> = bound.args.iter().zip(&kernel.args).map(arg).collect();
        let out = |(at, row): (&At, &Option<usize>)| {
            let Some(row) = *row else {
                return DataMut::Bool(&mut []);
            };
            let (dtype, start) = self.place(*at, row, rows);
            // SAFETY: the rows lie inside the result or the scratch (`place`), and no other operand
            // or result of the link overlaps them.
            unsafe { DataMut::at(dtype, start, n * row) }
        };
        let mut write: SmallVec<[DataMut<'_>; 4]> =
            bound.outs.iter().zip(&kernel.outs).map(out).collect();
        // Distance in elements from the first operand to the next block of `operand`.
        let distance = |operand: usize| {
            let size = read[0].dtype()?.size();
            let next = self.next(operand, read[0].dtype()?, rows)?.addr();
            let bytes = next.wrapping_sub(read[0].as_ptr().addr()).cast_signed();
            Some((bytes / size.cast_signed()).cast_unsigned())
        };
        let [ahead, also] = asked.map(|operand| operand.and_then(distance));
        let way = forward::Way {
            past_caches,
            fence: false,
            ahead,
            also,
        };
        kernel.run(&read, &mut write, way);
    }

    /// # Safety
    ///
    /// As for [`blocks`](Self::blocks), for the rows of `rows`.
    unsafe fn group(&self, group: &Group, bound: &Bound, copied: &[Copied], rows: Rows<'_>) {
        let row = group.len() / self.n_rows;
        let (from, args) = (rows.first * row, rows.args);
        // Address of row 0, which may be out of bounds.
        let start = |at: At, size: usize| {
            let (_, start) = self.place(at, row, rows);
            start.wrapping_sub(from * size)
        };
        let read = bound
            .args
            .iter()
            .enumerate()
            .map(|(operand, at)| match *at {
                At::Arg(i) => {
                    let arg = args[i];
                    assert!(group.reads(operand).is_none() || arg.len() >= group.len());
                    (arg, arg.as_ptr().cast_mut())
                }
                at => {
                    let size = group
                        .reads(operand)
                        .expect("a value of the chain must be read by rows");
                    (Data::EMPTY, start(at, size))
                }
            });
        let write = bound.outs.iter().enumerate().map(|(i, at)| {
            let copied = copied.iter().find(|copied| copied.result == i);
            match (*at, group.writes(i), copied) {
                (_, Some(size), Some(copied)) => {
                    let start = rows.room.wrapping_add(copied.start);
                    start.wrapping_sub(from * size)
                }
                (at, Some(size), None) => start(at, size),
                (At::Out(i), None, _) => rows.outs[i].start,
                (_, None, _) => unreachable!("a total must be a result"),
            }
        });
        // SAFETY: the block is a multiple of the grain, so it has whole pieces of the sums of the
        // group, and one thread computes the pieces that belong together, in order. The caller
        // guarantees that the rows are valid.
        unsafe { group.run_part(read, write, from, rows.last * row) };
        for copied in copied {
            let (dtype, to) = self.place(bound.outs[copied.result], row, rows);
            let from = rows.room.wrapping_add(copied.start);
            let next = copied.ahead.and_then(|i| self.next(i, dtype, rows));
            let next = next.unwrap_or(std::ptr::null());
            let n = (rows.last - rows.first) * row;
            // SAFETY: the group has just written these elements to scratch. The caller owns these
            // rows of the result.
            unsafe {
                match (Data::at(dtype, from, n), DataMut::at(dtype, to, n)) {
                    (Data::F32(xs), DataMut::F32(out)) => copy_past_caches(xs, out, next.cast()),
                    (Data::F64(xs), DataMut::F64(out)) => copy_past_caches(xs, out, next.cast()),
                    _ => unreachable!("only floats are copied"),
                }
            }
        }
    }

    /// Returns the address of the next block of an operand of the chain, if it has this dtype.
    fn next(&self, operand: usize, dtype: DType, rows: Rows<'_>) -> Option<*const u8> {
        let arg = rows.args[operand];
        let row = arg.len() / self.n_rows;
        let start = arg.as_ptr().wrapping_add(rows.last * row * dtype.size());
        (arg.dtype() == Some(dtype)).then_some(start)
    }

    /// Returns the dtype of a value that a link writes and the address of its current rows.
    fn place(&self, at: At, row: usize, rows: Rows<'_>) -> (DType, *mut u8) {
        match at {
            At::Out(i) => {
                let End { start, dtype, len } = rows.outs[i];
                assert!(
                    rows.last * row <= len,
                    "the rows must lie inside the result"
                );
                (dtype, start.wrapping_add(rows.first * row * dtype.size()))
            }
            At::Near(i) => {
                let near = &self.near[i];
                assert!(near.row == row && rows.last - rows.first <= self.block);
                (near.dtype, rows.room.wrapping_add(near.start))
            }
            At::Arg(_) => unreachable!("operands are not written"),
        }
    }

    /// Writes the results that are not computed by rows.
    ///
    /// # Safety
    ///
    /// `outs` must be the results, and nothing else may use them.
    unsafe fn finish(&self, outs: &[End]) {
        for (bound, _) in &self.links {
            if let Link::Rows(kernel) = &bound.link {
                let out = |at: &At| match *at {
                    At::Out(i) => {
                        let End { start, dtype, len } = outs[i];
                        // SAFETY: the caller guarantees exclusive use of the results, and the
                        // results of a link are distinct.
                        unsafe { DataMut::at(dtype, start, len) }
                    }
                    At::Near(_) | At::Arg(_) => DataMut::Bool(&mut []),
                };
                let mut outs: SmallVec<[DataMut<'_>; 4]> = bound.outs.iter().map(out).collect();
                kernel.finish(&mut outs);
            }
        }
    }
}

/// The rows `first..last`, with the buffers they are read from and written to.
#[derive(Clone, Copy)]
struct Rows<'a> {
    args: &'a [Data<'a>],
    outs: &'a [End],
    /// Scratch with the intermediate values.
    room: *mut u8,
    first: usize,
    last: usize,
}
