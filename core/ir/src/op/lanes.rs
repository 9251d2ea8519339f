//! Rules of batching: how an op is applied to all lanes of a batch at once.
//!
//! A value that differs between lanes has them along an additional first axis. So the axes of one
//! lane are counted from the end, and so are the axes that static arguments name.

use super::pad::for_axes;
use super::shape;
use super::{Decompose, Op};
use crate::{Builder, Eqn, Program, SecondaryMap, Static, StaticKind, Symbol, Var};

/// A rule that emits the results of an equation for all lanes.
///
/// Returns `None` if it takes a length or a static argument that is unknown, or if the op cannot be
/// applied to a batch.
pub type BatchRule = fn(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>>;

/// A value in a batched program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A value for each lane, along a first axis.
    Each(Var),
    /// One value that all lanes share.
    Shared(Var),
}

impl Lane {
    /// Returns results, of which those that are marked differ between lanes.
    pub(super) fn marked(outs: Vec<Var>, each: &[bool]) -> Vec<Lane> {
        let lane = |(out, each): (Var, &bool)| match each {
            true => Lane::Each(out),
            false => Lane::Shared(out),
        };
        outs.into_iter().zip(each).map(lane).collect()
    }

    /// Returns the variable.
    pub fn var(self) -> Var {
        match self {
            Lane::Each(var) | Lane::Shared(var) => var,
        }
    }

    /// Returns whether lanes have different values.
    pub fn is_each(self) -> bool {
        matches!(self, Lane::Each(_))
    }
}

/// An equation with a data operand that differs between lanes.
pub struct Lanes<'a> {
    /// The program for one lane.
    pub program: &'a Program,
    /// The equation for one lane.
    pub eqn: &'a Eqn,
    /// The operands.
    pub args: &'a [Lane],
    /// The number of lanes.
    pub len: usize,
    /// The axis of a mesh that splits the axis of lanes of values with specs.
    pub mesh_axis: Option<Symbol>,
}

/// The lanes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// The number of lanes.
    pub len: usize,
    /// The axis of a mesh that splits the axis of lanes of values with specs.
    pub mesh_axis: Option<Symbol>,
}

impl From<usize> for Batching {
    fn from(len: usize) -> Batching {
        let mesh_axis = None;
        Batching { len, mesh_axis }
    }
}

