//! Tasks of a plan: kernels with the regions of buffers that they read and write.
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
use crate::memory::data::{Data, DataMut};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::scratch::{self, Scratch};
use crate::memory::words::Word;
use crate::turn_loop::PlacedTurnLoop;
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

    /// Returns the registers that a run needs. The last ones belong to the operands, one to each.
    fn registers(&self) -> Registers;

    /// Returns the loop that runs all turns of a loop whose body is this kernel, if there is one, with indices of
    /// [addresses](Places::addresses).
    fn turn_loop(&self) -> Option<PlacedTurnLoop>;

    /// Runs the kernel.
    ///
    /// # Safety
    ///
    /// The places must [fit](Self::fits), be aligned, and have all [registers](Self::registers), with any contents. The
    /// elements of operands must be valid, also as bools. A result or a register must overlap nothing else, except that a
    /// result may be where an operand of its size was, which is then [in place](Places::in_place). During the call, nothing
    /// else may write an operand or use a result or a register.
    unsafe fn run(&self, places: Places<'_>);
}

/// Memory that a kernel uses besides its operands and results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    pub n: usize,
    /// Size of one in bytes, a multiple of a cache line.
    pub stride: usize,
}

impl Registers {
    fn lines(self) -> usize {
        self.n * self.stride / ALIGN
    }

    /// Returns the offset of the register of an operand in bytes, from that of the first register.
    fn of_operand(self, operand: usize, n_args: usize) -> usize {
        (self.n - n_args + operand) * self.stride
    }
}

/// An operand whose elements are in the memory of a result.
///
/// Its own address is that of its register, to which the kernel copies it before it writes the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandInPlace {
    pub(crate) operand: usize,
    /// Position of the result among the results.
    pub(crate) out: usize,
}

/// The operands, the results and the registers of a task in one run.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    regions: &'a [Resolved],
    addresses: &'a [*mut u8],
    in_place: &'a [OperandInPlace],
}

impl<'a> Places<'a> {
    /// Returns the addresses: first those of the operands, then those of the results, then those of the registers.
    #[inline(always)]
    pub(crate) fn addresses(self) -> &'a [*mut u8] {
        self.addresses
    }

    /// Returns the operands that are in the memory of a result.
    #[inline(always)]
    pub(crate) fn in_place(self) -> &'a [OperandInPlace] {
        self.in_place
    }

    /// Returns an operand.
    ///
    /// # Safety
    ///
    /// It must be an operand of the kernel that runs, and not [in place](Self::in_place). The kernel must not write it.
    #[inline(always)]
    pub(crate) unsafe fn data(self, i: usize) -> Data<'a> {
        let region = &self.regions[i];
        // SAFETY: the operand is a region of valid elements inside its buffer (`OnAddresses::run`), and nothing writes it
        // during the run.
        unsafe { Data::at(region.dtype, self.addresses[i], region.len) }
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
    /// Operands that are in the memory of a result in every run, if the kernel runs on addresses.
    in_place: Box<[OperandInPlace]>,
    registers: Registers,
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
        let (mut in_place, mut registers) = (Box::default(), Registers::default());
        if let Kernel::Addresses(kernel) = &kernel {
            let sizes = |regions: &[Region]| -> SmallVec<[(DType, usize); 8]> {
                regions.iter().map(|r| (r.dtype, r.len)).collect()
            };
            assert!(
                kernel.fits(&sizes(args), &sizes(outs)),
                "a kernel must have all that it reads and writes"
            );
            let operand = |(operand, same): (usize, &Option<u32>)| {
                same.map(|out| OperandInPlace {
                    operand,
                    out: out as usize,
                })
            };
            in_place = same.iter().enumerate().filter_map(operand).collect();
            registers = kernel.registers();
            assert!(
                registers.n >= n_args && registers.stride.is_multiple_of(ALIGN),
                "each operand has a register, in cache lines of its own"
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
            in_place,
            registers,
        }
    }

    pub fn args(&self) -> &[Region] {
        &self.regions[..self.n_args]
    }

    pub fn outs(&self) -> &[Region] {
        &self.regions[self.n_args..]
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(crate) fn runs_on_addresses(&self) -> bool {
        matches!(self.kernel, Kernel::Addresses(_))
    }

    /// Returns the loop that runs all turns of a loop whose body is this task, if there is one, with indices of
    /// [addresses](Self::addresses).
    pub(crate) fn turn_loop(&self) -> Option<PlacedTurnLoop> {
        match &self.kernel {
            Kernel::Addresses(kernel) if self.in_place.is_empty() => kernel.turn_loop(),
            _ => None,
        }
    }

    pub(crate) fn lines_of_registers(&self) -> usize {
        self.registers.lines()
    }

    /// Returns the number of [`addresses`](Self::addresses).
    pub(crate) fn n_addresses(&self) -> usize {
        match self.kernel {
            Kernel::Addresses(_) => self.resolved.len() + self.registers.n,
            Kernel::Slices(_) => 0,
        }
    }

    /// Returns the addresses of a kernel that runs on them, with registers in the arena, `first_register` bytes after its
    /// start.
    ///
    /// No operand may be in the buffer of a result, except those whose regions say so.
    pub(crate) fn addresses(&self, first_register: usize) -> impl Iterator<Item = Address> {
        let in_arena = move |offset: usize| Address {
            buffer: 0,
            offset: first_register + offset,
        };
        let place = move |(i, region): (usize, &Resolved)| match region.same {
            Some(_) => in_arena(self.registers.of_operand(i, self.n_args)),
            None => Address {
                buffer: region.buffer,
                offset: region.start,
            },
        };
        let registers = (0..self.registers.n).map(move |i| in_arena(i * self.registers.stride));
        let all = self.resolved.iter().enumerate().map(place).chain(registers);
        all.take(self.n_addresses())
    }

    /// Returns the places of a run that are at the [`addresses`](Self::addresses).
    #[inline(always)]
    pub(crate) fn places<'a>(&'a self, addresses: &'a [*mut u8]) -> Places<'a> {
        Places {
            regions: &self.resolved,
            addresses,
            in_place: &self.in_place,
        }
    }
}

