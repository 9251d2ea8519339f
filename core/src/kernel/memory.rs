//! Where the elements are that the steps of a plan read and write.
//!
//! Intermediate values live in one *arena* for each thread: it grows to what the largest plan needs and stays, because memory
//! that is fresh from the system costs more than most kernels. [`Task::new`] checks once that what a step writes overlaps
//! nothing else that it touches; [`Memory::new`] checks at each run that every region lies in its buffer.

use super::KernelFault;
use super::data::{Data, DataMut};
use super::pages::populate;
use crate::DType;
use crate::buffer::Buffer;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// A kernel of which everything is resolved that does not depend on values. It writes all of its results.
pub(crate) type Prepared =
    Box<dyn Fn(&[Data<'_>], &mut [DataMut<'_>]) -> Result<(), KernelFault> + Send + Sync>;

/// The buffer that a region is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Leaf(u32),
    Constant(u32),
    Result(u32),
    Arena,
}

/// Some elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) base: Base,
    pub(crate) dtype: DType,
    /// In bytes; a multiple of the size of an element.
    pub(crate) start: usize,
    /// In elements.
    pub(crate) len: usize,
}

impl Region {
    fn end(&self) -> usize {
        let bytes = self.len.saturating_mul(self.dtype.size());
        self.start.saturating_add(bytes)
    }

    /// Whether they share an element.
    fn overlaps(&self, other: &Region) -> bool {
        let some = self.len > 0 && other.len > 0;
        some && self.base == other.base && self.start < other.end() && other.start < self.end()
    }
}

/// A kernel and where its operands and results are.
pub(crate) struct Task {
    kernel: Prepared,
    args: Box<[Region]>,
    outs: Box<[Region]>,
}

impl Task {
    /// Checks what running it relies on: each region is held by `needs`, and what is written overlaps nothing else.
    pub(crate) fn new(
        kernel: Prepared,
        args: Vec<Region>,
        outs: Vec<Region>,
        needs: &Needs,
    ) -> Task {
        for (i, out) in outs.iter().enumerate() {
            let written = matches!(out.base, Base::Result(_) | Base::Arena);
            let alone = !args.iter().chain(&outs[..i]).any(|r| r.overlaps(out));
            assert!(written && alone, "a result has a place of its own");
        }
        for region in args.iter().chain(&outs) {
            let aligned = region.start.is_multiple_of(region.dtype.size());
            assert!(
                aligned && needs.hold(region),
                "aligned elements inside of a buffer"
            );
        }
        Task {
            kernel,
            args: args.into(),
            outs: outs.into(),
        }
    }

    pub(crate) fn args(&self) -> &[Region] {
        &self.args
    }

    pub(crate) fn outs(&self) -> &[Region] {
        &self.outs
    }
}

/// A leaf of a plan.
pub(crate) enum Leaf<'a> {
    /// Its elements, which others may have, too.
    Held(&'a Arc<Buffer>),
    /// Its elements are in the buffer that becomes this result. The task that writes the result is a group that reads the leaf
    /// in order, and nobody reads the leaf after that.
    Given(usize),
}

/// The buffers of one run of a plan.
pub(crate) struct Memory<'a> {
    leaves: &'a [Leaf<'a>],
    constants: &'a [Buffer],
    results: &'a [*mut u8],
    arena: *mut u8,
}

/// What the regions of a plan need.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The dtype and the number of elements of each leaf, constant and result.
    pub(crate) leaves: Vec<(DType, usize)>,
    pub(crate) constants: Vec<(DType, usize)>,
    pub(crate) results: Vec<(DType, usize)>,
    /// The bytes of the arena.
    pub(crate) arena: usize,
}

impl Needs {
    /// Whether the region lies in its buffer.
    fn hold(&self, region: &Region) -> bool {
        let held = |buffers: &[(DType, usize)], i: u32| {
            let (dtype, len) = buffers[i as usize];
            dtype == region.dtype && region.end() <= len.saturating_mul(dtype.size())
        };
        match region.base {
            Base::Leaf(i) => held(&self.leaves, i),
            Base::Constant(i) => held(&self.constants, i),
            Base::Result(i) => held(&self.results, i),
            Base::Arena => region.end() <= self.arena,
        }
    }
}

/// The bytes that the start of every value in the arena is a multiple of: a cache line, and the widest vector.
pub(crate) const ALIGN: usize = 64;

/// A cache line of the arena. The memory is initialised once and then keeps what was written last.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code)] // it is reached through pointers
struct Line([u8; ALIGN]);

