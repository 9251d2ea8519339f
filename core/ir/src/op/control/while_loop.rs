//! `while`: a loop that goes on as long as a condition holds.

use super::body::{self, Pullback, chosen, n_marked, parts};
use super::{Control, avals, check_args, check_aval, check_number, control_op, count, programs};
use crate::ad::Calls;
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{
    Attr, Aval, Builder, DType, Eqn, Fault, Op, Program, Programs, Static, StaticKind, Var, pass,
};

/// `carry... = while[cond and body, consts] consts..., carry...`.
///
/// Both programs take `consts..., carry...`. The first returns a `bool` of rank 0; as long as it is
/// true, the second replaces the states.
pub(crate) struct While;

control_op!(
    While,
    "while",
    &[
        StaticKind::Programs.named("cond_body"),
        StaticKind::Count.named("consts"),
    ],
    batch,
    &[
        "(n: i32[], w: f64[2], i: i32[], x: f64[2]) { m, y = while[cond_body=<(n: i32[], w: f64[2], i: i32[], x: f64[2]) { c = lt i, n return c } | (n: i32[], w: f64[2], i: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] j = add i, one p = mul w, x y = sin p return j, y }>, consts=2] n, w, i, x return m, y }",
        // No constants, and a state that is active only after the first turn.
        "(n: i32[], x: f64[], y: f64[]) { m, a, b = while[cond_body=<(n: i32[], x: f64[], y: f64[]) { zero = full[shape=[], value=0, dtype=i32] c = gt n, zero return c } | (n: i32[], x: f64[], y: f64[]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one a = mul x, y b = sin x return m, b, a }>, consts=0] n, x, y return m, a, b }",
    ]
);

/// The static arguments of a `while`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `consts..., carry... -> whether to go on`.
    pub cond: &'a Program,
    /// `consts..., carry... -> carry...`.
    pub body: &'a Program,
    /// The number of operands that are the same in each turn.
    pub consts: usize,
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `while`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        let programs = statics[0].programs().expect("a loop has programs");
        Parts {
            cond: &programs[0],
            body: &programs[1],
            consts: count(statics, 1),
        }
    }
}

pub(super) fn statics(b: &mut Builder, programs: Vec<Program>, counts: &[usize]) -> Vec<Attr> {
    let programs = b.attr(Programs::new(programs));
    let counts = counts.iter().map(|n| b.attr(*n as i64));
    [programs].into_iter().chain(counts).collect()
}

/// Returns an error unless a condition is a `bool` of rank 0.
pub(super) fn check_condition(cond: &Program) -> Result<(), Fault> {
    check_number(cond.outs.len(), 1)?;
    let found = cond.aval(cond.outs[0]);
    check_aval("the condition", found, &Aval::new(DType::Bool, &[]))
}

/// Returns which values of a loop are marked, if the results of a turn mark the states.
pub(super) fn marks(
    mut marks: Vec<bool>,
    consts: usize,
    after: impl Fn(&[bool]) -> Vec<bool>,
) -> Vec<bool> {
    let first = marks[consts..].to_vec();
    let last = body::fixpoint(first, |carry| {
        marks[consts..].copy_from_slice(carry);
        after(&marks)[..carry.len()].to_vec()
    });
    marks[consts..].copy_from_slice(&last);
    marks
}

/// Returns the condition of a loop on values and tangents.
pub(super) fn condition_beside_tangents(cond: &Program, consts: usize, active: &[bool]) -> Program {
    let mut b = Builder::after(cond);
    cond.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let mut params = Vec::new();
    for (kind, active) in [
        (&cond.params[..consts], &active[..consts]),
        (&cond.params[consts..], &active[consts..]),
    ] {
        params.extend(kind);
        params.extend(chosen(kind, active).into_iter().map(|x| b.param_like(x)));
    }
    b.finish(params, cond.outs.clone())
}

/// Returns the values of two kinds, each followed by the tangents of those that are marked.
pub(super) fn beside(values: &[Var], tangents: &[Var], marked: &[bool], first: usize) -> Vec<Var> {
    let n = n_marked(&marked[..first]);
    let all = [
        &values[..first],
        &tangents[..n],
        &values[first..],
        &tangents[n..],
    ];
    all.concat()
}

/// Returns the tangents of the operands, zeros for those that only become active in the loop.
pub(super) fn tangents_of(
    b: &mut Builder,
    args: &[Var],
    dx: &[Option<Var>],
    active: &[bool],
) -> Vec<Var> {
    let all = args
        .iter()
        .zip(dx)
        .zip(active)
        .filter(|(_, active)| **active);
    all.map(|((x, dx), _)| dx.unwrap_or_else(|| b.zeros_like(*x)))
        .collect()
}

