//! `shard_map`: the tangents and cotangents of the parts that each device has.
//!
//! The program is first made [`explicit`], so that each of its ops is differentiated by itself.

use super::body::{self, Halves};
use crate::ad::Calls;
use crate::mesh::Tiling;
use crate::op::control::body::{chosen, spread};
use crate::op::control::shard_map::{Parts, emit, explicit, variance};
use crate::{Aval, Builder, Dim, Eqn, Op, Program, Programs, SecondaryMap, Static, Var, pass};

const CHECKED: &str = "the shape rule checks the program of a `shard_map`";

pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| b.static_of(*a).clone()).collect();
    let Parts {
        body,
        mesh,
        ins,
        outs,
    } = Parts::of(&statics);
    let body = explicit(body, mesh, ins, outs).expect(CHECKED);
    let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
    let given = body::active(&body, &active);
    let joint = body::joint(&body, &active, &given, calls);
    let of_tangents = [chosen(ins, &active), chosen(outs, &given)];
    let all = [
        [ins, &of_tangents[0][..]].concat(),
        [outs, &of_tangents[1][..]].concat(),
    ];
    let joint = explicit(&joint, mesh, &all[0], &all[1]).expect(CHECKED);
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let new = match calls {
        Calls::Joint => {
            let [ins, outs] = all;
            let attrs = vec![
                b.attr(Programs::new(vec![joint])),
                eqn.attrs[1],
                b.attr(ins),
                b.attr(outs),
            ];
            let args = [&eqn.args[..], &dx].concat();
            body::append_joint(b, eqn, &given, attrs, args)
        }
        Calls::Split => {
            let n_outs = eqn.outs.len();
            let halves = body::halves(&joint, eqn.args.len(), n_outs);
            let Stored {
                known,
                linear,
                places,
                stored,
            } = stored(b, eqn, &Parts::of(&statics), halves);
            let known_outs = [outs, &stored[..]].concat();
            let attrs = vec![
                b.attr(Programs::new(vec![known])),
                eqn.attrs[1],
                eqn.attrs[2],
                b.attr(known_outs),
            ];
            let made = places.iter().filter(|(_, _, is_made)| *is_made);
            let made: Vec<Var> = made.map(|(var, ..)| *var).collect();
            b.append(Eqn {
                outs: [&eqn.outs[..], &made].concat().into(),
                op: Op::ShardMap,
                attrs: attrs.into(),
                args: eqn.args.clone(),
            });
            let tilings = places.iter().map(|(_, tiling, _)| tiling.clone());
            let [of_dx, of_dy] = of_tangents;
            let ins = tilings.chain(of_dx).collect();
            let residuals = places.iter().map(|(var, ..)| *var);
            let args: Vec<Var> = residuals.chain(dx).collect();
            emit(b, linear, mesh, [ins, of_dy], &args)
        }
    };
    spread(&given, new)
}

/// Both halves of a `shard_map`, and its residuals as values of the program around it.
struct Stored {
    /// `x -> y, the residuals that are made`.
    known: Program,
    /// `residuals, dx -> dy`.
    linear: Program,
    /// Each residual, how it is divided, and whether the first half makes it.
    places: Vec<(Var, Tiling, bool)>,
    /// How the residuals that are made are divided.
    stored: Vec<Tiling>,
}

/// Returns the halves with residuals as results of the first one.
///
/// An operand or a result is there already. Any other value differs between devices: its parts are put together along a
/// new first axis.
fn stored(b: &mut Builder, eqn: &Eqn, parts: &Parts<'_>, halves: Halves) -> Stored {
    let Halves {
        mut known,
        linear,
        n_residuals,
    } = halves;
    let mesh = parts.mesh;
    let n_outs = eqn.outs.len();
    let varies = variance(&known, mesh, parts.ins).expect(CHECKED);
    let residuals = known.outs.split_off(n_outs);
    let params = known.params.iter().zip(eqn.args.iter().zip(parts.ins));
    let results = known.outs.iter().zip(eqn.outs.iter().zip(parts.outs));
    let there: SecondaryMap<Var, (Var, &Tiling)> = results
        .chain(params)
        .map(|(local, (whole, tiling))| (*local, (*whole, tiling)))
        .collect();
    let mut first = Builder::after(&known);
    known.eqns.iter().for_each(|eqn| first.append(eqn.clone()));
    let mut second = Builder::after(&linear);
    let mut outs = known.outs.clone();
    let mut params = linear.params[..n_residuals].to_vec();
    let (mut places, mut stored) = (Vec::new(), Vec::new());
    for (param, local) in params.iter_mut().zip(residuals) {
        if let Some((whole, tiling)) = there.get(local) {
            places.push((*whole, (*tiling).clone(), false));
            continue;
        }
        let axes = varies.get(local).copied().unwrap_or_default();
        let axes = axes.named(mesh);
        let names = axes.axes().iter().map(|(name, _)| *name).collect();
        let aval = known.aval(local).clone();
        let dims = aval.shape.dims().unwrap_or_default();
        let tiling = Tiling([&[names][..], &Tiling::whole(dims.len()).0].concat());
        let zero = first.attr(0);
        outs.push(first.emit(Op::Unsqueeze, &[zero], &[local]));
        let with_first = |len: usize| Aval {
            dtype: aval.dtype,
            shape: [&[Dim::Known(len)][..], dims].concat().into(),
        };
        let (row, zero) = (second.param(with_first(1)), second.attr(0));
        second.append(Eqn {
            outs: [*param].into(),
            op: Op::Squeeze,
            attrs: [zero].into(),
            args: [row].into(),
        });
        *param = row;
        let whole = b.param(with_first(axes.n_devices()));
        stored.push(tiling.clone());
        places.push((whole, tiling, true));
    }
    linear
        .eqns
        .iter()
        .for_each(|eqn| second.append(eqn.clone()));
    params.extend(&linear.params[n_residuals..]);
    Stored {
        known: pass::simplify(first.finish(known.params, outs)),
        linear: second.finish(params, linear.outs),
        places,
        stored,
    }
}

/// Emits the pullback: each device computes the cotangents of its parts.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| b.static_of(*a).clone()).collect();
    let Parts {
        body,
        mesh,
        ins,
        outs,
    } = Parts::of(&statics);
    let body = explicit(body, mesh, ins, outs).expect(CHECKED);
    let divided = (&body, ins, outs);
    body::divided_cotangents(divided, eqn, cts, linear, |program, specs, args| {
        emit(b, program, mesh, specs, args)
    })
}
