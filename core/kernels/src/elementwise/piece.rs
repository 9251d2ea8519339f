//! Groups whose elements are one piece.
//!
//! A loop may run such a group millions of times, on a few numbers. Checks that depend on shapes alone are made with the
//! plan, and a run only gets addresses, in the order in which the instructions use them.

use crate::elementwise::bytecode::{Call, Slot};
use crate::elementwise::group::{Group, Input, fill};
use crate::elementwise::tile::on_total;
use crate::task::{OnAddresses, Places, Registers};
use crate::turn_loop::PlacedTurnLoop;
use gradloom_ir::DType;

/// A group whose elements are one piece.
pub(crate) struct Piece {
    group: Group,
    /// Operands that are copied to their registers, where the instructions read them.
    copied: Box<[usize]>,
    /// The instructions of the group.
    calls: Box<[Call]>,
    registers: Registers,
    /// The places that a run uses, in order: each copied operand and its register, those of the instructions, and each term with
    /// its total.
    order: Box<[u32]>,
}

impl Piece {
    /// Returns whether the group has one piece.
    pub(crate) fn can_run(group: &Group) -> bool {
        group.is_one_piece()
    }

    /// # Panics
    ///
    /// Panics unless it [can run](Self::can_run) the group.
    pub(crate) fn new(group: Group) -> Piece {
        assert!(Piece::can_run(&group), "the elements are one piece");
        let (n_args, n_values) = (group.inputs.len(), group.n_registers as usize);
        let (n_results, n_places) = (n_args + group.outputs.len(), n_args + group.n_outs());
        let is_copied = |i: &usize| !matches!(group.inputs[*i], Input::Direct { .. });
        let copied: Box<[usize]> = (0..n_args).filter(is_copied).collect();
        let own_register = |i: usize| n_places + n_values + i;
        let place = |slot: Slot| {
            let slot = slot as usize;
            match slot.checked_sub(n_results) {
                Some(register) => n_places + register,
                None => match copied.binary_search(&slot) {
                    Ok(i) => own_register(i),
                    Err(_) => slot,
                },
            }
        };
        let calls = group.instrs.iter().map(Call::new);
        let (calls, slots): (Vec<Call>, Vec<Vec<Slot>>) = calls.unzip();
        let of_copied = copied.iter().enumerate();
        let of_copied = of_copied.flat_map(|(i, operand)| [*operand, own_register(i)]);
        let of_calls = slots.into_iter().flatten().map(place);
        let totals = n_results..;
        let of_sums = group.sums.iter().zip(totals);
        let of_sums = of_sums.flat_map(|((slot, ..), total)| [place(*slot), total]);
        let order = of_copied.chain(of_calls).chain(of_sums);
        Piece {
            order: order.map(|place| place as u32).collect(),
            calls: calls.into(),
            registers: Registers {
                n: n_values + copied.len(),
                stride: group.stride,
            },
            copied,
            group,
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

    fn order(&self) -> &[u32] {
        &self.order
    }

    fn can_be_in_place(&self, operand: usize, out: usize) -> bool {
        let Group {
            inputs, outputs, ..
        } = &self.group;
        let size = outputs.get(out).copied();
        matches!(&inputs[operand], Input::Direct { dtype } if Some(dtype.size()) == size)
    }

    fn turn_loop(&self) -> Option<PlacedTurnLoop> {
        let Group { n, sums, .. } = &self.group;
        let plain = *n == 1 && self.copied.is_empty() && sums.is_empty();
        match &*self.calls {
            [Call::Compiled { code, level, .. }] if plain => Some(PlacedTurnLoop {
                run: code.turns?,
                level: *level,
            }),
            _ => None,
        }
    }

    unsafe fn run(&self, places: Places<'_>) {
        let Group {
            n, inputs, sums, ..
        } = &self.group;
        let n = *n;
        let mut addresses = places.addresses();
        for &operand in &self.copied {
            let (own, others) = addresses.split_at(2);
            addresses = others;
            let (from, register) = (own[0], own[1]);
            // SAFETY: the operand is at this address, and not in place, because it is copied.
            let data = unsafe { places.data(operand, from) };
            match &inputs[operand] {
                // SAFETY: a register has `n` initialised elements, aligned, and belongs to this thread.
                Input::Splat { at } => unsafe { fill(data, *at, register, n) },
                // SAFETY: as above.
                Input::Apart { reader, .. } => unsafe { reader.read(data, 0, register, n) },
                Input::Direct { .. } | Input::Tiled { .. } => {
                    unreachable!("direct operands are in place, and a piece has no tiles")
                }
            }
        }
        for call in &self.calls {
            // SAFETY: an address is that of an operand or a result of at least `n` elements, as the caller guarantees, or of
            // a register for `n` of the widest elements. `Group::new` checked that the instruction writes neither an
            // operand nor a slot that it reads. The planner gives each slot values of one dtype at a time.
            addresses = unsafe { call.run(addresses, n) };
        }
        for ((_, dtype, sum), own) in sums.iter().zip(addresses.chunks_exact(2)) {
            // SAFETY: the first address has `n` elements of the dtype, and the total `FusedSum::len`, as the caller
            // guarantees.
            unsafe { on_total(*dtype, *sum, own[0], own[1], 0, n) };
        }
    }
}
