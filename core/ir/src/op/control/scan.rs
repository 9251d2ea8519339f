//! `scan`: a loop with a known number of turns.

use super::body::{self, Halves, Pullback, chosen, n_marked, parts};
use super::{Control, avals, check_args, check_number, control_op, count, programs, stacked};
use crate::ad::Calls;
use crate::op::lanes::{self, Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{
    Aval, Builder, Eqn, Fault, Op, Program, Programs, SecondaryMap, Static, StaticKind, Var,
};

/// `carry..., ys... = scan[body, turns, consts, carry, reverse] consts..., carry..., xs...`.
///
/// The body is `consts..., carry..., slices of xs... -> carry..., slices of ys...`. Its turns go
/// through the slices along axis 0, in reverse if `reverse` is true.
pub(crate) struct Scan;

control_op!(
    Scan,
    "scan",
    &[
        StaticKind::Programs.named("body"),
        StaticKind::Count.named("turns"),
        StaticKind::Count.named("consts"),
        StaticKind::Count.named("carry"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    batch,
    &[
        "(w: f64[2], c: f64[2], xs: f64[3, 2]) { h, ys = scan[body=<(w: f64[2], c: f64[2], x: f64[2]) { a = mul w, c b = add a, x h = tanh b y = mul h, x return h, y }>, turns=3, consts=1, carry=1, reverse=false] w, c, xs return h, ys }",
        "(c: f64[], xs: f64[2]) { h = scan[body=<(c: f64[], x: f64[]) { a = mul c, x return a }>, turns=2, consts=0, carry=1, reverse=true] c, xs return h }",
        // A state without a tangent gets one from another.
        "(k: f64[], a: f64[2], b: f64[2]) { p, q = scan[body=<(k: f64[], a: f64[2], b: f64[2]) { c = mul k, b d = sin a return c, d }>, turns=3, consts=1, carry=2, reverse=false] k, a, b return p, q }",
        // A counter beside a state, and a stacked result that is a residual.
        "(n: i32[], c: f64[2], xs: f64[3]) { m, h, ys = scan[body=<(n: i32[], c: f64[2], x: f64[]) { m = add n, n a = mul c, x h = exp a i = sum[axes=all, keepdims=false] h, like h return m, a, h }>, turns=3, consts=0, carry=2, reverse=false] n, c, xs return m, h, ys }",
        // No turns, and no states.
        "(c: f64[2], xs: f64[0, 2]) { h, ys = scan[body=<(c: f64[2], x: f64[2]) { a = mul c, x return a, x }>, turns=0, consts=0, carry=1, reverse=false] c, xs return h, ys }",
        "(w: f64[2], xs: f64[2, 2]) { ys = scan[body=<(w: f64[2], x: f64[2]) { y = div x, w return y }>, turns=2, consts=1, carry=0, reverse=false] w, xs return ys }",
        // A loop in a loop.
        "(c: f64[2], xs: f64[2, 3, 2]) { h = scan[body=<(c: f64[2], x: f64[3, 2]) { h, y = scan[body=<(c: f64[2], x: f64[2]) { a = mul c, x h = sin a return h, a }>, turns=3, consts=0, carry=1, reverse=true] c, x return h }>, turns=2, consts=0, carry=1, reverse=false] c, xs return h }",
    ]
);

/// The static arguments of a `scan`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `consts..., carry..., slices of xs... -> carry..., slices of ys...`.
    pub body: &'a Program,
    /// The number of turns.
    pub turns: usize,
    /// The number of operands that are the same in each turn.
    pub consts: usize,
    /// The number of values that each turn replaces.
    pub carry: usize,
    /// Whether the last slices come first.
    pub reverse: bool,
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `scan`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        Parts {
            body: &statics[0].programs().expect("a scan has a body")[0],
            turns: count(statics, 1),
            consts: count(statics, 2),
            carry: count(statics, 3),
            reverse: statics[4].bool() == Some(true),
        }
    }
}

/// A `scan` in which the operands and results of a kind are together.
struct Loop {
    body: Program,
    turns: usize,
    reverse: bool,
    /// Numbers of constants, states and stacked operands.
    lens: [usize; 3],
}

impl Loop {
    fn of(b: &Builder, eqn: &Eqn) -> Loop {
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| b.static_of(*a).clone()).collect();
        let parts = Parts::of(&statics);
        Loop {
            turns: parts.turns,
            reverse: parts.reverse,
            lens: [
                parts.consts,
                parts.carry,
                eqn.args.len() - parts.consts - parts.carry,
            ],
            body: programs(b, eqn).remove(0),
        }
    }

    fn n_carry(&self) -> usize {
        self.lens[1]
    }

    /// Returns which states are marked, if a turn marks those that its results `after` tell.
    fn marks(&self, mut marks: Vec<bool>, after: impl Fn(&[bool]) -> Vec<bool>) -> Vec<bool> {
        let states = self.lens[0]..self.lens[0] + self.lens[1];
        let first = marks[states.clone()].to_vec();
        let last = body::fixpoint(first, |carry| {
            marks[states.clone()].copy_from_slice(carry);
            after(&marks)[..carry.len()].to_vec()
        });
        marks[states].copy_from_slice(&last);
        marks
    }

    fn statics(
        &self,
        b: &mut Builder,
        body: Program,
        consts: usize,
        carry: usize,
    ) -> Vec<crate::Attr> {
        let counts = [self.turns, consts, carry].map(|n| Static::Int(n as i64));
        let [turns, consts, carry] = counts;
        let statics = [
            Programs::new(vec![body]).into(),
            turns,
            consts,
            carry,
            self.reverse.into(),
        ];
        statics.map(|value| b.attr(value)).to_vec()
    }
}

