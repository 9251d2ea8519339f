//! Control flow: kernels that run the tasks of a body, once or many times.
//!
//! A state that a turn can change in place is in the result of the loop from the first turn on. Another
//! state has a second buffer: a turn reads one and writes the other. The second one is *scratch*: a
//! result that nothing else reads, in the arena of the plan. What the tasks of a body need besides comes
//! from a stack of memory that each thread keeps, so a turn allocates nothing.

use crate::body::{Body, BodyMemory};
use crate::memory::aligned_vec::{ALIGN, AlignedVec, Line, at_least};
use crate::memory::data::{Data, DataMut};
use crate::memory::fault::KernelFault;
use crate::memory::scratch;
use crate::task::Prepared;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::Cell;
use std::iter::empty;

/// Operands of a body. More of them are allocated.
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
}

enum Buffers<'a> {
    /// A turn changes the state in place.
    One(DataMut<'a>),
    /// The result of the loop, which holds the state before the first turn, and scratch.
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
        }
    }

    /// Returns the buffers that hold the states before the first turn, and those of the states after it.
    fn first_turn(&mut self) -> (Args<'_>, Outs<'_>) {
        let (mut args, mut outs) = (Args::new(), Outs::new());
        for (i, buffers) in self.buffers.iter_mut().enumerate() {
            match buffers {
                Buffers::One(state) => {
                    args.push(Data::Same(i));
                    outs.push(state.reborrow());
                }
                Buffers::Two([from, to]) => {
                    args.push(DataMut::as_data(from));
                    outs.push(to.reborrow());
                }
            }
        }
        (args, outs)
    }

    /// Returns where even turns read each state, and where they write it. Odd turns read what they write.
    fn starts(&mut self) -> SmallVec<[[*mut u8; 2]; 32]> {
        let start = |buffers: &mut Buffers<'_>| match buffers {
            Buffers::One(state) => [state.as_mut_ptr(); 2],
            Buffers::Two(both) => both.each_mut().map(DataMut::as_mut_ptr),
        };
        self.buffers.iter_mut().map(start).collect()
    }

    /// Returns the states before the first turn.
    fn first_values(&self) -> impl Iterator<Item = Data<'_>> {
        self.buffers.iter().map(|buffers| match buffers {
            Buffers::One(state) => state.as_data(),
            Buffers::Two(both) => both[0].as_data(),
        })
    }

    /// Copies states to the results of the loop, if they are in scratch after this number of turns.
    fn finish(self, turns: usize) {
        for buffers in self.buffers {
            if let (Buffers::Two([mut result, other]), 1) = (buffers, turns % 2) {
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

/// A body with the memory of its next turns.
struct Turns<'a> {
    body: &'a Body,
    /// Memory of the next even turn, and of the next odd one, which reads the states where the even one writes them.
    next: [BodyMemory; 2],
    /// Starts and addresses that differ between turns, and the bytes from those of a turn to those of the next.
    steps: SmallVec<[(usize, isize); 32]>,
}

impl<'a> Turns<'a> {
    /// Returns turns that all use the memory of the operands and results of the first one.
    fn new(
        body: &'a Body,
        args: &[Data<'_>],
        outs: &mut [DataMut<'_>],
        arena: &mut [Line],
    ) -> Turns<'a> {
        let memory = body.memory(args, outs, arena);
        Turns {
            body,
            next: [memory.clone(), memory],
            steps: SmallVec::new(),
        }
    }

    /// Puts the states of a loop where they are in each turn. `leaf` and `output` are the positions of the first one.
    fn put_states(&mut self, starts: &[[*mut u8; 2]], leaf: usize, output: Option<usize>) {
        for (i, [first, second]) in starts.iter().enumerate() {
            let leaf = self.body.start_of_leaf(leaf + i);
            let output = output.and_then(|first| self.start_of_output(first + i));
            let [even, odd] = &mut self.next;
            for (memory, from, to) in [(even, first, second), (odd, second, first)] {
                memory.put(self.body, leaf, *from);
                if let Some(output) = output {
                    memory.put(self.body, output, *to);
                }
            }
        }
    }

    /// Returns the index of the start of an output, unless it is an operand that is there already.
    fn start_of_output(&self, output: usize) -> Option<usize> {
        self.body.start_of_output(&self.next[0], output)
    }

    /// Puts a value in memory of its own for the next even turn and the next odd one, `step` bytes after it.
    fn put(&mut self, start: usize, there: *mut u8, step: isize) {
        let [even, odd] = &mut self.next;
        even.put(self.body, start, there);
        odd.put(self.body, start, there.wrapping_offset(step));
        if step != 0 {
            let moving = even.moving(self.body, start);
            self.steps.extend(moving.map(|i| (i, step)));
        }
    }

    /// Puts a value in memory of its own for one turn, the next even or odd one.
    fn put_once(&mut self, turn: usize, start: usize, there: *mut u8) {
        self.next[turn % 2].put(self.body, start, there);
    }

    /// Uses this memory for intermediate values.
    fn put_arena(&mut self, arena: *mut Line) {
        self.next
            .iter_mut()
            .for_each(|memory| memory.put(self.body, BodyMemory::ARENA, arena.cast()));
    }

    /// Runs a turn. Turns come in order, from 0 on.
    ///
    /// # Safety
    ///
    /// The memory of this turn must be that of a run of the body, as in [`Body::run_in`].
    unsafe fn run(&mut self, turn: usize) -> Result<(), KernelFault> {
        let memory = &mut self.next[turn % 2];
        // SAFETY: the caller guarantees the memory.
        unsafe { self.body.run_in(memory)? };
        memory.advance_twice(&self.steps);
        Ok(())
    }
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
        if of.turns == 0 {
            return Ok(());
        }
        let (first, step) = match of.reverse {
            true => (of.turns - 1, -1),
            false => (0, 1),
        };
        with_lines(body.lines(), |arena| {
            let (carried, mut outs) = states.first_turn();
            let mut args: Args<'_> = consts.iter().copied().chain(carried).collect();
            args.extend(xs.iter().map(|x| {
                let len = x.len() / of.turns;
                x.part(first * len, len)
            }));
            outs.extend(ys.iter_mut().map(|y| {
                let len = y.len() / of.turns;
                y.part_mut(first * len, len)
            }));
            let mut turns = Turns::new(&body, &args, &mut outs, arena);
            drop((args, outs));
            // All parts of an operand or of a stacked result are reached from its own start.
            for (i, x) in xs.iter().enumerate() {
                let leaf = of.consts + of.carry + i;
                let (start, bytes) = (body.start_of_leaf(leaf), body.bytes_of_leaf(leaf));
                let there = x.as_ptr().cast_mut().wrapping_add(first * bytes);
                turns.put(start, there, step * bytes as isize);
            }
            for (i, y) in ys.iter_mut().enumerate() {
                let output = of.carry + i;
                if let Some(start) = turns.start_of_output(output) {
                    let bytes = body.bytes_of_output(output);
                    let there = y.as_mut_ptr().wrapping_add(first * bytes);
                    turns.put(start, there, step * bytes as isize);
                }
            }
            let mut starts = states.starts();
            if let Some(compiled) = body.turn_loop() {
                // It reads all numbers of a turn before it writes any, so a state stays where it is.
                starts
                    .iter_mut()
                    .for_each(|[first, second]| *second = *first);
                turns.put_states(&starts, of.consts, Some(0));
                // SAFETY: all memory is borrowed until the end of the loop, and nothing else uses it meanwhile. The
                // parts of each turn lie in their values.
                unsafe { body.run_turns(compiled, &turns.next[0], &turns.steps, of.turns) };
                return Ok(());
            }
            turns.put_states(&starts, of.consts, Some(0));
            for turn in 0..of.turns {
                // SAFETY: all memory is borrowed until the end of the loop, and nothing else uses it meanwhile. The
                // parts of this turn lie in their values, and the states are where the turn before wrote them.
                unsafe { turns.run(turn)? };
            }
            Ok(())
        })?;
        if body.turn_loop().is_none() {
            states.finish(of.turns);
        }
        Ok(())
    })
}

/// A body that runs as long as a condition holds.
struct While<'a> {
    tests: Turns<'a>,
    turns: Turns<'a>,
    /// The condition, one byte that `tests` writes.
    goes_on: *mut u8,
}

