//! `shard_map`: a program that each device of a mesh runs on its parts of the operands.

use super::body;
use super::links::{Link, Links};
use super::{Control, avals, check_args, check_number, control_op};
use crate::mesh::{AxisSet, MeshAxes, Tiling};
use crate::op::collective::over;
use crate::op::lanes::{Lane, Lanes};
use crate::op::nd_array::eqn_results;
use crate::op::{Application, NdArray, Variance};
use crate::{
    Aval, Builder, Eqn, Fault, Op, Program, Programs, SecondaryMap, Static, StaticKind, Symbol, Var,
};
use std::collections::BTreeMap;

/// `y... = shard_map[body, mesh, ins, outs] x...`.
///
/// The body is `parts of x... -> parts of y...`. `ins` and `outs` say how operands and results are divided. A result
/// that is not divided along an axis of the mesh is equal on the devices along it.
pub(crate) struct ShardMap;

control_op!(
    ShardMap,
    "shard_map",
    &[
        StaticKind::Programs.named("body"),
        StaticKind::Mesh.named("mesh"),
        StaticKind::Tilings.named("ins"),
        StaticKind::Tilings.named("outs"),
    ],
    batch,
    &[
        // Data parallel: the weights are equal on all devices, and the loss is a mean.
        "(x: f64[4, 2], w: f64[2]) { y = shard_map[body=<(x: f64[2, 2], w: f64[2]) { h = matmul x, w, like x, like w s = sin h t = sum[axes=all, keepdims=false] s, like s y = all_reduce[reduce=sum, over={d: 2}] t return y }>, mesh={d: 2}, ins=([{d}, {}], [{}]), outs=([])] x, w return y }",
        // Two results, of which one is divided along two axes of the mesh at once.
        "(x: f64[4], y: f64[2]) { z, u = shard_map[body=<(x: f64[1], y: f64[1]) { a = mul x, y b = all_reduce[reduce=sum, over={m: 2, d: 2}] a c = mul b, x d = exp y return c, d }>, mesh={d: 2, m: 2}, ins=([{m, d}], [{d}]), outs=([{d, m}], [{d}])] x, y return z, u }",
        "(x: f64[3]) { y, z = shard_map[body=<(x: f64[1]) { y = all_reduce[reduce=max, over={d: 3}] x z = all_reduce[reduce=min, over={d: 3}] x return y, z }>, mesh={d: 3}, ins=([{d}]), outs=([{}], [{}])] x return y, z }",
        "(x: f64[3, 2]) { y = shard_map[body=<(x: f64[1, 2]) { y = all_reduce[reduce=prod, over={d: 3}] x return y }>, mesh={d: 3}, ins=([{d}, {}]), outs=([{}, {}])] x return y }",
        // The gathered value is a result, and is used by each device.
        "(x: f64[4]) { y, z = shard_map[body=<(x: f64[2]) { a = square x y = all_gather[axis=0, over={d: 2}, varying=false] a s = sum[axes=all, keepdims=true] y, like y z = mul s, x return y, z }>, mesh={d: 2}, ins=([{d}]), outs=([{}], [{d}])] x return y, z }",
        "(x: f64[4, 2]) { y = shard_map[body=<(x: f64[2, 2]) { y = all_gather[axis=-1, over={d: 2}, varying=true] x z = cumsum[axes=[0], reverse=false] y return z }>, mesh={d: 2}, ins=([{d}, {}]), outs=([{d}, {}])] x return y }",
        "(x: f64[4, 3]) { y = shard_map[body=<(x: f64[4, 3]) { a = sin x y = all_slice[axis=0, over={d: 2}] a z = mul y, y return z }>, mesh={d: 2}, ins=([{}, {}]), outs=([{d}, {}])] x return y }",
        "(x: f64[4, 4]) { y = shard_map[body=<(x: f64[2, 4]) { a = square x y = reduce_scatter[axis=1, over={d: 2}] a return y }>, mesh={d: 2}, ins=([{d}, {}]), outs=([{}, {d}])] x return y }",
        "(x: f64[4, 2]) { y = shard_map[body=<(x: f64[2, 2]) { a = sin x y = all_to_all[split=-1, concat=0, over={d: 2}] a z = square y return z }>, mesh={d: 2}, ins=([{d}, {}]), outs=([{}, {d}])] x return y }",
        "(x: f64[3]) { y = shard_map[body=<(x: f64[1]) { a = sin x b = ppermute[pairs=[0, 1, 1, 2], over={d: 3}] a y = mul b, x return y }>, mesh={d: 3}, ins=([{d}]), outs=([{d}])] x return y }",
        "(x: f64[4], i: i64[4]) { y, j = shard_map[body=<(x: f64[2], i: i64[2]) { k = axis_index[over={d: 2}] j = add i, k f = cast[dtype=f64] j, like j y = mul x, f t = all_reduce[reduce=sum, over={d: 2}] j return y, t }>, mesh={d: 2}, ins=([{d}], [{d}]), outs=([{d}], [{}])] x, i return y, j }",
        "(x: f64[2], w: f64[1]) { y = shard_map[body=<(x: f64[1], w: f64[1]) { v = pvary[over={d: 2}] w y = mul x, v return y }>, mesh={d: 2}, ins=([{d}], [{}]), outs=([{d}])] x, w return y }",
        // Devices meet in checkpoints. The first one keeps a value, and has results of which one is equal on the devices.
        "(x: f64[4, 2], w: f64[2]) { y, z = shard_map[body=<(x: f64[2, 2], w: f64[2]) { t, u, v = checkpoint[body=<(x: f64[2, 2], w: f64[2]) { h = matmul x, w, like x, like w s = sin h t = all_reduce[reduce=sum, over={d: 2}] s u = exp s v = square w return t, u, v, h }>, kept=1] x, w y = mul t, u z = checkpoint[body=<(t: f64[2], v: f64[2]) { a = mul t, v b = checkpoint[body=<(a: f64[2]) { c = sin a b = all_gather[axis=0, over={d: 2}, varying=false] c return b }>, kept=0] a return b }>, kept=0] u, v return y, z }>, mesh={d: 2}, ins=([{d}, {}], [{}]), outs=([{d}], [{}])] x, w return y, z }",
        // A result that is equal on the devices, but of which each stands for a part.
        "(w: f64[2]) { y = shard_map[body=<(w: f64[2]) { y = exp w return y }>, mesh={d: 2}, ins=([{}]), outs=([{d}])] w return y }",
    ]
);