impl Control for Scan {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts {
            body,
            turns,
            consts,
            carry,
            ..
        } = Parts::of(statics);
        check_number(args.len(), body.params.len())?;
        check_number(consts + carry, (consts + carry).min(args.len()))?;
        let mut expected = avals(body, &body.params);
        expected[consts + carry..]
            .iter_mut()
            .for_each(|x| *x = stacked(x, turns));
        check_args(args, &expected)?;
        let mut outs = avals(body, &body.outs);
        check_number(carry, carry.min(outs.len()))?;
        let states: Vec<&Aval> = outs[..carry].iter().collect();
        check_args(&states, &expected[consts..][..carry])?;
        outs[carry..]
            .iter_mut()
            .for_each(|y| *y = stacked(y, turns));
        Ok(outs)
    }

    fn tangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        dx: &[Option<Var>],
        calls: Calls,
    ) -> Vec<Option<Var>> {
        let of = Loop::of(b, eqn);
        let n_carry = of.n_carry();
        let given = dx.iter().map(Option::is_some).collect();
        let active = of.marks(given, |marks| body::active(&of.body, marks));
        let mut dy = body::active(&of.body, &active);
        dy[..n_carry].copy_from_slice(&active[of.lens[0]..][..n_carry]);
        let joint = body::joint(&of.body, &active, &dy, calls);
        let tangents: Vec<Option<Var>> = dx
            .iter()
            .zip(&eqn.args)
            .zip(&active)
            .map(|((dx, x), active)| match (dx, active) {
                (None, true) => Some(b.zeros_like(*x)),
                (dx, _) => *dx,
            })
            .collect();
        let new = match calls {
            Calls::Joint => together(b, eqn, &of, joint, [&active, &dy], &tangents),
            Calls::Split => apart(b, eqn, &of, &joint, [&active, &dy], &tangents),
        };
        let mut new = new.into_iter();
        dy.iter()
            .map(|active| active.then(|| new.next()).flatten())
            .collect()
    }
}