impl<'a> While<'a> {
    /// `taped` are the further results of the first turn.
    fn new<'b>(
        [cond, body]: [&'a Body; 2],
        consts: &[Data<'_>],
        states: &mut States<'_>,
        taped: impl Iterator<Item = DataMut<'b>>,
        goes_on: &mut [DataMut<'_>],
        arena: &mut [Line],
    ) -> While<'a> {
        let args: Args<'_> = consts
            .iter()
            .copied()
            .chain(states.first_values())
            .collect();
        let mut tests = Turns::new(cond, &args, goes_on, arena);
        drop(args);
        let goes_on = goes_on[0].as_mut_ptr();
        if let Some(start) = tests.start_of_output(0) {
            tests.put(start, goes_on, 0);
        }
        let (carried, mut outs) = states.first_turn();
        let args: Args<'_> = consts.iter().copied().chain(carried).collect();
        for taped in taped {
            outs.push(taped);
        }
        let mut turns = Turns::new(body, &args, &mut outs, arena);
        drop((args, outs));
        let (starts, arena) = (states.starts(), arena.as_mut_ptr());
        tests.put_states(&starts, consts.len(), None);
        turns.put_states(&starts, consts.len(), Some(0));
        tests.put_arena(arena);
        turns.put_arena(arena);
        While {
            tests,
            turns,
            goes_on,
        }
    }

    /// Returns whether the condition holds before a turn.
    ///
    /// # Safety
    ///
    /// All that was given to [`new`](Self::new) must still be borrowed, and nothing else may use the states, the condition
    /// and the arena meanwhile.
    unsafe fn goes_on(&mut self, turn: usize) -> Result<bool, KernelFault> {
        // SAFETY: the states are where the turn before wrote them, and all memory may be used, as the caller
        // guarantees. The test has written the condition.
        unsafe {
            self.tests.run(turn)?;
            Ok(*self.goes_on != 0)
        }
    }
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
        let mut turn = 0;
        with_lines(cond.lines().max(body.lines()), |arena| {
            let both = [&cond, &body];
            let mut all = While::new(both, consts, &mut states, empty(), goes_on, arena);
            // SAFETY: all memory is borrowed until the end of the loop, and nothing else uses it meanwhile.
            while unsafe { all.goes_on(turn)? } {
                // SAFETY: as above. The states are where the turn before wrote them.
                unsafe { all.turns.run(turn)? };
                turn += 1;
            }
            Ok(())
        })?;
        states.finish(turn);
        Ok(())
    })
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
        let mut turns = 0;
        with_lines(lines, |arena| {
            with_lines(0, |tape| {
                let at = |start: *mut Line, i: usize| start.wrapping_add(places[i]).cast::<u8>();
                grow(tape, 0, lines_of_turn)?;
                let start = tape.as_mut_ptr();
                let first = taped.iter().enumerate().map(|(i, (dtype, len))| {
                    // SAFETY: the tape has `lines_of_turn` lines, in which the values of a turn have places of their
                    // own, aligned to a line.
                    unsafe { DataMut::at(*dtype, at(start, i), *len) }
                });
                let both = [&cond, &forward];
                let mut all = While::new(both, consts, &mut states, first, goes_on, arena);
                let outputs = (carry..carry + taped.len()).map(|i| all.turns.start_of_output(i));
                let outputs: SmallVec<[Option<usize>; 16]> = outputs.collect();
                // SAFETY: all memory is borrowed until the end of the loop, and nothing else uses it meanwhile.
                while unsafe { all.goes_on(turns)? } {
                    grow(tape, turns * lines_of_turn, lines_of_turn)?;
                    let start = tape[turns * lines_of_turn..].as_mut_ptr();
                    for (i, output) in outputs.iter().enumerate() {
                        if let Some(output) = output {
                            all.turns.put_once(turns, *output, at(start, i));
                        }
                    }
                    // SAFETY: as above. The states are where the turn before wrote them, and what is taped has
                    // places of its own.
                    unsafe { all.turns.run(turns)? };
                    turns += 1;
                }
                if turns == 0 {
                    return Ok(());
                }
                let start = tape[(turns - 1) * lines_of_turn..].as_mut_ptr();
                let (carried, mut outs) = back.first_turn();
                let mut args: Args<'_> = consts.iter().copied().collect();
                for (i, (dtype, len)) in taped.iter().enumerate() {
                    // SAFETY: `forward` wrote all elements of this turn, and bools as 0 or 1. The tape is
                    // not written meanwhile.
                    args.push(unsafe { Data::at(*dtype, at(start, i), *len) });
                }
                args.extend(carried);
                let mut backwards = Turns::new(&backward, &args, &mut outs, arena);
                drop((args, outs));
                backwards.put_states(&back.starts(), first_state, Some(0));
                for turn in 0..turns {
                    let start = tape[(turns - 1 - turn) * lines_of_turn..].as_mut_ptr();
                    for i in 0..taped.len() {
                        let leaf = backward.start_of_leaf(n_consts + i);
                        backwards.put_once(turn, leaf, at(start, i));
                    }
                    // SAFETY: as for the turns forward. What they taped is not written meanwhile.
                    unsafe { backwards.run(turn)? };
                }
                Ok(())
            })
        })?;
        back.finish(turns);
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