/// The static arguments of a `shard_map`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `parts of x... -> parts of y...`.
    pub body: &'a Program,
    /// The devices.
    pub mesh: &'a MeshAxes,
    /// How the operands are divided.
    pub ins: &'a [Tiling],
    /// How the results are divided.
    pub outs: &'a [Tiling],
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `shard_map`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        const OTHER: &str = "the static arguments of a `shard_map`";
        Parts {
            body: &statics[0].programs().expect(OTHER)[0],
            mesh: statics[1].mesh().expect(OTHER),
            ins: statics[2].tilings().expect(OTHER),
            outs: statics[3].tilings().expect(OTHER),
        }
    }
}

/// Emits a `shard_map`.
pub(crate) fn emit(
    b: &mut Builder,
    body: Program,
    mesh: &MeshAxes,
    [ins, outs]: [Vec<Tiling>; 2],
    args: &[Var],
) -> Vec<Var> {
    let n_outs = outs.len();
    let attrs = [
        b.attr(Programs::new(vec![body])),
        b.attr(mesh.clone()),
        b.attr(ins),
        b.attr(outs),
    ];
    b.emit_many(Op::ShardMap, &attrs, args, n_outs)
}

impl Control for ShardMap {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts {
            body,
            mesh,
            ins,
            outs,
        } = Parts::of(statics);
        check_number(ins.len(), body.params.len())?;
        check_number(outs.len(), body.outs.len())?;
        let refused = |reason: String| Fault::Sharding { reason };
        let whole = |(local, tiling): (&Aval, &Tiling)| {
            let shape = local.shape.known().filter(|_| local.dtype.is_some());
            let Some(shape) = shape else {
                return Err(Fault::Length {
                    what: "a value of a program".into(),
                    found: local.to_string(),
                    expected: "a known dtype and shape".into(),
                });
            };
            let shape = tiling.global(mesh, &shape).map_err(refused)?;
            Ok(Aval {
                dtype: local.dtype,
                shape: shape.as_slice().into(),
            })
        };
        let params = avals(body, &body.params);
        let params: Vec<Aval> = params
            .iter()
            .zip(ins)
            .map(whole)
            .collect::<Result<_, _>>()?;
        check_args(args, &params)?;
        let found = avals(body, &body.outs);
        let found = found
            .iter()
            .zip(outs)
            .map(whole)
            .collect::<Result<Vec<_>, _>>()?;
        let varies = variance_through_loops(body, mesh, ins).map_err(refused)?;
        match check_results(body, mesh, outs, &varies).map_err(refused)? {
            None => Ok(found),
            Some((i, axes)) => Err(refused(format!(
                "result {} may differ between the devices along {axes}, which do not divide it",
                i + 1
            ))),
        }
    }
}

