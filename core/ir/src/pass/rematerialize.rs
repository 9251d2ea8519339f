//! Values that are dropped and computed again, so that fewer bytes are held at a time.
//!
//! The steps of a program are run through without elements. Where a step would exceed the limit, values that a later
//! step reads are dropped first: those that are large, that are not read for a long time and that are fast to compute
//! again. Kirisame et al.: Dynamic tensor rematerialization, 2021, choose in the same way at run time. Here all later
//! reads are known.

use super::residuals::known_bytes;
use super::with_copy_of;
use crate::cost;
use crate::{Eqn, Poly, Program, SecondaryMap, Var};

/// Maximum number of equations of the result for each equation of the program. More of them mean that the limit is out of
/// reach.
const MOST_EQUATIONS: usize = 3;

/// Maximum number of steps whose costs are added up to estimate that of computing one value again.
const DEEPEST: usize = 64;

/// A program in which some values are computed again.
pub struct Rematerialized {
    /// The program, with an equation for each computation.
    pub program: Program,
    /// The equations of each step, in an order in which they can run.
    pub steps: Vec<Vec<usize>>,
    /// The equations that compute a value again, ascending.
    pub again: Vec<usize>,
    /// Estimated number of bytes that are held at a time: results and intermediate values.
    pub bytes: u128,
}

/// Drops and recomputes values, so that results and intermediate values take about `limit` bytes at a time.
///
/// `steps` are those of [`fuse`](super::fuse()): values within a step take no memory, and neither do views. With a limit
/// that is out of reach, the result takes more. Returns `None` if values would be computed again without end. All
/// shapes must be known.
pub fn rematerialize(
    program: &Program,
    steps: &[Vec<usize>],
    limit: u128,
) -> Option<Rematerialized> {
    let mut run = Run::new(program, steps, limit);
    for step in 0..steps.len() {
        run.step(step)?;
    }
    Some(run.finish())
}

/// Facts of the steps of a program.
struct Steps<'a> {
    program: &'a Program,
    steps: &'a [Vec<usize>],
    /// Step that computes each variable.
    of: SecondaryMap<Var, usize>,
    /// Variable whose memory each variable is in: another one for a view. Parameters have no entry.
    root: SecondaryMap<Var, Var>,
    /// Variables in the memory of each root.
    views: SecondaryMap<Var, Vec<Var>>,
    /// Steps that read each root, ascending. A result is read by step `usize::MAX`.
    reads: SecondaryMap<Var, Vec<usize>>,
    /// Operands of the equations that compute each root.
    needs: SecondaryMap<Var, Vec<Var>>,
    /// Estimated seconds of each step, or `None` if it must not run twice.
    seconds: Vec<Option<f64>>,
}

