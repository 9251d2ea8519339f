//! `custom`: the rules are host code, which runs when the derivative is recorded.

use crate::{Builder, Eqn, Op, Var};

/// Appends a `custom`, and the tangents of its results: those of the `x`, by the rule. The operands that hold the
/// values of the results have none.
pub(super) fn tangents(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
    b.append(eqn.clone());
    let n = eqn.outs.len();
    let (x, tangents) = (&eqn.args[n..], &dx[n..]);
    if x.is_empty() {
        return dx.to_vec();
    }
    let active: Vec<i64> = (0..)
        .zip(tangents)
        .filter_map(|(i, dx)| dx.map(|_| i))
        .collect();
    if active.is_empty() {
        return vec![None; n];
    }
    let args = x.iter().chain(&eqn.outs).copied();
    let args: Vec<Var> = args.chain(tangents.iter().flatten().copied()).collect();
    let attrs = [eqn.attrs[0], eqn.attrs[1], b.attr(active)];
    let is_float: Vec<bool> = eqn.outs.iter().map(|y| is_float(b, *y)).collect();
    let n_floats = is_float.iter().filter(|is_float| **is_float).count();
    let mut dy = b
        .emit_many(Op::CustomTangent, &attrs, &args, n_floats)
        .into_iter();
    let tangent = |is_float: bool| if is_float { dy.next() } else { None };
    is_float.into_iter().map(tangent).collect()
}

/// Emits the cotangents of the operands of a `custom_tangent`: those of the `dx`, by the rule, which gets the
/// cotangents of all results at once.
pub(super) fn cotangents(b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>]) -> Vec<Option<Var>> {
    let n_outs = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
    let n_active = b.static_of(eqn.attrs[2]).ints().map_or(0, <[i64]>::len);
    let n_known = eqn.args.len() - n_active;
    let known = &eqn.args[..n_known];
    let floats: Vec<Var> = known[n_known - n_outs..]
        .iter()
        .copied()
        .filter(|y| is_float(b, *y))
        .collect();
    let cts: Vec<Var> = cts
        .iter()
        .zip(floats)
        .map(|(ct, y)| ct.unwrap_or_else(|| b.zeros_like(y)))
        .collect();
    let args = [known, &cts].concat();
    let pulled = b.emit_many(Op::CustomCotangent, &eqn.attrs, &args, n_active);
    vec![None; n_known]
        .into_iter()
        .chain(pulled.into_iter().map(Some))
        .collect()
}

fn is_float(b: &Builder, y: Var) -> bool {
    b.aval(y).dtype.is_none_or(crate::DType::is_float)
}
