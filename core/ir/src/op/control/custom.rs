//! `custom_jvp` and `custom_vjp`: programs with derivatives that the user wrote.

use super::body;
use super::{Control, avals, check_args, check_number, control_op, count};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `y... = custom_jvp[body and rule, consts] consts..., x...`.
///
/// The body is `consts..., x... -> y...`, and the rule `consts..., x..., y..., dx... -> dy...`.
pub(crate) struct CustomJvp;

control_op!(
    CustomJvp,
    "custom_jvp",
    &[
        StaticKind::Programs.named("body_rule"),
        StaticKind::Count.named("consts"),
    ],
    batch_jvp,
    &[
        "(w: bool[2], x: f64[2]) { y = custom_jvp[body_rule=<(w: bool[2], x: f64[2]) { a = sin x y = select w, a, x return y } | (w: bool[2], x: f64[2], y: f64[2], dx: f64[2]) { b = cos x c = mul b, dx dy = select w, c, dx return dy }>, consts=1] w, x return y }",
    ]
);

/// `y... = custom_vjp[body and forward and backward, consts] consts..., x...`.
///
/// The body is `consts..., x... -> y...`; forward is `consts..., x... -> y..., saved...`, and backward
/// `consts..., saved..., ct_y... -> ct_x...`.
pub(crate) struct CustomVjp;

control_op!(
    CustomVjp,
    "custom_vjp",
    &[
        StaticKind::Programs.named("body_forward_backward"),
        StaticKind::Count.named("consts"),
    ],
    batch_vjp,
    &[
        "(w: bool[2], x: f64[2], y: f64[2]) { z = custom_vjp[body_forward_backward=<(w: bool[2], x: f64[2], y: f64[2]) { a = mul x, y z = select w, a, x return z } | (w: bool[2], x: f64[2], y: f64[2]) { a = mul x, y z = select w, a, x return z, x, y } | (w: bool[2], x: f64[2], y: f64[2], ct: f64[2]) { p = mul ct, y q = mul ct, x zero = full[shape=[2], value=0, dtype=f64] r = select w, p, ct s = select w, q, zero return r, s }>, consts=1] w, x, y return z }",
    ]
);

/// `dy... = custom_lin[backward, consts, saved] consts..., saved..., dx...`.
///
/// The linear part of `custom_vjp`. It is emitted only to be transposed.
pub(crate) struct CustomLin;

control_op!(
    CustomLin,
    "custom_lin",
    &[
        StaticKind::Programs.named("backward"),
        StaticKind::Count.named("consts"),
        StaticKind::Count.named("saved"),
    ],
    |_, _| None,
    &[
        "(b: f64[2], dx: f64[2]) { dy = custom_lin[backward=<(b: f64[2], ct: f64[2]) { p = mul ct, b return p }>, consts=0, saved=1] b, dx return dy }",
    ]
);

fn programs(statics: &[Static]) -> &[Program] {
    statics[0].programs().expect("the op runs programs")
}

impl Control for CustomJvp {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let [body, rule] = programs(statics) else {
            return Err(check_number(programs(statics).len(), 2).expect_err("not 2"));
        };
        let (params, outs) = (avals(body, &body.params), avals(body, &body.outs));
        check_args(args, &params)?;
        let consts = count(statics, 1).min(params.len());
        let takes = [&params[..], &outs, &params[consts..]].concat();
        check_args(
            &takes.iter().collect::<Vec<_>>(),
            &avals(rule, &rule.params),
        )?;
        check_args(&avals(rule, &rule.outs).iter().collect::<Vec<_>>(), &outs)?;
        Ok(outs)
    }
}

