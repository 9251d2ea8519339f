//! Groups whose elements are one piece.
//!
//! A loop may run such a group millions of times, on a few numbers. Checks that depend on shapes alone are made with the
//! plan, and a run only resolves each operand to an address.

use crate::elementwise::group::{Group, Input, SCRATCH, fill};
use crate::elementwise::tile::on_total;
use crate::memory::data::copy_bytes;
use crate::memory::scratch;
use crate::task::{OnAddresses, Places};
use gradloom_ir::DType;

/// Maximum number of slots and totals.
const SLOTS: usize = 32;

/// A group whose elements are one piece.
pub(crate) struct Piece {
    group: Group,
    /// Operands that are copied to registers.
    copied: Box<[usize]>,
    /// Number of registers, with one for each operand.
    n_registers: usize,
}

impl Piece {
    /// Returns whether the group has one piece and few slots.
    pub(crate) fn can_run(group: &Group) -> bool {
        let n_slots = group.n_registers as usize + group.inputs.len() + group.n_outs();
        n_slots <= SLOTS && group.is_one_piece()
    }

    /// # Panics
    ///
    /// Panics unless it [can run](Self::can_run) the group.
    pub(crate) fn new(group: Group) -> Piece {
        assert!(Piece::can_run(&group), "a piece has few slots");
        let n_registers = group.n_registers as usize + group.inputs.len();
        let is_copied = |i: &usize| !matches!(group.inputs[*i], Input::Direct { .. });
        let copied = (0..group.inputs.len()).filter(is_copied).collect();
        Piece {
            group,
            copied,
            n_registers,
        }
    }
}

impl OnAddresses for Piece {
    fn fits(&self, args: &[(DType, usize)], outs: &[(DType, usize)]) -> bool {
        let Group { n, inputs, .. } = &self.group;
        // Copied operands are slices, whose bounds are checked.
        let whole = |((dtype, len), input): (&(DType, usize), &Input)| match input {
            Input::Direct { dtype: own } => dtype == own && len >= n,
            Input::Apart { dtype: own, .. } => dtype == own,
            Input::Splat { .. } | Input::Tiled { .. } => true,
        };
        args.len() == inputs.len()
            && outs.len() == self.group.n_outs()
            && args.iter().zip(inputs).all(whole)
            && (outs.iter().enumerate()).all(|(i, (dtype, len))| self.group.fits(i, *dtype, *len))
    }

    unsafe fn run(&self, places: Places<'_>) {
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
            *slot = places.at(i);
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
                    let in_order =
                        matches!(&inputs[i], Input::Direct { dtype } if dtype.size() == *size);
                    assert!(in_order, "an operand in a result is read in order");
                    let own = register(n_values + i);
                    // SAFETY: the operand has as many elements of the same size as the result, and the register has
                    // space for them.
                    unsafe { copy_bytes(*arg, own, n * size) };
                    *arg = own;
                }
            }
        }
        for &operand in &self.copied {
            let own = register(n_values + operand);
            // SAFETY: the operand does not have the address of a result, as asserted above.
            let data = unsafe { places.data(operand) };
            match &inputs[operand] {
                // SAFETY: a register has `n` initialised elements, aligned, and belongs to this thread.
                Input::Splat { at } => unsafe { fill(data, *at, own, n) },
                // SAFETY: as above.
                Input::Apart { reader, .. } => unsafe { reader.read(data, 0, own, n) },
                Input::Direct { .. } | Input::Tiled { .. } => {
                    unreachable!("direct operands are in place, and a piece has no tiles")
                }
            }
            args[operand] = own;
        }
        for instr in instrs {
            // SAFETY: a slot is an operand or a result of at least `n` elements, as the caller guarantees, or a
            // register for `n` of the widest elements. `Group::new` checked that the instruction writes neither an
            // operand nor a slot that it reads. The planner gives each slot values of one dtype at a time.
            unsafe { instr.run(&slots, n) };
        }
        for (i, (slot, dtype, sum)) in sums.iter().enumerate() {
            let total = places.at(n_places + i);
            let in_place = (0..n_args).any(|i| places.at(i) == total);
            assert!(
                !in_place,
                "a total is not computed in the memory of an operand"
            );
            // SAFETY: the slot holds `n` elements of the dtype, and the totals have `FusedSum::len` elements, as
            // the caller guarantees.
            unsafe { on_total(*dtype, *sum, slots[*slot as usize], total, 0, n) };
        }
        scratch::restore(&SCRATCH, scratch);
    }
}