impl Control for While {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts { cond, body, consts } = Parts::of(statics);
        check_condition(cond)?;
        let expected = avals(body, &body.params);
        check_args(args, &expected)?;
        let in_cond = avals(cond, &cond.params);
        check_args(&in_cond.iter().collect::<Vec<_>>(), &expected)?;
        let outs = avals(body, &body.outs);
        check_number(consts, consts.min(expected.len()))?;
        check_args(&outs.iter().collect::<Vec<_>>(), &expected[consts..])?;
        Ok(outs)
    }

    fn tangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        dx: &[Option<Var>],
        calls: Calls,
    ) -> Vec<Option<Var>> {
        let [cond, body]: [Program; 2] = programs(b, eqn).try_into().expect("two programs");
        let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
        let given = dx.iter().map(Option::is_some).collect();
        let active = marks(given, consts, |marks| body::active(&body, marks));
        let states = active[consts..].to_vec();
        let joint = body::joint(&body, &active, &states, Calls::Joint);
        let n = body.params.len();
        let joint = Program {
            params: beside(&joint.params[..n], &joint.params[n..], &active, consts),
            ..joint
        };
        let cond = condition_beside_tangents(&cond, consts, &active);
        let dx = tangents_of(b, &eqn.args, dx, &active);
        let args = beside(&eqn.args, &dx, &active, consts);
        let n_consts = consts + n_marked(&active[..consts]);
        let attrs = statics(b, vec![cond, joint], &[n_consts]);
        let tangents = match calls {
            Calls::Joint => {
                let y = chosen(&eqn.outs, &states);
                let dy: Vec<Var> = y.iter().map(|y| b.param_like(*y)).collect();
                b.append(Eqn {
                    outs: [&eqn.outs[..], &dy].concat(),
                    op: Op::While,
                    attrs,
                    args,
                });
                dy
            }
            Calls::Split => {
                b.append(eqn.clone());
                let n_outs = eqn.outs.len() + n_marked(&states);
                b.emit_many(Op::While, &attrs, &args, n_outs)
                    .split_off(eqn.outs.len())
            }
        };
        let mut tangents = tangents.into_iter();
        let dy = states
            .iter()
            .map(|active| active.then(|| tangents.next()).flatten());
        dy.collect()
    }
}

impl While {
    /// Emits a loop on cotangents, which first runs the turns again.
    pub(super) fn cotangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let [cond, body]: [Program; 2] = programs(b, eqn).try_into().expect("two programs");
        let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
        let linear = marks(linear.to_vec(), consts, |marks| {
            body::dependent(&body, marks)
        });
        let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
        let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
        let back = |carry: &[bool]| body::pullback(&body, &linear, carry);
        let carry = body::fixpoint(given, |carry| back(carry).nonzero[consts..].to_vec());
        let Pullback { program, nonzero } = back(&carry);

        // What the pullback reads of the states is taped. It reads the constants themselves.
        let (known_consts, known_states) = (n_marked(&known[..consts]), n_marked(&known[consts..]));
        let n_known = known_consts + known_states;
        let known_params = chosen(&body.params, &known);
        let mut outs = chosen(&body.outs, &known[consts..]);
        outs.extend(&known_params[known_consts..]);
        let forward = pass::simplify(Program {
            params: known_params,
            outs,
            ..body.clone()
        });
        let cond = Program {
            params: chosen(&cond.params, &known),
            ..cond
        };

        let mut backward = Builder::after(&program);
        program
            .eqns
            .iter()
            .for_each(|eqn| backward.append(eqn.clone()));
        let [of_consts, of_states] = parts(&nonzero, [consts, linear.len() - consts]);
        let [ct_consts, ct_states] = parts(
            &program.outs,
            [&of_consts, &of_states].map(|kind| n_marked(kind)),
        );
        let ct_carry = &program.params[n_known..];
        let sums: Vec<Var> = ct_consts
            .iter()
            .map(|ct| backward.param_like(*ct))
            .collect();
        let mut outs = Vec::new();
        let (mut found, mut params) = (ct_states.iter(), ct_carry.iter());
        for (_, nonzero) in carry.iter().zip(&of_states).filter(|(carry, _)| **carry) {
            let ct = *params.next().expect("a parameter for each cotangent");
            outs.push(match nonzero {
                true => *found.next().expect("a result for each cotangent"),
                false => backward.zeros_like(ct),
            });
        }
        for (sum, ct) in sums.iter().zip(&ct_consts) {
            outs.push(backward.add(*sum, *ct));
        }
        let params = [&program.params[..], &sums].concat();
        let backward = backward.finish(params, outs);