impl Control for CustomVjp {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let [body, forward, backward] = programs(statics) else {
            return Err(check_number(programs(statics).len(), 3).expect_err("not 3"));
        };
        let consts = count(statics, 1).min(body.params.len());
        let (params, outs) = (avals(body, &body.params), avals(body, &body.outs));
        check_args(args, &params)?;
        check_args(
            &avals(forward, &forward.params).iter().collect::<Vec<_>>(),
            &params,
        )?;
        let found = avals(forward, &forward.outs);
        let (y, saved) = found.split_at(outs.len().min(found.len()));
        check_args(&y.iter().collect::<Vec<_>>(), &outs)?;
        let takes = [&params[..consts], saved, &outs].concat();
        check_args(
            &takes.iter().collect::<Vec<_>>(),
            &avals(backward, &backward.params),
        )?;
        let cts = avals(backward, &backward.outs);
        check_args(&cts.iter().collect::<Vec<_>>(), &params[consts..])?;
        Ok(outs)
    }

    fn is_forward(&self) -> bool {
        false
    }
}

impl Control for CustomLin {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let backward = &programs(statics)[0];
        let n_known = count(statics, 1) + count(statics, 2);
        let takes = avals(backward, &backward.params);
        let cts = avals(backward, &backward.outs);
        check_number(n_known, n_known.min(takes.len()))?;
        check_args(args, &[&takes[..n_known], &cts].concat())?;
        Ok(takes[n_known..].to_vec())
    }

    fn is_forward(&self) -> bool {
        false
    }
}

impl CustomJvp {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        crate::op::evaluate(&programs(of.statics)[0], of.args)
    }
}

impl CustomVjp {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        crate::op::evaluate(&programs(of.statics)[0], of.args)
    }
}

impl CustomLin {
    /// Returns the results by definition: the transpose of the pullback, one entry at a time.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let backward = &programs(of.statics)[0];
        let (known, dx) = of
            .args
            .split_at(count(of.statics, 1) + count(of.statics, 2));
        let mut outs: Vec<NdArray> = of.outs.iter().map(|out| NdArray::zeros(out)).collect();
        for i in 0..outs.len() {
            for at in 0..outs[i].data.len() {
                let mut cts: Vec<NdArray> = of.outs.iter().map(|out| NdArray::zeros(out)).collect();
                cts[i].data[at] = 1.0;
                let args: Vec<NdArray> = known.iter().cloned().chain(cts).collect();
                let pulled = crate::op::evaluate(backward, &args);
                let products = pulled
                    .iter()
                    .zip(dx)
                    .flat_map(|(ct, dx)| ct.data.iter().zip(&dx.data).map(|(ct, dx)| ct * dx));
                outs[i].data[at] = products.sum();
            }
        }
        outs
    }
}

fn batch_jvp(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let ([body, rule], consts) = (programs(&statics), count(&statics, 1)) else {
        return None;
    };
    let (args, n) = (of.all(b)?, of.eqn.outs.len());
    let all = |program: &Program, n_outs: usize| {
        let each = vec![true; program.params.len()];
        body::lanes(program, &each, &vec![true; n_outs], of.batching()).map(|(all, _)| all)
    };
    let programs = Programs::new(vec![all(body, n)?, all(rule, n)?]);
    let attrs = [b.attr(programs), b.attr(consts as i64)];
    let outs = b.emit_many(Op::CustomJvp, &attrs, &args, n);
    Some(outs.into_iter().map(Lane::Each).collect())
}

fn batch_vjp(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let ([body, forward, backward], consts) = (programs(&statics), count(&statics, 1)) else {
        return None;
    };
    // Operands that lanes share are repeated, so that each lane has a cotangent of its own.
    let (args, n): (Vec<Var>, usize) = (of.all(b)?, of.eqn.outs.len());
    let all = |program: &Program| {
        let each = vec![true; program.params.len()];
        let forced = vec![true; program.outs.len()];
        body::lanes(program, &each, &forced, of.batching()).map(|(all, _)| all)
    };
    let programs = Programs::new(vec![all(body)?, all(forward)?, all(backward)?]);
    let attrs = [b.attr(programs), b.attr(consts as i64)];
    let outs = b.emit_many(Op::CustomVjp, &attrs, &args, n);
    Some(outs.into_iter().map(Lane::Each).collect())
}
