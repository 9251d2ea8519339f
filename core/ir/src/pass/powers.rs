//! Powers with small exponents.

use super::{constants, cse, dce, with_copy_of};
use crate::{Eqn, Op, Program, SecondaryMap, Var};

/// Returns whether [`without_powers`] replaces powers with this exponent.
pub fn is_product(exponent: f64) -> bool {
    exponent == 2.0 || exponent == 3.0
}

/// Replaces powers with the exponents 2 and 3 by the products that they are defined as.
///
/// The derivative of the products takes more operations than that of the power, so this runs after differentiation, when
/// all shapes are known.
pub fn without_powers(mut program: Program) -> Program {
    if !program.eqns.iter().any(|eqn| eqn.op == Op::Pow) {
        return program;
    }
    let numbers = constants(&program);
    let mut next = program.n_vars();
    let with = |op: Op, out: Var, args: &[Var]| Eqn {
        outs: [out].into(),
        op,
        attrs: [].into(),
        args: args.into(),
    };
    for eqn in std::mem::take(&mut program.eqns) {
        let exponent = exponent(&program, &numbers, &eqn);
        let new = match exponent {
            Some(2.0) => with(Op::Square, eqn.out(), &eqn.args[..1]),
            Some(3.0) => {
                let x = eqn.args[0];
                let square = with_copy_of(&mut program, x, &mut next);
                program.eqns.push(with(Op::Square, square, &[x]));
                with(Op::Mul, eqn.out(), &[square, x])
            }
            _ => eqn,
        };
        program.eqns.push(new);
    }
    dce(cse(program))
}

/// Returns the number that is the exponent of all elements of a power, if products have its bits.
fn exponent(program: &Program, numbers: &SecondaryMap<Var, f64>, eqn: &Eqn) -> Option<f64> {
    if eqn.op != Op::Pow {
        return None;
    }
    let (x, out) = (program.aval(eqn.args[0]), program.aval(eqn.out()));
    let dtype = out.dtype?;
    // The square of an element of 8 or 16 bits would be rounded before it is multiplied again.
    if dtype.computed() != dtype {
        return None;
    }
    let is_like_x = x.dtype == out.dtype && x.shape.same(&out.shape);
    let exponent = numbers.get(eqn.args[1]).copied();
    exponent.filter(|n| is_like_x && is_product(*n))
}