/// Appends a loop on values and tangents, and returns the tangents.
fn together(
    b: &mut Builder,
    eqn: &Eqn,
    of: &Loop,
    joint: Program,
    [active, given]: [&[bool]; 2],
    dx: &[Option<Var>],
) -> Vec<Var> {
    let (n, m) = (of.body.params.len(), of.body.outs.len());
    // Puts the tangents of each kind of operand behind its values.
    let params = side_by_side(&joint.params[..n], &joint.params[n..], active, of.lens);
    let outs = [of.n_carry(), m - of.n_carry()];
    let program = Program {
        outs: side_by_side(&joint.outs[..m], &joint.outs[m..], given, outs),
        params,
        ..joint
    };
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let args = side_by_side(&eqn.args, &dx, active, of.lens);
    let dy = chosen(&eqn.outs, given);
    let dy: Vec<Var> = dy.iter().map(|y| b.param_like(*y)).collect();
    let bound = side_by_side(&eqn.outs, &dy, given, outs);
    let [consts, carry, _] = parts(active, of.lens);
    let counts = [
        of.lens[0] + n_marked(&consts),
        of.lens[1] + n_marked(&carry),
    ];
    let attrs = of.statics(b, program, counts[0], counts[1]);
    b.append(Eqn {
        outs: bound,
        op: Op::Scan,
        attrs,
        args,
    });
    dy
}

/// Returns the values of each kind followed by the tangents of those that are marked.
fn side_by_side<const N: usize>(
    values: &[Var],
    mut tangents: &[Var],
    marked: &[bool],
    lens: [usize; N],
) -> Vec<Var> {
    let mut all = Vec::new();
    for (values, marked) in parts(values, lens).iter().zip(parts(marked, lens)) {
        let (these, rest) = tangents.split_at(n_marked(&marked));
        all.extend(values.iter().chain(these));
        tangents = rest;
    }
    all
}

/// Appends a loop on values that also returns what the tangents need, and a loop on tangents.
fn apart(
    b: &mut Builder,
    eqn: &Eqn,
    of: &Loop,
    joint: &Program,
    [active, given]: [&[bool]; 2],
    dx: &[Option<Var>],
) -> Vec<Var> {
    let (n, m) = (of.body.params.len(), of.body.outs.len());
    let Halves {
        mut known,
        linear,
        n_residuals,
    } = body::halves(joint, n, m);
    // A residual that is an operand of the loop, or a stacked result, is there already.
    let kept: SecondaryMap<Var, (bool, Var)> = {
        let (consts, rest) = known.params.split_at(of.lens[0]);
        let consts = consts
            .iter()
            .zip(&eqn.args)
            .map(|(param, x)| (*param, (false, *x)));
        let xs = rest[of.lens[1]..]
            .iter()
            .zip(&eqn.args[of.lens[0] + of.lens[1]..]);
        let xs = xs.map(|(param, x)| (*param, (true, *x)));
        let ys = known.outs[of.n_carry()..m]
            .iter()
            .zip(&eqn.outs[of.n_carry()..]);
        let ys = ys.map(|(out, y)| (*out, (true, *y)));
        ys.chain(consts).chain(xs).collect()
    };
    let residuals = known.outs.split_off(m);
    let (mut outs, mut places) = (eqn.outs.clone(), Vec::with_capacity(n_residuals));
    for var in residuals {
        places.push(match kept.get(var) {
            Some(place) => *place,
            None => {
                let all = b.param(stacked(known.aval(var), of.turns));
                known.outs.push(var);
                outs.push(all);
                (true, all)
            }
        });
    }
    let attrs = of.statics(b, known, of.lens[0], of.lens[1]);
    b.append(Eqn {
        outs,
        op: Op::Scan,
        attrs,
        args: eqn.args.clone(),
    });

    let (residuals, tangents) = linear.params.split_at(n_residuals);
    let stacked: Vec<bool> = places.iter().map(|(stacked, _)| *stacked).collect();
    let same: Vec<bool> = stacked.iter().map(|stacked| !stacked).collect();
    let places: Vec<Var> = places.iter().map(|(_, var)| *var).collect();
    let lens = parts(active, of.lens).map(|kind| n_marked(&kind));
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let join = |residuals: &[Var], tangents: &[Var]| -> Vec<Var> {
        let [consts, carry, xs] = parts(tangents, lens);
        let all = [
            chosen(residuals, &same),
            consts,
            carry,
            chosen(residuals, &stacked),
            xs,
        ];
        all.concat()
    };
    let (params, args) = (join(residuals, tangents), join(&places, &dx));
    let attrs = of.statics(
        b,
        Program { params, ..linear },
        n_marked(&same) + lens[0],
        lens[1],
    );
    b.emit_many(Op::Scan, &attrs, &args, n_marked(given))
}

