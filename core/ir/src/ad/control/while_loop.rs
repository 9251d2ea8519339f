//! `while`: a loop that carries tangents, and one that runs again and tapes its states.

use super::body::{self, Pullback};
use crate::ad::Calls;
use crate::ad::transpose::Sums;
use crate::op::control::body::{chosen, fixpoint, n_marked, parts, spread, zeros};
use crate::op::control::programs;
use crate::op::control::while_loop::{marks, statics};
use crate::{Builder, Eqn, Op, Program, Var, pass};

pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let [cond, body]: [Program; 2] = programs(b, eqn).try_into().expect("two programs");
    let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
    let given = dx.iter().map(Option::is_some).collect();
    let active = marks(given, consts, |marks| body::active(&body, marks));
    let states = active[consts..].to_vec();
    let joint = body::joint(&body, &active, &states, calls);
    let n = body.params.len();
    let joint = Program {
        params: beside(&joint.params[..n], &joint.params[n..], &active, consts),
        ..joint
    };
    let cond = condition_beside_tangents(&cond, consts, &active);
    let dx = tangents_of(b, &eqn.args, dx, &active);
    let args = beside(&eqn.args, &dx, &active, consts);
    let n_consts = consts + n_marked(&active[..consts]);
    let attrs = statics(b, vec![cond, joint], &[n_consts]);
    let tangents = match calls {
        Calls::Joint => body::append_joint(b, eqn, &states, attrs, args),
        Calls::Split => {
            b.append(eqn.clone());
            let n_outs = eqn.outs.len() + n_marked(&states);
            b.emit_many(Op::While, &attrs, &args, n_outs)
                .split_off(eqn.outs.len())
        }
    };
    spread(&states, tangents)
}

/// Returns the condition of a loop on values and tangents.
pub(super) fn condition_beside_tangents(cond: &Program, consts: usize, active: &[bool]) -> Program {
    let mut b = Builder::after(cond);
    cond.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let mut params = Vec::new();
    for (kind, active) in [
        (&cond.params[..consts], &active[..consts]),
        (&cond.params[consts..], &active[consts..]),
    ] {
        params.extend(kind);
        params.extend(chosen(kind, active).into_iter().map(|x| b.param_like(x)));
    }
    b.finish(params, cond.outs.clone())
}

/// Returns the values of two kinds, each followed by the tangents of those that are marked.
pub(super) fn beside(values: &[Var], tangents: &[Var], marked: &[bool], first: usize) -> Vec<Var> {
    let n = n_marked(&marked[..first]);
    let all = [
        &values[..first],
        &tangents[..n],
        &values[first..],
        &tangents[n..],
    ];
    all.concat()
}

/// Returns the tangents of the operands, zeros for those that only become active in the loop.
pub(super) fn tangents_of(
    b: &mut Builder,
    args: &[Var],
    dx: &[Option<Var>],
    active: &[bool],
) -> Vec<Var> {
    let all = args
        .iter()
        .zip(dx)
        .zip(active)
        .filter(|(_, active)| **active);
    all.map(|((x, dx), _)| dx.unwrap_or_else(|| b.zeros_like(*x)))
        .collect()
}

/// Emits a loop on cotangents, which first runs the turns again.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let [cond, body]: [Program; 2] = programs(b, eqn).try_into().expect("two programs");
    let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
    let linear = marks(linear.to_vec(), consts, |marks| {
        body::dependent(&body, marks)
    });
    let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
    let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let back = |carry: &[bool]| body::pullback_onto(&body, &linear, carry, consts, Sums::BY_PART);
    let carry = fixpoint(given, |carry| back(carry).nonzero[consts..].to_vec());
    let Pullback { program, nonzero } = back(&carry);

    // What the pullback reads of the states is taped. It reads the constants themselves.
    let (known_consts, known_states) = (n_marked(&known[..consts]), n_marked(&known[consts..]));
    let n_known = known_consts + known_states;
    let known_params = chosen(&body.params, &known);
    let mut outs = chosen(&body.outs, &known[consts..]);
    outs.extend(&known_params[known_consts..]);
    let forward = pass::simplify(Program {
        params: known_params,
        outs,
        ..body.clone()
    });
    let cond = Program {
        params: chosen(&cond.params, &known),
        ..cond
    };

    let mut backward = Builder::after(&program);
    program
        .eqns
        .iter()
        .for_each(|eqn| backward.append(eqn.clone()));
    let [of_consts, of_states] = parts(&nonzero, [consts, linear.len() - consts]);
    let [ct_consts, ct_states] = parts(
        &program.outs,
        [&of_consts, &of_states].map(|kind| n_marked(kind)),
    );
    let ct_carry = &program.params[n_known..][..n_marked(&carry)];
    let mut outs = Vec::new();
    let (mut found, mut params) = (ct_states.iter(), ct_carry.iter());
    for (_, nonzero) in carry.iter().zip(&of_states).filter(|(carry, _)| **carry) {
        let ct = *params.next().expect("a parameter for each cotangent");
        outs.push(match nonzero {
            true => *found.next().expect("a result for each cotangent"),
            false => backward.zeros_like(ct),
        });
    }
    outs.extend(&ct_consts);
    let backward = backward.finish(program.params.clone(), outs);

    let zeros = |b: &mut Builder, var: &Var, of: &Program| zeros(b, of.aval(*var));
    let first: Vec<Var> = body
        .outs
        .iter()
        .zip(cts)
        .zip(&carry)
        .filter(|(_, carry)| **carry)
        .map(|((out, ct), _)| ct.unwrap_or_else(|| zeros(b, out, &body)))
        .collect();
    let no_sums: Vec<Var> = ct_consts.iter().map(|ct| zeros(b, ct, &backward)).collect();
    let args = [chosen(&eqn.args, &known), first.clone(), no_sums.clone()].concat();
    let attrs = statics(
        b,
        vec![cond, forward, backward],
        &[known_consts, known_states],
    );
    let mut outs = b
        .emit_many(Op::WhileBack, &attrs, &args, first.len() + no_sums.len())
        .into_iter();
    let of_carry = spread(&carry, outs.by_ref());
    [spread(&of_consts, outs), of_carry].concat()
}
