//! Buffers of a plan: the regions that its tasks read and write.
//!
//! Each thread keeps one *arena* for intermediate values. It grows to the size that the largest
//! plan needs and is never returned, because fresh memory from the system costs more than most
//! kernels.
//!
//! [`Task::new`] checks once that the results of a task overlap nothing else that the task touches.
//! [`run`] checks on every run that the buffers have the sizes the plan was made for.

use crate::memory::aligned_vec::ALIGN;
use crate::memory::aligned_vec::{AlignedVec, Line, at_least};
use crate::memory::buffer::Buffer;
use crate::memory::data::{Data, DataMut, copy_bytes};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::scratch;
use crate::memory::words::Word;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// Kernel with everything resolved except the values. It writes every element of its results.
pub type Prepared =
    Box<dyn Fn(&[Data<'_>], &mut [DataMut<'_>]) -> Result<(), KernelFault> + Send + Sync>;

/// Kernel of a task.
pub enum Kernel {
    Slices(Prepared),
    /// A kernel without slices, which costs less for each run.
    Addresses(Box<dyn OnAddresses>),
}

/// Kernel that only needs the addresses of its operands and results, and cannot fail.
///
/// It is a trait because the groups that implement it come after tasks in the order of modules.
pub trait OnAddresses: Send + Sync {
    /// Returns whether operands and results of these dtypes and lengths have what the kernel reads and writes.
    fn fits(&self, args: &[(DType, usize)], outs: &[(DType, usize)]) -> bool;

    /// Runs the kernel.
    ///
    /// # Safety
    ///
    /// The places must [fit](Self::fits) and be aligned. The elements of operands must be valid, also as bools. A result
    /// must overlap nothing else, except that it may have the place of an operand of its size. During the call, nothing
    /// else may write an operand or use a result.
    unsafe fn run(&self, places: Places<'_>);
}

/// The operands and then the results of a task in one run.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    regions: &'a [Resolved],
    starts: &'a [*mut u8],
}

impl<'a> Places<'a> {
    /// Returns the address of an operand or a result.
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> *mut u8 {
        let region = &self.regions[i];
        self.starts[region.buffer as usize].wrapping_add(region.start)
    }

    /// Returns an operand.
    ///
    /// # Safety
    ///
    /// It must be a place of the kernel that runs, and not that of a result. The kernel must not write it.
    #[inline(always)]
    pub(crate) unsafe fn data(self, i: usize) -> Data<'a> {
        let region = &self.regions[i];
        // SAFETY: the operand is a region of valid elements inside its buffer (`OnAddresses::run`), and nothing writes it
        // during the run.
        unsafe { Data::at(region.dtype, self.at(i), region.len) }
    }
}

/// Wraps a function of one operand and one result as a kernel.
pub(crate) fn map<T: Element, U: Element>(
    f: impl Fn(&[T], &mut [U]) + Send + Sync + 'static,
) -> Prepared {
    Box::new(move |args, outs| {
        f(T::slice(args[0]), U::slice_mut(&mut outs[0]));
        Ok(())
    })
}

/// As [`map`], for a function that only moves elements.
pub(crate) fn map_words<T: Word>(f: impl Fn(&[T], &mut [T]) + Send + Sync + 'static) -> Prepared {
    Box::new(move |args, outs| {
        let xs = T::slice(args[0], outs[0].dtype());
        f(xs, T::slice_mut(&mut outs[0]));
        Ok(())
    })
}

/// Buffer that holds a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionBase {
    Leaf(u32),
    Constant(u32),
    Result(u32),
    Arena,
}

/// Contiguous elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub base: RegionBase,
    pub dtype: DType,
    /// Offset in bytes, a multiple of the size of an element.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
}

impl Region {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.len.saturating_mul(self.dtype.size())
    }

    fn end(&self) -> usize {
        self.start.saturating_add(self.bytes())
    }
}

/// Returns for each operand the result that has the same region.
fn in_place(args: &[Region], outs: &[Region], needs: &BufferSizes) -> SmallVec<[Option<u32>; 8]> {
    let place = |r: &Region| (needs.number(r.base), r.start);
    let mut places: SmallVec<[_; 4]> = outs.iter().zip(0u32..).collect();
    places.retain(|(out, _)| out.len > 0);
    places.sort_unstable_by_key(|(out, _)| place(out));
    let result = |arg: &Region| {
        let at = places.binary_search_by_key(&place(arg), |(out, _)| place(out));
        let (out, i) = places[at.ok()?];
        (out == arg).then_some(i)
    };
    args.iter().map(result).collect()
}

