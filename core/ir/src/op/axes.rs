//! Signatures of axes: how the axes of the operands and results of an equation correspond.
//!
//! In the signature `i +k, +k j -> i j` of a matrix product, `i`, `j` and `k` are *factors*. The op
//! does the same for each index of `i` and of `j`, and adds up what it does for each index of `k`.
//! Batching and sharding need no more than this.

use super::lanes::{self, BatchRule, Factor};
use super::pad::for_axes;
use super::shape;
use crate::sharding::Reduction;
use crate::{Aval, Dim, Op, Shape, Static, StaticKind};
use std::fmt;

/// An axis of an operand or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The elements of the results at an index are computed from the operand elements at that index,
    /// and the same way for each index.
    Factor(usize),
    /// The axis consists of blocks of this many elements, and an index of the factor stands for a
    /// block.
    Blocks(usize, usize),
    /// The results are sums, maxima, minima or products over the indices of this factor.
    ///
    /// An element of an operand that is neutral for the reduction changes no result: 0 for a sum, if
    /// all operands with the factor have it.
    Reduced(usize, Reduction),
    /// The axis has no factor: the op combines or rearranges elements along it.
    Own,
}

impl Axis {
    /// Returns the factor, if the axis has one.
    pub fn factor(self) -> Option<usize> {
        match self {
            Axis::Factor(factor) | Axis::Blocks(factor, _) | Axis::Reduced(factor, _) => {
                Some(factor)
            }
            Axis::Own => None,
        }
    }

    /// Returns the number of elements for each index of the factor.
    pub fn block(self) -> usize {
        match self {
            Axis::Blocks(_, block) => block,
            _ => 1,
        }
    }
}

/// The signature of an equation.
///
/// Axes with the same factor have the same length, apart from the size of blocks. The op repeats its
/// operands along a factor that only results have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// The axes of each data operand.
    pub operands: Vec<Vec<Axis>>,
    /// The axes of each like operand.
    pub likes: Vec<Vec<Axis>>,
    /// The axes of each result. None is reduced.
    pub results: Vec<Vec<Axis>>,
}

/// An equation whose signature is requested. All ranks are known.
pub struct AxesOf<'a> {
    /// The op.
    pub op: Op,
    /// The static arguments.
    pub statics: &'a [Static],
    /// The dims of the data operands.
    pub data: Vec<&'a [Dim]>,
    /// The dims of the like operands.
    pub likes: Vec<&'a [Dim]>,
    /// The dims of the results.
    pub outs: Vec<&'a [Dim]>,
}

/// How the axes of operands and results of an op correspond, and so how the op is applied to a batch.
#[derive(Clone, Copy)]
pub struct AxesRule {
    /// Returns the signature, or `None` if it depends on unknown static arguments.
    pub signature: fn(of: &AxesOf<'_>) -> Option<Axes>,
    /// Emits the results for all lanes of a batch.
    pub batch: BatchRule,
}

impl Op {
    /// Returns how the axes of operands and results correspond.
    ///
    /// `args` are the operands and `outs` the results that [`Op::infer`] accepts. Returns `None` if a
    /// rank or a static argument that decides it is unknown.
    pub fn axes(self, statics: &[Static], args: &[&Aval], outs: &[Shape]) -> Option<Axes> {
        let n_data = self.def().operands().n_data(args.len());
        let dims: Option<Vec<&[Dim]>> = args.iter().map(|arg| arg.shape.dims()).collect();
        let mut data = dims?;
        let likes = data.split_off(n_data);
        let outs: Option<Vec<&[Dim]>> = outs.iter().map(Shape::dims).collect();
        let signature = self.def().facts().axes.signature;
        signature(&AxesOf {
            op: self,
            statics,
            data,
            likes,
            outs: outs?,
        })
    }
}

impl<'a> AxesOf<'a> {
    /// Returns the value of the static argument of a kind.
    fn value(&self, kind: StaticKind) -> &'a Static {
        &self.statics[self.op.static_at(kind).expect("the op takes it")]
    }