/// Returns the axes along which each value of the program of a `shard_map` varies.
///
/// # Errors
///
/// In words, if the mesh does not fit, or an op is used where it has no meaning.
pub fn variance(
    body: &Program,
    mesh: &MeshAxes,
    ins: &[Tiling],
) -> Result<SecondaryMap<Var, AxisSet>, String> {
    variance_by(body, mesh, of_params(body, mesh, ins)?, |_, _, _| None)
}

/// As [`variance`], but a result of a loop or a branch varies only with the operands that it depends on.
///
/// This holds for the values. In a derivative, all operands of an equation vary along the same axes.
fn variance_through_loops(
    body: &Program,
    mesh: &MeshAxes,
    ins: &[Tiling],
) -> Result<SecondaryMap<Var, AxisSet>, String> {
    variance_by(body, mesh, of_params(body, mesh, ins)?, of_loop)
}

fn of_params(
    body: &Program,
    mesh: &MeshAxes,
    ins: &[Tiling],
) -> Result<SecondaryMap<Var, AxisSet>, String> {
    let params = body.params.iter().zip(ins);
    params
        .map(|(param, tiling)| Ok((*param, tiling.axes(mesh)?)))
        .collect()
}

/// A function that may give the variance of each result of an equation.
type OfEach = fn(&Program, &Eqn, &SecondaryMap<Var, AxisSet>) -> Option<Vec<AxisSet>>;

/// Returns the variance of all values, given that of the parameters.
fn variance_by(
    body: &Program,
    mesh: &MeshAxes,
    mut varies: SecondaryMap<Var, AxisSet>,
    of_each: OfEach,
) -> Result<SecondaryMap<Var, AxisSet>, String> {
    for eqn in &body.eqns {
        let found = match checkpointed(body, eqn) {
            Some(inner) => of_checkpoint(inner, eqn, mesh, &varies, of_each)?,
            None => {
                let found = of_results(body, eqn, mesh, &varies)?;
                let each = of_each(body, eqn, &varies);
                each.unwrap_or_else(|| vec![found; eqn.outs.len()])
            }
        };
        varies.extend(eqn.outs.iter().copied().zip(found));
    }
    Ok(varies)
}

/// Returns the program of a checkpoint: it runs once, so devices may meet in it.
fn checkpointed<'a>(program: &'a Program, eqn: &Eqn) -> Option<&'a Program> {
    let programs = || program.attr(eqn.attrs[0]).programs();
    (eqn.op == Op::Checkpoint)
        .then(programs)?
        .map(|all| &all[0])
}

