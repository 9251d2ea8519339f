//! Instructions of a group: compiled loops for all or parts of it, and single ops.

use super::BOUND;
use super::steps::GroupNumbers;
use crate::DType;
use gradloom_ir::pass::{self, Arg, Values, cover};
use gradloom_ir::{Op, Program, SecondaryMap, Var};
use gradloom_kernels::elementwise::compile;
use gradloom_kernels::elementwise::compile::{Run, Step};
use gradloom_kernels::elementwise::compiled_loops;
use smallvec::{SmallVec, smallvec};

/// A group to be compiled.
pub(super) struct Members<'a> {
    pub(super) program: &'a Program,
    /// Variables whose elements are all the same known number.
    pub(super) constants: &'a SecondaryMap<Var, f64>,
    /// Equations of the group.
    pub(super) step: &'a [usize],
    pub(super) n_inputs: usize,
    /// For each member, true if an equation outside of the group reads it.
    pub(super) is_read: &'a [bool],
    /// Numbers of values: operands first, then members in the order of `step`.
    pub(super) numbers: &'a GroupNumbers,
}

/// Compiled form of a group.
pub(super) struct Instructions {
    /// Steps in order. Values are numbered: `used` operands first, then members in order.
    pub(super) steps: SmallVec<[Step; 2]>,
    /// Operands that the steps read, as indices into those of the group.
    ///
    /// Compiled loops contain their constants, which are not read.
    pub(super) used: SmallVec<[usize; 8]>,
    /// Number of members that run in loops of several ops.
    pub(super) compiled: usize,
}

/// Selects the instructions of a group.
pub(super) fn instructions(members: &Members<'_>) -> Instructions {
    let &Members { step, n_inputs, .. } = members;
    let mut steps = match step {
        [i] => smallvec![members.single(*i)],
        _ => match members.whole() {
            Some(whole) => smallvec![whole],
            None => members.parts(),
        },
    };
    let single = steps
        .iter()
        .filter(|step| matches!(step.run, Run::Op(..)))
        .count();
    let read = steps.iter().flat_map(|step| &step.args);
    let mut used: SmallVec<[usize; 8]> = read.copied().filter(|value| *value < n_inputs).collect();
    used.sort_unstable();
    used.dedup();
    if used.len() < n_inputs {
        for value in steps
            .iter_mut()
            .flat_map(|step| step.args.iter_mut().chain(&mut step.outs))
        {
            *value = match value.checked_sub(n_inputs) {
                Some(member) => used.len() + member,
                None => used.binary_search(value).expect(BOUND),
            };
        }
    }
    Instructions {
        steps,
        compiled: step.len() - single,
        used,
    }
}

