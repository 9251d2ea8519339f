//! Groups whose elements are one piece.
//!
//! A loop may run such a group millions of times, on a few numbers. So what only depends on shapes is checked when the
//! plan is made, and a run resolves each operand to an address, and no more.

use crate::elementwise::group::{Group, Input, SCRATCH, fill, read, read_placed};
use crate::elementwise::tile::on_total;
use crate::memory::data::Data;
use crate::memory::scratch;
use gradloom_ir::DType;

/// Maximum number of slots and totals.
const SLOTS: usize = 32;

/// A group whose elements are one piece.
pub struct Piece {
    group: Group,
    /// Operands that are not read from their first element on.
    others: Box<[Other]>,
    /// Number of registers, with one for each operand.
    n_registers: usize,
}

/// How an operand is read whose elements are not all those of its slice.
enum Other {
    /// In place, from this byte on.
    At { operand: usize, start: usize },
    /// From a register, to which it is copied.
    Copied { operand: usize },
}

impl Piece {
    /// Returns the group if it has more than one piece, or too many slots.
    pub(crate) fn new(group: Group) -> Result<Piece, Group> {
        let n_registers = group.n_registers as usize + group.inputs.len();
        let few = n_registers + group.n_outs() <= SLOTS;
        if !few || !group.is_one_piece() {
            return Err(group);
        }
        let other = |(operand, input): (usize, &Input)| {
            let (run, dtype) = match input {
                Input::Direct { .. } => return None,
                Input::Gather { dtype, gather } => (gather.run(0, group.n), *dtype),
                Input::Placed { dtype, placed } => (placed.run(0, group.n), *dtype),
                Input::Splat { .. } | Input::Tiled { .. } => {
                    return Some(Other::Copied { operand });
                }
            };
            let at = |at| Other::At {
                operand,
                start: at * dtype.size(),
            };
            Some(run.map_or(Other::Copied { operand }, at))
        };
        let others = group.inputs.iter().enumerate().filter_map(other).collect();
        Ok(Piece {
            group,
            others,
            n_registers,
        })
    }

    /// Returns whether operands and results of these dtypes and lengths have what the group reads and writes.
    pub(crate) fn fits(&self, args: &[(DType, usize)], outs: &[(DType, usize)]) -> bool {
        let Group {
            n, inputs, outputs, ..
        } = &self.group;
        let whole = |((dtype, len), input): (&(DType, usize), &Input)| match input {
            Input::Direct { size } => dtype.size() == *size && len >= n,
            _ => true,
        };
        // The others that are in place. The elements of those that are copied are in slices.
        let part = |other: &Other| match other {
            Other::Copied { .. } => true,
            Other::At { operand, start } => {
                let (dtype, len) = args[*operand];
                start + n * dtype.size() <= len * dtype.size()
            }
        };
        args.len() == inputs.len()
            && outs.len() == self.group.n_outs()
            && args.iter().zip(inputs).all(whole)
            && self.others.iter().all(part)
            && (outs.iter().enumerate()).all(|(i, (dtype, len))| self.group.fits(i, *dtype, *len))
            && (outs.iter().zip(outputs)).all(|((dtype, _), size)| dtype.size() == *size)
    }

    /// Runs the group. `place` returns the address of an operand, a result or a total, and `data` an operand.
    ///
    /// An operand may be at the address of a result.
    ///
    /// # Safety
    ///
    /// The operands, the results and the totals must [fit](Self::fits), and the results and totals overlap nothing
    /// else. Nothing else may use them during the call.
    #[inline]
    pub(crate) unsafe fn run<'a>(
        &self,
        place: impl Fn(usize) -> *mut u8,
        data: impl Fn(usize) -> Data<'a>,
    ) {
        let Group {
            n,
            inputs,
            outputs,
            instrs,
            sums,
            stride,
            ..
        } = &self.group;
        let (n, n_args) = (*n, inputs.len());
        let n_places = n_args + outputs.len();
        let mut slots = [std::ptr::null_mut(); SLOTS];
        for (i, slot) in slots[..n_places].iter_mut().enumerate() {
            *slot = place(i);
        }
        let mut scratch = scratch::take(&SCRATCH);
        let registers = scratch.registers(self.n_registers * stride);
        let register = |i: usize| registers.wrapping_add(i * stride);
        let n_values = self.n_registers - n_args;
        for (i, slot) in slots[n_places..][..n_values].iter_mut().enumerate() {
            *slot = register(i);
        }
        let (args, outs) = slots.split_at_mut(n_args);
        for (out, size) in outs.iter().zip(outputs) {
            for (i, arg) in args.iter_mut().enumerate() {
                if *arg == *out {
                    let in_order = matches!(&inputs[i], Input::Direct { size: own } if own == size);
                    assert!(in_order, "an operand in a result is read in order");
                    let own = register(n_values + i);
                    // SAFETY: the operand has as many elements of the same size as the result, and the register has
                    // space for them.
                    unsafe { copy(*arg, own, n * size) };
                    *arg = own;
                }
            }
        }
        for other in &self.others {
            match other {
                Other::At { operand, start } => {
                    args[*operand] = args[*operand].wrapping_add(*start);
                }
                Other::Copied { operand } => {
                    let own = register(n_values + operand);
                    let data = data(*operand);
                    match &inputs[*operand] {
                        Input::Splat { at } => fill(data, *at, own, n),
                        Input::Gather { gather, .. } => read(data, gather, 0, own, n),
                        Input::Placed { placed, .. } => read_placed(data, placed, 0, own, n),
                        Input::Direct { .. } | Input::Tiled { .. } => {
                            unreachable!("direct operands are in place, and a piece has no tiles")
                        }
                    }
                    args[*operand] = own;
                }
            }
        }
        for instr in instrs {
            // SAFETY: a slot is an operand or a result of at least `n` elements, as the caller guarantees, or a
            // register for `n` of the widest elements. `Group::new` checked that the instruction writes neither an
            // operand nor a slot that it reads. The planner gives each slot values of one dtype at a time.
            unsafe { instr.run(&slots, n) };
        }
        for (i, (slot, dtype, sum)) in sums.iter().enumerate() {
            let total = place(n_places + i);
            // SAFETY: the slot holds `n` elements of the dtype, and the totals have `FusedSum::len` elements, as
            // the caller guarantees.
            unsafe { on_total(*dtype, *sum, slots[*slot as usize], total, 0, n) };
        }
        scratch::restore(&SCRATCH, scratch);
    }
}

/// Copies bytes. Single numbers are copied without a call.
///
/// # Safety
///
/// Both must have `n` bytes and not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller guarantees `n` bytes that do not overlap.
    unsafe {
        match n {
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            _ => std::ptr::copy_nonoverlapping(from, to, n),
        }
    }
}
