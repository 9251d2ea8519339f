//! A plan: the equations of a simplified program in the order in which they run, with everything resolved that
//! does not depend on the values. A buffer is dropped after its last use.

use crate::buffer::{Buffer, View};
use crate::kernel;
use crate::layout::Layout;
use crate::lower::Lowered;
use crate::{Aval, Error, Result};
use gradloom_ir::{Op, SecondaryMap, Static, Var, pass};
use std::sync::Arc;

/// How to compute some results from some leaves.
pub(crate) struct Plan {
    /// Where each leaf goes, if it is read, and its aval.
    leaves: Box<[(Option<u32>, Aval)]>,
    steps: Box<[Step]>,
    n_slots: usize,
    outs: Box<[Out]>,
}

/// One equation. A slot is a place for the view of a value while it is needed.
struct Step {
    op: Op,
    statics: Box<[Static]>,
    args: Box<[u32]>,
    likes: Box<[Aval]>,
    outs: Box<[Aval]>,
    out_slots: Box<[u32]>,
    /// The slots whose values are not read again.
    free: Box<[u32]>,
}

struct Out {
    slot: u32,
    /// The op that computes it, for messages.
    op: &'static str,
}

impl Plan {
    /// Simplifies `lowered` and puts its equations in order.
    pub(crate) fn new(lowered: &Lowered) -> Plan {
        let program = pass::simplify(lowered.program.clone());
        let n_leaves = program.params.len() - lowered.likes.len();
        let mut last_use: SecondaryMap<Var, usize> = SecondaryMap::new();
        for (i, eqn) in program.eqns.iter().enumerate() {
            for var in eqn.outs.iter().chain(eqn.data()) {
                last_use.insert(*var, i);
            }
        }
        for out in &program.outs {
            last_use.insert(*out, usize::MAX);
        }
        let avals = |vars: &[Var]| {
            vars.iter()
                .map(|v| Aval::from_ir(program.aval(*v)))
                .collect()
        };
        let mut slots = Slots::default();
        let leaves = program.params[..n_leaves].iter().map(|&leaf| {
            let slot = last_use.contains(leaf).then(|| slots.take(leaf));
            (slot, Aval::from_ir(program.aval(leaf)))
        });
        let leaves = leaves.collect();
        let mut op_of: SecondaryMap<Var, &'static str> = SecondaryMap::new();
        let steps = program.eqns.iter().enumerate().map(|(i, eqn)| {
            let args = eqn.data().iter().map(|v| slots.of(*v)).collect();
            let out_slots = eqn.outs.iter().map(|&out| {
                op_of.insert(out, eqn.op.def().name());
                slots.take(out)
            });
            let out_slots = out_slots.collect();
            let mut free = Vec::new();
            for var in eqn.data().iter().chain(&eqn.outs) {
                if last_use.get(*var) == Some(&i) {
                    free.extend(slots.release(*var));
                }
            }
            Step {
                op: eqn.op,
                statics: eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect(),
                args,
                likes: avals(eqn.likes()),
                outs: avals(&eqn.outs),
                out_slots,
                free: free.into(),
            }
        });
        let steps = steps.collect();
        let outs = program.outs.iter().map(|&out| Out {
            slot: slots.of(out),
            op: op_of.get(out).copied().unwrap_or("identity"),
        });
        let outs = outs.collect();
        Plan {
            leaves,
            steps,
            n_slots: slots.n,
            outs,
        }
    }

    /// The number of equations that running it runs.
    pub(crate) fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// Computes the results. Each is the whole of its buffer, in row-major order.
    pub(crate) fn run(&self, leaves: &[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>> {
        let mut slots: Vec<Option<View>> = vec![None; self.n_slots];
        for ((slot, aval), buffer) in self.leaves.iter().zip(leaves) {
            if let Some(slot) = slot {
                slots[*slot as usize] = Some(View {
                    buffer: buffer.clone(),
                    layout: Layout::contiguous(aval.shape()),
                });
            }
        }
        for step in &self.steps {
            step.run(&mut slots)?;
        }
        let outs = self.outs.iter().map(|out| {
            let view = slots[out.slot as usize]
                .as_ref()
                .expect("results are not freed");
            let whole = view
                .to_whole()
                .map_err(|fault| Error::of_kernel(out.op, fault))?;
            Ok(whole.buffer)
        });
        outs.collect()
    }
}

impl Step {
    /// The op as the user knows it, for messages.
    fn name(&self) -> &'static str {
        match self.op {
            // It is emitted by the derivative of `cross_entropy` alone.
            Op::OneHotLike => Op::CrossEntropy.def().name(),
            op => op.def().name(),
        }
    }

    fn run(&self, slots: &mut [Option<View>]) -> Result<()> {
        let args: Vec<&View> = self
            .args
            .iter()
            .map(|slot| {
                slots[*slot as usize]
                    .as_ref()
                    .expect("operands come before consumers")
            })
            .collect();
        let views = kernel::run(self.op, &self.statics, &args, &self.likes, &self.outs)
            .map_err(|fault| Error::of_kernel(self.name(), fault))?;
        for ((slot, aval), view) in self.out_slots.iter().zip(&self.outs).zip(views) {
            debug_assert_eq!(
                (aval.dtype(), aval.shape()),
                (view.dtype(), view.shape()),
                "{}",
                self.op
            );
            slots[*slot as usize] = Some(view);
        }
        for slot in &self.free {
            slots[*slot as usize] = None;
        }
        Ok(())
    }
}

/// Gives slots to variables, and again when they are free.
#[derive(Default)]
struct Slots {
    of: SecondaryMap<Var, u32>,
    free: Vec<u32>,
    n: usize,
}

impl Slots {
    fn take(&mut self, var: Var) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.n += 1;
            self.n as u32 - 1
        });
        self.of.insert(var, slot);
        slot
    }

    fn of(&self, var: Var) -> u32 {
        *self
            .of
            .get(var)
            .expect("a variable is bound before it is read")
    }

    /// The slot, the first time that a variable is released.
    fn release(&mut self, var: Var) -> Option<u32> {
        let slot = self.of.remove(var)?;
        self.free.push(slot);
        Some(slot)
    }
}
