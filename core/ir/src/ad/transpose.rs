//! Transposition of linear programs.

use super::{add_part, control};
use crate::{Builder, Op, Program, SecondaryMap, ShortList, Var};

/// A transposed linear program.
#[derive(Clone, Debug)]
pub struct TransposedProgram {
    /// The program `residuals..., cotangents of results... -> cotangents of nonzero inputs...`.
    pub program: Program,
    /// For each input, true if it has a cotangent. The other cotangents are zero.
    pub nonzero: Vec<bool>,
}

/// Transposes `(residuals, dx -> dy)` to `(residuals, ct_y -> ct_x)`.
///
/// The first `n_residuals` parameters are the residuals.
pub fn transpose(program: &Program, n_residuals: usize) -> TransposedProgram {
    transpose_onto(program, n_residuals, 0, Sums::MIXED)
}

/// How many cotangents of one value are added as wholes. [`add_part`] adds each further one that is a part among
/// zeros.
#[derive(Clone, Copy)]
pub(super) struct Sums(usize);

impl Sums {
    /// For the body of a loop, which adds up in place.
    pub(super) const BY_PART: Sums = Sums(0);
    /// A sum of a few wholes is one pass, and may become a `concat`. A sum of n wholes takes n passes.
    pub(super) const MIXED: Sums = Sums(8);
    /// For devices, each of which adds what it has.
    pub(super) const WHOLE: Sums = Sums(usize::MAX);
}

/// Transposes a program, and adds the cotangents of the first `n_sums` inputs to given sums.
///
/// The sums are the last parameters: one for each of these inputs that has a cotangent.
pub(super) fn transpose_onto(
    program: &Program,
    n_residuals: usize,
    n_sums: usize,
    sums: Sums,
) -> TransposedProgram {
    let (residuals, inputs) = program.params.split_at(n_residuals);
    let mut linear: SecondaryMap<Var, ()> = inputs.iter().map(|v| (*v, ())).collect();
    for out in program.eqns.iter().flat_map(|e| &e.outs) {
        linear.insert(*out, ());
    }
    let mut b = Builder::after(program);
    let summed = inputs[..n_sums].iter();
    let before: SecondaryMap<Var, Var> = summed.map(|x| (*x, b.param_like(*x))).collect();
    let mut cotangents = Cotangents {
        totals: before.clone(),
        n_added: SecondaryMap::new(),
        updated: SecondaryMap::new(),
        sums,
    };
    let mut cts = Vec::with_capacity(program.outs.len());
    for &out in &program.outs {
        let ct = b.param_like(out);
        name_cotangent(&mut b, ct, out);
        cts.push(ct);
        cotangents.add(&mut b, out, ct);
    }
    for eqn in program.eqns.iter().rev() {
        b.emit_for(program, eqn);
        // All consumers of the results have been visited, so their cotangents are complete.
        let out_cts: ShortList<Option<Var>, 2> = eqn
            .outs
            .iter()
            .map(|y| cotangents.totals.get(*y).copied())
            .collect();
        if out_cts.iter().all(Option::is_none) {
            continue;
        }
        let is_linear: ShortList<bool, 8> =
            eqn.data().iter().map(|x| linear.contains(*x)).collect();
        let n_before = b.n_eqns();
        let arg_cts = match eqn.op.control() {
            Some(_) => control::cotangents(&mut b, eqn, &out_cts, &is_linear),
            None => eqn.op.def().transpose(&mut b, eqn, &out_cts, &is_linear),
        };
        debug_assert_eq!(
            arg_cts.len(),
            eqn.data().len(),
            "the transpose of `{}`",
            eqn.op
        );
        cotangents.note_updates(&b, n_before);
        for ((&arg, ct), is_linear) in eqn.data().iter().zip(arg_cts).zip(&is_linear) {
            if let Some(ct) = ct.filter(|_| *is_linear) {
                cotangents.add(&mut b, arg, ct);
            }
        }
    }
    let totals = cotangents.totals;
    for (v, ct) in totals.iter().map(|(v, ct)| (v, *ct)).collect::<Vec<_>>() {
        name_cotangent(&mut b, ct, v);
    }
    // A sum to which nothing was added is no cotangent.
    let found = |x: &Var| totals.get(*x).filter(|ct| before.get(*x) != Some(ct));
    let nonzero = inputs.iter().map(|x| found(x).is_some()).collect();
    let outs = inputs.iter().filter_map(found).copied().collect();
    let sums = inputs.iter().filter(|x| found(x).is_some());
    let sums = sums.filter_map(|x| before.get(*x).copied());
    let params = residuals.iter().copied().chain(cts).chain(sums).collect();
    TransposedProgram {
        program: b.finish(params, outs),
        nonzero,
    }
}

/// The cotangents of variables, as far as they are known.
struct Cotangents {
    totals: SecondaryMap<Var, Var>,
    /// How many were added to each.
    n_added: SecondaryMap<Var, usize>,
    /// Cotangents that an update has made: a further part is added in place.
    updated: SecondaryMap<Var, ()>,
    sums: Sums,
}

impl Cotangents {
    /// Adds `ct` to the cotangent of `x`.
    fn add(&mut self, b: &mut Builder, x: Var, ct: Var) {
        let n = self.n_added.get(x).copied().unwrap_or(0);
        self.n_added.insert(x, n + 1);
        let total = match self.totals.get(x) {
            Some(&total) if self.takes_parts(n, total) => add(b, total, ct),
            Some(&total) => b.add(total, ct),
            None => ct,
        };
        self.note_updates(b, b.n_eqns().saturating_sub(1));
        self.totals.insert(x, total);
    }

    /// Returns whether parts are added to the sum of `n` cotangents, and not wholes that are zero around them.
    fn takes_parts(&self, n: usize, total: Var) -> bool {
        let Sums(n_wholes) = self.sums;
        n >= n_wholes || n_wholes < Sums::WHOLE.0 && self.updated.contains(total)
    }

    /// Notes the updates among the equations from `start`.
    fn note_updates(&mut self, b: &Builder, start: usize) {
        let is_update = |op| matches!(op, Op::SetSlice | Op::DynamicUpdateSlice | Op::Scatter);
        let updates = b.eqns_from(start).iter().filter(|eqn| is_update(eqn.op));
        self.updated.extend(updates.map(|eqn| (eqn.outs[0], ())));
    }
}

/// Emits the sum of two cotangents, of which the second was emitted last.
fn add(b: &mut Builder, total: Var, ct: Var) -> Var {
    let last = b.eqns_from(b.n_eqns().saturating_sub(1)).first();
    let part = last.filter(|eqn| eqn.outs[..] == [ct]).cloned();
    let sum = part.and_then(|eqn| add_part(b, total, &eqn));
    sum.unwrap_or_else(|| b.add(total, ct))
}

/// Names the cotangent of the tangent `d_h` as the cotangent of `h`: `ct_h`.
fn name_cotangent(b: &mut Builder, ct: Var, tangent: Var) {
    let primal = b.name_of(tangent).and_then(|n| n.strip_prefix("d_"));
    if let Some(name) = primal.map(|n| format!("ct_{n}"))
        && b.name_of(ct).is_none()
    {
        b.name(ct, &name);
    }
}