impl Lanes<'_> {
    /// Returns the lanes.
    pub(super) fn batching(&self) -> Batching {
        Batching {
            len: self.len,
            mesh_axis: self.mesh_axis,
        }
    }

    /// Returns the value of a static argument.
    fn attr(&self, i: usize) -> &Static {
        self.program.attr(self.eqn.attrs[i])
    }

    /// Returns static argument `i`, a list of integers.
    pub(super) fn ints(&self, i: usize) -> Option<&[i64]> {
        self.attr(i).ints()
    }

    /// Returns the values of the static arguments.
    pub(super) fn statics(&self) -> Vec<Static> {
        (0..self.eqn.attrs.len())
            .map(|i| self.attr(i).clone())
            .collect()
    }

    /// Returns the shape of a variable of one lane.
    fn shape(&self, var: Var) -> Option<Vec<usize>> {
        self.program.aval(var).shape.known()
    }

    /// Returns the number of axes of a variable of one lane.
    pub(super) fn rank(&self, var: Var) -> Option<usize> {
        self.program.aval(var).shape.dims().map(<[_]>::len)
    }

    /// Returns the number of axes of the first result in one lane.
    fn out_rank(&self) -> Option<usize> {
        self.rank(self.eqn.outs[0])
    }

    /// Returns the static argument for the shape of all lanes, given that of one.
    fn with_lanes(&self, shape: &[usize]) -> Static {
        let lens = [&[self.len], shape].concat();
        lens.into_iter()
            .map(|len| len as i64)
            .collect::<Vec<_>>()
            .into()
    }

    /// Returns operand `i` with an axis of lanes.
    pub(super) fn each(&self, b: &mut Builder, i: usize) -> Option<Var> {
        let Lane::Shared(var) = self.args[i] else {
            return Some(self.args[i].var());
        };
        let shape = self.with_lanes(&self.shape(self.eqn.args[i])?);
        match i < self.eqn.data().len() {
            true => {
                let shape = b.attr(shape);
                Some(b.emit(Op::BroadcastTo, &[shape], &[var]))
            }
            false => self.like(b, i, shape),
        }
    }

    /// Emits a value of this shape, with the dtype of operand `i`, for use as a like operand.
    fn like(&self, b: &mut Builder, i: usize, shape: Static) -> Option<Var> {
        let dtype = self.program.aval(self.eqn.args[i]).dtype?;
        let statics = [b.attr(shape), b.attr(0), b.attr(dtype)];
        Some(b.emit(Op::Full, &statics, &[]))
    }

    /// Returns the operands, those that are marked with an axis of lanes.
    pub(super) fn marked(&self, b: &mut Builder, each: &[bool]) -> Option<Vec<Var>> {
        let one = |(i, each): (usize, &bool)| match each {
            true => self.each(b, i),
            false => Some(self.args[i].var()),
        };
        each.iter().enumerate().map(one).collect()
    }

    /// Returns all operands with an axis of lanes.
    pub(super) fn all(&self, b: &mut Builder) -> Option<Vec<Var>> {
        (0..self.args.len()).map(|i| self.each(b, i)).collect()
    }

    /// Returns operand `i`, which has an axis of lanes, with `rank` axes after it.
    fn aligned(&self, b: &mut Builder, i: usize, var: Var, rank: usize) -> Option<Var> {
        Some(insert_axes(b, var, 1, rank - self.rank(self.eqn.args[i])?))
    }

    /// Emits the op for all lanes.
    fn emit(&self, b: &mut Builder, statics: Vec<Static>, args: &[Var]) -> Vec<Lane> {
        let statics: Vec<_> = statics.into_iter().map(|value| b.attr(value)).collect();
        let outs = b.emit_many(self.eqn.op, &statics, args, self.eqn.outs.len());
        outs.into_iter().map(Lane::Each).collect()
    }

    /// Emits the op once for all lanes, which share its data operands.
    fn shared(&self, b: &mut Builder) -> Option<Vec<Lane>> {
        let arg = |(i, lane): (usize, &Lane)| match lane {
            Lane::Shared(var) => Some(*var),
            Lane::Each(_) => {
                let lens = self.shape(self.eqn.args[i])?.into_iter();
                let lens: Vec<i64> = lens.map(|len| len as i64).collect();
                self.like(b, i, lens.into())
            }
        };
        let args: Option<Vec<Var>> = self.args.iter().enumerate().map(arg).collect();
        let outs = self.emit(b, self.statics(), &args?).into_iter();
        Some(outs.map(|out| Lane::Shared(out.var())).collect())
    }

    /// Emits the result of one lane, reshaped from `x`.
    fn reshaped(&self, b: &mut Builder, x: Var) -> Option<Vec<Lane>> {
        let shape = b.attr(self.with_lanes(&self.shape(self.eqn.out())?));
        Some(vec![Lane::Each(b.emit(Op::Reshape, &[shape], &[x, x]))])
    }

    /// Returns the static arguments with axes among `rank` counted from the end.
    fn axes_from_end(&self, rank: usize) -> Option<Vec<Static>> {
        let from_end = |axis: usize| axis as i64 - rank as i64;
        let kinds = self.eqn.op.def().statics().iter();
        let statics = kinds.zip(&self.eqn.attrs).map(|(arg, attr)| {
            let value = self.program.attr(*attr);
            Some(match arg.kind {
                StaticKind::Axis => from_end(shape::known_axis(value, rank).ok()??).into(),
                StaticKind::Axes | StaticKind::UnitAxes => {
                    let axes = shape::axes(value, rank).ok()??;
                    axes.into_iter().map(from_end).collect::<Vec<_>>().into()
                }
                _ if value.is_host() => return None,
                _ => value.clone(),
            })
        });
        statics.collect()
    }
}

