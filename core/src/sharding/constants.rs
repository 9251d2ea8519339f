//! Captured values that repeat one number, or of which only the shape is read: equations of the program that captures
//! them, so that devices need no memory for them.

use crate::Tensor;
use crate::transform::{cut, without_shapes};
use gradloom_ir::op::control::inline;
use gradloom_ir::spmd::repeats_numbers;
use gradloom_ir::{Builder, Op, Program, SecondaryMap, Var, pass};

/// Returns a program without the parameters for such values, and the other captured values.
///
/// The parameters of the program are `n_inputs` inputs, and then one for each captured value.
pub(super) fn with_constants(
    program: Program,
    captured: Vec<Tensor>,
    n_inputs: usize,
) -> (Program, Vec<Tensor>) {
    let mut b = Builder::after(&program);
    let mut made: SecondaryMap<Var, Var> = SecondaryMap::new();
    let (inputs, others) = program.params.split_at(n_inputs);
    let (mut params, mut kept) = (inputs.to_vec(), Vec::new());
    for (param, x) in others.iter().zip(captured) {
        let data = program.eqns.iter().flat_map(|eqn| eqn.data());
        let is_read = data.chain(&program.outs).any(|var| var == param);
        let constant = match is_read {
            true => number(&x).map(|of| inline(&mut b, &of, &[])[0]),
            false => Some(zeros(&mut b, &x)),
        };
        match constant {
            Some(var) => {
                made.insert(*param, var);
            }
            None => {
                params.push(*param);
                kept.push(x);
            }
        }
    }
    if kept.len() == others.len() {
        return (program, kept);
    }
    let of = |var: &Var| made.get(*var).copied().unwrap_or(*var);
    for eqn in &program.eqns {
        let mut eqn = eqn.clone();
        eqn.args.iter_mut().for_each(|arg| *arg = of(arg));
        b.append(eqn);
    }
    let outs = program.outs.iter().map(of).collect();
    (pass::simplify(b.finish(params, outs)), kept)
}

/// Returns the program of a value that repeats one number.
///
/// A value that a transform traces is none: its derivative is that of another value.
fn number(x: &Tensor) -> Option<Program> {
    if x.0.is_in_scope() || x.0.has_elements() {
        return None;
    }
    let part = cut(&[], 0, std::slice::from_ref(x), false);
    let (program, captured) = without_shapes(part, 0);
    (captured.is_empty() && repeats_numbers(&program)).then_some(program)
}

/// Emits a value with the shape of another one.
fn zeros(b: &mut Builder, x: &Tensor) -> Var {
    let lens: Vec<i64> = x.shape().iter().map(|len| *len as i64).collect();
    let attrs = [b.attr(lens), b.attr(0), b.attr(x.dtype())];
    b.emit(Op::Full, &attrs, &[])
}