        let zeros = |b: &mut Builder, var: &Var, of: &Program| body::zeros(b, of.aval(*var));
        let first: Vec<Var> = body
            .outs
            .iter()
            .zip(cts)
            .zip(&carry)
            .filter(|(_, carry)| **carry)
            .map(|((out, ct), _)| ct.unwrap_or_else(|| zeros(b, out, &body)))
            .collect();
        let no_sums: Vec<Var> = ct_consts.iter().map(|ct| zeros(b, ct, &backward)).collect();
        let args = [chosen(&eqn.args, &known), first.clone(), no_sums.clone()].concat();
        let attrs = statics(
            b,
            vec![cond, forward, backward],
            &[known_consts, known_states],
        );
        let mut outs = b
            .emit_many(Op::WhileBack, &attrs, &args, first.len() + no_sums.len())
            .into_iter();
        let of_carry: Vec<Option<Var>> = carry
            .iter()
            .map(|carry| carry.then(|| outs.next()).flatten())
            .collect();
        let of_consts = of_consts
            .iter()
            .map(|some| some.then(|| outs.next()).flatten());
        of_consts
            .collect::<Vec<_>>()
            .into_iter()
            .chain(of_carry)
            .collect()
    }

    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let Parts { cond, body, consts } = Parts::of(of.statics);
        let mut args = of.args.to_vec();
        while crate::op::evaluate(cond, &args)[0].data[0] != 0.0 {
            let outs = crate::op::evaluate(body, &args);
            args.splice(consts.., outs);
        }
        args.split_off(consts)
    }
}

/// Lanes run until the condition of the last one is false. A lane that has ended keeps its states.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let values = of.statics();
    let Parts { cond, body, consts } = Parts::of(&values);
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let after = |marks: &[bool]| body::lanes(body, marks, &none, of.len).map(|(_, each)| each);
    after(&each)?;
    let mut each = marks(each, consts, |marks| {
        after(marks).unwrap_or_else(|| none.clone())
    });
    let (_, ends) = body::lanes(cond, &each, &[false], of.len)?;
    if ends[0] {
        each[consts..].fill(true);
    }
    let (mut cond_all, _) = body::lanes(cond, &each, &[ends[0]], of.len)?;
    let (mut body_all, _) = body::lanes(body, &each, &each[consts..], of.len)?;
    if ends[0] {
        body_all = kept_after_end(&cond_all, &body_all, consts);
        cond_all = any_lane(&cond_all);
    }
    let args: Option<Vec<Var>> = each
        .iter()
        .enumerate()
        .map(|(i, each)| match each {
            true => of.each(b, i),
            false => Some(of.args[i].var()),
        })
        .collect();
    let attrs = statics(b, vec![cond_all, body_all], &[consts]);
    let outs = b.emit_many(Op::While, &attrs, &args?, of.eqn.outs.len());
    let lane = |(out, each): (Var, &bool)| match each {
        true => Lane::Each(out),
        false => Lane::Shared(out),
    };
    Some(outs.into_iter().zip(&each[consts..]).map(lane).collect())
}

/// Returns whether the condition of any lane is true.
pub(super) fn any_lane(cond: &Program) -> Program {
    let mut b = Builder::after(cond);
    cond.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let statics = [b.attr(Static::All), b.attr(false)];
    let any = b.emit(Op::Any, &statics, &[cond.outs[0]]);
    b.finish(cond.params.clone(), vec![any])
}

/// Returns the body of a loop on lanes, in which lanes whose condition is false keep their states.
pub(super) fn kept_after_end(cond: &Program, body: &Program, consts: usize) -> Program {
    let mut b = Builder::new();
    let params: Vec<Var> = body
        .params
        .iter()
        .map(|x| b.param(body.aval(*x).clone()))
        .collect();
    let goes_on = body::inline(&mut b, cond, &params)[0];
    let outs = body::inline(&mut b, body, &params);
    let states = &params[consts..];
    let kept = outs.iter().enumerate().map(|(i, out)| match states.get(i) {
        Some(state) => body::select_lanes(&mut b, goes_on, *out, *state),
        // What is taped of a turn that a lane does not take is not read.
        None => *out,
    });
    let kept = kept.collect();
    b.finish(params, kept)
}
