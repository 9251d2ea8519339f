//! `sharded`: the tangents and cotangents of the whole program, which are divided in turn.

use super::body;
use crate::ad::Calls;
use crate::op::control::body::{chosen, spread};
use crate::op::control::sharded::{Parts, emit};
use crate::{Builder, Eqn, Op, Program, Programs, SecondaryMap, Static, Var};

/// Appends the program on values and tangents, or one on values and one that is linear in tangents.
///
/// A tangent has the spec of its value. A residual has none: propagation places it.
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
    let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
    let given = body::active(body, &active);
    let joint = body::joint(body, &active, &given, calls);
    let (of_dx, of_dy) = (chosen(ins, &active), chosen(outs, &given));
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let specs = |specs| Static::Specs(mesh.clone(), specs);
    let new = match calls {
        Calls::Joint => {
            let attrs = vec![
                b.attr(Programs::new(vec![joint])),
                b.attr(specs([ins, &of_dx[..]].concat())),
                b.attr(specs([outs, &of_dy[..]].concat())),
            ];
            let args = [&eqn.args[..], &dx].concat();
            body::append_joint(b, eqn, &given, attrs, args)
        }
        Calls::Split => {
            let halves = body::halves(&joint, eqn.args.len(), eqn.outs.len());
            let mut known = halves.known;
            let residuals = known.outs.split_off(eqn.outs.len());
            // An operand or a result is there already.
            let params = known.params.iter().zip(&eqn.args).zip(ins);
            let results = known.outs.iter().zip(&eqn.outs).zip(outs);
            let there: SecondaryMap<Var, (Var, usize)> = {
                let all = results.chain(params).enumerate();
                all.map(|(i, ((inner, outer), _))| (*inner, (*outer, i)))
                    .collect()
            };
            let spec_of = [outs, ins].concat();
            let (mut args, mut of_residuals, mut made) = (Vec::new(), Vec::new(), Vec::new());
            for residual in residuals {
                match there.get(residual) {
                    Some((outer, i)) => {
                        args.push(*outer);
                        of_residuals.push(spec_of[*i].clone());
                    }
                    None => {
                        let outer = b.param(known.aval(residual).clone());
                        known.outs.push(residual);
                        made.push(outer);
                        args.push(outer);
                        of_residuals.push(None);
                    }
                }
            }
            let of_made = vec![None; made.len()];
            let attrs = vec![
                b.attr(Programs::new(vec![known])),
                eqn.attrs[1],
                b.attr(specs([outs, &of_made[..]].concat())),
            ];
            b.append(Eqn {
                outs: [&eqn.outs[..], &made].concat().into(),
                op: Op::Sharded,
                attrs: attrs.into(),
                args: eqn.args.clone(),
            });
            args.extend(dx);
            let linear: Program = halves.linear;
            emit(
                b,
                linear,
                mesh,
                [[of_residuals, of_dx].concat(), of_dy],
                &args,
            )
        }
    };
    spread(&given, new)
}

/// Emits the pullback. A cotangent has the spec of its value.
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
    let divided = (body, ins, outs);
    body::divided_cotangents(divided, eqn, cts, linear, |program, specs, args| {
        emit(b, program, mesh, specs, args)
    })
}
