//! `switch`: one of several programs.

use super::body::{self, Halves, Pullback, chosen, n_marked};
use super::{Control, avals, check_args, check_aval, check_number, control_op, programs};
use crate::ad::Calls;
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `y... = switch[branches] index, x...`: the results of one of the branches, `x... -> y...`.
///
/// The index has rank 0. An integer below 0 chooses the first branch, one that is too large the last. Of a
/// `bool`, false chooses the first and true the second.
pub(crate) struct Switch;

control_op!(
    Switch,
    "switch",
    &[StaticKind::Programs.named("branches")],
    batch,
    &[
        "(i: i32[], x: f64[2], y: f64[2]) { z, u = switch[branches=<(x: f64[2], y: f64[2]) { z = mul x, y u = sin x return z, u } | (x: f64[2], y: f64[2]) { a = exp y z = div a, y return z, y } | (x: f64[2], y: f64[2]) { z = full[shape=[2], value=1, dtype=f64] return z, x }>] i, x, y return z, u }",
        "(p: bool[], x: f64[]) { y = switch[branches=<(x: f64[]) { y = neg x return y } | (x: f64[]) { y = sqrt x return y }>] p, x return y }",
    ]
);

/// Returns the branches of a `switch`.
///
/// # Panics
///
/// If the static arguments are those of another op.
pub fn branches(statics: &[Static]) -> &[Program] {
    statics[0].programs().expect("a switch has branches")
}

fn emit(b: &mut Builder, branches: Vec<Program>, args: &[Var], n_outs: usize) -> Vec<Var> {
    let branches = b.attr(Programs::new(branches));
    b.emit_many(Op::Switch, &[branches], args, n_outs)
}

/// Returns marks that are true where those of any branch are.
fn union(branches: &[Program], marks: impl Fn(&Program) -> Vec<bool>) -> Vec<bool> {
    let all = branches.iter().map(marks);
    let join = |a: Vec<bool>, b: Vec<bool>| a.iter().zip(&b).map(|(a, b)| *a || *b).collect();
    all.reduce(join).unwrap_or_default()
}

impl Control for Switch {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let branches = branches(statics);
        let Some((index, args)) = args.split_first() else {
            return Err(check_number(0, 1).expect_err("0 is not 1"));
        };
        check_number(branches.len(), branches.len().max(1))?;
        let scalar = Aval {
            dtype: None,
            ..Aval::new(DType::I32, &[])
        };
        check_aval("the index", index, &scalar)?;
        if let Some(found) = index.dtype.filter(|dtype| dtype.is_float()) {
            return Err(Fault::DType {
                found,
                expected: "an integer or bool",
            });
        }
        let outs = avals(&branches[0], &branches[0].outs);
        for branch in branches {
            check_args(args, &avals(branch, &branch.params))?;
            let found = avals(branch, &branch.outs);
            check_args(&found.iter().collect::<Vec<_>>(), &outs)?;
        }
        Ok(outs)
    }

    fn tangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        dx: &[Option<Var>],
        calls: Calls,
    ) -> Vec<Option<Var>> {
        let branches = programs(b, eqn);
        let active: Vec<bool> = dx[1..].iter().map(Option::is_some).collect();
        let given = union(&branches, |branch| body::active(branch, &active));
        let joint = |branch: &Program| body::joint(branch, &active, &given, calls);
        let joints: Vec<Program> = branches.iter().map(joint).collect();
        let dx: Vec<Var> = dx.iter().flatten().copied().collect();
        let (n, m) = (eqn.args.len() - 1, eqn.outs.len());
        let new = match calls {
            Calls::Joint => {
                let y = chosen(&eqn.outs, &given);
                let dy: Vec<Var> = y.iter().map(|y| b.param_like(*y)).collect();
                let branches = b.attr(Programs::new(joints));
                b.append(Eqn {
                    outs: [&eqn.outs[..], &dy].concat(),
                    op: Op::Switch,
                    attrs: vec![branches],
                    args: [&eqn.args[..], &dx].concat(),
                });
                dy
            }
            Calls::Split => {
                let halves: Vec<Halves> = joints
                    .iter()
                    .map(|joint| body::halves(joint, n, m))
                    .collect();
                let residuals: Vec<Aval> = halves
                    .iter()
                    .flat_map(|half| avals(&half.known, &half.known.outs[m..]))
                    .collect();
                let mut first = 0;
                let (mut known, mut linear) = (Vec::new(), Vec::new());
                for half in halves {
                    let own = first..first + half.n_residuals;
                    first = own.end;
                    // A branch returns zeros as the residuals of the other branches.
                    known.push(with_zeros(half.known, m, &residuals, own.clone()));
                    linear.push(with_unread(half.linear, &residuals, own));
                }
                let saved: Vec<Var> = residuals.iter().map(|r| b.param(r.clone())).collect();
                let branches = b.attr(Programs::new(known));
                b.append(Eqn {
                    outs: [&eqn.outs[..], &saved].concat(),
                    op: Op::Switch,
                    attrs: vec![branches],
                    args: eqn.args.clone(),
                });
                let args = [&eqn.args[..1], &saved, &dx].concat();
                emit(b, linear, &args, n_marked(&given))
            }
        };
        let mut new = new.into_iter();
        given
            .iter()
            .map(|given| given.then(|| new.next()).flatten())
            .collect()
    }
}

