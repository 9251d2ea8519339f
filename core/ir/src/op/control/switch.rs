//! `switch`: one of several programs.

use super::body;
use super::{Control, avals, check_args, check_aval, check_number, control_op};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, DType, Fault, Op, Program, Programs, Static, StaticKind, Var};

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

pub(crate) fn emit(
    b: &mut Builder,
    branches: Vec<Program>,
    args: &[Var],
    n_outs: usize,
) -> Vec<Var> {
    let branches = b.attr(Programs::new(branches));
    b.emit_many(Op::Switch, &[branches], args, n_outs)
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
}

impl Switch {
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
            let (_, each) = body::lanes(branch, &each, &none, of.batching())?;
            forced
                .iter_mut()
                .zip(each)
                .for_each(|(all, one)| *all |= one);
        }
        let all = branches.iter();
        let all = all.map(|branch| Some(body::lanes(branch, &each, &forced, of.batching())?.0));
        let outs = emit(b, all.collect::<Option<Vec<_>>>()?, &args, forced.len());
        return Some(Lane::marked(outs, &forced));
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
        let (all, _) = body::lanes(branch, &each, &forced, of.batching())?;
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