/// Emits a program for one lane on all lanes of a batch, and returns its results.
///
/// What lanes share is computed once.
///
/// # Errors
///
/// The op of an equation that cannot be applied to a batch.
pub fn apply(
    b: &mut Builder,
    program: &Program,
    args: &[Lane],
    batching: Batching,
) -> Result<Vec<Lane>, Op> {
    let params = program.params.iter().copied().zip(args.iter().copied());
    let mut lanes: SecondaryMap<Var, Lane> = params.collect();
    let lane = |lanes: &SecondaryMap<Var, Lane>, var: Var| {
        *lanes
            .get(var)
            .expect("a variable is bound before it is read")
    };
    for eqn in &program.eqns {
        b.emit_for(program, eqn);
        let args: Vec<Lane> = eqn.args.iter().map(|arg| lane(&lanes, *arg)).collect();
        let of = Lanes {
            program,
            eqn,
            args: &args,
            len: batching.len,
            mesh_axis: batching.mesh_axis,
        };
        let n_data = eqn.data().len();
        let outs = match args[..n_data].iter().any(|arg| arg.is_each()) {
            true => (eqn.op.def().facts().axes.batch)(b, &of).ok_or(eqn.op)?,
            false => of.shared(b).ok_or(eqn.op)?,
        };
        debug_assert_eq!(outs.len(), eqn.outs.len(), "results of `{}`", eqn.op);
        for (&out, lane) in eqn.outs.iter().zip(outs) {
            if let Some(name) = program.names.get(out)
                && b.name_of(lane.var()).is_none()
            {
                b.name(lane.var(), name);
            }
            lanes.insert(out, lane);
        }
    }
    Ok(program.outs.iter().map(|out| lane(&lanes, *out)).collect())
}

/// Emits `x` with `n` axes of length 1 inserted before axis `at`.
fn insert_axes(b: &mut Builder, x: Var, at: usize, n: usize) -> Var {
    if n == 0 {
        return x;
    }
    let axes: Vec<i64> = (at..at + n).map(|axis| axis as i64).collect();
    let axes = b.attr(axes);
    b.emit(Op::Unsqueeze, &[axes], &[x])
}

/// An op that repeats its operands to the shape of the result.
pub(super) fn broadcast(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let rank = of.out_rank()?;
    // A like operand has the shape of another operand, and so needs its lanes.
    let has_likes = !of.eqn.likes().is_empty();
    let arg = |(i, arg): (usize, &Lane)| match arg {
        Lane::Shared(var) if !has_likes => Some(*var),
        _ => {
            let var = of.each(b, i)?;
            of.aligned(b, i, var, rank)
        }
    };
    let args: Option<Vec<Var>> = of.args.iter().enumerate().map(arg).collect();
    Some(of.emit(b, of.statics(), &args?))
}

/// An op that takes any number of leading axes.
pub(super) fn leading(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let args = of.all(b)?;
    Some(of.emit(b, of.statics(), &args))
}

/// `solve`: the matrices broadcast to the right sides, which are columns.
pub(super) fn solutions(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let rank = of.rank(of.eqn.args[1])?;
    let mut right = of.each(b, 1)?;
    // Vectors of lanes would be a matrix.
    let is_vector = rank == 1;
    let column = b.attr(-1);
    if is_vector {
        right = b.emit(Op::Unsqueeze, &[column], &[right]);
    }
    let matrices = match of.args[0] {
        Lane::Shared(var) => var,
        Lane::Each(var) => of.aligned(b, 0, var, rank.max(2))?,
    };
    let found = of.emit(b, of.statics(), &[matrices, right]);
    Some(match is_vector {
        true => vec![Lane::Each(b.emit(
            Op::Squeeze,
            &[column],
            &[found[0].var()],
        ))],
        false => found,
    })
}

/// An op whose static arguments name axes of its first operand.
pub(super) fn along(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.axes_from_end(of.rank(of.eqn.args[0])?)?;
    let args = of.all(b)?;
    Some(of.emit(b, statics, &args))
}

/// An op whose static arguments name axes of its result.
pub(super) fn inserted(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.axes_from_end(of.out_rank()?)?;
    let args = of.all(b)?;
    Some(of.emit(b, statics, &args))
}

/// An op whose first static arguments are a range of each of the leading axes: all lanes, then these.
pub(super) fn ranges(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let mut statics: Vec<Static> = of.statics();
    for (i, whole) in [0, i64::MAX, 1].into_iter().enumerate() {
        statics[i] = [&[whole], of.ints(i)?].concat().into();
    }
    let args = of.all(b)?;
    Some(of.emit(b, statics, &args))
}

/// An op whose static arguments have a number for each axis, or one for all: 0 for the lanes.
pub(super) fn padded(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let rank = of.rank(of.eqn.args[0])?;
    let kinds = of.eqn.op.def().statics().iter();
    let statics = kinds.zip(of.statics()).map(|(arg, value)| match arg.kind {
        StaticKind::Margins => {
            let numbers = for_axes(&value, arg.name, rank).ok()??;
            Some([&[0], &numbers[..]].concat().into())
        }
        _ => Some(value),
    });
    let statics: Option<Vec<Static>> = statics.collect();
    let args = of.all(b)?;
    Some(of.emit(b, statics?, &args))
}

