//! Tasks that a kernel runs on parts of its own operands and results, perhaps many times.
//!
//! A loop over few numbers may run millions of times. So all addresses that its tasks use are found once, before the first
//! turn, and a turn changes only those that move.

use crate::memory::aligned_vec::{ALIGN, Line};
use crate::memory::buffer::Buffer;
use crate::memory::data::{Data, DataMut, copy_bytes};
use crate::memory::fault::KernelFault;
use crate::task::{Address, BufferSizes, DonationSet, Kernel, RegionBase, RunBuffers, Task};
use crate::turn_loop::{CopySource, Moving, MovingCopy, PlacedTurnLoop, TurnPlaces};
use gradloom_ir::DType;
use smallvec::SmallVec;

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
    /// Addresses that the tasks use, one task after the other.
    addresses: Box<[Address]>,
    /// For each buffer, the positions of the addresses in it.
    users: Box<[SmallVec<[u32; 4]>]>,
    /// Size of the memory for intermediate values and registers.
    lines: usize,
    /// Runs all turns of a loop with this body.
    turn_loop: Option<PlacedTurnLoop>,
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
        // A group on addresses would have to copy an operand that is in its result, which costs more than a turn that
        // writes its states elsewhere.
        let mut on_addresses = vec![false; needs.results.len()];
        for task in tasks.iter().filter(|task| task.runs_on_addresses()) {
            for out in task.outs() {
                if let RegionBase::Result(result) = out.base {
                    on_addresses[result as usize] = true;
                }
            }
        }
        let mut donations = donations.into_vec();
        for set in &mut donations {
            let mut results = std::mem::take(&mut set.results).into_vec();
            results.retain(|result| !on_addresses[*result as usize]);
            set.results = results.into();
        }
        // The tasks run one after the other, so they share the memory of their registers.
        let first_register = needs.arena.next_multiple_of(ALIGN);
        let addresses = tasks.iter().flat_map(|task| task.addresses(first_register));
        let addresses: Box<[Address]> = addresses.collect();
        let mut users = vec![SmallVec::new(); needs.n_buffers()];
        for (i, address) in (0u32..).zip(&addresses) {
            users[address.buffer as usize].push(i);
        }
        let registers = tasks.iter().map(Task::lines_of_registers).max();
        let fits =
            |(buffer, size): (&Buffer, &(DType, usize))| (buffer.dtype(), buffer.len()) == *size;
        assert!(
            constants.len() == needs.constants.len()
                && constants.iter().zip(&needs.constants).all(fits)
        );
        let turn_loop = match &*tasks {
            [task] => task.turn_loop().filter(|_| {
                let result = task.outs()[0];
                let number = (result.dtype, result.len);
                outs.iter().all(|out| needs.of_output(*out) == number)
            }),
            _ => None,
        };
        Body {
            turn_loop,
            first: first.collect(),
            lines: first_register / ALIGN + registers.unwrap_or(0),
            addresses,
            users: users.into(),
            tasks,
            names,
            needs,
            constants,
            outs,
            donations: donations.into(),
        }
    }

    /// Returns the number of lines of memory that a run needs for intermediate values and registers.
    pub(crate) fn lines(&self) -> usize {
        self.lines
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
                && outs_fit
                    .all(|(out, from)| (out.dtype(), out.len()) == self.needs.of_output(*from))
                && arena.len() >= self.lines(),
            "the operands and results must have the dtypes and lengths that the body was made for"
        );
        let mut memory = BodyMemory::default();
        let BodyMemory {
            starts,
            given,
            copies,
            first_address,
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
        *first_address = starts.len();
        for address in &self.addresses {
            starts.push(starts[address.buffer as usize].wrapping_add(address.offset));
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
            first_address,
        } = memory;
        let buffers = RunBuffers { given, starts };
        let mut addresses = &starts[*first_address..];
        for (task, op) in self.tasks.iter().zip(&self.names) {
            // SAFETY: `Task::new` checked that `needs` contains the regions; the operands and results
            // match `needs`, as the caller guarantees. Nothing else uses the results and the arena. An
            // operand in a result was `Data::Same` for the first task that writes the result, and no later
            // task reads it (`donations`). An output that is an operand is in no region that a task
            // writes. No task on addresses writes a result in which an operand is.
            let ran = unsafe {
                match task.kernel() {
                    Kernel::Addresses(kernel) => {
                        let (own, others) = addresses.split_at(task.n_addresses());
                        addresses = others;
                        kernel.run(task.places(own));
                        Ok(())
                    }
                    Kernel::Slices(kernel) => buffers.run_on_slices(task, kernel),
                }
            };
            ran.map_err(|fault| KernelFault::Within {
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

    /// Returns whether a compiled loop runs all turns of a [`scan`](crate::control::scan) with this body.
    pub fn runs_all_turns(&self) -> bool {
        self.turn_loop.is_some()
    }

    /// Returns the compiled loop that runs all turns of a loop with this body, if there is one.
    pub(crate) fn turn_loop(&self) -> Option<&PlacedTurnLoop> {
        self.turn_loop.as_ref()
    }

    /// Runs all turns of a loop with its [compiled loop](Self::turn_loop).
    ///
    /// `steps` are the indices of starts that move, and by how many bytes.
    ///
    /// # Safety
    ///
    /// As for [`run_in`](Self::run_in) in each turn, except that a state must be written where it is read.
    pub(crate) unsafe fn run_turns(
        &self,
        compiled: &PlacedTurnLoop,
        memory: &BodyMemory,
        steps: &[(usize, isize)],
        turns: usize,
    ) {
        let moving = |start: usize| {
            let step = steps.iter().find(|(other, _)| *other == start);
            Moving {
                at: memory.starts[start],
                step: step.map_or(0, |(_, bytes)| *bytes),
            }
        };
        let addresses = compiled.addresses.iter();
        let addresses = addresses.map(|i| moving(memory.first_address + i));
        let places: SmallVec<[Moving; 32]> = addresses.collect();
        let copies = memory.copies.iter().map(|copy| MovingCopy {
            from: moving(copy.from),
            to: moving(copy.to),
            source: match self.outs[copy.output] {
                BodyOut::Leaf(_) => CopySource::Operand,
                BodyOut::Result(_) => CopySource::Result,
            },
        });
        let copies: SmallVec<[MovingCopy; 8]> = copies.collect();
        let places = TurnPlaces {
            places: &places,
            copies: &copies,
            turns,
        };
        // SAFETY: the kernel's slots are numbers of the dtype of the loop, and so are all outputs (`new`). The caller
        // guarantees the memory of each turn. The level is that of this CPU.
        unsafe { (compiled.run)(compiled.level, &places) }
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

    /// Returns the positions of the addresses in a buffer. A copied output has none.
    fn users_of(&self, start: usize) -> &[u32] {
        self.users.get(start).map_or(&[], |users| users)
    }

    /// Returns the size in bytes of an operand.
    pub(crate) fn bytes_of_leaf(&self, leaf: usize) -> usize {
        let (dtype, len) = self.needs.leaves[leaf];
        dtype.size() * len
    }

    /// Returns the size in bytes of an output.
    pub(crate) fn bytes_of_output(&self, output: usize) -> usize {
        let (dtype, len) = self.needs.of_output(self.outs[output]);
        dtype.size() * len
    }
}

impl BufferSizes {
    /// Returns the dtype and the number of elements of an output of a body.
    fn of_output(&self, out: BodyOut) -> (DType, usize) {
        match out {
            BodyOut::Leaf(i) => self.leaves[i as usize],
            BodyOut::Result(i) => self.results[i as usize],
        }
    }
}

/// Memory of one run of a body.
#[derive(Clone, Default)]
pub(crate) struct BodyMemory {
    /// Start of each buffer, in the order of [`BufferSizes::number`], then of each output that is copied, then the addresses
    /// of tasks.
    starts: SmallVec<[*mut u8; 128]>,
    /// For each buffer the index of that of the result in which it is, or 0. It ends with the last such buffer.
    given: SmallVec<[u32; 64]>,
    copies: SmallVec<[CopiedOutput; 8]>,
    /// Index of the first address of a task.
    first_address: usize,
}

impl BodyMemory {
    /// Index of the start of the memory for intermediate values.
    pub(crate) const ARENA: usize = 0;

    /// Puts a buffer or a copied output of `body` in other memory.
    pub(crate) fn put(&mut self, body: &Body, start: usize, there: *mut u8) {
        self.starts[start] = there;
        for user in body.users_of(start) {
            let offset = body.addresses[*user as usize].offset;
            self.starts[self.first_address + *user as usize] = there.wrapping_add(offset);
        }
    }

    /// Returns all that moves with a buffer or a copied output of `body`: indices for [`advance_twice`](Self::advance_twice).
    pub(crate) fn moving(&self, body: &Body, start: usize) -> impl Iterator<Item = usize> {
        let users = body.users_of(start).iter();
        let users = users.map(|user| self.first_address + *user as usize);
        std::iter::once(start).chain(users)
    }

    /// Moves some starts and addresses by twice a number of bytes, from a turn to the second turn after it.
    #[inline]
    pub(crate) fn advance_twice(&mut self, steps: &[(usize, isize)]) {
        let starts = &mut self.starts[..];
        for (start, bytes) in steps {
            starts[*start] = starts[*start].wrapping_offset(2 * bytes);
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
