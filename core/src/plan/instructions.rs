//! The instructions of a group: one loop for all of it where there is one, loops for parts of it, and single ops.

use super::{BOUND, aval};
use crate::DType;
use crate::kernel::{self, Run, Step};
use gradloom_ir::pass::{self, Values, cover};
use gradloom_ir::{Op, Program, SecondaryMap, Var};

/// How a group is computed.
pub(super) struct Instructions {
    /// Values are numbers: operands first, then members in the order of the step.
    pub(super) steps: Vec<Step>,
    /// The operands that they read, by position among those that the group has: a loop has its constants in itself.
    pub(super) used: Vec<usize>,
    /// How many members are computed in loops of several ops.
    pub(super) compiled: usize,
}

/// The instructions for the equations `step`, whose operands have the numbers before `n_inputs` and whose results the following.
/// `is_read` says of a member whether others read it.
pub(super) fn instructions(
    program: &Program,
    step: &[usize],
    number: &SecondaryMap<Var, usize>,
    n_inputs: usize,
    is_read: impl Fn(usize) -> bool,
) -> Instructions {
    let number = |var: &Var| *number.get(*var).expect(BOUND);
    let dtype = |var: Var| aval(program, var).dtype();
    let op = |i: usize| {
        let eqn = &program.eqns[i];
        let last = *eqn.data().last().expect("an elementwise op has an operand");
        let args = eqn.data().iter().map(number).collect();
        (
            Run::Op(eqn.op, dtype(last), dtype(eqn.out())),
            args,
            vec![number(&eqn.out())],
        )
    };
    let pieces: Vec<(Run, Vec<usize>, Vec<usize>)> = match step {
        [i] => vec![op(*i)],
        _ => match whole(program, step, &is_read) {
            Some((run, group)) => {
                let results = group.results.iter().map(|m| group.eqn(program, *m).out());
                let outs = results.map(|var| number(&var)).collect();
                vec![(run, group.inputs.iter().map(number).collect(), outs)]
            }
            None => {
                let args: Vec<Vec<usize>> = step
                    .iter()
                    .map(|i| program.eqns[*i].data().iter().map(number).collect())
                    .collect();
                let mut vars: Vec<Option<Var>> = vec![None; n_inputs + step.len()];
                for i in step {
                    let eqn = &program.eqns[*i];
                    for var in eqn.data().iter().chain(&eqn.outs) {
                        vars[number(var)] = Some(*var);
                    }
                }
                let known = pass::constants(program);
                let constant = |var: &Option<Var>| known.get((*var)?).copied();
                let constants: Vec<Option<f64>> = vars[..n_inputs].iter().map(constant).collect();
                let members: Vec<(Op, &[usize])> = step
                    .iter()
                    .zip(&args)
                    .map(|(i, args)| (program.eqns[*i].op, &args[..]))
                    .collect();
                let is_read: Vec<bool> = (0..step.len()).map(is_read).collect();
                let values = Values {
                    constants: &constants,
                    members: &members,
                    is_read: &is_read,
                };
                let dtypes: Vec<Option<DType>> = vars.iter().map(|var| var.map(dtype)).collect();
                let of = |out: usize| dtypes[out];
                kernel::with_patterns(|patterns| {
                    let fits = |fused, args: &[usize], outs: &[usize]| {
                        let own = of(outs[0]);
                        own.is_some_and(|own| kernel::in_dtype(fused, own).is_some())
                            && args.iter().chain(outs).all(|value| of(*value) == own)
                    };
                    let pieces = cover(&values, patterns, fits).into_iter();
                    pieces
                        .map(|piece| {
                            let run = match piece.of {
                                Some(fused) => {
                                    let own = of(piece.outs[0]).expect(BOUND);
                                    Run::Loop(kernel::in_dtype(fused, own).expect("it fits"))
                                }
                                None => op(step[piece.outs[0] - n_inputs]).0,
                            };
                            (run, piece.args, piece.outs)
                        })
                        .collect()
                })
            }
        },
    };
    let single = pieces
        .iter()
        .filter(|piece| matches!(piece.0, Run::Op(..)))
        .count();
    let mut used: Vec<usize> = pieces
        .iter()
        .flat_map(|(_, args, _)| args)
        .copied()
        .filter(|value| *value < n_inputs)
        .collect();
    used.sort_unstable();
    used.dedup();
    let renumber = |values: Vec<usize>| -> Vec<usize> {
        let value = |value: usize| match value.checked_sub(n_inputs) {
            Some(member) => used.len() + member,
            None => used.binary_search(&value).expect(BOUND),
        };
        values.into_iter().map(value).collect()
    };
    let steps = pieces.into_iter().map(|(run, args, outs)| Step {
        run,
        args: renumber(args),
        outs: renumber(outs),
    });
    Instructions {
        steps: steps.collect(),
        compiled: step.len() - single,
        used,
    }
}

/// The loop that computes all of a group, and the group as the loop has it.
fn whole(
    program: &Program,
    step: &[usize],
    is_read: impl Fn(usize) -> bool,
) -> Option<(Run, pass::Group)> {
    let is_read = |var: Var| {
        let member = step.iter().position(|i| program.eqns[*i].out() == var);
        member.is_some_and(&is_read)
    };
    let group = pass::Group::new(program, step, is_read)?;
    let dtype = program.aval(*group.inputs.first()?).dtype?;
    let results = group.results.iter().map(|at| group.eqn(program, *at).out());
    let mut vars = group.inputs.iter().copied().chain(results);
    if !vars.all(|var| program.aval(var).dtype == Some(dtype)) {
        return None;
    }
    let arity = (group.inputs.len(), group.results.len());
    let code = kernel::compiled(&group.signature(program), dtype, arity)?;
    Some((Run::Loop(code), group))
}