impl Scan {
    /// Emits the loop on cotangents, which goes through the turns in the other direction.
    ///
    /// Its states are the cotangents of the states, and the sums of the cotangents of the constants.
    pub(super) fn cotangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let of = Loop::of(b, eqn);
        let [n_consts, n_carry, _] = of.lens;
        let dependent = |marks: &[bool]| body::dependent(&of.body, marks);
        let linear = of.marks(linear.to_vec(), dependent);
        let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
        let with_states = |carry: &[bool]| [carry, &given[n_carry..]].concat();
        let back = |carry: &[bool]| body::pullback(&of.body, &linear, &with_states(carry));
        let carry = body::fixpoint(given[..n_carry].to_vec(), |carry| {
            back(carry).nonzero[n_consts..][..n_carry].to_vec()
        });
        let Pullback { program, nonzero } = back(&carry);
        let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();

        let mut body = Builder::after(&program);
        program.eqns.iter().for_each(|eqn| body.append(eqn.clone()));
        let known_lens = parts(&known, of.lens).map(|kind| n_marked(&kind));
        let n_known = known_lens.iter().sum();
        let [known_params, ct_carry, ct_ys] = parts(
            &program.params,
            [n_known, n_marked(&carry), n_marked(&given[n_carry..])],
        );
        let [consts, states, xs] = parts(&known_params, known_lens);
        debug_assert!(states.is_empty(), "every state of a linear loop is linear");
        let [of_consts, of_carry, of_xs] = parts(&nonzero, of.lens);
        let [ct_consts, ct_states, ct_xs] = parts(
            &program.outs,
            [&of_consts, &of_carry, &of_xs].map(|kind| n_marked(kind)),
        );
        let sums: Vec<Var> = ct_consts.iter().map(|ct| body.param_like(*ct)).collect();
        let mut outs = Vec::new();
        let mut found = ct_states.iter();
        let mut params = ct_carry.iter();
        for (carry, nonzero) in carry.iter().zip(&of_carry).filter(|(carry, _)| **carry) {
            debug_assert!(*carry);
            let ct = *params.next().expect("a parameter for each cotangent");
            outs.push(match nonzero {
                true => *found.next().expect("a result for each cotangent"),
                false => body.zeros_like(ct),
            });
        }
        for (sum, ct) in sums.iter().zip(&ct_consts) {
            outs.push(body.add(*sum, *ct));
        }
        outs.extend(&ct_xs);
        let n_states = ct_carry.len() + sums.len();
        let params = [&consts, &ct_carry, &sums, &xs, &ct_ys]
            .map(|vars| vars.as_slice())
            .concat();
        let body = body.finish(params, outs);