/// Returns the program of a checkpoint that has a collective in it.
pub(crate) fn exchanging<'a>(program: &'a Program, eqn: &Eqn) -> Option<&'a Program> {
    checkpointed(program, eqn).filter(|_| collective_in(program, eqn).is_some())
}

/// Returns the axes along which the results of the program of a checkpoint vary.
fn of_checkpoint(
    inner: &Program,
    eqn: &Eqn,
    mesh: &MeshAxes,
    varies: &SecondaryMap<Var, AxisSet>,
    of_each: OfEach,
) -> Result<Vec<AxisSet>, String> {
    let of = |varies: &SecondaryMap<Var, AxisSet>, var: &Var| {
        varies.get(*var).copied().unwrap_or_default()
    };
    let params = inner.params.iter().zip(&eqn.args);
    let params = params.map(|(param, arg)| (*param, of(varies, arg)));
    let varies = variance_by(inner, mesh, params.collect(), of_each)?;
    Ok(inner.outs.iter().map(|out| of(&varies, out)).collect())
}

/// Returns the axes along which each result of a loop or a branch without collectives varies, or `None` for another
/// equation.
fn of_loop(body: &Program, eqn: &Eqn, varies: &SecondaryMap<Var, AxisSet>) -> Option<Vec<AxisSet>> {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| body.attr(*a).clone()).collect();
    let links = Links::of(eqn.op, &statics)?;
    let of = |varies: &SecondaryMap<Var, AxisSet>, var: Var| {
        varies.get(var).copied().unwrap_or_default()
    };
    let mut inner: Vec<SecondaryMap<Var, AxisSet>> =
        vec![SecondaryMap::new(); links.programs.len()];
    // What all results depend on: the choice of a branch, and the conditions of loops.
    let mut common = AxisSet::EMPTY;
    for (arg, link) in eqn.args.iter().zip(&links.operands) {
        let own = of(varies, *arg);
        match link {
            Some(link) => {
                let (program, var) = link.place;
                inner[program].insert(var, own);
            }
            None => common = common.union(own),
        }
    }
    // Returns whether the variable varied along fewer axes.
    let widen = |varies: &mut SecondaryMap<Var, AxisSet>, var: Var, by: AxisSet| {
        let own = of(varies, var);
        varies.insert(var, own.union(by));
        own.union(by) != own
    };
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for (program, varies) in links.programs.iter().zip(&mut inner) {
            for eqn in &program.eqns {
                let found = of_loop(program, eqn, varies)
                    .unwrap_or_else(|| vec![of_operands(eqn, varies); eqn.outs.len()]);
                for (out, found) in eqn.outs.iter().zip(found) {
                    has_changed |= widen(varies, *out, found);
                }
            }
        }
        for ((i, a), (j, b)) in &links.ties {
            let both = of(&inner[*i], *a).union(of(&inner[*j], *b));
            has_changed |= widen(&mut inner[*i], *a, both);
            has_changed |= widen(&mut inner[*j], *b, both);
        }
    }
    let conditions = links.conditions.iter();
    common = conditions.fold(common, |common, (i, var)| {
        common.union(of(&inner[*i], *var))
    });
    let results = links.results.iter().flatten();
    let results = results.map(
        |Link {
             place: (i, var), ..
         }| of(&inner[*i], *var).union(common),
    );
    Some(results.collect())
}

/// Returns the axes along which any operand varies.
fn of_operands(eqn: &Eqn, varies: &SecondaryMap<Var, AxisSet>) -> AxisSet {
    let of = |x: &Var| varies.get(*x).copied().unwrap_or_default();
    eqn.data()
        .iter()
        .map(of)
        .fold(AxisSet::EMPTY, AxisSet::union)
}

/// Returns the axes of the groups of a collective, by position.
fn group(body: &Program, eqn: &Eqn, mesh: &MeshAxes) -> Result<AxisSet, String> {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| body.attr(*a).clone()).collect();
    Ok(AxisSet::of(mesh.positions(over(eqn.op, &statics))?))
}

