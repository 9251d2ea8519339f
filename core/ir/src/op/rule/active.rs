//! Shared parts of the Jacobians of ops with up to three differentiable operands.
//!
//! The static argument `active` of such an op lists the operands that have tangents, so the other
//! operands cost nothing.

use crate::{Attr, Builder, Eqn, Fault, Op, Program, SecondaryMap, Static, Var};
use std::ops::RangeInclusive;

/// Returns the operands that the static argument `active` lists, among the first three.
fn active(value: &Static) -> &[i64] {
    value.ints().unwrap_or_default()
}

/// Returns the number of operands before the tangents, and the operands that have tangents.
///
/// The number of operands before the tangents must be in the range `given`.
pub(crate) fn tangents(
    value: &Static,
    given: RangeInclusive<usize>,
    n_args: usize,
) -> Result<(usize, &[i64]), Fault> {
    let active = active(value);
    let n = active.len();
    let expected = n_args.clamp(given.start() + n, given.end() + n);
    match n_args == expected {
        true => Ok((n_args - n, active)),
        false => Err(Fault::Arity {
            found: n_args,
            expected: format!("{expected} operands"),
        }),
    }
}

/// Returns the position of the primal of a tangent, which is among the last operands.
pub(crate) fn primal(program: &Program, eqn: &Eqn, tangent: usize) -> usize {
    let value = eqn.attrs.last().map(|attr| program.attr(*attr));
    let active = value.map_or(&[][..], active);
    active[tangent + active.len() - eqn.args.len()] as usize
}

/// Returns the operands that have cotangents, if the transpose has `n_outs` results.
pub(crate) fn cotangents(value: &Static, n_outs: usize) -> Result<&[i64], Fault> {
    let active = active(value);
    match active.len() == n_outs {
        true => Ok(active),
        false => Err(Fault::Length {
            what: "the number of `active`".into(),
            found: active.len().to_string(),
            expected: format!("{n_outs}, the number of results"),
        }),
    }
}

/// Returns the value of `active` for these tangents, or `None` if there are no tangents.
pub(crate) fn present(dx: &[Option<Var>; 3]) -> Option<Vec<i64>> {
    let active: Vec<i64> = (0..3).filter(|i| dx[*i as usize].is_some()).collect();
    (!active.is_empty()).then_some(active)
}

/// Emits the transpose of a Jacobian with `n_given` operands before its tangents.
///
/// Returns the cotangents of all operands. They are `None` except for the tangents that `linear`
/// requests, which the op `transpose` computes.
pub(crate) fn transposed(
    b: &mut Builder,
    eqn: &Eqn,
    transpose: Op,
    n_given: usize,
    ct: Option<Var>,
    linear: &[bool],
) -> Vec<Option<Var>> {
    let mut all = vec![None; eqn.args.len()];
    let (active, attrs) = eqn.attrs.split_last().expect("`active` is the last static");
    let numbers = numbers(b, *active).into_iter().enumerate();
    let (places, wanted): (Vec<usize>, Vec<i64>) = numbers
        .map(|(i, of)| (n_given + i, of))
        .filter(|(place, _)| linear[*place])
        .unzip();
    if let Some(ct) = ct.filter(|_| !wanted.is_empty()) {
        let attrs = [attrs, &[b.attr(wanted)]].concat();
        let args = [&eqn.args[..n_given], &[ct]].concat();
        let found = b.emit_many(transpose, &attrs, &args, places.len());
        for (place, ct) in places.into_iter().zip(found) {
            all[place] = Some(ct);
        }
    }
    all
}

/// Emits the tangents of a transpose if only its last operand, the cotangent, has a tangent.
///
/// The op is linear in the cotangent. Returns `None` if another operand has a tangent.
pub(crate) fn along_cotangent(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
) -> Option<Vec<Option<Var>>> {
    let (d_ct, given) = dx.split_last()?;
    let d_ct = d_ct.filter(|_| given.iter().all(Option::is_none))?;
    let args = [&eqn.args[..given.len()], &[d_ct]].concat();
    let tangents = b.emit_many(eqn.op, &eqn.attrs, &args, eqn.outs.len());
    Some(tangents.into_iter().map(Some).collect())
}

/// Returns the list of the static argument `active`.
pub(crate) fn numbers(b: &Builder, active: Attr) -> Vec<i64> {
    let active = b.static_of(active).ints();
    active.expect("`active` is a list of integers").to_vec()
}

/// Spreads the values `given` over three places. `active` lists the place of each.
pub(crate) fn placed(active: &[i64], given: &[Option<Var>]) -> [Option<Var>; 3] {
    let mut all = [None; 3];
    for (i, x) in active.iter().zip(given) {
        all[*i as usize] = *x;
    }
    all
}

/// Emits `f` and the tangents of its results, by the derivative rules of the ops that `f` emits.
///
/// The `inputs` have the tangents `dx`.
pub(crate) fn by_parts(
    b: &mut Builder,
    inputs: &[Var],
    dx: &[Option<Var>],
    f: impl FnOnce(&mut Builder) -> Vec<Var>,
) -> Vec<Option<Var>> {
    let mut tangent: SecondaryMap<Var, Var> = SecondaryMap::new();
    for (x, dx) in inputs.iter().zip(dx) {
        if let Some(dx) = dx {
            tangent.insert(*x, *dx);
        }
    }
    let start = b.n_eqns();
    let outs = f(b);
    for eqn in b.eqns_from(start).to_vec() {
        let dx: Vec<Option<Var>> = eqn
            .data()
            .iter()
            .map(|x| tangent.get(*x).copied())
            .collect();
        if dx.iter().all(Option::is_none) {
            continue;
        }
        let dy = eqn.op.def().jvp(b, &eqn, &dx);
        for (y, dy) in eqn.outs.iter().zip(dy) {
            if let Some(dy) = dy {
                tangent.insert(*y, dy);
            }
        }
    }
    outs.iter().map(|y| tangent.get(*y).copied()).collect()
}