        let [eqn_consts, _, eqn_xs] = parts(&eqn.args, of.lens);
        let [known_consts, _, known_xs] = parts(&known, of.lens);
        let of_states = of.body.outs[..n_carry].iter().map(|v| of.body.aval(*v));
        let ct_states = of_states.zip(cts).zip(&carry).filter(|(_, carry)| **carry);
        let first: Vec<Var> = ct_states
            .map(|((aval, ct), _)| ct.unwrap_or_else(|| body::zeros(b, aval)))
            .collect();
        let zeros: Vec<Var> = ct_consts
            .iter()
            .map(|ct| body::zeros(b, body.aval(*ct)))
            .collect();
        let ys: Vec<Var> = cts[n_carry..].iter().flatten().copied().collect();
        let consts = chosen(&eqn_consts, &known_consts);
        let args = [&consts, &first, &zeros, &chosen(&eqn_xs, &known_xs), &ys];
        let args = args.map(|vars| vars.as_slice()).concat();
        let n_outs = body.outs.len();
        let other = Loop {
            reverse: !of.reverse,
            ..of
        };
        let attrs = other.statics(b, body, consts.len(), n_states);
        let outs = b.emit_many(Op::Scan, &attrs, &args, n_outs);
        let [of_carry_outs, sums, ct_xs] = parts(&outs, [first.len(), zeros.len(), ct_xs.len()]);
        let spread = |marks: &[bool], vars: Vec<Var>| {
            let mut vars = vars.into_iter();
            let marks = marks.iter();
            marks
                .map(|mark| mark.then(|| vars.next()).flatten())
                .collect::<Vec<_>>()
        };
        let all = [
            spread(&of_consts, sums),
            spread(&carry, of_carry_outs),
            spread(&of_xs, ct_xs),
        ];
        all.concat()
    }

    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let Parts {
            body,
            turns,
            consts,
            carry,
            reverse,
        } = Parts::of(of.statics);
        let (same, rest) = of.args.split_at(consts);
        let (init, xs) = rest.split_at(carry);
        let mut state = init.to_vec();
        let mut ys: Vec<NdArray> = of.outs[carry..].iter().map(|y| NdArray::zeros(y)).collect();
        for turn in 0..turns {
            let i = if reverse { turns - 1 - turn } else { turn };
            let slices = xs.iter().map(|x| x.slice(i));
            let args: Vec<NdArray> = same.iter().chain(&state).cloned().chain(slices).collect();
            let mut outs = crate::op::evaluate(body, &args);
            for (all, y) in ys.iter_mut().zip(outs.split_off(carry)) {
                all.set_slice(i, &y);
            }
            state = outs;
        }
        state.into_iter().chain(ys).collect()
    }
}

/// Lanes run in the same turns. A state differs between lanes if it does after some turn.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let Parts {
        body,
        turns,
        consts,
        carry,
        reverse,
    } = Parts::of(&statics);
    let of_loop = Loop {
        body: body.clone(),
        turns,
        reverse,
        lens: [consts, carry, of.args.len() - consts - carry],
    };
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let marks = |marks: &[bool]| body::lanes(body, marks, &none, of.len).map(|(_, each)| each);
    marks(&each)?;
    let each = of_loop.marks(each, |each| marks(each).unwrap_or_else(|| none.clone()));
    let mut forced = none.clone();
    forced[..carry].copy_from_slice(&each[consts..][..carry]);
    let (program, outs_each) = body::lanes(body, &each, &forced, of.len)?;
    let mut args = Vec::with_capacity(of.args.len());
    for (i, each) in each.iter().enumerate() {
        args.push(match each {
            true if i < consts + carry => of.each(b, i)?,
            true => lanes::swap_first(b, of.args[i].var(), 1),
            false => of.args[i].var(),
        });
    }
    let attrs = of_loop.statics(b, program, consts, carry);
    let outs = b.emit_many(Op::Scan, &attrs, &args, of.eqn.outs.len());
    let lane = |(i, (out, each)): (usize, (Var, bool))| match each {
        false => Lane::Shared(out),
        true if i < carry => Lane::Each(out),
        true => Lane::Each(lanes::swap_first(b, out, 1)),
    };
    Some(
        outs.into_iter()
            .zip(outs_each)
            .enumerate()
            .map(lane)
            .collect(),
    )
}
