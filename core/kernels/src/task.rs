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
use crate::memory::data::{Data, DataMut};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::scratch;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// Kernel with everything resolved except the values. It writes every element of its results.
pub type Prepared =
    Box<dyn Fn(&[Data<'_>], &mut [DataMut<'_>]) -> Result<(), KernelFault> + Send + Sync>;

/// Wraps a function of one operand and one result as a kernel.
pub(crate) fn map<T: Element, U: Element>(
    f: impl Fn(&[T], &mut [U]) + Send + Sync + 'static,
) -> Prepared {
    Box::new(move |args, outs| {
        f(T::slice(args[0]), U::slice_mut(&mut outs[0]));
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
    kernel: Prepared,
    /// The operands, then the results.
    regions: Box<[Region]>,
    /// The same regions, with their buffers resolved to indices.
    resolved: Box<[Resolved]>,
    n_args: usize,
    /// Buffer indices of the results, ascending, each with the position of the result.
    numbers: SmallVec<[(u32, usize); 2]>,
}

/// A region with the index of its buffer, counted by [`BufferSizes::number`].
struct Resolved {
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
    pub fn new(
        kernel: Prepared,
        regions: Box<[Region]>,
        n_args: usize,
        needs: &BufferSizes,
    ) -> Task {
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
    /// Leaves in the buffers of results: indices of both buffers.
    given: &'a [(u32, u32)],
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
    let mut given: SmallVec<[(u32, u32); 8]> = SmallVec::new();
    for leaf in leaves {
        starts.push(match leaf {
            Leaf::Held(buffer) => buffer.as_ptr().cast_mut(),
            Leaf::Donated(result) => {
                given.push((starts.len() as u32, 1 + *result as u32));
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
    /// Panics if a value differs in dtype or length from what the body was made for, or if `arena` has
    /// fewer than [`lines`](Self::lines).
    pub(crate) fn run(
        &self,
        leaves: &[Data<'_>],
        outs: &mut [DataMut<'_>],
        arena: &mut [Line],
    ) -> Result<(), KernelFault> {
        let size = |out: BodyOut| match out {
            BodyOut::Leaf(i) => self.needs.leaves[i as usize],
            BodyOut::Result(i) => self.needs.results[i as usize],
        };
        let leaf_fits = |(i, (leaf, size)): (usize, (&Data<'_>, &(DType, usize)))| match *leaf {
            Data::Same(out) => self.can_reuse(i, out),
            leaf => leaf.dtype() == Some(size.0) && leaf.len() == size.1,
        };
        let mut sizes = leaves.iter().zip(&self.needs.leaves).enumerate();
        assert!(
            leaves.len() == self.needs.leaves.len()
                && outs.len() == self.outs.len()
                && sizes.all(leaf_fits)
                && outs
                    .iter()
                    .zip(&self.outs)
                    .all(|(out, from)| (out.dtype(), out.len()) == size(*from))
                && arena.len() >= self.lines(),
            "the operands and results must have the dtypes and lengths that the body was made for"
        );
        // Start of each buffer, in the order of `BufferSizes::number`.
        let mut starts: SmallVec<[*mut u8; 64]> = SmallVec::new();
        starts.push(arena.as_mut_ptr().cast());
        starts.extend(self.first.iter().map(|out| outs[*out].as_mut_ptr()));
        starts.extend(self.constants.iter().map(|b| b.as_ptr().cast_mut()));
        let mut given: SmallVec<[(u32, u32); 8]> = SmallVec::new();
        for leaf in leaves {
            starts.push(match *leaf {
                Data::Same(out) => match self.outs[out] {
                    BodyOut::Result(result) => {
                        given.push((starts.len() as u32, 1 + result));
                        starts[1 + result as usize]
                    }
                    BodyOut::Leaf(_) => outs[out].as_mut_ptr(),
                },
                leaf => leaf.as_ptr().cast_mut(),
            });
        }
        let memory = RunBuffers {
            given: &given,
            starts: &starts,
        };
        for (task, op) in self.tasks.iter().zip(&self.names) {
            // SAFETY: `Task::new` checked that `needs` contains the regions; the operands and results
            // match `needs`, as asserted above. Results are borrowed mutably, so nothing else uses
            // them, and the arena is borrowed, too. An operand in a result is `Data::Same` for the
            // first task that writes the result, and no later task reads it (`donations`). An output
            // that is an operand is in no region that a task writes.
            unsafe { memory.run(task) }.map_err(|fault| KernelFault::Within {
                op,
                fault: Box::new(fault),
            })?;
        }
        for (i, from) in self.outs.iter().enumerate() {
            match *from {
                BodyOut::Leaf(leaf) => match leaves[leaf as usize] {
                    Data::Same(out) if out == i => {}
                    Data::Same(out) => copy_within(outs, out, i),
                    leaf => outs[i].copy_from(leaf),
                },
                BodyOut::Result(result) if self.first[result as usize] != i => {
                    copy_within(outs, self.first[result as usize], i);
                }
                BodyOut::Result(_) => {}
            }
        }
        Ok(())
    }
}

/// Copies the elements of one value to another.
fn copy_within(all: &mut [DataMut<'_>], from: usize, to: usize) {
    let (before, rest) = all.split_at_mut(from.max(to));
    match from < to {
        true => rest[0].copy_from(before[from].as_data()),
        false => before[to].copy_from(rest[0].as_data()),
    }
}

/// Number of operands and of results up to which a run does not allocate.
const FEW: usize = 8;

impl RunBuffers<'_> {
    /// # Safety
    ///
    /// Every region of `task` must lie inside its buffer.
    unsafe fn run(&self, task: &Task) -> Result<(), KernelFault> {
        let data = |region: &Resolved| {
            if let Some(out) = region.same {
                return Data::Same(out as usize);
            }
            if !self.given.is_empty()
                && let Some(out) = self.taken(task, region)
            {
                return Data::Same(out);
            }
            // SAFETY: the caller guarantees that the regions lie inside their buffers, which
            // outlive this call. The task does not write them: its results overlap no operand
            // (`Task::new`), and what is in the memory of a result took a branch above.
            unsafe { self.data(region) }
        };
        // SAFETY: the results overlap nothing else of the task (`Task::new`). The results are
        // uniquely owned (`run`), and the arena belongs to this thread.
        let data_mut = |region: &Resolved| unsafe { self.data_mut(region) };
        let (n_args, n_outs) = (task.n_args, task.resolved.len() - task.n_args);
        let (args, outs) = task.resolved.split_at(n_args);
        if n_args <= FEW && n_outs <= FEW {
            let mut to_read = [Data::EMPTY; FEW];
            for (arg, region) in to_read.iter_mut().zip(args) {
                *arg = data(region);
            }
            if let [out] = outs {
                return (task.kernel)(&to_read[..n_args], &mut [data_mut(out)]);
            }
            let mut to_write = [(); FEW].map(|()| DataMut::Bool(&mut []));
            for (out, region) in to_write.iter_mut().zip(outs) {
                *out = data_mut(region);
            }
            return (task.kernel)(&to_read[..n_args], &mut to_write[..n_outs]);
        }
        let args: Vec<Data> = args.iter().map(data).collect();
        let mut outs: Vec<DataMut> = outs.iter().map(data_mut).collect();
        (task.kernel)(&args, &mut outs)
    }

    /// Returns the result of the task that takes over the buffer of `region`, if `region` is a leaf in
    /// that buffer.
    #[cold]
    fn taken(&self, task: &Task, region: &Resolved) -> Option<usize> {
        let mut given = self.given.iter();
        let (_, number) = given.find(|(leaf, _)| *leaf == region.buffer)?;
        let at = task.numbers.partition_point(|(buffer, _)| buffer < number);
        let (buffer, out) = *task.numbers.get(at)?;
        (buffer == *number).then_some(out)
    }

    fn start(&self, region: &Resolved) -> *mut u8 {
        self.starts[region.buffer as usize].wrapping_add(region.start)
    }

    /// # Safety
    ///
    /// The region must lie inside its buffer and must not be written while the elements are in use.
    #[inline(always)]
    unsafe fn data(&self, region: &Resolved) -> Data<'_> {
        // SAFETY: the caller guarantees that the region is in bounds and not written. The start is
        // aligned because the buffer is and the offset is a multiple of the element size. Bools are
        // valid because the region was written as bools: kernels write all of a result before
        // another task reads it.
        unsafe { Data::at(region.dtype, self.start(region), region.len) }
    }

    /// # Safety
    ///
    /// The region must lie inside its buffer, which is a result or the arena. Nothing else may use
    /// it meanwhile.
    #[inline(always)]
    unsafe fn data_mut(&self, region: &Resolved) -> DataMut<'_> {
        // SAFETY: the caller guarantees that the region is in bounds and that nothing else uses it.
        // Bools are handed out as bytes, so any contents are valid.
        unsafe { DataMut::at(region.dtype, self.start(region), region.len) }
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