impl Members<'_> {
    fn number(&self, var: &Var) -> usize {
        self.numbers.get(*var).expect(BOUND)
    }

    fn dtype(&self, var: Var) -> DType {
        let dtype = self.program.aval(var).dtype;
        dtype.expect("a plan knows its dtypes")
    }

    /// Returns the step for a single op.
    fn single(&self, i: usize) -> Step {
        let eqn = &self.program.eqns[i];
        let last = *eqn.data().last().expect("an elementwise op has an operand");
        Step {
            run: Run::Op(eqn.op, self.dtype(last), self.dtype(eqn.out())),
            args: eqn.data().iter().map(|var| self.number(var)).collect(),
            outs: smallvec![self.number(&eqn.out())],
        }
    }

    /// Returns the compiled loop for the whole group, if there is one.
    fn whole(&self) -> Option<Step> {
        let &Members { program, step, .. } = self;
        let is_read = |var: Var| {
            let member = self.number(&var).checked_sub(self.n_inputs);
            member.is_some_and(|member| self.is_read[member])
        };
        let group = pass::Group::with(program, self.constants, step, is_read)?;
        let dtype = program.aval(*group.inputs.first()?).dtype?;
        let results = || group.results.iter().map(|m| group.eqn(program, *m).out());
        let mut vars = group.inputs.iter().copied().chain(results());
        if !vars.all(|var| program.aval(var).dtype == Some(dtype)) {
            return None;
        }
        let arity = (group.inputs.len(), group.results.len());
        let exact = compile::compiled(&group.signature(program), dtype, arity);
        let (run, inputs) = match exact {
            Some(code) => (Run::Loop(code), group.inputs.clone()),
            None => self.with_numbers(&group, dtype)?,
        };
        Some(Step {
            run,
            args: inputs.iter().map(|var| self.number(var)).collect(),
            outs: results().map(|var| self.number(&var)).collect(),
        })
    }

    /// Returns the compiled loop for the whole group that has some of its constants as operands, and its operands.
    ///
    /// The macro does not know the numbers that a function is called with.
    fn with_numbers(&self, group: &pass::Group, dtype: DType) -> Option<(Run, Vec<Var>)> {
        let &Members { program, step, .. } = self;
        let mut args = group.args.iter().flatten();
        if !args.any(|arg| matches!(arg, Arg::Constant(_))) {
            return None;
        }
        let ops = step.iter().map(|i| program.eqns[*i].op);
        compiled_loops::with_patterns(ops, |patterns| {
            patterns
                .of_whole(program, group)
                .find_map(|(fused, inputs)| {
                    let mut dtypes = inputs.iter().map(|var| program.aval(*var).dtype);
                    let fits = dtypes.all(|own| own == Some(dtype));
                    let code = compile::in_dtype(fused, dtype).filter(|_| fits)?;
                    Some((Run::Loop(code), inputs))
                })
        })
    }

    /// Covers the group with compiled loops for parts of it, and single ops.
    fn parts(&self) -> SmallVec<[Step; 2]> {
        let &Members {
            program,
            step,
            n_inputs,
            ..
        } = self;
        let n_values = n_inputs + step.len();
        let mut args: SmallVec<[usize; 32]> = SmallVec::new();
        let mut ends: SmallVec<[usize; 16]> = SmallVec::new();
        let mut dtypes: SmallVec<[Option<DType>; 32]> = smallvec![None; n_values];
        let mut constants: SmallVec<[Option<f64>; 16]> = smallvec![None; n_inputs];
        for i in step {
            let eqn = &program.eqns[*i];
            for var in eqn.data().iter().chain(&eqn.outs) {
                let number = self.number(var);
                dtypes[number] = Some(self.dtype(*var));
                if number < n_inputs {
                    constants[number] = self.constants.get(*var).copied();
                }
            }
            args.extend(eqn.data().iter().map(|var| self.number(var)));
            ends.push(args.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let members: SmallVec<[(Op, &[usize]); 16]> = step
            .iter()
            .zip(starts.zip(&ends))
            .map(|(i, (start, end))| (program.eqns[*i].op, &args[start..*end]))
            .collect();
        let values = Values {
            constants: &constants,
            members: &members,
            is_read: self.is_read,
        };
        let of = |out: usize| dtypes[out];
        let ops = step.iter().map(|i| program.eqns[*i].op);
        compiled_loops::with_patterns(ops, |patterns| {
            let fits = |fused, args: &[usize], outs: &[usize]| {
                let own = of(outs[0]);
                own.is_some_and(|own| compile::in_dtype(fused, own).is_some())
                    && args.iter().chain(outs).all(|value| of(*value) == own)
            };
            let pieces = cover(&values, patterns, fits).into_iter();
            pieces
                .map(|piece| match piece.of {
                    Some(fused) => {
                        let own = of(piece.outs[0]).expect(BOUND);
                        Step {
                            run: Run::Loop(compile::in_dtype(fused, own).expect("it fits")),
                            args: SmallVec::from_slice(&piece.args),
                            outs: SmallVec::from_slice(&piece.outs),
                        }
                    }
                    None => self.single(step[piece.outs[0] - n_inputs]),
                })
                .collect()
        })
    }
}
