//! Control flow: kernels that run the tasks of a body, once or many times.
//!
//! A state that a turn can change in place is in the result of the loop from the first turn on. Another
//! state has a second buffer: a turn reads one and writes the other. The second one is *scratch*: a
//! result that nothing else reads, in the arena of the plan. What the tasks of a body need besides comes
//! from a stack of memory that each thread keeps, so a turn allocates nothing.

use crate::memory::aligned_vec::{ALIGN, AlignedVec, Line, at_least};
use crate::memory::data::{Data, DataMut};
use crate::memory::fault::KernelFault;
use crate::memory::scratch;
use crate::task::{Body, Prepared};
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;

/// Operands of a body. More of them are allocated in each turn.
type Args<'a> = SmallVec<[Data<'a>; 64]>;

/// Results of a body.
type Outs<'a> = SmallVec<[DataMut<'a>; 64]>;

thread_local! {
    /// Memory for the tasks of bodies. A loop in a loop takes another entry.
    static SPARE: Cell<Vec<AlignedVec<Line>>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with at least `n` lines of memory, which hold what the last use left.
pub(crate) fn with_lines(
    n: usize,
    f: impl FnOnce(&mut AlignedVec<Line>) -> Result<(), KernelFault>,
) -> Result<(), KernelFault> {
    let mut spare = scratch::take(&SPARE);
    let last = spare.pop().unwrap_or_default();
    scratch::restore(&SPARE, spare);
    let bytes = n.saturating_mul(ALIGN);
    let mut lines = at_least(last, n).ok_or(KernelFault::OutOfMemory { bytes })?;
    let done = f(&mut lines);
    let mut spare = scratch::take(&SPARE);
    spare.push(lines);
    scratch::restore(&SPARE, spare);
    done
}

/// Buffers of the states of a loop.
struct States<'a> {
    buffers: SmallVec<[Buffers<'a>; 32]>,
    /// Index of the buffers that hold the states now.
    now: usize,
}

enum Buffers<'a> {
    /// A turn changes the state in place.
    One(DataMut<'a>),
    /// The result of the loop, and scratch.
    Two([DataMut<'a>; 2]),
}

impl<'a> States<'a> {
    /// Returns states that are equal to `first`, in the results of a loop and in scratch.
    ///
    /// `states` is the position of the first state among the operands of `body`.
    fn new(
        body: &Body,
        states: usize,
        first: &[Data<'_>],
        results: &'a mut [DataMut<'_>],
        scratch: &'a mut [DataMut<'_>],
    ) -> States<'a> {
        let both = results.iter_mut().zip(scratch).zip(first).enumerate();
        let buffers = both.map(|(i, ((result, other), first))| {
            result.copy_from(*first);
            match body.can_reuse(states + i, i) {
                true => Buffers::One(result.reborrow()),
                false => Buffers::Two([result.reborrow(), other.reborrow()]),
            }
        });
        States {
            buffers: buffers.collect(),
            now: 0,
        }
    }

    /// Returns the buffers that hold the states, and those of the states after a turn.
    fn turn(&mut self) -> (Args<'_>, Outs<'_>) {
        let now = self.now;
        let (mut args, mut outs) = (Args::new(), Outs::new());
        for (i, buffers) in self.buffers.iter_mut().enumerate() {
            match buffers {
                Buffers::One(state) => {
                    args.push(Data::Same(i));
                    outs.push(state.reborrow());
                }
                Buffers::Two([a, b]) => {
                    let (from, to) = if now == 0 { (a, b) } else { (b, a) };
                    args.push(DataMut::as_data(from));
                    outs.push(to.reborrow());
                }
            }
        }
        (args, outs)
    }

    fn end_turn(&mut self) {
        self.now = 1 - self.now;
    }

    /// Returns the states.
    fn values(&self) -> impl Iterator<Item = Data<'_>> {
        self.buffers.iter().map(|buffers| match buffers {
            Buffers::One(state) => state.as_data(),
            Buffers::Two(both) => both[self.now].as_data(),
        })
    }

    /// Copies states that are in scratch to the results of the loop.
    fn finish(self) {
        for buffers in self.buffers {
            if let (Buffers::Two([mut result, other]), 1) = (buffers, self.now) {
                result.copy_from(other.as_data());
            }
        }
    }
}