/// Adds zeros to the results of a branch, so that it returns the residuals of all branches.
fn with_zeros(
    mut known: Program,
    n_outs: usize,
    residuals: &[Aval],
    own: std::ops::Range<usize>,
) -> Program {
    let own_outs = known.outs.split_off(n_outs);
    let mut b = Builder::after(&known);
    known.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let all = residuals
        .iter()
        .enumerate()
        .map(|(i, aval)| match own.contains(&i) {
            true => own_outs[i - own.start],
            false => body::zeros(&mut b, aval),
        });
    let outs = known
        .outs
        .iter()
        .copied()
        .chain(all.collect::<Vec<_>>())
        .collect();
    b.finish(known.params, outs)
}

/// Adds parameters to the linear part of a branch, so that it takes the residuals of all branches.
fn with_unread(linear: Program, residuals: &[Aval], own: std::ops::Range<usize>) -> Program {
    let mut b = Builder::after(&linear);
    linear.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let (own_params, dx) = linear.params.split_at(own.len());
    let all = residuals
        .iter()
        .enumerate()
        .map(|(i, aval)| match own.contains(&i) {
            true => own_params[i - own.start],
            false => b.param(aval.clone()),
        });
    let params = all
        .collect::<Vec<_>>()
        .into_iter()
        .chain(dx.iter().copied())
        .collect();
    b.finish(params, linear.outs)
}

impl Switch {
    /// Emits the cotangents of the branch that was taken.
    pub(super) fn cotangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let branches = programs(b, eqn);
        let linear = &linear[1..];
        let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
        let backs: Vec<Pullback> = branches
            .iter()
            .map(|branch| body::pullback(branch, linear, &given))
            .collect();
        let mut nonzero = vec![false; linear.len()];
        for back in &backs {
            nonzero
                .iter_mut()
                .zip(&back.nonzero)
                .for_each(|(all, one)| *all |= one);
        }
        let full = |(branch, back): (&Program, Pullback)| {
            let mut b = Builder::after(&back.program);
            back.program
                .eqns
                .iter()
                .for_each(|eqn| b.append(eqn.clone()));
            let mut found = back.program.outs.iter();
            let mut outs = Vec::new();
            for (i, param) in branch
                .params
                .iter()
                .enumerate()
                .filter(|(i, _)| nonzero[*i])
            {
                outs.push(match back.nonzero[i] {
                    true => *found.next().expect("a result for each cotangent"),
                    false => body::zeros(&mut b, branch.aval(*param)),
                });
            }
            b.finish(back.program.params.clone(), outs)
        };
        let branches: Vec<Program> = branches.iter().zip(backs).map(full).collect();
        let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
        let mut args = vec![eqn.args[0]];
        args.extend(chosen(&eqn.args[1..], &known));
        args.extend(cts.iter().flatten());
        let mut found = emit(b, branches, &args, n_marked(&nonzero)).into_iter();
        let of_args = nonzero
            .iter()
            .map(|some| some.then(|| found.next()).flatten());
        [None]
            .into_iter()
            .chain(of_args.collect::<Vec<_>>())
            .collect()
    }

    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let branches = branches(of.statics);
        let index = of.args[0].data[0].max(0.0) as usize;
        crate::op::evaluate(&branches[index.min(branches.len() - 1)], &of.args[1..])
    }
}

/// If lanes choose different branches, all branches run and each lane selects its results.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let branches = branches(&statics);
    let each: Vec<bool> = of.args[1..].iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; of.eqn.outs.len()];
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    if !of.args[0].is_each() {
        let mut forced = none.clone();
        for branch in branches {
            let (_, each) = body::lanes(branch, &each, &none, of.len)?;
            forced
                .iter_mut()
                .zip(each)
                .for_each(|(all, one)| *all |= one);
        }
        let all = branches.iter();
        let all = all.map(|branch| Some(body::lanes(branch, &each, &forced, of.len)?.0));
        let outs = emit(b, all.collect::<Option<Vec<_>>>()?, &args, forced.len());
        let lane = |(out, each): (Var, &bool)| match each {
            true => Lane::Each(out),
            false => Lane::Shared(out),
        };
        return Some(outs.into_iter().zip(&forced).map(lane).collect());
    }
    let forced = vec![true; of.eqn.outs.len()];
    let index = match b.aval(args[0]).dtype? {
        DType::Bool => {
            let dtype = b.attr(DType::I32);
            b.emit(Op::Cast, &[dtype], &[args[0], args[0]])
        }
        _ => args[0],
    };
    let mut chosen: Option<Vec<Var>> = None;
    for (i, branch) in branches.iter().enumerate() {
        let (all, _) = body::lanes(branch, &each, &forced, of.len)?;
        let outs = body::inline(b, &all, &args[1..]);
        chosen = Some(match chosen {
            None => outs,
            Some(before) => {
                let i = b.scalar(i as f64, index);
                let is_this = b.binary(Op::Ge, index, i);
                let pairs = outs.into_iter().zip(before);
                pairs
                    .map(|(this, before)| body::select_lanes(b, is_this, this, before))
                    .collect()
            }
        });
    }
    Some(chosen?.into_iter().map(Lane::Each).collect())
}