thread_local! {
    static ARENA: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Runs tasks of which every region is held by `needs`, one after the other; `failed` says which of them is at fault.
pub(crate) fn run(
    tasks: &[Task],
    needs: &Needs,
    leaves: &[Leaf<'_>],
    constants: &[Buffer],
    results: &mut [Arc<Buffer>],
) -> Result<(), (usize, KernelFault)> {
    let size = |buffer: &Buffer| (buffer.dtype(), buffer.len());
    let held = leaves
        .iter()
        .map(|leaf| match leaf {
            Leaf::Held(buffer) => size(buffer),
            Leaf::Given(result) => needs.results[*result],
        })
        .eq(needs.leaves.iter().copied())
        && constants
            .iter()
            .map(size)
            .eq(needs.constants.iter().copied())
        && results
            .iter()
            .map(|b| size(b))
            .eq(needs.results.iter().copied());
    assert!(held, "the buffers are those that the plan was made for");
    let mut arena = ARENA.take();
    let lines = needs.arena.div_ceil(ALIGN);
    if arena.len() < lines {
        arena = Vec::new();
        if arena.try_reserve_exact(lines).is_err() {
            return Err((0, KernelFault::OutOfMemory { bytes: needs.arena }));
        }
        populate(arena.spare_capacity_mut());
        arena.resize(lines, Line([0; ALIGN]));
    }
    let start = |result: &mut Arc<Buffer>| {
        let only = Arc::get_mut(result).expect("nobody else has a result that is not computed yet");
        only.as_mut_ptr()
    };
    let mut pointers: SmallVec<[*mut u8; 16]> = SmallVec::new();
    pointers.extend(results.iter_mut().map(start));
    let memory = Memory {
        leaves,
        constants,
        results: &pointers,
        arena: arena.as_mut_ptr().cast(),
    };
    let ran = tasks.iter().enumerate().try_for_each(|(i, task)| {
        // SAFETY: the caller's regions are held by `needs`, and so are the buffers, as checked above.
        unsafe { memory.run(task) }.map_err(|fault| (i, fault))
    });
    ARENA.set(arena);
    ran
}

/// Up to so many operands and results are resolved without an allocation.
const FEW: usize = 8;

impl Memory<'_> {
    /// # Safety
    ///
    /// Every region of `task` lies in its buffer.
    unsafe fn run(&self, task: &Task) -> Result<(), KernelFault> {
        let data = |region: &Region| {
            if let Base::Leaf(i) = region.base
                && let Leaf::Given(result) = self.leaves[i as usize]
            {
                let is_it = |out: &Region| out.base == Base::Result(result as u32);
                if let Some(out) = task.outs.iter().position(is_it) {
                    return Data::Same(out);
                }
            }
            // SAFETY: the regions lie in their buffers, which outlive this call, and are written by nobody meanwhile: what a
            // task writes overlaps no operand (`Task::new`), and a leaf in the buffer of a result of this task was seen to
            // above.
            unsafe { self.data(region) }
        };
        // SAFETY: what is written overlaps nothing else of the task (`Task::new`), and nobody else has the results or
        // the arena.
        let data_mut = |region: &Region| unsafe { self.data_mut(region) };
        if task.args.len() <= FEW && task.outs.len() == 1 {
            let mut args = [Data::EMPTY; FEW];
            for (arg, region) in args.iter_mut().zip(&task.args) {
                *arg = data(region);
            }
            return (task.kernel)(&args[..task.args.len()], &mut [data_mut(&task.outs[0])]);
        }
        let args: SmallVec<[Data; FEW]> = task.args.iter().map(data).collect();
        let mut outs: SmallVec<[DataMut; FEW]> = task.outs.iter().map(data_mut).collect();
        (task.kernel)(&args, &mut outs)
    }

    fn start(&self, region: &Region) -> *mut u8 {
        let base = match region.base {
            Base::Leaf(i) => match self.leaves[i as usize] {
                Leaf::Held(buffer) => buffer.as_ptr().cast_mut(),
                Leaf::Given(result) => self.results[result],
            },
            Base::Constant(i) => self.constants[i as usize].as_ptr().cast_mut(),
            Base::Result(i) => self.results[i as usize],
            Base::Arena => self.arena,
        };
        base.wrapping_add(region.start)
    }

    /// # Safety
    ///
    /// The region lies in its buffer, and nobody writes it while the elements are in use.
    #[inline(always)]
    unsafe fn data(&self, region: &Region) -> Data<'_> {
        let start = self.start(region);
        macro_rules! of {
            ($($dtype:ident: $t:ty),*) => {
                match region.dtype {
                    $(DType::$dtype => {
                        // SAFETY: the caller's; the start is aligned because the buffer is and the offset is a
                        // multiple of the size. A bool is read where a bool was written: the kernels write all
                        // of a result before another step reads it.
                        Data::$dtype(unsafe {
                            std::slice::from_raw_parts(start.cast::<$t>(), region.len)
                        })
                    })*
                }
            };
        }
        of!(F32: f32, F64: f64, I32: i32, I64: i64, Bool: bool)
    }

    /// # Safety
    ///
    /// The region lies in its buffer, which is a result or the arena, and nobody else uses it meanwhile.
    #[inline(always)]
    unsafe fn data_mut(&self, region: &Region) -> DataMut<'_> {
        let start = self.start(region);
        macro_rules! of {
            ($($dtype:ident: $t:ty),*) => {
                match region.dtype {
                    $(DType::$dtype => {
                        // SAFETY: as in `data`.
                        DataMut::$dtype(unsafe {
                            std::slice::from_raw_parts_mut(start.cast::<$t>(), region.len)
                        })
                    })*
                }
            };
        }
        of!(F32: f32, F64: f64, I32: i32, I64: i64, Bool: bool)
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, Region};
    use crate::DType;

    #[test]
    fn regions_overlap_where_they_share_an_element() {
        let region = |base, start, len| Region {
            base,
            dtype: DType::F32,
            start,
            len,
        };
        let whole = region(Base::Arena, 64, 32);
        let overlaps = |other: Region| {
            assert_eq!(whole.overlaps(&other), other.overlaps(&whole));
            whole.overlaps(&other)
        };
        assert!(overlaps(region(Base::Arena, 188, 100)));
        assert!(overlaps(region(Base::Arena, 0, 17)));
        assert!(!overlaps(region(Base::Arena, 192, 100)));
        assert!(!overlaps(region(Base::Arena, 0, 16)));
        assert!(!overlaps(region(Base::Result(0), 64, 32)));
        // The arena gives a value without elements no place of its own.
        assert!(!overlaps(region(Base::Arena, 128, 0)));
    }
}