fn rule(body: &Program, eqn: &Eqn) -> Option<Variance> {
    let collective = eqn.op.collective()?;
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| body.attr(*a).clone()).collect();
    Some((collective.variance)(&statics))
}

/// Returns the axes along which the results of an equation vary.
fn of_results(
    body: &Program,
    eqn: &Eqn,
    mesh: &MeshAxes,
    varies: &SecondaryMap<Var, AxisSet>,
) -> Result<AxisSet, String> {
    let operands = of_operands(eqn, varies);
    let Some(rule) = rule(body, eqn) else {
        if let Some(op) = collective_in(body, eqn) {
            return Err(format!(
                "`{op}` is in the program of a `{}`, where devices do not meet; write the loop in Rust, or \
                 move the collective out of it",
                eqn.op
            ));
        }
        return Ok(operands);
    };
    let group = group(body, eqn, mesh)?;
    match rule {
        Variance::Keeps => Ok(operands.union(group)),
        Variance::Drops => Ok(operands.minus(group)),
        Variance::Adds if eqn.op == Op::AllSlice && operands.minus(group) != operands => {
            Err(format!(
                "`all_slice` over {} takes a value that is equal on these devices, and this one may differ",
                group.named(mesh)
            ))
        }
        Variance::Adds => Ok(operands.union(group)),
    }
}

/// Returns the op of an equation if it is a collective, or one in the programs that it runs. A `shard_map` has a mesh of
/// its own.
pub fn collective_in(program: &Program, eqn: &Eqn) -> Option<Op> {
    match eqn.op {
        Op::ShardMap => return None,
        op if op.collective().is_some() => return Some(op),
        _ => {}
    }
    let programs = eqn.attrs.iter().filter_map(|a| program.attr(*a).programs());
    programs.flatten().find_map(|inner| {
        let mut eqns = inner.eqns.iter();
        eqns.find_map(|eqn| collective_in(inner, eqn))
    })
}

/// Returns a result that varies along axes that do not divide it, and these axes.
///
/// # Errors
///
/// In words, if the mesh does not fit.
pub fn check_results(
    body: &Program,
    mesh: &MeshAxes,
    outs: &[Tiling],
    varies: &SecondaryMap<Var, AxisSet>,
) -> Result<Option<(usize, MeshAxes)>, String> {
    for (i, (out, tiling)) in body.outs.iter().zip(outs).enumerate() {
        let own = varies.get(*out).copied().unwrap_or_default();
        let rest = own.minus(tiling.axes(mesh)?);
        if !rest.is_empty() {
            return Ok(Some((i, rest.named(mesh))));
        }
    }
    Ok(None)
}

/// Returns the program of a `shard_map` in which all operands of an equation vary along the same axes, and
/// each result along those that divide it.
///
/// It has a `pvary` where a value that is equal on devices meets one that may differ. So each op of the program can
/// be differentiated by itself: see [`collective`](crate::op::collective). Values without a tangent are left as they
/// are: constants, integers and bools.
///
/// # Errors
///
/// As [`variance`].
pub fn explicit(
    body: &Program,
    mesh: &MeshAxes,
    ins: &[Tiling],
    outs: &[Tiling],
) -> Result<Program, String> {
    let of_params = ins.iter().zip(&body.params).map(|(tiling, param)| {
        let dtype = body.aval(*param).dtype;
        Ok((
            tiling.axes(mesh)?,
            dtype.is_none_or(|dtype| dtype.is_float()),
        ))
    });
    let of_params: Vec<(AxisSet, bool)> = of_params.collect::<Result<_, String>>()?;
    let mut cx = Explicit::of_program(body, mesh, of_params)?;
    let mut found = Vec::with_capacity(outs.len());
    for (out, tiling) in body.outs.iter().zip(outs) {
        let out = cx.resolve(*out);
        let own = cx.of(out);
        found.push(cx.vary(out, own.union(tiling.axes(mesh)?)));
    }
    Ok(cx.b.finish(body.params.clone(), found))
}