    /// Returns the axes that the op names, among `rank`.
    fn named(&self, rank: usize) -> Option<Vec<usize>> {
        let kinds = [StaticKind::Axes, StaticKind::UnitAxes, StaticKind::Axis];
        let at = kinds.into_iter().find_map(|kind| self.op.static_at(kind))?;
        shape::axes(&self.statics[at], rank).ok()?
    }

    /// Returns the signature with a factor for each axis of `dims`, except the `own` ones.
    ///
    /// All operands and results are aligned with `dims` from the right, and may repeat along its
    /// axes. Returns `None` if it is not certain whether they do.
    fn aligned(&self, dims: &[Dim], own: &[usize]) -> Option<Axes> {
        let axes = |of: &&[Dim]| -> Option<Vec<Axis>> {
            let skipped = dims.len().checked_sub(of.len())?;
            let axis = |(i, len): (usize, &Dim)| {
                let (factor, to) = (skipped + i, dims[skipped + i]);
                let is_only = self.data.len() == 1 && self.data[0] == dims;
                match *len {
                    _ if own.contains(&factor) => Some(Axis::Own),
                    len if len == to && (len != Dim::Unknown || is_only) => {
                        Some(Axis::Factor(factor))
                    }
                    Dim::Known(1) => Some(Axis::Own),
                    _ => None,
                }
            };
            of.iter().enumerate().map(axis).collect()
        };
        Some(Axes {
            operands: self.data.iter().map(axes).collect::<Option<_>>()?,
            // The rank of a like operand of which only the dtype counts may be higher.
            likes: self
                .likes
                .iter()
                .map(|like| axes(like).unwrap_or_else(|| vec![Axis::Own; like.len()]))
                .collect(),
            results: self.outs.iter().map(axes).collect::<Option<_>>()?,
        })
    }

    /// Returns the axes of all operands and results by a function of their dims.
    fn by(&self, axes: impl Fn(&[Dim]) -> Vec<Axis>) -> Axes {
        let all = |values: &[&[Dim]]| values.iter().map(|dims| axes(dims)).collect();
        Axes {
            operands: all(&self.data),
            likes: all(&self.likes),
            results: all(&self.outs),
        }
    }
}