impl<'a> Steps<'a> {
    fn new(program: &'a Program, steps: &'a [Vec<usize>]) -> Steps<'a> {
        let mut all = Steps {
            program,
            steps,
            of: SecondaryMap::new(),
            root: SecondaryMap::new(),
            views: SecondaryMap::new(),
            reads: SecondaryMap::new(),
            needs: SecondaryMap::new(),
            seconds: Vec::with_capacity(steps.len()),
        };
        for (n, step) in steps.iter().enumerate() {
            for eqn in step.iter().map(|i| &program.eqns[*i]) {
                for out in &eqn.outs {
                    all.of.insert(*out, n);
                    let root = match eqn.op.is_view() {
                        false => Some(*out),
                        true => eqn.args.first().and_then(|x| all.root.get(*x).copied()),
                    };
                    // A view of a parameter takes no memory, and neither does a repeated number.
                    let Some(root) = root else {
                        continue;
                    };
                    all.root.insert(*out, root);
                    push(&mut all.views, root, *out);
                }
            }
            for arg in all.operands(step) {
                all.read(arg, n);
            }
            all.seconds.push(all.cost(step));
        }
        for out in &program.outs {
            all.read(*out, usize::MAX);
        }
        let roots: Vec<Var> = all.views.iter().map(|(root, _)| root).collect();
        for root in roots {
            let operands = all.operands(&all.needed(root));
            all.needs.insert(root, operands);
        }
        all
    }

    /// Returns the equations of a step that `var` needs.
    fn needed(&self, var: Var) -> Vec<usize> {
        let step = *self.of.get(var).expect("a step computes it");
        let mut vars = vec![var];
        let mut eqns = Vec::new();
        for i in self.steps[step].iter().rev() {
            let eqn = &self.program.eqns[*i];
            if eqn.outs.iter().any(|out| vars.contains(out)) {
                vars.extend(eqn.data());
                eqns.push(*i);
            }
        }
        eqns.reverse();
        eqns
    }

    fn read(&mut self, var: Var, step: usize) {
        if let Some(root) = self.root.get(var).copied() {
            push(&mut self.reads, root, step);
        }
    }

    /// Returns the operands of some equations that these do not compute.
    fn operands(&self, eqns: &[usize]) -> Vec<Var> {
        let eqns = eqns.iter().map(|i| &self.program.eqns[*i]);
        let made: Vec<Var> = eqns
            .clone()
            .flat_map(|eqn| eqn.outs.iter().copied())
            .collect();
        let mut args: Vec<Var> = eqns.flat_map(|eqn| eqn.data().iter().copied()).collect();
        args.sort_unstable();
        args.dedup();
        args.retain(|arg| !made.contains(arg));
        args
    }

    /// Returns the first step from `from` on that reads a root.
    fn next_read(&self, root: Var, from: usize) -> Option<usize> {
        let reads = self.reads.get(root)?;
        reads
            .get(reads.partition_point(|step| *step < from))
            .copied()
    }

    fn last_read(&self, root: Var) -> Option<usize> {
        self.reads.get(root)?.last().copied()
    }

    /// Returns the roots that a step writes to memory: those that it binds and that others read.
    fn written(&self, step: usize) -> impl Iterator<Item = Var> {
        let eqns = self.steps[step].iter().map(|i| &self.program.eqns[*i]);
        let outs = eqns.flat_map(|eqn| eqn.outs.iter().copied());
        outs.filter(move |out| {
            self.root.get(*out) == Some(out) && self.last_read(*out).is_some_and(|last| last > step)
        })
    }

    fn bytes(&self, var: Var) -> u128 {
        known_bytes(self.program, var).unwrap_or_default()
    }

    /// Estimates the seconds of a step on one core: 20 G arithmetic operations, 1 G functions and 8 GB of traffic.
    fn cost(&self, step: &[usize]) -> Option<f64> {
        let mut seconds = 0.0;
        for eqn in step.iter().map(|i| &self.program.eqns[*i]) {
            if eqn.op.control().is_some() || eqn.op.is_call() || eqn.op.collective().is_some() {
                return None;
            }
            let cost = cost::of_eqn(self.program, eqn);
            let number = |poly: Option<Poly>| poly?.as_constant().map(|n| n as f64);
            seconds += number(cost.flops)? / 20e9 + number(cost.transcendentals)? / 1e9;
            if step.len() == 1 {
                seconds += number(cost.bytes)? / 8e9;
            }
        }
        let operands = self.operands(step).into_iter().map(|var| self.bytes(var));
        Some(seconds + operands.sum::<u128>() as f64 / 8e9)
    }
}

fn push<T>(lists: &mut SecondaryMap<Var, Vec<T>>, var: Var, entry: T) {
    match lists.get_mut(var) {
        Some(list) => list.push(entry),
        None => _ = lists.insert(var, vec![entry]),
    }
}