struct Explicit<'a> {
    b: Builder,
    mesh: &'a MeshAxes,
    varies: SecondaryMap<Var, AxisSet>,
    /// Values that may have tangents.
    smooth: SecondaryMap<Var, ()>,
    /// A value made to vary along more axes.
    marked: BTreeMap<(Var, Vec<usize>), Var>,
    /// The `all_gather` that binds a value, if it is equal on the devices of the group.
    gathered: SecondaryMap<Var, Eqn>,
    /// The operand that replaces a value.
    same: SecondaryMap<Var, Var>,
}

impl<'a> Explicit<'a> {
    /// Emits the equations of a program. It is given the axes along which each parameter varies, and whether it may have
    /// a tangent.
    fn of_program(
        body: &Program,
        mesh: &'a MeshAxes,
        params: impl IntoIterator<Item = (AxisSet, bool)>,
    ) -> Result<Explicit<'a>, String> {
        let mut cx = Explicit {
            b: Builder::after(body),
            mesh,
            varies: SecondaryMap::new(),
            smooth: SecondaryMap::new(),
            marked: BTreeMap::new(),
            gathered: SecondaryMap::new(),
            same: SecondaryMap::new(),
        };
        for (param, (axes, is_smooth)) in body.params.iter().zip(params) {
            cx.varies.insert(*param, axes);
            if is_smooth {
                cx.smooth.insert(*param, ());
            }
        }
        for eqn in &body.eqns {
            cx.eqn(body, eqn)?;
        }
        Ok(cx)
    }

    fn of(&self, var: Var) -> AxisSet {
        self.varies.get(var).copied().unwrap_or_default()
    }

    fn resolve(&self, var: Var) -> Var {
        self.same.get(var).copied().unwrap_or(var)
    }

    fn is_float(&self, var: Var) -> bool {
        self.b.aval(var).dtype.is_none_or(|dtype| dtype.is_float())
    }

    fn eqn(&mut self, body: &Program, eqn: &Eqn) -> Result<(), String> {
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = self.resolve(*arg);
        }
        if let Some(inner) = checkpointed(body, &eqn)
            && !self.is_uniform(body, &eqn, inner)?
        {
            return self.checkpoint(inner, eqn);
        }
        let found = of_results(body, &eqn, self.mesh, &self.varies)?;
        let n_data = eqn.data().len();
        let wanted = match rule(body, &eqn) {
            None => of_operands(&eqn, &self.varies),
            Some(Variance::Keeps | Variance::Drops) => {
                of_operands(&eqn, &self.varies).union(group(body, &eqn, self.mesh)?)
            }
            Some(Variance::Adds) if eqn.op == Op::Pvary => {
                let x = eqn.args[0];
                let out = self.vary_always(x, found);
                self.same.insert(eqn.out(), out);
                return Ok(());
            }
            Some(Variance::Adds) => of_operands(&eqn, &self.varies),
        };
        for i in 0..n_data {
            eqn.args[i] = self.vary(eqn.args[i], wanted);
        }
        let is_smooth = eqn.data().iter().any(|x| self.smooth.contains(*x));
        for out in &eqn.outs {
            self.varies.insert(*out, found);
            if is_smooth && self.is_float(*out) {
                self.smooth.insert(*out, ());
            }
        }
        if eqn.op == Op::AllGather && rule(body, &eqn) == Some(Variance::Drops) {
            self.gathered.insert(eqn.out(), eqn.clone());
        }
        self.b.append(eqn);
        Ok(())
    }

    /// Returns whether all operands of a checkpoint may vary along the same axes: no result varies along more axes then.
    fn is_uniform(&self, body: &Program, eqn: &Eqn, inner: &Program) -> Result<bool, String> {
        let found = of_checkpoint(inner, eqn, self.mesh, &self.varies, |_, _, _| None)?;
        let all = of_operands(eqn, &self.varies);
        Ok(collective_in(body, eqn).is_none() && found.iter().all(|own| *own == all))
    }

    /// Appends a checkpoint whose program is explicit itself.
    fn checkpoint(&mut self, inner: &Program, mut eqn: Eqn) -> Result<(), String> {
        let params = eqn.args.iter();
        let params = params.map(|x| (self.of(*x), self.smooth.contains(*x)));
        let cx = Explicit::of_program(inner, self.mesh, params)?;
        let outs: Vec<Var> = inner.outs.iter().map(|out| cx.resolve(*out)).collect();
        for (out, inner) in eqn.outs.iter().zip(&outs) {
            self.varies.insert(*out, cx.of(*inner));
            if cx.smooth.contains(*inner) {
                self.smooth.insert(*out, ());
            }
        }
        let program = cx.b.finish(inner.params.clone(), outs);
        eqn.attrs[0] = self.b.attr(Programs::new(vec![program]));
        self.b.append(eqn);
        Ok(())
    }

    /// Returns the value as one that varies along these axes, if it may have a tangent.
    fn vary(&mut self, x: Var, wanted: AxisSet) -> Var {
        match self.smooth.contains(x) {
            true => self.vary_always(x, wanted),
            false => x,
        }
    }

    fn vary_always(&mut self, x: Var, wanted: AxisSet) -> Var {
        let own = self.of(x);
        let missing = wanted.minus(own);
        if missing.is_empty() {
            return x;
        }
        let key = (x, missing.positions().collect::<Vec<_>>());
        if let Some(found) = self.marked.get(&key) {
            return *found;
        }
        let out = match self.gathered_for(x, missing) {
            Some((gathered, axes)) => {
                self.note(x, gathered, own.union(axes));
                self.vary_always(gathered, wanted)
            }
            None => {
                let over = self.b.attr(missing.named(self.mesh));
                self.b.emit(Op::Pvary, &[over], &[x])
            }
        };
        self.note(x, out, own.union(missing));
        self.marked.insert(key, out);
        out
    }

    /// Emits an `all_gather` whose result counts as one that varies, in place of a `pvary` of one that does not. So
    /// its transpose is one `reduce_scatter`.
    fn gathered_for(&mut self, x: Var, missing: AxisSet) -> Option<(Var, AxisSet)> {
        let eqn = self.gathered.get(x)?;
        let group = self.b.static_of(eqn.attrs[1]).mesh()?;
        let group = AxisSet::of(self.mesh.positions(group).ok()?);
        if !group.minus(missing).is_empty() {
            return None;
        }
        let (axis, over, operand) = (eqn.attrs[0], eqn.attrs[1], eqn.args[0]);
        let yes = self.b.attr(true);
        let out = self.b.emit(Op::AllGather, &[axis, over, yes], &[operand]);
        Some((out, group))
    }

    /// Notes that `to` is the value `from`, and varies along these axes.
    fn note(&mut self, from: Var, to: Var, axes: AxisSet) {
        self.varies.insert(to, axes);
        if self.smooth.contains(from) {
            self.smooth.insert(to, ());
        }
    }
}