/// An op that puts the axes in another order.
pub(super) fn reordered(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let avals: Vec<_> = of.eqn.args.iter().map(|x| of.program.aval(*x)).collect();
    let out = of.program.aval(of.eqn.out()).shape.clone();
    let axes = of.eqn.op.axes(&of.statics(), &avals, &[out])?;
    let order = axes.results[0].iter().map(|axis| match axis {
        super::Axis::Factor(from) => *from as i64 + 1,
        other => unreachable!("an op that only reorders axes has factors, not {other:?}"),
    });
    let order: Vec<i64> = std::iter::once(0).chain(order).collect();
    let (order, x) = (b.attr(order), of.each(b, 0)?);
    Some(vec![Lane::Each(b.emit(Op::Permute, &[order], &[x]))])
}

/// An op that only changes the shape.
pub(super) fn reshaped(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let x = of.each(b, 0)?;
    of.reshaped(b, x)
}

/// `broadcast_to`: a shape is given.
pub(super) fn broadcast_to(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let shape = of.shape(of.eqn.out())?;
    let x = of.each(b, 0)?;
    let x = of.aligned(b, 0, x, shape.len())?;
    Some(of.emit(b, vec![of.with_lanes(&shape)], &[x]))
}

/// `unbroadcast`: a sum over axes that the result lacks.
pub(super) fn unbroadcast(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let rank = of.rank(of.eqn.args[0])?;
    let arg = |i| {
        let var = of.each(b, i)?;
        of.aligned(b, i, var, rank)
    };
    let args: Option<Vec<Var>> = (0..of.args.len()).map(arg).collect();
    let sum = of.emit(b, of.statics(), &args?)[0].var();
    of.reshaped(b, sum)
}

/// An op without data operands is never applied to a batch.
pub(super) fn without_operands(_: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    unreachable!("`{}` has no operand that differs between lanes", of.eqn.op)
}

/// A call has no rule: what is batched at run time is the program of the callee.
pub(super) fn call(_: &mut Builder, _: &Lanes<'_>) -> Option<Vec<Lane>> {
    None
}

/// An op on indices along an axis, which broadcast against the other axes.
///
/// Its like operands are a tensor, which may be repeated if `may_repeat`, and perhaps updates. If the
/// second static argument, `along`, is false, lanes compute it by `to_along`, for which it is true.
pub(super) fn indexed(
    b: &mut Builder,
    of: &Lanes<'_>,
    may_repeat: bool,
    to_along: Decompose,
) -> Option<Vec<Lane>> {
    if !of.attr(1).bool()? {
        return simpler_by(b, of, to_along);
    }
    let statics = of.axes_from_end(of.rank(of.eqn.args[0])?)?;
    let n_data = of.eqn.data().len();
    let x_is_each = of.args[0].is_each() || of.args[n_data].is_each();
    let arg = |i: usize| match of.args[i] {
        Lane::Shared(var) if i == 1 || may_repeat && !x_is_each => Some(insert_axes(b, var, 0, 1)),
        _ => of.each(b, i),
    };
    let args: Option<Vec<Var>> = (0..of.args.len()).map(arg).collect();
    Some(of.emit(b, statics, &args?))
}

/// An op that lanes compute by simpler ops.
pub(super) fn simpler(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let decompose = of.eqn.op.def().facts().decompose;
    let decompose = decompose.expect("an op that is batched by simpler ops has a decomposition");
    simpler_by(b, of, decompose)
}

/// As [`simpler`], by ops that are given.
fn simpler_by(b: &mut Builder, of: &Lanes<'_>, decompose: Decompose) -> Option<Vec<Lane>> {
    let mut one = Builder::new();
    let mut eqn = of.eqn.clone();
    // An operand may occur twice; each occurrence is a parameter.
    for arg in &mut eqn.args {
        *arg = one.param(of.program.aval(*arg).clone());
    }
    for attr in &mut eqn.attrs {
        *attr = one.attr(of.program.attr(*attr).clone());
    }
    let outs = decompose(&mut one, &eqn)?;
    let one = one.finish(eqn.args.to_vec(), outs);
    apply(b, &one, of.args, of.batching()).ok()
}

