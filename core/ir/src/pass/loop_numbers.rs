//! Numbers that loops read.

use super::SecondaryMap;
use crate::{Attr, Builder, DType, Eqn, Op, Program, Programs, Static, Var};

/// Returns whether the program has loops.
pub(super) fn has_loops(program: &Program) -> bool {
    let mut eqns = program.eqns.iter();
    eqns.any(|eqn| place_of_consts(eqn.op).is_some())
}

/// Makes numbers that are operands of loops constants of the programs of the loops.
///
/// A turn can then be simplified by them.
pub fn with_loop_numbers(mut program: Program) -> Program {
    let made = program.eqns.iter();
    let made = made.filter_map(|eqn| Some((*eqn.outs.first()?, number(&program, eqn)?)));
    let numbers: SecondaryMap<Var, Number> = made.collect();
    for i in 0..program.eqns.len() {
        if let Some(eqn) = with_numbers(&mut program, i, &numbers) {
            program.eqns[i] = eqn;
        }
    }
    program
}

/// Returns an equation with numbers as constants of its programs, if it is a loop that reads some.
fn with_numbers(
    program: &mut Program,
    i: usize,
    numbers: &SecondaryMap<Var, Number>,
) -> Option<Eqn> {
    let eqn = program.eqns[i].clone();
    let place = place_of_consts(eqn.op)?;
    let n = usize::try_from(program.attr(eqn.attrs[place]).int()?).ok()?;
    let consts = eqn.args[..n].iter().map(|arg| numbers.get(*arg));
    let consts: Vec<Option<&Number>> = consts.collect();
    let kept = consts.iter().filter(|number| number.is_none()).count();
    let programs = program.attr(eqn.attrs[0]).programs()?;
    if kept == n {
        return None;
    }
    let programs = programs.iter().map(|of| with_constants(of, &consts));
    let programs = Programs::new(programs.collect());
    let mut attrs: Vec<Attr> = eqn.attrs.iter().copied().collect();
    attrs[0] = add(program, programs.into());
    attrs[place] = add(program, Static::Int(kept as i64));
    let args = eqn.args.iter().enumerate();
    let args = args.filter(|(at, _)| consts.get(*at).is_none_or(Option::is_none));
    let args: Vec<Var> = args.map(|(_, arg)| *arg).collect();
    Some(Eqn {
        attrs: attrs.into(),
        args: args.into(),
        ..eqn
    })
}

/// A number that an equation makes.
struct Number {
    value: Static,
    dtype: DType,
}

/// Returns the place of the number of constants among the static arguments of a loop.
fn place_of_consts(op: Op) -> Option<usize> {
    match op {
        Op::Scan => Some(2),
        Op::While | Op::WhileBack => Some(1),
        _ => None,
    }
}

fn number(program: &Program, eqn: &Eqn) -> Option<Number> {
    let value = match eqn.op {
        Op::Scalar => eqn.attrs[0],
        Op::Full => eqn.attrs[1],
        _ => return None,
    };
    let aval = program.aval(eqn.out());
    aval.shape.known().filter(|shape| shape.is_empty())?;
    Some(Number {
        value: program.attr(value).clone(),
        dtype: aval.dtype?,
    })
}

fn add(program: &mut Program, value: Static) -> Attr {
    program.attrs.push(value);
    Attr(program.attrs.len() as u32 - 1)
}

/// Returns a program in which some of the first parameters are numbers.
fn with_constants(program: &Program, numbers: &[Option<&Number>]) -> Program {
    let mut b = Builder::after(program);
    let mut params = Vec::new();
    for (i, param) in program.params.iter().enumerate() {
        let Some(Number { value, dtype }) = numbers.get(i).copied().flatten() else {
            params.push(*param);
            continue;
        };
        let attrs = [
            b.attr(Vec::<i64>::new()),
            b.attr(value.clone()),
            b.attr(*dtype),
        ];
        b.append(Eqn {
            outs: [*param].into(),
            op: Op::Full,
            attrs: attrs.into(),
            args: [].into(),
        });
    }
    program.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    b.finish(params, program.outs.clone())
}