/// Returns whether no result overlaps another result or an operand.
fn are_apart(args: &[Region], outs: &[Region], needs: &BufferSizes) -> bool {
    let span = |written| {
        move |r: &Region| (r.len > 0).then(|| (needs.number(r.base), r.start, r.end(), written))
    };
    let args = args.iter().filter_map(span(false));
    let mut spans: SmallVec<[_; 16]> = args.collect();
    spans.extend(outs.iter().filter_map(span(true)));
    spans.sort_unstable();
    // Spans are sorted by start: one overlaps an earlier one if it starts before the furthest end.
    let (mut buffer, mut end_of_all, mut end_of_written) = (u32::MAX, 0, 0);
    spans.into_iter().all(|(base, start, end, written)| {
        if base != buffer {
            (buffer, end_of_all, end_of_written) = (base, 0, 0);
        }
        let before = if written { end_of_all } else { end_of_written };
        end_of_all = end_of_all.max(end);
        if written {
            end_of_written = end_of_written.max(end);
        }
        before <= start
    })
}

/// A kernel with the regions of its operands and results.
pub struct Task {
    kernel: Kernel,
    /// The operands, then the results.
    regions: Box<[Region]>,
    /// The same regions, with their buffers resolved to indices.
    resolved: Box<[Resolved]>,
    n_args: usize,
    /// Buffer indices of the results, ascending, each with the position of the result.
    numbers: SmallVec<[(u32, usize); 2]>,
}

/// A region with the index of its buffer, counted by [`BufferSizes::number`].
pub(crate) struct Resolved {
    buffer: u32,
    /// The result in whose memory an operand is.
    same: Option<u32>,
    dtype: DType,
    start: usize,
    len: usize,
}

impl Task {
    /// Creates a task. The first `n_args` regions are the operands, and the others are the results.
    ///
    /// The kernel gets an operand in the region of a result as [`Data::Same`], and must be able to compute it in
    /// place.
    ///
    /// # Panics
    ///
    /// Panics unless `needs` contains every region and the results overlap nothing else of the
    /// task. [`RunBuffers::run`] relies on both.
    pub fn new(kernel: Kernel, regions: Box<[Region]>, n_args: usize, needs: &BufferSizes) -> Task {
        let (args, outs) = regions.split_at(n_args);
        let same = in_place(args, outs, needs);
        let others = args.iter().zip(&same).filter(|(_, same)| same.is_none());
        let others: SmallVec<[Region; 8]> = others.map(|(arg, _)| *arg).collect();
        let writable = |out: &Region| matches!(out.base, RegionBase::Result(_) | RegionBase::Arena);
        assert!(
            outs.iter().all(writable) && are_apart(&others, outs, needs),
            "a result must not overlap another region of its task"
        );
        for region in &regions {
            let aligned = region.start.is_multiple_of(region.dtype.size());
            assert!(
                aligned && needs.hold(region),
                "a region must be aligned and lie inside its buffer"
            );
        }
        if let Kernel::Addresses(kernel) = &kernel {
            let sizes = |regions: &[Region]| -> SmallVec<[(DType, usize); 8]> {
                regions.iter().map(|r| (r.dtype, r.len)).collect()
            };
            assert!(
                kernel.fits(&sizes(args), &sizes(outs)),
                "a kernel must have all that it reads and writes"
            );
        }
        let number = |(i, out): (usize, &Region)| (needs.number(out.base), i);
        let mut numbers: SmallVec<[(u32, usize); 2]> =
            outs.iter().enumerate().map(number).collect();
        numbers.sort_unstable();
        let same = same.into_iter().chain(outs.iter().map(|_| None));
        let resolved = regions.iter().zip(same).map(|(region, same)| Resolved {
            buffer: needs.number(region.base),
            same,
            dtype: region.dtype,
            start: region.start,
            len: region.len,
        });
        Task {
            kernel,
            resolved: resolved.collect(),
            n_args,
            numbers,
            regions,
        }
    }

    pub fn args(&self) -> &[Region] {
        &self.regions[..self.n_args]
    }