/// An address in a buffer.
pub(crate) struct Address {
    /// Index of the buffer, as [`BufferSizes::number`].
    pub(crate) buffer: u32,
    /// Offset in bytes.
    pub(crate) offset: usize,
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
pub(crate) struct RunBuffers<'a> {
    /// For each buffer the index of that of the result in which it is, or 0. It ends with the last such buffer.
    pub(crate) given: &'a [u32],
    /// Start of each buffer, in the order of [`BufferSizes::number`]: arena, results, constants, leaves.
    pub(crate) starts: &'a [*mut u8],
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
    pub(crate) fn number(&self, base: RegionBase) -> u32 {
        let results = 1 + self.results.len() as u32;
        match base {
            RegionBase::Arena => 0,
            RegionBase::Result(i) => 1 + i,
            RegionBase::Constant(i) => results + i,
            RegionBase::Leaf(i) => results + self.constants.len() as u32 + i,
        }
    }

    pub(crate) fn n_buffers(&self) -> usize {
        1 + self.results.len() + self.constants.len() + self.leaves.len()
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

/// Number of operands, and of results, of a task that are passed in arrays. More of them are passed in lists.
const FEW: usize = 8;

/// Number of operands and of results up to which a run does not allocate.
const MANY: usize = 24;

/// Number of addresses of a task up to which a run does not allocate.
const ADDRESSES: usize = 128;

thread_local! {
    /// Registers of kernels that run on addresses.
    static REGISTERS: Scratch = const { Scratch::new(AlignedVec::new()) };
}

impl RunBuffers<'_> {
    /// # Safety
    ///
    /// Every region of `task` must lie inside its buffer.
    unsafe fn run(&self, task: &Task) -> Result<(), KernelFault> {
        match &task.kernel {
            // SAFETY: the caller guarantees that the regions lie inside their buffers.
            Kernel::Slices(kernel) => unsafe { self.run_on_slices(task, kernel) },
            Kernel::Addresses(kernel) => {
                // SAFETY: as above.
                unsafe { self.run_on_addresses(task, &**kernel) };
                Ok(())
            }
        }
    }

    /// Runs the kernel of a task.
    ///
    /// # Safety
    ///
    /// Every region of `task` must lie inside its buffer.
    pub(crate) unsafe fn run_on_slices(
        &self,
        task: &Task,
        kernel: &Prepared,
    ) -> Result<(), KernelFault> {
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

    /// Runs the kernel of a task, as [`run_on_slices`](Self::run_on_slices).
    ///
    /// # Safety
    ///
    /// Every region of `task` must lie inside its buffer.
    unsafe fn run_on_addresses(&self, task: &Task, kernel: &dyn OnAddresses) {
        let args = task.resolved[..task.n_args].iter().enumerate();
        let mut in_place: SmallVec<[OperandInPlace; 8]> = SmallVec::from_slice(&task.in_place);
        if !self.given.is_empty() {
            let taken = |(operand, region)| {
                let out = self.taken(task, region)?;
                Some(OperandInPlace { operand, out })
            };
            in_place.extend(args.filter_map(taken));
        }
        let mut addresses: SmallVec<[*mut u8; ADDRESSES]> = SmallVec::new();
        addresses.extend(task.resolved.iter().map(|region| self.start(region)));
        scratch::with_lines(&REGISTERS, task.registers.lines(), |lines| {
            let first = lines.as_mut_ptr().cast::<u8>();
            let Registers { n, stride } = task.registers;
            addresses.extend((0..n).map(|i| first.wrapping_add(i * stride)));
            for of in &in_place {
                let own = task.registers.of_operand(of.operand, task.n_args);
                addresses[of.operand] = first.wrapping_add(own);
            }
            let places = Places {
                regions: &task.resolved,
                addresses: &addresses,
                in_place: &in_place,
            };
            // SAFETY: `Task::new` checked that the regions fit, and that the results overlap nothing else. The
            // caller guarantees that the regions lie inside their buffers. The registers are borrowed.
            unsafe { kernel.run(places) };
        });
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
