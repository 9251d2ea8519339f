//! `scan`: a loop on tangents, and a loop on cotangents in the other direction.

use super::body::{self, Halves, Pullback};
use crate::ad::Calls;
use crate::ad::transpose::Sums;
use crate::op::control::body::{chosen, fixpoint, n_marked, parts, spread, zeros};
use crate::op::control::scan::Loop;
use crate::op::control::stacked;
use crate::{Builder, Eqn, Op, Program, SecondaryMap, Var};

/// Appends a loop and its tangents: beside the values, or in a loop of their own.
pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let of = Loop::of(b, eqn);
    let n_carry = of.n_carry();
    let given = dx.iter().map(Option::is_some).collect();
    let active = of.marks(given, |marks| body::active(&of.body, marks));
    let mut dy = body::active(&of.body, &active);
    dy[..n_carry].copy_from_slice(&active[of.lens[0]..][..n_carry]);
    let joint = body::joint(&of.body, &active, &dy, calls);
    let tangents: Vec<Option<Var>> = dx
        .iter()
        .zip(&eqn.args)
        .zip(&active)
        .map(|((dx, x), active)| match (dx, active) {
            (None, true) => Some(b.zeros_like(*x)),
            (dx, _) => *dx,
        })
        .collect();
    let new = match calls {
        Calls::Joint => together(b, eqn, &of, joint, [&active, &dy], &tangents),
        Calls::Split => apart(b, eqn, &of, &joint, [&active, &dy], &tangents),
    };
    let mut new = new.into_iter();
    dy.iter()
        .map(|active| active.then(|| new.next()).flatten())
        .collect()
}

/// Appends a loop on values and tangents, and returns the tangents.
fn together(
    b: &mut Builder,
    eqn: &Eqn,
    of: &Loop,
    joint: Program,
    [active, given]: [&[bool]; 2],
    dx: &[Option<Var>],
) -> Vec<Var> {
    let (n, m) = (of.body.params.len(), of.body.outs.len());
    // Puts the tangents of each kind of operand behind its values.
    let params = side_by_side(&joint.params[..n], &joint.params[n..], active, of.lens);
    let outs = [of.n_carry(), m - of.n_carry()];
    let program = Program {
        outs: side_by_side(&joint.outs[..m], &joint.outs[m..], given, outs),
        params,
        ..joint
    };
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let args = side_by_side(&eqn.args, &dx, active, of.lens);
    let dy = chosen(&eqn.outs, given);
    let dy: Vec<Var> = dy.iter().map(|y| b.param_like(*y)).collect();
    let bound = side_by_side(&eqn.outs, &dy, given, outs);
    let [consts, carry, _] = parts(active, of.lens);
    let counts = [
        of.lens[0] + n_marked(&consts),
        of.lens[1] + n_marked(&carry),
    ];
    let attrs = of.statics(b, program, counts[0], counts[1]);
    b.append(Eqn {
        outs: bound.into(),
        op: Op::Scan,
        attrs: attrs.into(),
        args: args.into(),
    });
    dy
}

/// Returns the values of each kind followed by the tangents of those that are marked.
fn side_by_side<const N: usize>(
    values: &[Var],
    mut tangents: &[Var],
    marked: &[bool],
    lens: [usize; N],
) -> Vec<Var> {
    let mut all = Vec::new();
    for (values, marked) in parts(values, lens).iter().zip(parts(marked, lens)) {
        let (these, rest) = tangents.split_at(n_marked(&marked));
        all.extend(values.iter().chain(these));
        tangents = rest;
    }
    all
}

/// Appends a loop on values that also returns what the tangents need, and a loop on tangents.
fn apart(
    b: &mut Builder,
    eqn: &Eqn,
    of: &Loop,
    joint: &Program,
    [active, given]: [&[bool]; 2],
    dx: &[Option<Var>],
) -> Vec<Var> {
    let (n, m) = (of.body.params.len(), of.body.outs.len());
    let Halves {
        mut known,
        linear,
        n_residuals,
    } = body::halves(joint, n, m);
    // A residual that is an operand of the loop, or a stacked result, is there already.
    let kept: SecondaryMap<Var, (bool, Var)> = {
        let (consts, rest) = known.params.split_at(of.lens[0]);
        let consts = consts
            .iter()
            .zip(&eqn.args)
            .map(|(param, x)| (*param, (false, *x)));
        let xs = rest[of.lens[1]..]
            .iter()
            .zip(&eqn.args[of.lens[0] + of.lens[1]..]);
        let xs = xs.map(|(param, x)| (*param, (true, *x)));
        let ys = known.outs[of.n_carry()..m]
            .iter()
            .zip(&eqn.outs[of.n_carry()..]);
        let ys = ys.map(|(out, y)| (*out, (true, *y)));
        ys.chain(consts).chain(xs).collect()
    };
    let residuals = known.outs.split_off(m);
    let (mut outs, mut places) = (eqn.outs.to_vec(), Vec::with_capacity(n_residuals));
    for var in residuals {
        places.push(match kept.get(var) {
            Some(place) => *place,
            None => {
                let all = b.param(stacked(known.aval(var), of.turns));
                known.outs.push(var);
                outs.push(all);
                (true, all)
            }
        });
    }
    let attrs = of.statics(b, known, of.lens[0], of.lens[1]);
    b.append(Eqn {
        outs: outs.into(),
        op: Op::Scan,
        attrs: attrs.into(),
        args: eqn.args.clone(),
    });

    let (residuals, tangents) = linear.params.split_at(n_residuals);
    let stacked: Vec<bool> = places.iter().map(|(stacked, _)| *stacked).collect();
    let same: Vec<bool> = stacked.iter().map(|stacked| !stacked).collect();
    let places: Vec<Var> = places.iter().map(|(_, var)| *var).collect();
    let lens = parts(active, of.lens).map(|kind| n_marked(&kind));
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let join = |residuals: &[Var], tangents: &[Var]| -> Vec<Var> {
        let [consts, carry, xs] = parts(tangents, lens);
        let all = [
            chosen(residuals, &same),
            consts,
            carry,
            chosen(residuals, &stacked),
            xs,
        ];
        all.concat()
    };
    let (params, args) = (join(residuals, tangents), join(&places, &dx));
    let attrs = of.statics(
        b,
        Program { params, ..linear },
        n_marked(&same) + lens[0],
        lens[1],
    );
    b.emit_many(Op::Scan, &attrs, &args, n_marked(given))
}