impl ShardMap {
    /// Returns the results by definition: all devices run an equation before the next one.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        const CHECKED: &str = "the rules of the op accept its operands";
        let Parts {
            body,
            mesh,
            ins,
            outs,
        } = Parts::of(of.statics);
        let n = mesh.n_devices();
        let mut devices: Vec<SecondaryMap<Var, NdArray>> = vec![SecondaryMap::new(); n];
        for ((param, tiling), x) in body.params.iter().zip(ins).zip(of.args) {
            let local = tiling.local(mesh, &x.shape).expect(CHECKED);
            for (i, device) in devices.iter_mut().enumerate() {
                let start = tiling.start(mesh, i, &local).expect(CHECKED);
                let part = NdArray::build(&local, |index| {
                    let index = index.iter().zip(&start).map(|(i, start)| i + start);
                    x.get(&index.collect::<Vec<_>>())
                });
                device.insert(*param, part);
            }
        }
        run(body, mesh, &mut devices);
        let whole = |(i, (out, tiling)): (usize, (&Var, &Tiling))| {
            let mut y = NdArray::build(&of.outs[i], |_| f64::NAN);
            for (i, device) in devices.iter().enumerate().rev() {
                let part = value(device, out);
                let start = tiling.start(mesh, i, &part.shape).expect(CHECKED);
                for index in crate::op::indices(&part.shape) {
                    let at = index.iter().zip(&start).map(|(i, start)| i + start);
                    y.set(&at.collect::<Vec<_>>(), part.get(&index));
                }
            }
            y
        };
        body.outs.iter().zip(outs).enumerate().map(whole).collect()
    }
}

