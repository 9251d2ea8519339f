//! Groups whose elements are one piece.
//!
//! A loop may run such a group millions of times, on a few numbers. Checks that depend on shapes alone are made with the
//! plan, and a run only gets addresses.

use crate::elementwise::bytecode::{Instr, Slot};
use crate::elementwise::group::{Group, Input, fill};
use crate::elementwise::tile::on_total;
use crate::memory::data::copy_bytes;
use crate::task::{OnAddresses, Places, Registers};
use crate::turn_loop::PlacedTurnLoop;
use gradloom_ir::DType;

/// A group whose elements are one piece.
///
/// The slots of its instructions are the addresses of a run: operands, results and totals, registers of values, and the
/// registers of operands.
pub(crate) struct Piece {
    group: Group,
    /// Operands that are copied to their registers, where the instructions read them.
    copied: Box<[usize]>,
    registers: Registers,
}

impl Piece {
    /// Returns whether the group has one piece.
    pub(crate) fn can_run(group: &Group) -> bool {
        group.is_one_piece()
    }

    /// # Panics
    ///
    /// Panics unless it [can run](Self::can_run) the group.
    pub(crate) fn new(mut group: Group) -> Piece {
        assert!(Piece::can_run(&group), "the elements are one piece");
        let (n_args, n_values) = (group.inputs.len(), group.n_registers as usize);
        let (n_results, n_places) = (n_args + group.outputs.len(), n_args + group.n_outs());
        let is_copied = |i: &usize| !matches!(group.inputs[*i], Input::Direct { .. });
        let copied: Box<[usize]> = (0..n_args).filter(is_copied).collect();
        let address = |slot: Slot| {
            let slot = slot as usize;
            let address = match slot.checked_sub(n_results) {
                Some(register) => n_places + register,
                None if copied.contains(&slot) => n_places + n_values + slot,
                None => slot,
            };
            address as Slot
        };
        let of_instrs = group.instrs.iter_mut();
        of_instrs.for_each(|instr| instr.renumber(address));
        let of_sums = group.sums.iter_mut();
        of_sums.for_each(|(slot, ..)| *slot = address(*slot));
        let registers = Registers {
            n: n_values + n_args,
            stride: group.stride,
        };
        Piece {
            group,
            copied,
            registers,
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

    fn registers(&self) -> Registers {
        self.registers
    }

    fn turn_loop(&self) -> Option<PlacedTurnLoop> {
        let Group {
            n, instrs, sums, ..
        } = &self.group;
        let plain = *n == 1 && self.copied.is_empty() && sums.is_empty();
        match &**instrs {
            [
                Instr::Compiled {
                    code,
                    level,
                    args,
                    outs,
                    ..
                },
            ] if plain => Some(PlacedTurnLoop {
                run: code.turns?,
                level: *level,
                addresses: args.iter().chain(outs).map(|slot| *slot as usize).collect(),
            }),
            _ => None,
        }
    }

    unsafe fn run(&self, places: Places<'_>) {
        let Group {
            n,
            inputs,
            outputs,
            instrs,
            sums,
            ..
        } = &self.group;
        let (n, addresses) = (*n, places.addresses());
        let first_result = inputs.len();
        for of in places.in_place() {
            let size = outputs.get(of.out).copied();
            let size = size.expect("a total is not computed in the memory of an operand");
            let in_order =
                matches!(&inputs[of.operand], Input::Direct { dtype } if dtype.size() == size);
            assert!(in_order, "an operand in a result is read in order");
            let from = addresses[first_result + of.out];
            // SAFETY: the operand has as many elements of the same size as the result, and its register has space for
            // them.
            unsafe { copy_bytes(from, addresses[of.operand], n * size) };
        }
        let first_own = addresses.len() - inputs.len();
        for &operand in &self.copied {
            let own = addresses[first_own + operand];
            // SAFETY: the operand is not in the memory of a result, as asserted above.
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
        }
        for instr in instrs {
            // SAFETY: a slot is an operand or a result of at least `n` elements, as the caller guarantees, or a
            // register for `n` of the widest elements. `Group::new` checked that the instruction writes neither an
            // operand nor a slot that it reads. The planner gives each slot values of one dtype at a time.
            unsafe { instr.run(addresses, n) };
        }
        let first_total = first_result + outputs.len();
        for ((slot, dtype, sum), total) in sums.iter().zip(&addresses[first_total..]) {
            // SAFETY: the slot holds `n` elements of the dtype, and the totals have `FusedSum::len` elements, as
            // the caller guarantees.
            unsafe { on_total(*dtype, *sum, addresses[*slot as usize], *total, 0, n) };
        }
    }
}