    pub fn outs(&self) -> &[Region] {
        &self.regions[self.n_args..]
    }
}

/// Input of a plan.
pub enum Leaf<'a> {
    /// A buffer that other values may share.
    Held(&'a Arc<Buffer>),
    /// The elements are in the buffer that becomes result `.0` (donation).
    ///
    /// The first task that writes the result can compute in place, and no later task reads the leaf.
    Donated(usize),
}

/// Buffers of one run of a plan.
struct RunBuffers<'a> {
    /// For each buffer the index of that of the result in which it is, or 0. It ends with the last such buffer.
    given: &'a [u32],
    /// Start of each buffer, in the order of [`BufferSizes::number`]: arena, results, constants, leaves.
    starts: &'a [*mut u8],
}

/// Sizes of the buffers of a plan.
#[derive(Debug, Default)]
pub struct BufferSizes {
    /// Dtype and number of elements of each leaf. `constants` and `results` are the same.
    pub leaves: Vec<(DType, usize)>,
    pub constants: Vec<(DType, usize)>,
    pub results: Vec<(DType, usize)>,
    /// Size of the arena in bytes.
    pub arena: usize,
}

impl BufferSizes {
    /// Returns the index of a buffer: the arena first, then results, constants and leaves.
    fn number(&self, base: RegionBase) -> u32 {
        let results = 1 + self.results.len() as u32;
        match base {
            RegionBase::Arena => 0,
            RegionBase::Result(i) => 1 + i,
            RegionBase::Constant(i) => results + i,
            RegionBase::Leaf(i) => results + self.constants.len() as u32 + i,
        }
    }

    /// Returns whether the region lies inside its buffer.
    fn hold(&self, region: &Region) -> bool {
        let held = |buffers: &[(DType, usize)], i: u32| {
            let (dtype, len) = buffers[i as usize];
            dtype == region.dtype && region.end() <= len.saturating_mul(dtype.size())
        };
        match region.base {
            RegionBase::Leaf(i) => held(&self.leaves, i),
            RegionBase::Constant(i) => held(&self.constants, i),
            RegionBase::Result(i) => held(&self.results, i),
            RegionBase::Arena => region.end() <= self.arena,
        }
    }
}

thread_local! {
    /// Initialised memory. Its contents are left over from earlier runs.
    static ARENA: Cell<AlignedVec<Line>> = const { Cell::new(AlignedVec::new()) };
}

