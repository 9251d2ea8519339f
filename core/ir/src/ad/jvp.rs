//! Forward mode.

use super::control;
use crate::{Builder, Eqn, Op, Program, SecondaryMap, ShortList, Var};

/// How forward mode treats calls of traced functions, and ops that run programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// One call of the callee's forward-mode companion: values and tangents are computed together.
    Joint,
    /// A call that returns residuals, and a linear call that reads them and can be transposed.
    Split,
}

/// A forward-mode program.
#[derive(Clone, Debug)]
pub struct Jvp {
    /// The program `x..., tangents of wrt... -> y..., tangents of the active y...`.
    pub program: Program,
    /// For each result, true if it has a tangent. The other tangents are zero.
    pub active: Vec<bool>,
}

/// Transforms `(x -> y)` to `(x, dx -> y, dy)`, with tangents for the parameters `wrt`.
pub fn jvp(program: &Program, wrt: &[Var], calls: Calls) -> Jvp {
    let mut b = Builder::after(program);
    let mut tangent: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut tangents = Vec::with_capacity(wrt.len());
    for &x in wrt {
        let dx = b.param_like(x);
        b.name_after(dx, "d", x);
        tangent.insert(x, dx);
        tangents.push(dx);
    }
    for eqn in &program.eqns {
        b.emit_for(program, eqn);
        let dx: ShortList<Option<Var>, 4> = eqn
            .data()
            .iter()
            .map(|x| tangent.get(*x).copied())
            .collect();
        if dx.iter().all(Option::is_none) {
            b.append(eqn.clone());
            continue;
        }
        let dy = if eqn.op == Op::Call {
            call(&mut b, eqn, &dx, calls)
        } else if eqn.op.control().is_some() {
            control::tangents(&mut b, eqn, &dx, calls)
        } else {
            b.append(eqn.clone());
            eqn.op.def().jvp(&mut b, eqn, &dx)
        };
        debug_assert_eq!(dy.len(), eqn.outs.len(), "tangents of `{}`", eqn.op);
        for (&y, dy) in eqn.outs.iter().zip(dy) {
            if let Some(dy) = dy {
                b.name_after(dy, "d", y);
                tangent.insert(y, dy);
            }
        }
    }
    let active = program.outs.iter().map(|y| tangent.contains(*y)).collect();
    let dy = program.outs.iter().filter_map(|y| tangent.get(*y).copied());
    let outs = program.outs.iter().copied().chain(dy).collect();
    let params = program.params.iter().copied().chain(tangents).collect();
    Jvp {
        program: b.finish(params, outs),
        active,
    }
}

fn call(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>], calls: Calls) -> Vec<Option<Var>> {
    let callee = eqn.attrs[0];
    let active: Vec<i64> = (0..dx.len() as i64)
        .filter(|i| dx[*i as usize].is_some())
        .collect();
    let active = b.attr(active);
    let dx = dx.iter().flatten().copied();
    let n_outs = eqn.outs.len();
    match calls {
        Calls::Joint => {
            let args: Vec<Var> = eqn.args.iter().copied().chain(dx).collect();
            let dy: Vec<Var> = eqn.outs.iter().map(|y| b.param_like(*y)).collect();
            let outs = eqn.outs.iter().chain(&dy).copied().collect();
            b.append(Eqn {
                outs,
                op: Op::CallJvp,
                attrs: [callee, active].into(),
                args: args.into(),
            });
            dy.into_iter().map(Some).collect()
        }
        Calls::Split => {
            let saved = b.param(crate::Aval::UNKNOWN);
            b.name_after(saved, "saved", eqn.outs[0]);
            let outs = eqn.outs.iter().copied().chain([saved]).collect();
            b.append(Eqn {
                outs,
                op: Op::CallFwd,
                attrs: [callee, active].into(),
                args: eqn.args.clone(),
            });
            let args: Vec<Var> = std::iter::once(saved).chain(dx).collect();
            let dy = b.emit_many(Op::CallLin, &[callee, active], &args, n_outs);
            dy.into_iter().map(Some).collect()
        }
    }
}