fn value(device: &SecondaryMap<Var, NdArray>, v: &Var) -> NdArray {
    let value = device.get(*v);
    value
        .expect("a variable is bound before it is read")
        .clone()
}

/// Runs a program on the values of all devices.
fn run(body: &Program, mesh: &MeshAxes, devices: &mut [SecondaryMap<Var, NdArray>]) {
    for eqn in &body.eqns {
        if let Some(inner) = exchanging(body, eqn) {
            let params = |device: &SecondaryMap<Var, NdArray>| {
                let args = eqn.args.iter().map(|x| value(device, x));
                inner.params.iter().copied().zip(args).collect()
            };
            let mut within: Vec<SecondaryMap<Var, NdArray>> = devices.iter().map(params).collect();
            run(inner, mesh, &mut within);
            for (device, within) in devices.iter_mut().zip(&within) {
                let found = inner.outs.iter().map(|out| value(within, out));
                device.extend(eqn.outs.iter().copied().zip(found));
            }
            continue;
        }
        let Some(collective) = eqn.op.collective() else {
            for device in &mut *devices {
                let args: Vec<_> = eqn.args.iter().map(|x| value(device, x)).collect();
                let found = eqn_results(body, eqn, args);
                device.extend(eqn.outs.iter().copied().zip(found));
            }
            continue;
        };
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| body.attr(*a).clone()).collect();
        let along = mesh.positions(over(eqn.op, &statics));
        for group in mesh.groups(&along.expect("the rules of the op check the axes")) {
            let arg = |device: &usize| match eqn.args.first() {
                Some(x) => value(&devices[*device], x),
                None => NdArray::build(&[], |_| 0.0),
            };
            let args: Vec<NdArray> = group.iter().map(arg).collect();
            for (i, device) in group.iter().enumerate() {
                let found = (collective.combine)(&statics, &args, i);
                devices[*device].insert(eqn.out(), found);
            }
        }
    }
}

/// Each device computes its parts for all lanes, or for those that it has along the axis of the batch.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let Parts {
        body,
        mesh,
        ins,
        outs,
    } = Parts::of(&statics);
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let mut local = of.batching();
    if let Some(axis) = of.mesh_axis {
        let size = mesh.axes()[mesh.position(axis)?].1;
        if !local.len.is_multiple_of(size) {
            return None;
        }
        local = (local.len / size).into();
    }
    let (all, out_each) = body::lanes(body, &each, &none, local)?;
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    let lanes: Vec<Symbol> = of.mesh_axis.into_iter().collect();
    let tilings = [
        with_lanes(ins, &each, &lanes),
        with_lanes(outs, &out_each, &lanes),
    ];
    let outs = emit(b, all, mesh, tilings, &args);
    Some(Lane::marked(outs, &out_each))
}

/// Returns tilings with a first dim that some axes divide, where marked.
fn with_lanes(tilings: &[Tiling], each: &[bool], axes: &[Symbol]) -> Vec<Tiling> {
    let one = |(tiling, each): (&Tiling, &bool)| match each {
        true => Tiling([&[axes.to_vec()], &tiling.0[..]].concat()),
        false => tiling.clone(),
    };
    tilings.iter().zip(each).map(one).collect()
}
