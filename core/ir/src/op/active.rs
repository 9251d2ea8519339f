//! Jacobians of ops with up to three operands that have derivatives, applied to tangents of some of them, and the transposes.
//!
//! Such an op has the numbers of these operands in its static argument `active`: what has no derivative costs nothing.

use super::shape;
use crate::{Attr, Builder, Fault, SecondaryMap, Static, Var};

/// Which of the first three operands the static argument `active` names, in order; `None` where it is not known.
pub(super) fn active(value: &Static) -> Result<Option<&[i64]>, Fault> {
    let Some(active) = shape::ints(value, "active")? else {
        return Ok(None);
    };
    let ascending = active.windows(2).all(|pair| pair[0] < pair[1]);
    match ascending && !active.is_empty() && active.iter().all(|i| (0..3).contains(i)) {
        true => Ok(Some(active)),
        false => Err(Fault::Static {
            name: "active",
            found: value.to_string(),
        }),
    }
}

/// The numbers of the static argument `active`.
pub(super) fn numbers(b: &Builder, active: Attr) -> Vec<i64> {
    let active = b.static_of(active).ints();
    active.expect("derivatives say what is active").to_vec()
}

/// What stands for each of the first three operands, of which `active` numbers some.
pub(super) fn placed(active: &[i64], given: &[Option<Var>]) -> [Option<Var>; 3] {
    let mut all = [None; 3];
    for (i, x) in active.iter().zip(given) {
        all[*i as usize] = *x;
    }
    all
}

/// The tangents of what `f` computes from `inputs`, which have the tangents `dx`, by the rules of the ops that `f` emits.
pub(super) fn by_parts(
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