/// Sizes of a `scan`.
#[derive(Clone, Debug)]
pub struct Scan {
    pub turns: usize,
    /// Number of operands that are the same in each turn.
    pub consts: usize,
    /// Number of states.
    pub carry: usize,
    pub reverse: bool,
}

/// Runs a body for each index of axis 0 of the operands after the constants and the states.
///
/// The results are the states, the stacked results, and scratch for each state, which is empty if
/// a turn changes the state in place ([`Body::can_reuse`]).
pub fn scan(body: Body, of: Scan) -> Prepared {
    Box::new(move |args, outs| {
        let (fixed, xs) = args.split_at(of.consts + of.carry);
        let (consts, first) = fixed.split_at(of.consts);
        let n_outs = outs.len() - of.carry;
        let (outs, scratch) = outs.split_at_mut(n_outs);
        let (last, ys) = outs.split_at_mut(of.carry);
        let mut states = States::new(&body, of.consts, first, last, scratch);
        with_lines(body.lines(), |arena| {
            for turn in 0..of.turns {
                let i = if of.reverse {
                    of.turns - 1 - turn
                } else {
                    turn
                };
                let (now, mut next) = states.turn();
                let mut args: Args<'_> = consts.iter().copied().chain(now).collect();
                args.extend(xs.iter().map(|x| {
                    let len = x.len() / of.turns;
                    x.part(i * len, len)
                }));
                next.extend(ys.iter_mut().map(|y| {
                    let len = y.len() / of.turns;
                    y.part_mut(i * len, len)
                }));
                body.run(&args, &mut next, arena)?;
                drop((args, next));
                states.end_turn();
            }
            Ok(())
        })?;
        states.finish();
        Ok(())
    })
}

/// Runs a body as long as a condition holds.
///
/// The results are the states, scratch for each state as in [`scan`], and scratch for the condition.
pub fn repeat_while(cond: Body, body: Body, consts: usize) -> Prepared {
    Box::new(move |args, outs| {
        let (consts, first) = args.split_at(consts);
        let (last, scratch) = outs.split_at_mut(first.len());
        let (scratch, goes_on) = scratch.split_at_mut(first.len());
        let mut states = States::new(&body, consts.len(), first, last, scratch);
        with_lines(cond.lines().max(body.lines()), |arena| {
            loop {
                let args: Args<'_> = consts.iter().copied().chain(states.values()).collect();
                cond.run(&args, goes_on, arena)?;
                if !is_true(&goes_on[0]) {
                    return Ok(());
                }
                drop(args);
                let (now, mut next) = states.turn();
                let args: Args<'_> = consts.iter().copied().chain(now).collect();
                body.run(&args, &mut next, arena)?;
                drop((args, next));
                states.end_turn();
            }
        })?;
        states.finish();
        Ok(())
    })
}

fn is_true(goes_on: &DataMut<'_>) -> bool {
    matches!(goes_on, DataMut::Bool([byte]) if *byte != 0)
}

