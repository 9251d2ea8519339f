//! Transposition of linear programs.

use super::{add_part, control};
use crate::{Builder, Program, SecondaryMap, Var};

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
    transpose_onto(program, n_residuals, 0, Sums::Whole)
}

/// How cotangents of one value are added.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sums {
    /// A part among zeros is added to that part of the sum: see [`add_part`].
    ByPart,
    /// All elements are added. Devices can do so with what each of them has, and a flow with cotangents that
    /// are found to be zero when it runs.
    Whole,
}

/// Transposes a program, and adds the cotangents of the first `n_sums` inputs to given sums.
///
/// The sums are the last parameters: one for each of these inputs that has a cotangent.
pub(super) fn transpose_onto(
    program: &Program,
    n_residuals: usize,
    n_sums: usize,
    how: Sums,
) -> TransposedProgram {
    let (residuals, inputs) = program.params.split_at(n_residuals);
    let mut linear: SecondaryMap<Var, ()> = inputs.iter().map(|v| (*v, ())).collect();
    for out in program.eqns.iter().flat_map(|e| &e.outs) {
        linear.insert(*out, ());
    }
    let mut b = Builder::after(program);
    let summed = inputs[..n_sums].iter();
    let before: SecondaryMap<Var, Var> = summed.map(|x| (*x, b.param_like(*x))).collect();
    let mut cotangent = before.clone();
    let mut cts = Vec::with_capacity(program.outs.len());
    for &out in &program.outs {
        let ct = b.param_like(out);
        name_cotangent(&mut b, ct, out);
        cts.push(ct);
        accumulate(&mut b, &mut cotangent, out, ct, how);
    }
    for eqn in program.eqns.iter().rev() {
        b.emit_for(program, eqn);
        // All consumers of the results have been visited, so their cotangents are complete.
        let out_cts: Vec<Option<Var>> = eqn
            .outs
            .iter()
            .map(|y| cotangent.get(*y).copied())
            .collect();
        if out_cts.iter().all(Option::is_none) {
            continue;
        }
        let is_linear: Vec<bool> = eqn.data().iter().map(|x| linear.contains(*x)).collect();
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
        for ((&arg, ct), is_linear) in eqn.data().iter().zip(arg_cts).zip(is_linear) {
            if let Some(ct) = ct.filter(|_| is_linear) {
                accumulate(&mut b, &mut cotangent, arg, ct, how);
            }
        }
    }
    for (v, ct) in cotangent.iter().map(|(v, ct)| (v, *ct)).collect::<Vec<_>>() {
        name_cotangent(&mut b, ct, v);
    }
    // A sum to which nothing was added is no cotangent.
    let found = |x: &Var| cotangent.get(*x).filter(|ct| before.get(*x) != Some(ct));
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

fn accumulate(
    b: &mut Builder,
    cotangent: &mut SecondaryMap<Var, Var>,
    var: Var,
    ct: Var,
    how: Sums,
) {
    let total = match cotangent.get(var) {
        Some(&old) if how == Sums::ByPart => add(b, old, ct),
        Some(&old) => b.add(old, ct),
        None => ct,
    };
    cotangent.insert(var, total);
}

/// Emits the sum of two cotangents, of which the second was emitted last.
fn add(b: &mut Builder, total: Var, ct: Var) -> Var {
    let last = b.eqns_from(b.n_eqns().saturating_sub(1)).first();
    let part = last.filter(|eqn| eqn.outs == [ct]).cloned();
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