/// An op on rows, some of whose operands are vectors that all rows share.
///
/// Lanes with vectors of their own compute it by simpler ops.
pub(super) fn rows(b: &mut Builder, of: &Lanes<'_>, is_row: &[bool]) -> Option<Vec<Lane>> {
    let arg = |(i, arg): (usize, &Lane)| match (is_row.get(i), arg) {
        (Some(true), _) => of.each(b, i),
        (_, Lane::Shared(var)) => Some(*var),
        (_, Lane::Each(_)) => None,
    };
    let args: Option<Vec<Var>> = of.args.iter().enumerate().map(arg).collect();
    match args {
        Some(args) => Some(of.emit(b, of.statics(), &args)),
        None => simpler(b, of),
    }
}

/// Attention and its derivatives: a batch of heads. The mask is operand `mask_at`, if there is one,
/// and broadcasts.
pub(super) fn heads(b: &mut Builder, of: &Lanes<'_>, mask_at: usize) -> Option<Vec<Lane>> {
    let rank = of.rank(of.eqn.args[0])?;
    let arg = |i| match of.args[i] {
        Lane::Shared(mask) if i == mask_at => Some(mask),
        Lane::Each(mask) if i == mask_at => of.aligned(b, i, mask, rank),
        _ => of.each(b, i),
    };
    let args: Option<Vec<Var>> = (0..of.args.len()).map(arg).collect();
    Some(of.emit(b, of.statics(), &args?))
}

/// The three values of a matrix product `z = x y`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Factor {
    X,
    Y,
    Z,
}

/// `z = x y`, or one of its transposes: each has two of the three as operands, and returns the third.
///
/// The like operands are `x` and `y`. What all lanes share stays one matrix where that is possible.
pub(super) fn product(
    b: &mut Builder,
    of: &Lanes<'_>,
    operands: [Factor; 2],
    result: Factor,
) -> Option<Vec<Lane>> {
    let [x, y] = [of.eqn.args[2], of.eqn.args[3]];
    let ranks = [of.rank(x)?, of.rank(y)?];
    let [is_row, is_column] = ranks.map(|rank| rank == 1);
    let rank = ranks[0].max(ranks[1]).max(2);
    match (operands, [of.args[0], of.args[1]]) {
        // The lanes are rows of `x` and `z`.
        ([Factor::X | Factor::Z, Factor::Y], [_, Lane::Shared(y)]) if ranks[1] <= 2 => {
            let first = of.each(b, 0)?;
            let x = match operands[0] {
                Factor::X => first,
                _ => of.each(b, 2)?,
            };
            return Some(of.emit(b, Vec::new(), &[first, y, x, y]));
        }
        // The columns of lanes are rows: `z^T = y^T x^T` and `y^T = z^T x`.
        ([Factor::X, _], [Lane::Shared(x), Lane::Each(rows)]) if ranks == [2, 1] => {
            let x = match result {
                Factor::Z => {
                    let [last, other] = [b.attr(-1), b.attr(-2)];
                    b.emit(Op::SwapAxes, &[last, other], &[x])
                }
                _ => x,
            };
            let product = b.emit(Op::Matmul, &[], &[rows, x, rows, x]);
            return Some(vec![Lane::Each(product)]);
        }
        _ => {}
    }
    // Brings a value into the form of a matrix, with as many axes in each lane as the larger one.
    let matrix = |b: &mut Builder, factor: Factor, value: Lane| -> Option<Var> {
        let (has_rows, has_columns) = match factor {
            Factor::X => (!is_row, true),
            Factor::Y => (true, !is_column),
            Factor::Z => (!is_row, !is_column),
        };
        let mut var = value.var();
        let mut len = b.aval(var).shape.dims()?.len();
        let lanes = usize::from(value.is_each());
        if !has_rows {
            let at = if has_columns { len - 1 } else { len };
            var = insert_axes(b, var, at, 1);
            len += 1;
        }
        if !has_columns {
            var = insert_axes(b, var, len, 1);
            len += 1;
        }
        // A shared value is broadcast to the lanes of the other.
        match value {
            Lane::Each(_) => Some(insert_axes(b, var, 1, rank + lanes - len)),
            Lane::Shared(_) => Some(var),
        }
    };
    let needs_lanes = |factor: Factor| factor == Factor::Z || factor == result;
    let value = |b: &mut Builder, factor: Factor, at: usize| -> Option<Var> {
        let lane = match needs_lanes(factor) {
            true => Lane::Each(of.each(b, at)?),
            false => of.args[at],
        };
        matrix(b, factor, lane)
    };
    let mut args = Vec::with_capacity(4);
    for (at, factor) in operands.into_iter().enumerate() {
        args.push(value(b, factor, at)?);
    }
    // A like operand has the shape of the operand, which may have lanes where the other has none.
    for (i, factor) in [Factor::X, Factor::Y].into_iter().enumerate() {
        let like = match operands.iter().position(|operand| *operand == factor) {
            Some(at) => args[at],
            None => value(b, factor, 2 + i)?,
        };
        args.push(like);
    }
    let found = of.emit(b, Vec::new(), &args)[0].var();
    let whole = b.aval(found).shape.known()?;
    match whole == [&[of.len], &of.shape(of.eqn.out())?[..]].concat() {
        true => Some(vec![Lane::Each(found)]),
        false => of.reshaped(b, found),
    }
}