impl Axes {
    /// Returns the factors, in ascending order.
    pub fn factors(&self) -> Vec<usize> {
        let all = self.operands.iter().chain(&self.results).flatten();
        let mut found: Vec<usize> = all.filter_map(|axis| axis.factor()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Prints `a +b, +b c -> a c`; `_` is an axis without a factor, and `a*2` has blocks of 2 elements.
///
/// The marks `+`, `^`, `v` and `x` stand for a sum, maximum, minimum and product.
impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |factor: usize| char::from(b'a' + (factor % 26) as u8);
        let axis = |axis: &Axis| match axis {
            Axis::Factor(factor) => letter(*factor).to_string(),
            Axis::Blocks(factor, block) => format!("{}*{block}", letter(*factor)),
            Axis::Reduced(factor, kind) => {
                let mark = match kind {
                    Reduction::Sum => '+',
                    Reduction::Max => '^',
                    Reduction::Min => 'v',
                    Reduction::Prod => 'x',
                };
                format!("{mark}{}", letter(*factor))
            }
            Axis::Own => "_".to_owned(),
        };
        let list = |values: &[Vec<Axis>]| {
            let value = |axes: &Vec<Axis>| axes.iter().map(axis).collect::<Vec<_>>().join(" ");
            values.iter().map(value).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{} -> {}", list(&self.operands), list(&self.results))
    }
}

/// Returns the rule of an op whose operands and results have no axes in common.
pub(super) const fn opaque(batch: BatchRule) -> AxesRule {
    AxesRule {
        signature: unrelated,
        batch,
    }
}

/// An op whose operands and results have no axes in common.
pub(super) fn unrelated(of: &AxesOf<'_>) -> Option<Axes> {
    Some(of.by(|dims| vec![Axis::Own; dims.len()]))
}

/// An op without data operands that fills its result with one number.
pub(super) const FILLED: AxesRule = AxesRule {
    signature: elementwise,
    batch: lanes::without_operands,
};

/// An op whose result axes are all factors. Operands are broadcast to the result.
pub(super) const ELEMENTWISE: AxesRule = AxesRule {
    signature: elementwise,
    batch: lanes::broadcast,
};

fn elementwise(of: &AxesOf<'_>) -> Option<Axes> {
    of.aligned(of.outs[0], &[])
}

/// An op that combines the elements along its named axes. The results have these axes, too.
pub(super) const ALONG: AxesRule = AxesRule {
    signature: along,
    batch: lanes::along,
};

fn along(of: &AxesOf<'_>) -> Option<Axes> {
    let dims = of.data[0];
    of.aligned(dims, &of.named(dims.len())?)
}

/// An op that combines the elements along the last axis, and whose other operands are vectors.
pub(super) const ROWS: AxesRule = AxesRule {
    signature: rows,
    batch: |b, of| lanes::rows(b, of, &[true]),
};

/// An op that combines the elements along the last axis. Operands of lower rank are single rows.
pub(super) fn rows(of: &AxesOf<'_>) -> Option<Axes> {
    let dims = of.data[0];
    of.aligned(dims, &[dims.len().checked_sub(1)?])
}

/// An op that combines the elements of each matrix in the last two axes.
pub(super) const MATRICES: AxesRule = AxesRule {
    signature: matrices,
    batch: lanes::leading,
};

fn matrices(of: &AxesOf<'_>) -> Option<Axes> {
    let dims = of.data[0];
    let rows = dims.len().checked_sub(2)?;
    of.aligned(dims, &[rows, rows + 1])
}

/// An op on the matrices in the last two axes. The results have the axes before them.
pub(super) const FACTORED: AxesRule = AxesRule {
    signature: factored,
    batch: lanes::leading,
};

fn factored(of: &AxesOf<'_>) -> Option<Axes> {
    let n_leading = of.data[0].len().checked_sub(2)?;
    Some(leading(of, n_leading))
}

/// Returns axes of which the first `n` correspond.
fn leading(of: &AxesOf<'_>, n: usize) -> Axes {
    let axis = |i| match i < n {
        true => Axis::Factor(i),
        false => Axis::Own,
    };
    of.by(|dims| (0..dims.len()).map(axis).collect())
}

/// An op between matrices in the last two axes and their diagonals in the last axis.
pub(super) const DIAGONALS: AxesRule = AxesRule {
    signature: diagonals,
    batch: lanes::leading,
};

fn diagonals(of: &AxesOf<'_>) -> Option<Axes> {
    let n_leading = of.data[0].len().min(of.outs[0].len()).checked_sub(1)?;
    Some(leading(of, n_leading))
}

/// An op that adds elements around those of each axis and between them, or removes them.
pub(super) const PADDED: AxesRule = AxesRule {
    signature: padded,
    batch: lanes::padded,
};

fn padded(of: &AxesOf<'_>) -> Option<Axes> {
    let rank = of.data[0].len();
    let mut own = vec![false; rank];
    for (arg, value) in of.op.def().statics().iter().zip(of.statics) {
        if arg.kind == StaticKind::Margins {
            let margins = for_axes(value, arg.name, rank).ok()??;
            own.iter_mut()
                .zip(margins)
                .for_each(|(own, n)| *own |= n != 0);
        }
    }
    let axis = |i: usize| match own[i] {
        false => Axis::Factor(i),
        true => Axis::Own,
    };
    // All values have the same rank.
    Some(of.by(|dims| (0..dims.len()).map(axis).collect()))
}

/// An op on labels. The logits, or the result of `one_hot`, have the axes of the labels, and a last
/// axis of classes.
pub(super) const CLASSES: AxesRule = AxesRule {
    signature: classes,
    batch: lanes::leading,
};

fn classes(of: &AxesOf<'_>) -> Option<Axes> {
    Some(leading(of, of.outs[0].len().checked_sub(1)?))
}

/// An op that takes a range of each of the leading axes.
pub(super) const RANGES: AxesRule = AxesRule {
    signature: ranges,
    batch: lanes::ranges,
};

fn ranges(of: &AxesOf<'_>) -> Option<Axes> {
    let kinds = [StaticKind::Starts, StaticKind::Stops, StaticKind::Steps];
    let [starts, stops, steps] = kinds.map(|kind| of.value(kind).ints());
    let (starts, stops, steps) = (starts?, stops?, steps?);
    let values = || of.data.iter().chain(&of.outs);
    let is_whole = |axis: usize| {
        let range = [starts, stops, steps].map(|all| all.get(axis).copied());
        let [Some(start), Some(stop), Some(step)] = range else {
            return false;
        };
        // The range is that of every part of the axis, too.
        let covers = |dims: &[Dim]| {
            let len = dims.get(axis).and_then(|len| len.known());
            len.is_some_and(|len| stop >= len as i64)
        };
        start == 0 && step == 1 && values().all(|dims| covers(dims))
    };
    let own: Vec<usize> = (0..starts.len()).filter(|axis| !is_whole(*axis)).collect();
    of.aligned(of.data[0], &own)
}

/// Returns axes where one side lacks the named axes. The other axes correspond in order.
fn without(of: &AxesOf<'_>, full: &[Dim], dropped: fn(usize) -> Axis) -> Option<Axes> {
    let named = of.named(full.len())?;
    let kept: Vec<usize> = (0..full.len()).filter(|a| !named.contains(a)).collect();
    let axes = |dims: &[Dim]| -> Vec<Axis> {
        let all: Vec<usize> = match dims.len() == full.len() {
            true => (0..full.len()).collect(),
            false => kept.clone(),
        };
        let axis = |a: usize| match named.contains(&a) {
            false => Axis::Factor(a),
            true => dropped(a),
        };
        all.into_iter().map(axis).collect()
    };
    let mut axes = of.by(axes);
    // A reduced axis that is kept has length 1.
    for axis in axes.results.iter_mut().flatten() {
        if matches!(axis, Axis::Reduced(..)) {
            *axis = Axis::Own;
        }
    }
    Some(axes)
}

/// A sum over the named axes.
pub(super) const SUMMED: AxesRule = AxesRule {
    signature: summed,
    batch: lanes::along,
};

fn summed(of: &AxesOf<'_>) -> Option<Axes> {
    without(of, of.data[0], |axis| Axis::Reduced(axis, Reduction::Sum))
}

/// A maximum over the named axes.
pub(super) const MAXIMAL: AxesRule = AxesRule {
    signature: |of| without(of, of.data[0], |axis| Axis::Reduced(axis, Reduction::Max)),
    batch: lanes::along,
};

/// A minimum over the named axes.
pub(super) const MINIMAL: AxesRule = AxesRule {
    signature: |of| without(of, of.data[0], |axis| Axis::Reduced(axis, Reduction::Min)),
    batch: lanes::along,
};

/// A product over the named axes.
pub(super) const MULTIPLIED: AxesRule = AxesRule {
    signature: |of| without(of, of.data[0], |axis| Axis::Reduced(axis, Reduction::Prod)),
    batch: lanes::along,
};

/// Another reduction over the named axes, or an op that drops them.
pub(super) const REDUCED: AxesRule = AxesRule {
    signature: reduced,
    batch: lanes::along,
};

fn reduced(of: &AxesOf<'_>) -> Option<Axes> {
    without(of, of.data[0], |_| Axis::Own)
}

/// An op whose results have the named axes. Its operands may lack them.
pub(super) const INSERTED: AxesRule = AxesRule {
    signature: inserted,
    batch: lanes::inserted,
};

fn inserted(of: &AxesOf<'_>) -> Option<Axes> {
    without(of, of.outs[0], |_| Axis::Own)
}

/// An op that repeats its operand along the named axes of the result.
pub(super) const SPREAD: AxesRule = AxesRule {
    signature: spread,
    batch: lanes::inserted,
};

fn spread(of: &AxesOf<'_>) -> Option<Axes> {
    let mut axes = without(of, of.outs[0], Axis::Factor)?;
    // Along a named axis that the operand has, its length is 1.
    let named = of.named(of.outs[0].len())?;
    for axis in axes.operands.iter_mut().flatten() {
        if axis.factor().is_some_and(|factor| named.contains(&factor)) {
            *axis = Axis::Own;
        }
    }
    Some(axes)
}

/// A sum over the axes along which the operand repeats the result.
pub(super) const REPEATED: AxesRule = AxesRule {
    signature: repeated,
    batch: lanes::unbroadcast,
};

fn repeated(of: &AxesOf<'_>) -> Option<Axes> {
    let (large, small) = (of.data[0], of.outs[0]);
    let skipped = large.len() - small.len();
    let is_kept = |a: usize| {
        let same = |to: &Dim| *to != Dim::Known(1) || large[a] == Dim::Known(1);
        a.checked_sub(skipped).is_some_and(|i| same(&small[i]))
    };
    let operand = |a| {
        if is_kept(a) {
            Axis::Factor(a)
        } else {
            Axis::Reduced(a, Reduction::Sum)
        }
    };
    let result = |a| {
        if is_kept(a) {
            Axis::Factor(a)
        } else {
            Axis::Own
        }
    };
    let large: Vec<Axis> = (0..large.len()).map(operand).collect();
    let small: Vec<Axis> = (skipped..large.len()).map(result).collect();
    Some(Axes {
        operands: vec![large.clone()],
        likes: vec![small.clone(), large],
        results: vec![small],
    })
}

/// An op that puts the axes in another order. The shape rule gives the order.
pub(super) const REORDERED: AxesRule = AxesRule {
    signature: reordered,
    batch: lanes::reordered,
};

fn reordered(of: &AxesOf<'_>) -> Option<Axes> {
    // Distinct lengths show where the shape rule puts each axis.
    let rank = of.data[0].len();
    let numbered: Shape = (0..rank)
        .map(|a| Dim::Known(a + 2))
        .collect::<Vec<_>>()
        .into();
    let x = Aval {
        dtype: None,
        shape: numbered,
    };
    let found = of.op.def().shape(of.statics, &[&x], 1).ok()?;
    let lens: Option<Vec<usize>> = found[0].dims()?.iter().map(|dim| dim.known()).collect();
    Some(Axes {
        operands: vec![(0..rank).map(Axis::Factor).collect()],
        likes: Vec::new(),
        results: vec![lens?.into_iter().map(|len| Axis::Factor(len - 2)).collect()],
    })
}

/// An op that only changes the shape.
pub(super) const RESHAPED: AxesRule = AxesRule {
    signature: reshaped,
    batch: lanes::reshaped,
};

fn reshaped(of: &AxesOf<'_>) -> Option<Axes> {
    let (x, y) = (of.data[0], of.outs[0]);
    let (from, to) = reshaped_axes(x, y);
    let like = |dims: &&[Dim]| match **dims == *x {
        true => from.clone(),
        false => to.clone(),
    };
    Some(Axes {
        likes: of.likes.iter().map(like).collect(),
        operands: vec![from],
        results: vec![to],
    })
}

/// Returns how the axes of the shapes `x` and `y` correspond, which have the same number of elements.
///
/// Both shapes are cut into groups of axes with equal products. In a group, the first axes of both
/// correspond by their blocks. Axes of length 1 are skipped.
fn reshaped_axes(x: &[Dim], y: &[Dim]) -> (Vec<Axis>, Vec<Axis>) {
    let mut axes = [vec![Axis::Own; x.len()], vec![Axis::Own; y.len()]];
    let dims = [x, y];
    let mut at = [0, 0];
    let mut factor = 0;
    loop {
        for side in [0, 1] {
            let is_unit = |len: &&Dim| **len == Dim::Known(1);
            at[side] += dims[side][at[side]..].iter().take_while(is_unit).count();
        }
        let (Some(a), Some(b)) = (x.get(at[0]), y.get(at[1])) else {
            break;
        };
        if a == b && *a != Dim::Unknown && *a != Dim::Known(0) {
            axes[0][at[0]] = Axis::Factor(factor);
            axes[1][at[1]] = Axis::Factor(factor);
            at = at.map(|at| at + 1);
            factor += 1;
            continue;
        }
        let (Some(a), Some(b)) = (a.known(), b.known()) else {
            break;
        };
        if a == 0 || b == 0 {
            break;
        }
        let blocks = gcd(a, b);
        if blocks > 1 {
            for (side, len) in [a, b].into_iter().enumerate() {
                axes[side][at[side]] = match len / blocks {
                    1 => Axis::Factor(factor),
                    block => Axis::Blocks(factor, block),
                };
            }
            factor += 1;
        }
        // The group ends where both products are equal.
        let mut products = [a, b];
        at = at.map(|at| at + 1);
        while products[0] != products[1] {
            let side = usize::from(products[1] < products[0]);
            let Some(Dim::Known(len)) = dims[side].get(at[side]) else {
                let [x, y] = axes;
                return (x, y);
            };
            products[side] = products[side].saturating_mul(*len);
            at[side] += 1;
        }
    }
    let [x, y] = axes;
    (x, y)
}

/// Returns the greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// An op on indices along an axis of a tensor `x`. `Role` says what its operands and its result are.
///
/// Where `along` is true, indices broadcast against the other axes.
pub(super) fn indexed(of: &AxesOf<'_>, operands: &[Role], result: Role) -> Option<Axes> {
    let along = of.statics[1].bool()?;
    let is_last = of.statics[2].bool()?;
    let whole = match operands[0] {
        Role::Whole => of.data[0],
        _ => of.likes[0],
    };
    let indices = of.data[1];
    let part = match result {
        Role::Part => of.outs[0],
        _ => of.data[0],
    };
    let axis = shape::known_axis(&of.statics[0], whole.len()).ok()??;
    // Equal indices refer to each other if only the last one counts.
    let index = |factor: usize| match (is_last, result) {
        (true, _) => Axis::Own,
        (false, Role::Part) => Axis::Factor(factor),
        (false, _) => Axis::Reduced(factor, Reduction::Sum),
    };
    // The factors are the axes of the part.
    let n_indices = if along { 1 } else { indices.len() };
    let after = axis + n_indices;
    let len = |dims: &[Dim], i: usize| dims.get(i).copied().unwrap_or(Dim::Unknown);
    let spread = |dims: &[Dim], i: usize| -> Axis {
        // An axis of length 1 is repeated, and where the result has it, the part is added up.
        let repeats = |dims: &[Dim]| len(dims, i) == Dim::Known(1) && len(part, i) != Dim::Known(1);
        match repeats(dims) {
            true => Axis::Own,
            false if result == Role::Whole && repeats(whole) => Axis::Reduced(i, Reduction::Sum),
            false => Axis::Factor(i),
        }
    };
    let axes = |role: Role| -> Vec<Axis> {
        match (along, role) {
            (true, role) => {
                let dims = match role {
                    Role::Whole => whole,
                    Role::Indices => indices,
                    Role::Part => part,
                };
                let at = |i: usize| match (i == axis, role) {
                    (false, _) => spread(dims, i),
                    (true, Role::Whole) => Axis::Own,
                    (true, _) => index(axis),
                };
                (0..dims.len()).map(at).collect()
            }
            (false, Role::Whole) => {
                let other = |i: usize| match i.cmp(&axis) {
                    std::cmp::Ordering::Less => Axis::Factor(i),
                    std::cmp::Ordering::Equal => Axis::Own,
                    std::cmp::Ordering::Greater => Axis::Factor(i - 1 + n_indices),
                };
                (0..whole.len()).map(other).collect()
            }
            (false, Role::Indices) => (axis..after).map(index).collect(),
            (false, Role::Part) => {
                let other = |i: usize| match (axis..after).contains(&i) {
                    true => index(i),
                    false => Axis::Factor(i),
                };
                (0..part.len()).map(other).collect()
            }
        }
    };
    Some(Axes {
        operands: operands.iter().map(|role| axes(*role)).collect(),
        likes: vec![axes(Role::Whole)],
        results: vec![axes(result)],
    })
}

/// A value of an op on indices along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The tensor.
    Whole,
    /// The indices.
    Indices,
    /// The elements at the indices.
    Part,
}

/// The product `z = x y`, or one of its transposes: each has two of the three as operands.
///
/// `operands` and `result` are positions among `x`, `y` and `z`.
fn contraction(of: &AxesOf<'_>, operands: [usize; 2], result: usize) -> Option<Axes> {
    let (x, y) = (of.likes[0], of.likes[1]);
    let batch = |dims: &[Dim]| dims.len().saturating_sub(2);
    let rank = batch(x).max(batch(y));
    let [i, k, j] = [rank, rank + 1, rank + 2];
    let len = |dims: &[Dim], axis: usize| {
        let at = (axis + batch(dims)).checked_sub(rank);
        at.map_or(Dim::Known(1), |at| dims[at])
    };
    // An axis of length 1 is repeated if the other operand has another length.
    let axes_of = |dims: &[Dim], other: &[Dim]| -> Vec<Option<usize>> {
        let axis = |axis: usize| {
            let repeats = len(dims, axis) == Dim::Known(1) && len(other, axis) != Dim::Known(1);
            (!repeats).then_some(axis)
        };
        (rank - batch(dims)..rank).map(axis).collect()
    };
    let ends = |dims: &[Dim], ends: [usize; 2]| match dims.len() {
        1 => vec![Some(k)],
        _ => ends.map(Some).to_vec(),
    };
    let (is_row, is_column) = (x.len() == 1, y.len() == 1);
    let outer = [(i, is_row), (j, is_column)];
    let outer = outer.into_iter().filter(|(_, vector)| !vector);
    let all = [
        [axes_of(x, y), ends(x, [i, k])].concat(),
        [axes_of(y, x), ends(y, [k, j])].concat(),
        (0..rank)
            .chain(outer.map(|(axis, _)| axis))
            .map(Some)
            .collect(),
    ];
    let of_result = |axis: usize| all[result].contains(&Some(axis));
    let axis = |axis: &Option<usize>| match *axis {
        Some(axis) if of_result(axis) => Axis::Factor(axis),
        Some(axis) => Axis::Reduced(axis, Reduction::Sum),
        None => Axis::Own,
    };
    let axes = |i: usize| all[i].iter().map(axis).collect();
    Some(Axes {
        operands: operands.map(axes).to_vec(),
        likes: vec![axes(0), axes(1)],
        results: vec![axes(result)],
    })
}

/// `z = x y`.
pub(super) const MATMUL: AxesRule = AxesRule {
    signature: matmul,
    batch: |b, of| lanes::product(b, of, [Factor::X, Factor::Y], Factor::Z),
};

fn matmul(of: &AxesOf<'_>) -> Option<Axes> {
    contraction(of, [0, 1], 2)
}

/// `x` from `z` and `y`.
pub(super) const MATMUL_LHS_T: AxesRule = AxesRule {
    signature: matmul_lhs_t,
    batch: |b, of| lanes::product(b, of, [Factor::Z, Factor::Y], Factor::X),
};

fn matmul_lhs_t(of: &AxesOf<'_>) -> Option<Axes> {
    contraction(of, [2, 1], 0)
}

/// `y` from `x` and `z`.
pub(super) const MATMUL_RHS_T: AxesRule = AxesRule {
    signature: matmul_rhs_t,
    batch: |b, of| lanes::product(b, of, [Factor::X, Factor::Z], Factor::Y),
};

fn matmul_rhs_t(of: &AxesOf<'_>) -> Option<Axes> {
    contraction(of, [0, 2], 1)
}

/// Attention and its derivatives: the axes before the last two are a batch.
///
/// A mask is broadcast, so it has a factor only where it has the length of the batch. It is operand
/// `mask_at`, if there is one.
pub(super) fn heads(of: &AxesOf<'_>, mask_at: usize) -> Option<Axes> {
    let batch = &of.data[0][..of.data[0].len().checked_sub(2)?];
    let n_scored = batch.len() + 2;
    let floats = |dims: &&[Dim]| -> Vec<Axis> {
        let axis = |a| {
            if a < batch.len() {
                Axis::Factor(a)
            } else {
                Axis::Own
            }
        };
        (0..dims.len()).map(axis).collect()
    };
    let mask = |dims: &&[Dim]| -> Vec<Axis> {
        let skipped = n_scored - dims.len();
        let axis = |a: usize| match batch.get(a + skipped) {
            Some(len) if dims[a] == *len && *len != Dim::Unknown => Axis::Factor(a + skipped),
            _ => Axis::Own,
        };
        (0..dims.len()).map(axis).collect()
    };
    let operand = |(i, dims): (usize, &&[Dim])| match i == mask_at {
        true => mask(dims),
        false => floats(dims),
    };
    Some(Axes {
        operands: of.data.iter().enumerate().map(operand).collect(),
        likes: of.likes.iter().map(floats).collect(),
        results: of.outs.iter().map(floats).collect(),
    })
}

/// An op on windows along the last axes.
pub(super) const POOLED: AxesRule = AxesRule {
    signature: pooled,
    batch: lanes::leading,
};

fn pooled(of: &AxesOf<'_>) -> Option<Axes> {
    let window = of.value(StaticKind::Window).ints()?;
    let leading = |dims: &[Dim]| -> Vec<Axis> {
        let n_leading = dims.len().saturating_sub(window.len());
        let axis = |i| match i < n_leading {
            true => Axis::Factor(i),
            false => Axis::Own,
        };
        (0..dims.len()).map(axis).collect()
    };
    Some(of.by(leading))
}

/// A convolution `z = conv(x, w)`, or one of its transposes: two of the three values give the third.
///
/// Groups of channels are neither independent nor all added up, so several have no factor.
pub(super) fn convolution(of: &AxesOf<'_>, operands: [Factor; 2], result: Factor) -> Option<Axes> {
    let [batch, inner, outer] = [0, 1, 2];
    let is_whole = of.value(StaticKind::Count).int()? == 1;
    let axes = |factor: Factor, dims: &[Dim]| -> Vec<Axis> {
        let named = match factor {
            Factor::X => [batch, inner],
            Factor::Y => [outer, inner],
            Factor::Z => [batch, outer],
        };
        let lacks = match result {
            Factor::X => outer,
            Factor::Y => batch,
            Factor::Z => inner,
        };
        let axis = |i: usize| match named.get(i) {
            Some(factor) if *factor != batch && !is_whole => Axis::Own,
            Some(factor) if *factor == lacks => Axis::Reduced(*factor, Reduction::Sum),
            Some(factor) => Axis::Factor(*factor),
            None => Axis::Own,
        };
        (0..dims.len()).map(axis).collect()
    };
    let data = operands.into_iter().zip(&of.data);
    let likes = [Factor::X, Factor::Y].into_iter().zip(&of.likes);
    Some(Axes {
        operands: data.map(|(factor, dims)| axes(factor, dims)).collect(),
        likes: likes.map(|(factor, dims)| axes(factor, dims)).collect(),
        results: vec![axes(result, of.outs[0])],
    })
}