/// Emits the loop on cotangents, which goes through the turns in the other direction.
///
/// Its states are the cotangents of the states, and the sums of the cotangents of the constants.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let of = Loop::of(b, eqn);
    let [n_consts, n_carry, _] = of.lens;
    let dependent = |marks: &[bool]| body::dependent(&of.body, marks);
    let linear = of.marks(linear.to_vec(), dependent);
    let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let with_states = |carry: &[bool]| [carry, &given[n_carry..]].concat();
    let back = |carry: &[bool]| {
        body::pullback_onto(
            &of.body,
            &linear,
            &with_states(carry),
            n_consts,
            Sums::BY_PART,
        )
    };
    let carry = fixpoint(given[..n_carry].to_vec(), |carry| {
        back(carry).nonzero[n_consts..][..n_carry].to_vec()
    });
    let Pullback { program, nonzero } = back(&carry);
    let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();

    let mut body = Builder::after(&program);
    program.eqns.iter().for_each(|eqn| body.append(eqn.clone()));
    let known_lens = parts(&known, of.lens).map(|kind| n_marked(&kind));
    let n_known = known_lens.iter().sum();
    let [of_consts, of_carry, of_xs] = parts(&nonzero, of.lens);
    let n_ct_ys = n_marked(&given[n_carry..]);
    let [known_params, ct_carry, ct_ys, sums] = parts(
        &program.params,
        [n_known, n_marked(&carry), n_ct_ys, n_marked(&of_consts)],
    );
    let [consts, states, xs] = parts(&known_params, known_lens);
    debug_assert!(states.is_empty(), "every state of a linear loop is linear");
    let [ct_consts, ct_states, ct_xs] = parts(
        &program.outs,
        [&of_consts, &of_carry, &of_xs].map(|kind| n_marked(kind)),
    );
    let mut outs = Vec::new();
    let mut found = ct_states.iter();
    let mut params = ct_carry.iter();
    for (carry, nonzero) in carry.iter().zip(&of_carry).filter(|(carry, _)| **carry) {
        debug_assert!(*carry);
        let ct = *params.next().expect("a parameter for each cotangent");
        outs.push(match nonzero {
            true => *found.next().expect("a result for each cotangent"),
            false => body.zeros_like(ct),
        });
    }
    outs.extend(ct_consts.iter().chain(&ct_xs));
    let n_states = ct_carry.len() + sums.len();
    let params = [&consts, &ct_carry, &sums, &xs, &ct_ys]
        .map(|vars| vars.as_slice())
        .concat();
    let body = body.finish(params, outs);

    let [eqn_consts, _, eqn_xs] = parts(&eqn.args, of.lens);
    let [known_consts, _, known_xs] = parts(&known, of.lens);
    let of_states = of.body.outs[..n_carry].iter().map(|v| of.body.aval(*v));
    let ct_states = of_states.zip(cts).zip(&carry).filter(|(_, carry)| **carry);
    let first: Vec<Var> = ct_states
        .map(|((aval, ct), _)| ct.unwrap_or_else(|| zeros(b, aval)))
        .collect();
    let zeros: Vec<Var> = ct_consts
        .iter()
        .map(|ct| zeros(b, body.aval(*ct)))
        .collect();
    let ys: Vec<Var> = cts[n_carry..].iter().flatten().copied().collect();
    let consts = chosen(&eqn_consts, &known_consts);
    let args = [&consts, &first, &zeros, &chosen(&eqn_xs, &known_xs), &ys];
    let args = args.map(|vars| vars.as_slice()).concat();
    let n_outs = body.outs.len();
    let other = Loop {
        reverse: !of.reverse,
        ..of
    };
    let attrs = other.statics(b, body, consts.len(), n_states);
    let outs = b.emit_many(Op::Scan, &attrs, &args, n_outs);
    let [of_carry_outs, sums, ct_xs] = parts(&outs, [first.len(), zeros.len(), ct_xs.len()]);
    let all = [
        spread(&of_consts, sums),
        spread(&carry, of_carry_outs),
        spread(&of_xs, ct_xs),
    ];
    all.concat()
}