/// A convolution `z = conv(x, w)`, or one of its transposes: two of the three values give the third.
///
/// The like operands, if there are any, are `x` and `w`. Lanes that share the weights are a larger
/// batch. Lanes with weights of their own are groups of channels.
pub(super) fn convolution(
    b: &mut Builder,
    of: &Lanes<'_>,
    operands: [Factor; 2],
    result: Factor,
) -> Option<Vec<Lane>> {
    let out = of.shape(of.eqn.out())?;
    let mut statics = of.statics();
    let groups = statics[3].int()?;
    if of.len == 0 {
        let dtype = of.program.aval(of.eqn.out()).dtype?;
        let statics = [b.attr(of.with_lanes(&out)), b.attr(0), b.attr(dtype)];
        return Some(vec![Lane::Each(b.emit(Op::Full, &statics, &[]))]);
    }
    let n_lanes = of.len as i64;
    // The axis that lanes become part of: batches, groups of all channels, or channels of `z` only.
    let shared = |i: usize| !of.args[i].is_each();
    let merged: fn(Factor) -> Option<usize> = match operands {
        [Factor::X | Factor::Z, Factor::Y] if shared(1) => |factor| match factor {
            Factor::Y => None,
            _ => Some(0),
        },
        [Factor::X, _] if shared(0) && groups == 1 => |factor| match factor {
            Factor::X => None,
            Factor::Y => Some(0),
            Factor::Z => Some(1),
        },
        _ => {
            statics[3] = (groups * n_lanes).into();
            |factor| match factor {
                Factor::Y => Some(0),
                _ => Some(1),
            }
        }
    };
    let merged_shape = |factor: Factor, shape: &[usize]| -> Static {
        let mut lens: Vec<i64> = shape.iter().map(|len| *len as i64).collect();
        if let Some(axis) = merged(factor) {
            lens[axis] *= n_lanes;
        }
        lens.into()
    };
    let mut args = Vec::with_capacity(of.args.len());
    for (i, factor) in operands.into_iter().enumerate() {
        let shape = of.shape(of.eqn.args[i])?;
        args.push(match merged(factor) {
            None => of.args[i].var(),
            Some(axis) => {
                let x = of.each(b, i)?;
                let x = swap_first(b, x, axis);
                let shape = b.attr(merged_shape(factor, &shape));
                b.emit(Op::Reshape, &[shape], &[x, x])
            }
        });
    }
    if !of.eqn.likes().is_empty() {
        for (i, factor) in [Factor::X, Factor::Y].into_iter().enumerate() {
            let like = match operands.iter().position(|operand| *operand == factor) {
                Some(at) => args[at],
                None => {
                    let shape = of.shape(of.eqn.args[2 + i])?;
                    of.like(b, 2 + i, merged_shape(factor, &shape))?
                }
            };
            args.push(like);
        }
    }
    let found = of.emit(b, statics, &args)[0].var();
    let axis = merged(result).expect("the result differs between lanes");
    let mut split: Vec<i64> = out.iter().map(|len| *len as i64).collect();
    split.insert(axis, n_lanes);
    let split = b.attr(split);
    let found = b.emit(Op::Reshape, &[split], &[found, found]);
    Some(vec![Lane::Each(swap_first(b, found, axis))])
}

/// Emits `x` with axes 0 and `axis` swapped.
pub(super) fn swap_first(b: &mut Builder, x: Var, axis: usize) -> Var {
    if axis == 0 {
        return x;
    }
    let [first, axis] = [b.attr(0), b.attr(axis as i64)];
    b.emit(Op::SwapAxes, &[first, axis], &[x])
}
