//! Cotangents of intermediate values.

use super::{Calls, Jvp, jvp as plain_jvp};
use crate::{Builder, Eqn, Program, SecondaryMap, Var};

/// Returns [`plain_jvp`] with more tangents, each added to the tangent of one of the variables
/// `points`. They are the last parameters.
///
/// The flags have, for each point, the index of its tangent among these. It is `None` if the point
/// has no tangent, and equal for points with one tangent.
///
/// The derivative with respect to the added tangent is the cotangent of the point. An addition
/// transposes to two uses of one cotangent, so no other cotangent changes.
pub(super) fn jvp(program: &Program, wrt: &[Var], points: &[Var]) -> (Jvp, Vec<Option<usize>>) {
    let n_outs = program.outs.len();
    let mut with_points = program.clone();
    with_points.outs.extend(points);
    let Jvp {
        program: joint,
        mut active,
    } = plain_jvp(&with_points, wrt, Calls::Split);
    let (values, tangents) = joint.outs.split_at(with_points.outs.len());
    let mut rest = tangents.iter().copied();
    let tangents = active
        .iter()
        .map(|active| active.then(|| rest.next()).flatten());
    let tangents: Vec<Option<Var>> = tangents.collect();
    active.truncate(n_outs);

    let mut b = Builder::after(&joint);
    let mut added: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut given = Vec::new();
    let index = tangents[n_outs..].iter().map(|dx| {
        let dx = (*dx)?;
        let param = match added.get(dx) {
            Some(param) => *param,
            None => {
                let param = b.param_like(dx);
                added.insert(dx, param);
                given.push(param);
                param
            }
        };
        given.iter().position(|other| *other == param)
    });
    let index = index.collect();
    // The sum that replaces each tangent of a point from its definition on.
    let mut sums: SecondaryMap<Var, Var> = SecondaryMap::new();
    let bind = |b: &mut Builder, sums: &mut SecondaryMap<Var, Var>, dx: Var| {
        if let Some(param) = added.get(dx) {
            sums.insert(dx, b.add(dx, *param));
        }
    };
    for param in &joint.params {
        bind(&mut b, &mut sums, *param);
    }
    for eqn in &joint.eqns {
        let args = eqn.args.iter().map(|x| sums.get(*x).copied().unwrap_or(*x));
        b.append(Eqn {
            args: args.collect(),
            ..eqn.clone()
        });
        for out in &eqn.outs {
            bind(&mut b, &mut sums, *out);
        }
    }
    let dy = tangents[..n_outs].iter().flatten();
    let dy = dy.map(|dx| sums.get(*dx).copied().unwrap_or(*dx));
    let outs = values[..n_outs].iter().copied().chain(dy).collect();
    let params = joint.params.iter().chain(&given).copied().collect();
    let program = b.finish(params, outs);
    (Jvp { program, active }, index)
}