/// Runs `tasks` in order, and calls `after` with the index of each that ran. An error comes with the index of
/// the task that failed.
///
/// # Panics
///
/// Panics if a buffer differs in dtype or length from `needs`, or if a result is shared or not
/// [writable](Buffer::writable).
pub fn run(
    tasks: &[Task],
    needs: &BufferSizes,
    leaves: &[Leaf<'_>],
    constants: &[Buffer],
    results: &mut [Arc<Buffer>],
    mut after: impl FnMut(usize),
) -> Result<(), (usize, KernelFault)> {
    let fits = |buffer: &Buffer, size: &(DType, usize)| (buffer.dtype(), buffer.len()) == *size;
    let same = leaves.len() == needs.leaves.len()
        && constants.len() == needs.constants.len()
        && results.len() == needs.results.len();
    let mut held = same;
    for (leaf, size) in leaves.iter().zip(&needs.leaves) {
        held &= match leaf {
            Leaf::Held(buffer) => fits(buffer, size),
            Leaf::Donated(result) => needs.results[*result] == *size,
        };
    }
    let constants_fit = || constants.iter().zip(&needs.constants);
    held &= constants_fit().all(|(buffer, size)| fits(buffer, size));
    let mut results_fit = results.iter().zip(&needs.results);
    held &= results_fit.all(|(buffer, size)| fits(buffer, size));
    assert!(
        held,
        "the buffers must have the dtypes and lengths that the plan was made for"
    );
    let Some(mut arena) = at_least(scratch::take(&ARENA), needs.arena.div_ceil(ALIGN)) else {
        return Err((0, KernelFault::OutOfMemory { bytes: needs.arena }));
    };
    // Start of each buffer, in the order of `BufferSizes::number`.
    let mut starts: SmallVec<[*mut u8; 32]> = SmallVec::new();
    starts.push(arena.as_mut_ptr().cast());
    for result in results.iter_mut() {
        let only = Buffer::writable(result);
        let only = only.expect("a result is writable until it is computed");
        starts.push(only.as_mut_ptr());
    }
    starts.extend(constants.iter().map(|b| b.as_ptr().cast_mut()));
    let mut given: SmallVec<[u32; 32]> = SmallVec::new();
    for leaf in leaves {
        starts.push(match leaf {
            Leaf::Held(buffer) => buffer.as_ptr().cast_mut(),
            Leaf::Donated(result) => {
                given.resize(starts.len(), 0);
                given.push(1 + *result as u32);
                starts[1 + result]
            }
        });
    }
    let memory = RunBuffers {
        given: &given,
        starts: &starts,
    };
    let mut ran = Ok(());
    for (i, task) in tasks.iter().enumerate() {
        // SAFETY: `Task::new` checked that `needs` contains the regions; the buffers match `needs`,
        // as asserted above.
        if let Err(fault) = unsafe { memory.run(task) } {
            ran = Err((i, fault));
            break;
        }
        after(i);
    }
    scratch::restore(&ARENA, arena);
    ran
}

/// Leaves and results of equal size and dtype.
///
/// The buffer of any of the leaves may become any of the results.
///
/// A task reads these leaves for the last time, and can write these results in place. Sets are stored
/// instead of pairs, whose number is quadratic.
#[derive(Debug, PartialEq, Eq)]
pub struct DonationSet {
    pub leaves: Box<[u32]>,
    pub results: Box<[u32]>,
}

/// Tasks that a kernel runs on parts of its own operands and results, perhaps many times.
pub struct Body {
    tasks: Box<[Task]>,
    /// Name of the op of each task, for messages.
    names: Box<[&'static str]>,
    needs: BufferSizes,
    constants: Box<[Buffer]>,
    outs: Box<[BodyOut]>,
    /// Outputs that can be computed in the memory of operands.
    donations: Box<[DonationSet]>,
    /// Output that holds each result.
    first: Box<[usize]>,
}

/// Output of a body: an operand, or a result of its tasks. Several outputs may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOut {
    Leaf(u32),
    Result(u32),
}

impl Body {
    /// # Panics
    ///
    /// Panics unless each result of the tasks is an output.
    pub fn new(
        tasks: Box<[Task]>,
        names: Box<[&'static str]>,
        needs: BufferSizes,
        constants: Box<[Buffer]>,
        outs: Box<[BodyOut]>,
        donations: Box<[DonationSet]>,
    ) -> Body {
        let first = (0..needs.results.len()).map(|i| {
            let place = outs
                .iter()
                .position(|out| *out == BodyOut::Result(i as u32));
            place.expect("each result of a body is an output")
        });
        let fits =
            |(buffer, size): (&Buffer, &(DType, usize))| (buffer.dtype(), buffer.len()) == *size;
        assert!(
            constants.len() == needs.constants.len()
                && constants.iter().zip(&needs.constants).all(fits)
        );
        Body {
            first: first.collect(),
            tasks,
            names,
            needs,
            constants,
            outs,
            donations,
        }
    }

    /// Returns the number of lines of memory that a run needs for intermediate values.
    pub(crate) fn lines(&self) -> usize {
        self.needs.arena.div_ceil(ALIGN)
    }

    /// Returns whether output `out` can be computed in the memory of operand `leaf`.
    pub fn can_reuse(&self, leaf: usize, out: usize) -> bool {
        match self.outs[out] {
            BodyOut::Leaf(i) => i as usize == leaf,
            BodyOut::Result(i) => {
                let mut sets = self.donations.iter();
                let both = |set: &DonationSet| {
                    set.leaves.contains(&(leaf as u32)) && set.results.contains(&i)
                };
                self.first[i as usize] == out && sets.any(both)
            }
        }
    }

    /// Computes the outputs from the operands.
    ///
    /// An operand is [`Data::Same`] if it is in the memory of an output, see [`can_reuse`](Self::can_reuse).
    ///
    /// # Panics
    ///
    /// As [`memory`](Self::memory).
    pub(crate) fn run(
        &self,
        leaves: &[Data<'_>],
        outs: &mut [DataMut<'_>],
        arena: &mut [Line],
    ) -> Result<(), KernelFault> {
        let memory = self.memory(leaves, outs, arena);
        // SAFETY: the operands, the results and the arena are borrowed, the last two mutably.
        unsafe { self.run_in(&memory) }
    }

    /// Returns the memory of a run with these operands and results.
    ///
    /// # Panics
    ///
    /// Panics if a value differs in dtype or length from what the body was made for, or if `arena` has
    /// fewer than [`lines`](Self::lines).
    pub(crate) fn memory(
        &self,
        leaves: &[Data<'_>],
        outs: &mut [DataMut<'_>],
        arena: &mut [Line],
    ) -> BodyMemory {
        let leaf_fits = |(i, (leaf, size)): (usize, (&Data<'_>, &(DType, usize)))| match *leaf {
            Data::Same(out) => self.can_reuse(i, out),
            leaf => leaf.dtype() == Some(size.0) && leaf.len() == size.1,
        };
        let mut sizes = leaves.iter().zip(&self.needs.leaves).enumerate();
        let mut outs_fit = outs.iter().zip(&self.outs);
        assert!(
            leaves.len() == self.needs.leaves.len()
                && outs.len() == self.outs.len()
                && sizes.all(leaf_fits)
                && outs_fit.all(|(out, from)| (out.dtype(), out.len()) == self.size(*from))
                && arena.len() >= self.lines(),
            "the operands and results must have the dtypes and lengths that the body was made for"
        );
        let mut memory = BodyMemory::default();
        let BodyMemory {
            starts,
            given,
            copies,
        } = &mut memory;
        starts.push(arena.as_mut_ptr().cast());
        starts.extend(self.first.iter().map(|out| outs[*out].as_mut_ptr()));
        starts.extend(self.constants.iter().map(|b| b.as_ptr().cast_mut()));
        for leaf in leaves {
            starts.push(match *leaf {
                Data::Same(out) => match self.outs[out] {
                    BodyOut::Result(result) => {
                        given.resize(starts.len(), 0);
                        given.push(1 + result);
                        starts[1 + result as usize]
                    }
                    BodyOut::Leaf(_) => outs[out].as_mut_ptr(),
                },
                leaf => leaf.as_ptr().cast_mut(),
            });
        }
        for (i, of) in self.outs.iter().enumerate() {
            let from = match *of {
                BodyOut::Leaf(leaf) => match leaves[leaf as usize] {
                    Data::Same(out) if out == i => continue,
                    _ => self.start_of_leaf(leaf as usize),
                },
                BodyOut::Result(result) if self.first[result as usize] != i => 1 + result as usize,
                BodyOut::Result(_) => continue,
            };
            copies.push(CopiedOutput {
                output: i,
                bytes: self.bytes_of_output(i),
                from,
                to: starts.len(),
            });
            starts.push(outs[i].as_mut_ptr());
        }
        memory
    }

    /// Computes the outputs from the operands that are in `memory`.
    ///
    /// # Safety
    ///
    /// `memory` must come from [`memory`](Self::memory) of this body. Where a start was changed since, the memory there must
    /// hold an operand or have space for a result of the same size. During the call, nothing else may write the operands or
    /// use the results and the arena, and none of these may overlap, except operands in the memory of results as
    /// they were given to `memory`.
    pub(crate) unsafe fn run_in(&self, memory: &BodyMemory) -> Result<(), KernelFault> {
        let BodyMemory {
            starts,
            given,
            copies,
        } = memory;
        let buffers = RunBuffers { given, starts };
        for (task, op) in self.tasks.iter().zip(&self.names) {
            // SAFETY: `Task::new` checked that `needs` contains the regions; the operands and results
            // match `needs`, as the caller guarantees. Nothing else uses the results and the arena. An
            // operand in a result was `Data::Same` for the first task that writes the result, and no later
            // task reads it (`donations`). An output that is an operand is in no region that a task
            // writes.
            unsafe { buffers.run(task) }.map_err(|fault| KernelFault::Within {
                op,
                fault: Box::new(fault),
            })?;
        }
        for of in copies {
            // SAFETY: both hold the elements of an output, and an output has memory of its own.
            unsafe { copy_bytes(starts[of.from], starts[of.to], of.bytes) };
        }
        Ok(())
    }

    /// Returns the dtype and the number of elements of an output.
    fn size(&self, out: BodyOut) -> (DType, usize) {
        match out {
            BodyOut::Leaf(i) => self.needs.leaves[i as usize],
            BodyOut::Result(i) => self.needs.results[i as usize],
        }
    }

    /// Returns the index of the start of an operand in [`BodyMemory`].
    pub(crate) fn start_of_leaf(&self, leaf: usize) -> usize {
        self.needs.number(RegionBase::Leaf(leaf as u32)) as usize
    }

    /// Returns the index of the start of an output, or `None` if it is an operand that is there already.
    pub(crate) fn start_of_output(&self, memory: &BodyMemory, output: usize) -> Option<usize> {
        let copy = memory.copies.iter().find(|copy| copy.output == output);
        match (copy, self.outs[output]) {
            (Some(copy), _) => Some(copy.to),
            (None, BodyOut::Result(result)) => Some(1 + result as usize),
            (None, BodyOut::Leaf(_)) => None,
        }
    }

    /// Returns the size in bytes of an operand.
    pub(crate) fn bytes_of_leaf(&self, leaf: usize) -> usize {
        let (dtype, len) = self.needs.leaves[leaf];
        dtype.size() * len
    }

    /// Returns the size in bytes of an output.
    pub(crate) fn bytes_of_output(&self, output: usize) -> usize {
        let (dtype, len) = self.size(self.outs[output]);
        dtype.size() * len
    }
}

/// Memory of one run of a body.
#[derive(Clone, Default)]
pub(crate) struct BodyMemory {
    /// Start of each buffer, in the order of [`BufferSizes::number`], then of each output that is copied.
    starts: SmallVec<[*mut u8; 64]>,
    /// For each buffer the index of that of the result in which it is, or 0. It ends with the last such buffer.
    given: SmallVec<[u32; 64]>,
    copies: SmallVec<[CopiedOutput; 8]>,
}

impl BodyMemory {
    /// Index of the start of the memory for intermediate values.
    pub(crate) const ARENA: usize = 0;

    /// Puts an operand or an output in other memory.
    pub(crate) fn put(&mut self, start: usize, there: *mut u8) {
        self.starts[start] = there;
    }

    /// Moves some starts by a number of bytes.
    pub(crate) fn advance(&mut self, steps: &[(usize, isize)]) {
        for (start, bytes) in steps {
            self.starts[*start] = self.starts[*start].wrapping_offset(*bytes);
        }
    }
}

/// Output that is a copy of an operand or of an earlier output.
#[derive(Clone, Copy)]
struct CopiedOutput {
    output: usize,
    bytes: usize,
    /// Indices of the starts of both.
    from: usize,
    to: usize,
}

/// Number of operands, and of results, of a task that are passed in arrays. More of them are passed in lists.
const FEW: usize = 8;

/// Number of operands and of results up to which a run does not allocate.
const MANY: usize = 24;

impl RunBuffers<'_> {
    /// # Safety
    ///
    /// Every region of `task` must lie inside its buffer.
    unsafe fn run(&self, task: &Task) -> Result<(), KernelFault> {
        let kernel = match &task.kernel {
            Kernel::Slices(kernel) => kernel,
            Kernel::Addresses(kernel) => {
                let places = Places {
                    regions: &task.resolved,
                    starts: self.starts,
                };
                // SAFETY: `Task::new` checked that the regions fit, and that the results overlap nothing else. The
                // caller guarantees that the regions lie inside their buffers.
                unsafe { kernel.run(places) };
                return Ok(());
            }
        };
        let (args, outs) = task.resolved.split_at(task.n_args);
        if args.len() <= FEW && outs.len() <= FEW {
            let mut to_read = [Data::EMPTY; FEW];
            for (arg, region) in to_read.iter_mut().zip(args) {
                // SAFETY: the caller guarantees that the regions lie inside their buffers.
                *arg = unsafe { self.operand(task, region) };
            }
            let to_read = &to_read[..args.len()];
            if let [out] = outs {
                // SAFETY: as above.
                return kernel(to_read, &mut [unsafe { self.result(out) }]);
            }
            let mut to_write = [(); FEW].map(|()| DataMut::Bool(&mut []));
            for (out, region) in to_write.iter_mut().zip(outs) {
                // SAFETY: as above.
                *out = unsafe { self.result(region) };
            }
            return kernel(to_read, &mut to_write[..outs.len()]);
        }
        let mut to_read: SmallVec<[Data; MANY]> = SmallVec::with_capacity(args.len());
        for region in args {
            // SAFETY: as above.
            to_read.push(unsafe { self.operand(task, region) });
        }
        let mut to_write: SmallVec<[DataMut; MANY]> = SmallVec::with_capacity(outs.len());
        for region in outs {
            // SAFETY: as above.
            to_write.push(unsafe { self.result(region) });
        }
        kernel(&to_read, &mut to_write)
    }

    /// # Safety
    ///
    /// The region is an operand of the task, and must lie inside its buffer.
    #[inline(always)]
    unsafe fn operand(&self, task: &Task, region: &Resolved) -> Data<'_> {
        if let Some(out) = region.same {
            return Data::Same(out as usize);
        }
        if let Some(out) = self.taken(task, region) {
            return Data::Same(out);
        }
        // SAFETY: the caller guarantees that the region lies inside its buffer, which outlives this
        // call. The task does not write it: its results overlap no operand (`Task::new`), and what is in
        // the memory of a result took a branch above. Bools are valid because the region was written as
        // bools: kernels write all of a result before another task reads it.
        unsafe { Data::at(region.dtype, self.start(region), region.len) }
    }

    /// # Safety
    ///
    /// The region is a result of a task, and must lie inside its buffer.
    #[inline(always)]
    unsafe fn result(&self, region: &Resolved) -> DataMut<'_> {
        // SAFETY: the caller guarantees that the region lies inside its buffer. It overlaps nothing else of the
        // task (`Task::new`). Results are uniquely owned (`run`), and the arena belongs to this thread. The start
        // is aligned because the buffer is and the offset is a multiple of the element size. Bools are handed out
        // as bytes, so any contents are valid.
        unsafe { DataMut::at(region.dtype, self.start(region), region.len) }
    }

    /// Returns the result of the task that takes over the buffer of `region`, if `region` is a leaf in
    /// that buffer.
    #[inline]
    fn taken(&self, task: &Task, region: &Resolved) -> Option<usize> {
        let given = self.given.get(region.buffer as usize).copied();
        let number = given.filter(|number| *number > 0)?;
        let at = task.numbers.partition_point(|(buffer, _)| *buffer < number);
        let (buffer, out) = *task.numbers.get(at)?;
        (buffer == number).then_some(out)
    }

    fn start(&self, region: &Resolved) -> *mut u8 {
        self.starts[region.buffer as usize].wrapping_add(region.start)
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferSizes, Region, RegionBase, are_apart};
    use gradloom_ir::DType;

    fn region(base: RegionBase, start: usize, len: usize) -> Region {
        Region {
            base,
            dtype: DType::F32,
            start,
            len,
        }
    }

    #[test]
    fn regions_overlap_if_they_share_an_element() {
        let needs = BufferSizes::default();
        let whole = region(RegionBase::Arena, 64, 32);
        let overlaps = |other: Region| {
            let read = !are_apart(&[whole], &[other], &needs);
            assert_eq!(read, !are_apart(&[other], &[whole], &needs));
            assert_eq!(read, !are_apart(&[], &[other, whole], &needs));
            assert!(
                are_apart(&[other, whole], &[], &needs),
                "two reads never conflict"
            );
            read
        };
        assert!(overlaps(region(RegionBase::Arena, 188, 100)));
        assert!(overlaps(region(RegionBase::Arena, 0, 17)));
        assert!(overlaps(whole));
        assert!(!overlaps(region(RegionBase::Arena, 192, 100)));
        assert!(!overlaps(region(RegionBase::Arena, 0, 16)));
        assert!(!overlaps(region(RegionBase::Result(0), 64, 32)));
        // A value without elements shares its offset with another value of the arena.
        assert!(!overlaps(region(RegionBase::Arena, 128, 0)));
    }

    #[test]
    fn an_overlap_is_found_behind_other_regions() {
        let needs = BufferSizes::default();
        let at = |start| region(RegionBase::Arena, start, 1);
        let long = region(RegionBase::Arena, 0, 100);
        assert!(are_apart(&[long, at(0), at(8)], &[at(400)], &needs));
        assert!(!are_apart(&[long, at(0), at(8)], &[at(396)], &needs));
        assert!(!are_apart(&[at(8), at(300)], &[long], &needs));
        assert!(!are_apart(&[at(8)], &[at(400), at(4), at(8)], &needs));
    }
}