/// Runs `forward` as long as a condition holds, tapes its further results, and runs `backward` on the
/// tape from its end.
///
/// The results are the states of the way back, the states of the way forward, scratch for each of both
/// as in [`scan`], and scratch for the condition. `taped` has dtype and length of what a turn tapes.
pub fn there_and_back(
    cond: Body,
    forward: Body,
    backward: Body,
    [consts, carry]: [usize; 2],
    taped: Vec<(DType, usize)>,
) -> Prepared {
    // Start of each taped value in a turn, in lines, and the size of all of them.
    let mut lines_of_turn = 0;
    let places: Vec<usize> = taped
        .iter()
        .map(|(dtype, len)| {
            let start = lines_of_turn;
            lines_of_turn += (dtype.size() * len).div_ceil(ALIGN);
            start
        })
        .collect();
    Box::new(move |args, outs| {
        let (there, first_back) = args.split_at(consts + carry);
        let (consts, first) = there.split_at(consts);
        let n_back = first_back.len();
        let (last, rest) = outs.split_at_mut(n_back);
        let (forward_states, rest) = rest.split_at_mut(carry);
        let (of_back, rest) = rest.split_at_mut(n_back);
        let (of_carry, goes_on) = rest.split_at_mut(carry);
        let n_consts = consts.len();
        let mut states = States::new(&forward, n_consts, first, forward_states, of_carry);
        let first_state = n_consts + taped.len();
        let mut back = States::new(&backward, first_state, first_back, last, of_back);
        let lines = cond.lines().max(forward.lines()).max(backward.lines());
        with_lines(lines, |arena| {
            with_lines(0, |tape| {
                let mut turns = 0;
                loop {
                    let args: Args<'_> = consts.iter().copied().chain(states.values()).collect();
                    cond.run(&args, goes_on, arena)?;
                    if !is_true(&goes_on[0]) {
                        break;
                    }
                    drop(args);
                    let (now, mut next) = states.turn();
                    let args: Args<'_> = consts.iter().copied().chain(now).collect();
                    grow(tape, turns * lines_of_turn, lines_of_turn)?;
                    let start = tape[turns * lines_of_turn..].as_mut_ptr();
                    for ((dtype, len), place) in taped.iter().zip(&places) {
                        // SAFETY: the tape has `lines_of_turn` lines from `start` on, in which the
                        // values of this turn have places of their own, aligned to a line. Nothing
                        // else uses the tape until `next` is dropped.
                        next.push(unsafe { DataMut::at(*dtype, start.add(*place).cast(), *len) });
                    }
                    forward.run(&args, &mut next, arena)?;
                    drop((args, next));
                    states.end_turn();
                    turns += 1;
                }
                for turn in (0..turns).rev() {
                    let start = tape[turn * lines_of_turn..].as_ptr();
                    let (now, mut next) = back.turn();
                    let mut args: Args<'_> = consts.iter().copied().collect();
                    for ((dtype, len), place) in taped.iter().zip(&places) {
                        // SAFETY: `forward` wrote all elements of this turn, and bools as 0 or 1. The tape is
                        // not written meanwhile.
                        args.push(unsafe { Data::at(*dtype, start.add(*place).cast(), *len) });
                    }
                    args.extend(now);
                    backward.run(&args, &mut next, arena)?;
                    drop((args, next));
                    back.end_turn();
                }
                Ok(())
            })
        })?;
        back.finish();
        Ok(())
    })
}

/// Makes room for `more` lines after the first `used` ones, which stay.
fn grow(tape: &mut AlignedVec<Line>, used: usize, more: usize) -> Result<(), KernelFault> {
    if tape.len() >= used + more {
        return Ok(());
    }
    let lines = (2 * used).max(used + more);
    let bytes = lines.saturating_mul(ALIGN);
    let larger = AlignedVec::zeroed(lines).ok_or(KernelFault::OutOfMemory { bytes })?;
    let smaller = std::mem::replace(tape, larger);
    tape[..used].copy_from_slice(&smaller[..used]);
    Ok(())
}

/// Runs the body that the first operand chooses, on the other operands.
pub fn switch(branches: Vec<Body>) -> Prepared {
    Box::new(move |args, outs| {
        let last = branches.len() as i64 - 1;
        let index = match args[0] {
            Data::I32(i) => i64::from(i[0]),
            Data::I64(i) => i[0],
            Data::Bool(i) => i64::from(i[0]),
            other => unreachable!("{other:?} is not an index"),
        };
        let branch = &branches[index.clamp(0, last) as usize];
        with_lines(branch.lines(), |arena| branch.run(&args[1..], outs, arena))
    })
}

/// Runs a body once.
pub fn once(body: Body) -> Prepared {
    Box::new(move |args, outs| with_lines(body.lines(), |arena| body.run(args, outs, arena)))
}