/// A run through the steps.
struct Run<'a> {
    steps: Steps<'a>,
    limit: u128,
    /// Step that runs.
    at: usize,
    /// Roots in memory, in order of their computation.
    held: Vec<Var>,
    /// Bytes of the roots in memory, and the most so far.
    bytes: u128,
    most: u128,
    /// Number of steps that are about to read each root.
    pins: SecondaryMap<Var, u32>,
    /// The current copy of each variable in memory.
    copy: SecondaryMap<Var, Var>,
    next: u32,
    /// The program that is written.
    out: Program,
    out_steps: Vec<Vec<usize>>,
    again: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, steps: &'a [Vec<usize>], limit: u128) -> Run<'a> {
        let mut out = program.clone();
        out.eqns.clear();
        Run {
            steps: Steps::new(program, steps),
            limit,
            at: 0,
            held: Vec::new(),
            bytes: 0,
            most: 0,
            pins: SecondaryMap::new(),
            copy: SecondaryMap::new(),
            next: program.n_vars(),
            out,
            out_steps: Vec::with_capacity(steps.len()),
            again: Vec::new(),
        }
    }

    /// Runs a step of the program. Returns `None` if the program becomes too long.
    fn step(&mut self, step: usize) -> Option<()> {
        self.at = step;
        let eqns = &self.steps.steps[step];
        let operands = self.steps.operands(eqns);
        self.obtain(&operands)?;
        let written: Vec<Var> = self.steps.written(step).collect();
        self.hold(&written);
        self.write(eqns, false);
        self.unpin(&operands);
        let steps = &self.steps;
        let is_dead = |root: &Var| steps.next_read(*root, step + 1).is_none();
        let dead: Vec<Var> = self.held.iter().copied().filter(is_dead).collect();
        dead.into_iter().for_each(|root| self.drop(root));
        Some(())
    }

    /// Computes the operands that are not in memory, and keeps all in memory until they are unpinned.
    fn obtain(&mut self, operands: &[Var]) -> Option<()> {
        for var in operands {
            self.compute(*var)?;
            if let Some(root) = self.steps.root.get(*var) {
                let pins = self.pins.get(*root).copied().unwrap_or(0);
                self.pins.insert(*root, pins + 1);
            }
        }
        Some(())
    }

    fn unpin(&mut self, operands: &[Var]) {
        for var in operands {
            let root = self.steps.root.get(*var);
            if let Some(pins) = root.and_then(|root| self.pins.get_mut(*root)) {
                *pins -= 1;
            }
        }
    }

    /// Computes a variable again, unless it is in memory.
    fn compute(&mut self, var: Var) -> Option<()> {
        let Some(root) = self.steps.root.get(var).copied() else {
            return Some(());
        };
        if self.copy.get(var).is_some() {
            return Some(());
        }
        if self.out.eqns.len() > MOST_EQUATIONS * self.steps.program.eqns.len() {
            return None;
        }
        let eqns = self.steps.needed(var);
        let operands = self.steps.operands(&eqns);
        self.obtain(&operands)?;
        if !self.held.contains(&root) {
            self.hold(&[root]);
        }
        self.write(&eqns, true);
        self.unpin(&operands);
        Some(())
    }

    /// Writes equations as a step. Those that ran before bind new variables.
    fn write(&mut self, eqns: &[usize], again: bool) {
        let mut inner: Vec<(Var, Var)> = Vec::new();
        let first = self.out.eqns.len();
        for i in eqns {
            let mut eqn: Eqn = self.steps.program.eqns[*i].clone();
            for arg in &mut eqn.args {
                let own = inner.iter().find(|(var, _)| var == arg);
                let copy = own.map(|(_, copy)| *copy).or(self.copy.get(*arg).copied());
                *arg = copy.unwrap_or(*arg);
            }
            for out in &mut eqn.outs {
                let var = *out;
                if again {
                    *out = with_copy_of(&mut self.out, var, &mut self.next);
                }
                inner.push((var, *out));
            }
            self.out.eqns.push(eqn);
        }
        for (var, copy) in inner {
            let root = self.steps.root.get(var);
            if root.is_some_and(|root| self.held.contains(root)) {
                self.copy.insert(var, copy);
            }
        }
        let written = first..self.out.eqns.len();
        if again {
            self.again.extend(written.clone());
        }
        self.out_steps.push(written.collect());
    }

    /// Takes memory for new roots. Other roots are dropped if the limit would be exceeded.
    fn hold(&mut self, roots: &[Var]) {
        let bytes: u128 = roots.iter().map(|root| self.steps.bytes(*root)).sum();
        while self.bytes + bytes > self.limit
            && let Some(least) = self.least_worth()
        {
            self.drop(least);
        }
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
        self.held.extend(roots);
    }

    fn drop(&mut self, root: Var) {
        self.held.retain(|held| *held != root);
        self.bytes -= self.steps.bytes(root);
        for view in self.steps.views.get(root).into_iter().flatten() {
            self.copy.remove(*view);
        }
    }

    /// Returns the root whose memory is worth least: its bytes and the steps until it is read, for each second that
    /// it takes to compute it again.
    fn least_worth(&self) -> Option<Var> {
        let gain = |root: &Var| {
            let bytes = self.steps.bytes(*root);
            let is_pinned = self.pins.get(*root).is_some_and(|pins| *pins > 0);
            let is_result = self.steps.last_read(*root) == Some(usize::MAX);
            if is_pinned || is_result || bytes == 0 {
                return None;
            }
            let Some(read) = self.steps.next_read(*root, self.at) else {
                return Some((f64::INFINITY, *root));
            };
            let seconds = self.seconds(*root, read, &mut Vec::new())?;
            let distance = (read - self.at) as f64;
            Some((bytes as f64 * distance / seconds, *root)).filter(|(gain, _)| *gain > 0.0)
        };
        let gains = self.held.iter().filter_map(gain);
        gains
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, root)| root)
    }

    /// Estimates the seconds that it takes to compute a root again for step `read`, with the operands that are not in
    /// memory then. `None` if it cannot be computed again.
    fn seconds(&self, root: Var, read: usize, seen: &mut Vec<usize>) -> Option<f64> {
        let step = *self.steps.of.get(root)?;
        if seen.contains(&step) {
            return Some(0.0);
        }
        if seen.len() > DEEPEST {
            return None;
        }
        seen.push(step);
        let mut seconds = self.steps.seconds[step]?;
        for arg in self.steps.needs.get(root).into_iter().flatten() {
            let Some(of) = self.steps.root.get(*arg).copied() else {
                continue;
            };
            let stays = self.steps.last_read(of).is_some_and(|last| last >= read);
            if of != root && !(stays && self.held.contains(&of)) {
                seconds += self.seconds(of, read, seen)?;
            }
        }
        Some(seconds)
    }

    /// Returns the program without equations whose results nothing reads.
    ///
    /// In the order of steps, an equation may precede those of its `Like` operands.
    fn finish(mut self) -> Rematerialized {
        for out in &mut self.out.outs {
            *out = self.copy.get(*out).copied().unwrap_or(*out);
        }
        let mut maker: SecondaryMap<Var, usize> = SecondaryMap::new();
        for (i, eqn) in self.out.eqns.iter().enumerate() {
            maker.extend(eqn.outs.iter().map(|out| (*out, i)));
        }
        let mut keeps = vec![false; self.out.eqns.len()];
        let mut read = self.out.outs.clone();
        while let Some(var) = read.pop() {
            if let Some(i) = maker.get(var).filter(|i| !keeps[**i]) {
                keeps[*i] = true;
                read.extend(&self.out.eqns[*i].args);
            }
        }
        let mut place = Vec::with_capacity(keeps.len());
        let mut n = 0;
        for keep in &keeps {
            place.push(n);
            n += usize::from(*keep);
        }
        let kept = |eqns: Vec<usize>| -> Vec<usize> {
            let eqns = eqns.into_iter().filter(|i| keeps[*i]);
            eqns.map(|i| place[i]).collect()
        };
        let steps = std::mem::take(&mut self.out_steps).into_iter().map(&kept);
        let steps: Vec<Vec<usize>> = steps.filter(|step| !step.is_empty()).collect();
        let again = kept(std::mem::take(&mut self.again));
        let mut keep = keeps.iter();
        self.out
            .eqns
            .retain(|_| *keep.next().expect("each equation has an entry"));
        Rematerialized {
            program: self.out,
            steps,
            again,
            bytes: self.most,
        }
    }
}
