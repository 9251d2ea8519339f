//! Random generation of graphs: chooses an op, then operands and static arguments that fit.

mod control;

use super::{Graph, Node, Rng, Step};
use crate::graphs::aval;
use gradloom::{DType, Tensor, evaluate};
use gradloom_ir::op::{Diff, Eval, Operands};
use gradloom_ir::sharding::{Mesh, ShardingSpec};
use gradloom_ir::{Aval, Op, Static, StaticKind};
use std::sync::Arc;

/// Class of graphs to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All ops and dtypes, with special elements such as infinities, NaN and `-0.0`.
    Any,
    /// All ops, on numbers of moderate size that `f64` represents exactly.
    Exact,
    /// Differentiable ops on `f64`, inside their domains, with results of moderate size.
    Smooth,
}

/// Maximum number of elements of a value.
const MAX_NUMEL: usize = 256;
const MAX_RANK: usize = 5;

/// Generates a graph with `n_steps` ops.
pub fn graph(rng: &mut Rng, kind: Kind, n_steps: usize) -> Graph {
    let mut draft = Draft {
        rng,
        kind,
        depth: 0,
        graph: Graph::default(),
        values: Vec::new(),
        avals: Vec::new(),
    };
    for _ in 0..2 {
        let shape = shape(draft.rng);
        let dtype = draft.dtype();
        draft.leaf(dtype, &shape);
    }
    draft.grow(n_steps, |_| true);
    draft.graph
}

/// Returns a random shape of up to five axes, most of them short.
pub fn shape(rng: &mut Rng) -> Vec<usize> {
    let rank = rng.of(&[0, 1, 1, 2, 2, 2, 3, 3, 4, 5]);
    (0..rank)
        .map(|_| rng.of(&[0, 1, 1, 2, 2, 2, 3, 3, 3, 4]))
        .collect()
}

/// Returns the number of results of an op that does not depend on its operands.
fn results_of(op: Op) -> usize {
    let methods = op.def().methods();
    methods.first().map_or(1, |method| method.results)
}

/// Returns the shape of an aval with known dims.
fn dims(aval: &Aval) -> Vec<usize> {
    aval.shape.known().expect("values have known shapes")
}

struct Draft<'a> {
    rng: &'a mut Rng,
    kind: Kind,
    /// Number of control flow ops around the graph.
    depth: usize,
    graph: Graph,
    values: Vec<Tensor>,
    avals: Vec<Aval>,
}

impl Draft<'_> {
    /// Adds `n_steps` ops that fit.
    fn grow(&mut self, n_steps: usize, fits: impl Fn(Op) -> bool) {
        let mut n = 0;
        while n < n_steps {
            let op = match self.wants_control() {
                true => self.control_op(),
                false => self.rng.of(Op::ALL),
            };
            n += usize::from(fits(op) && self.step(op).is_some());
        }
    }

    fn dtype(&mut self) -> DType {
        match self.kind {
            Kind::Smooth => DType::F64,
            Kind::Exact => self.exact_dtype(),
            // Two in three are of the dtypes that kernels compute in.
            Kind::Any => match self.rng.below(3) {
                0 => self.rng.of(&DType::ALL),
                _ => self.exact_dtype(),
            },
        }
    }

    fn exact_dtype(&mut self) -> DType {
        use DType::*;
        self.rng.of(&[F64, F64, F32, I64, I32, Bool])
    }

    /// Picks a dtype other than `bool`.
    fn dtype_of_numbers(&mut self) -> DType {
        use DType::*;
        match self.kind {
            Kind::Any => self.rng.of(&[F64, F32, I32, I64, BF16, F16, I8, U8]),
            _ => self.rng.of(&[F64, F32, I32, I64]),
        }
    }

    /// Picks a dtype of floats.
    fn float_dtype(&mut self) -> DType {
        match self.kind {
            Kind::Any => self
                .rng
                .of(&[DType::F64, DType::F32, DType::BF16, DType::F16]),
            _ => self.rng.of(&[DType::F64, DType::F32]),
        }
    }

    /// Adds a leaf.
    fn leaf(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let n = shape.iter().product();
        let rng = &mut *self.rng;
        let any = self.kind == Kind::Any;
        let mut float = || match rng.below(24) {
            0 if any => rng.of(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e300,
                1e-310,
            ]),
            1 => 0.5,
            2 => 0.0,
            _ => rng.unit() * if any { 3.0 } else { 0.9 },
        };
        let leaf = match dtype {
            dtype if dtype.is_float() => {
                Tensor::from_vec((0..n).map(|_| float()).collect::<Vec<f64>>(), shape).cast(dtype)
            }
            dtype if dtype.is_integer() => {
                let extremes = [i64::MIN, i64::MAX, i64::from(i32::MIN)];
                let int = |_| {
                    if any && rng.once_in(30) {
                        rng.of(&extremes)
                    } else {
                        rng.below(9) as i64 - 4
                    }
                };
                Tensor::from_vec((0..n).map(int).collect::<Vec<i64>>(), shape).cast(dtype)
            }
            _ => Tensor::from_vec((0..n).map(|_| rng.once_in(2)).collect::<Vec<bool>>(), shape),
        };
        self.add_leaf(leaf)
    }

    fn add_leaf(&mut self, leaf: Tensor) -> usize {
        evaluate(&leaf).expect("a small leaf can be computed");
        self.avals.push(aval(&leaf));
        self.values.push(leaf.clone());
        self.graph.nodes.push(Node::Leaf(leaf));
        self.values.len() - 1
    }

    /// Picks a value that `fits`, or returns `None` if there is none.
    fn pick(&mut self, fits: impl Fn(&Aval) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.avals.len())
            .filter(|v| fits(&self.avals[*v]))
            .collect();
        (!all.is_empty()).then(|| self.rng.of(&all))
    }

    fn pick_number(&mut self) -> Option<usize> {
        self.pick(|a| a.dtype != Some(DType::Bool))
    }

    fn pick_float(&mut self) -> Option<usize> {
        self.pick(|a| a.dtype.is_some_and(DType::is_float))
    }

    /// Picks a value with a given aval, or adds a leaf.
    fn get(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let wanted = Aval::new(dtype, shape);
        match self.pick(|a| *a == wanted) {
            Some(v) if !self.rng.once_in(4) => v,
            _ => self.leaf(dtype, shape),
        }
    }

    /// Picks a second operand for an elementwise op on `x`: a value of `dtype` that broadcasts with
    /// it.
    fn partner(&mut self, x: usize, dtype: DType) -> usize {
        let shape = dims(&self.avals[x]);
        let other = self.narrower(&shape);
        self.get(dtype, &other)
    }

    /// Returns `x` and a partner of its dtype, in random order.
    fn both(&mut self, x: usize) -> Option<[usize; 2]> {
        let mut both = [x, self.partner(x, self.avals[x].dtype?)];
        self.rng.shuffle(&mut both);
        Some(both)
    }

    /// Returns a shape that broadcasts to `shape`.
    fn narrower(&mut self, shape: &[usize]) -> Vec<usize> {
        if self.rng.once_in(2) {
            return shape.to_vec();
        }
        let from = self.rng.below(shape.len() + 1);
        let rng = &mut *self.rng;
        shape[from..]
            .iter()
            .map(|n| if rng.once_in(3) { 1 } else { *n })
            .collect()
    }

    /// Picks an axis, counted from the start or the end.
    fn axis(&mut self, rank: usize) -> Option<i64> {
        let axis = self.rng.below(rank.max(1)) as i64;
        (rank > 0).then(|| {
            if self.rng.once_in(2) {
                axis
            } else {
                axis - rank as i64
            }
        })
    }

    /// Picks some axes, in one of the forms that ops accept.
    fn axes(&mut self, rank: usize) -> Static {
        match self.rng.below(4) {
            0 => Static::All,
            1 if rank > 0 => Static::Int(self.axis(rank).expect("the rank is not 0")),
            _ => {
                let mut axes: Vec<i64> = (0..rank as i64).filter(|_| self.rng.once_in(2)).collect();
                self.rng.shuffle(&mut axes);
                let rng = &mut *self.rng;
                Static::Ints(
                    axes.into_iter()
                        .map(|a| if rng.once_in(2) { a } else { a - rank as i64 })
                        .collect(),
                )
            }
        }
    }

    fn switch(&mut self) -> Static {
        Static::Bool(self.rng.once_in(2))
    }

    fn constant(&mut self, dtype: DType) -> Static {
        match dtype {
            DType::Bool => Static::Bool(self.rng.once_in(2)),
            dtype if dtype.is_integer() => Static::Int(self.rng.below(7) as i64 - 3),
            _ if self.kind != Kind::Any => Static::Float(self.rng.unit()),
            _ => Static::Float(self.rng.of(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.1,
                2.5,
                f64::INFINITY,
                f64::NAN,
            ])),
        }
    }

    fn permutation(&mut self, rank: usize) -> Static {
        let mut axes: Vec<i64> = (0..rank as i64).collect();
        self.rng.shuffle(&mut axes);
        Static::Ints(axes)
    }

    /// Returns another shape with the same number of elements, perhaps with an inferred length.
    fn reshaped(&mut self, shape: &[usize]) -> Static {
        let mut lens: Vec<i64> = shape
            .iter()
            .flat_map(|n| if *n == 4 { vec![2, 2] } else { vec![*n as i64] })
            .collect();
        self.rng.shuffle(&mut lens);
        if lens.len() > 1 && self.rng.once_in(2) {
            let last = lens.pop().expect("the shape has at least two axes");
            *lens.last_mut().expect("the shape has at least two axes") *= last;
        }
        if self.rng.once_in(3) {
            lens.insert(self.rng.below(lens.len() + 1), 1);
        }
        if !lens.is_empty() && !lens.contains(&0) && self.rng.once_in(3) {
            let open = self.rng.below(lens.len());
            lens[open] = -1;
        }
        Static::Ints(lens)
    }

    /// Returns ranges of some leading axes.
    fn ranges(&mut self, shape: &[usize]) -> [Static; 3] {
        let n_axes = self.rng.below(shape.len() + 1);
        let [mut starts, mut stops, mut steps] = [(); 3].map(|()| Vec::new());
        for &n in &shape[..n_axes] {
            let start = self.rng.below(n + 1);
            let stop = start + self.rng.below(n - start + 1);
            let from_right = |i: usize, yes: bool| {
                if yes && i < n {
                    i as i64 - n as i64
                } else {
                    i as i64
                }
            };
            starts.push(from_right(start, self.rng.once_in(2)));
            stops.push(match stop == n && self.rng.once_in(2) {
                true => i64::MAX,
                false => from_right(stop, self.rng.once_in(2)),
            });
            steps.push(1 + self.rng.below(3) as i64);
        }
        [starts, stops, steps].map(Static::Ints)
    }

    /// Picks operands of a matrix product.
    fn factors(&mut self) -> Option<[usize; 2]> {
        let x = self.pick(|a| {
            a.dtype != Some(DType::Bool) && a.shape.dims().is_some_and(|d| !d.is_empty())
        })?;
        let shape = dims(&self.avals[x]);
        let (inner, rest) = shape.split_last().expect("the rank is at least 1");
        let n = self.rng.below(4);
        let mut other = match self.rng.below(4) {
            0 => vec![*inner],
            1 => vec![*inner, n],
            2 if rest.is_empty() => vec![2, *inner, n],
            _ => {
                let batch = &rest[..rest.len().saturating_sub(1)];
                [self.narrower(batch), vec![*inner, n]].concat()
            }
        };
        other.truncate(MAX_RANK);
        let dtype = self.avals[x].dtype.expect("values have known dtypes");
        Some([x, self.get(dtype, &other)])
    }

    /// Picks an input, weights and static arguments of a convolution.
    fn convolved(&mut self, op: Op) -> Option<(usize, usize, Vec<Static>)> {
        let x = self.pick(|a| {
            let rank = a.shape.dims().map_or(0, <[_]>::len);
            a.dtype != Some(DType::Bool) && (3..=5).contains(&rank)
        });
        let x = match x {
            Some(x) => x,
            None => {
                let shape = [
                    1 + self.rng.below(2),
                    1 + self.rng.below(4),
                    2 + self.rng.below(5),
                ];
                let dtype = match self.kind {
                    Kind::Any => self.dtype_of_numbers(),
                    _ => DType::F64,
                };
                self.leaf(dtype, &shape)
            }
        };
        let shape = dims(&self.avals[x]);
        let channels = shape[1];
        let groups = match channels % 2 {
            0 if channels > 0 && self.rng.once_in(2) => 2,
            _ => 1,
        };
        let outer = groups * (1 + self.rng.below(2));
        let mut weights = match op {
            Op::ConvTranspose => vec![channels, outer / groups],
            _ => vec![outer, channels / groups],
        };
        weights.extend(shape[2..].iter().map(|_| self.rng.of(&[1, 2, 2, 3])));
        let padding = match self.rng.below(4) {
            0 => Static::All,
            n => Static::Int(n as i64 - 1),
        };
        let mut step = || Static::Int(1 + self.rng.below(2) as i64);
        let statics = vec![step(), padding, step(), Static::Int(groups as i64)];
        Some((x, self.get(self.avals[x].dtype?, &weights), statics))
    }

    /// Returns the static arguments of pooling: window, strides and padding.
    fn pooling(&mut self, rank: usize) -> Vec<Static> {
        let n = rank.min(1 + self.rng.below(3));
        let window = (0..n).map(|_| self.rng.of(&[1, 2, 2, 3])).collect();
        let padding = match self.rng.below(3) {
            0 => Static::All,
            n => Static::Int(n as i64 - 1),
        };
        let stride = Static::Int(1 + self.rng.below(2) as i64);
        vec![Static::Ints(window), stride, padding]
    }

    /// Picks tensors to concatenate, and the axis.
    fn parts(&mut self) -> Option<(Vec<usize>, Static)> {
        let x = self.pick(|_| true)?;
        let shape = dims(&self.avals[x]);
        let axis = self.axis(shape.len())?;
        let mut parts = vec![x];
        for _ in 0..self.rng.below(3) {
            let mut other = shape.clone();
            other[axis.rem_euclid(shape.len() as i64) as usize] = self.rng.below(3);
            parts.push(self.get(self.avals[x].dtype?, &other));
        }
        self.rng.shuffle(&mut parts);
        Some((parts, Static::Int(axis)))
    }

    /// Adds a leaf with indices of an axis of length `n`, some of them from the end.
    fn indices(&mut self, n: usize, shape: &[usize]) -> Option<usize> {
        let len = shape.iter().product();
        if n == 0 && len > 0 {
            return None;
        }
        let index = |_| self.rng.below(2 * n) as i64 - n as i64;
        let indices: Vec<i64> = (0..len).map(index).collect();
        let indices = Tensor::from_vec(indices, shape);
        let dtype = self.rng.of(&[DType::I32, DType::I64]);
        Some(self.add_leaf(indices.cast(dtype)))
    }

    /// Picks a value with the aval of the result of an op on these operands.
    fn result_of(&mut self, op: Op, statics: &[Static], args: &[usize]) -> Option<usize> {
        let avals: Vec<&Aval> = args.iter().map(|v| &self.avals[*v]).collect();
        let out = op.infer(statics, &avals, 1).ok()?.remove(0);
        let shape = dims(&out);
        if shape.iter().product::<usize>() > MAX_NUMEL || shape.len() > MAX_RANK {
            return None;
        }
        Some(self.get(out.dtype?, &shape))
    }

    /// Adds an op with random operands and static arguments. Returns `None`, and adds nothing, if
    /// none fit or a result is too large.
    fn step(&mut self, op: Op) -> Option<()> {
        let smooth = self.kind == Kind::Smooth;
        // Random matrices may be nearly singular.
        let is_steep = op.def().laws().dominant;
        if smooth && (is_steep || matches!(op.def().diff(), Diff::Zero(_))) {
            return None;
        }
        let (n_nodes, n_values) = (self.graph.nodes.len(), self.values.len());
        let step = match op.control() {
            Some(_) => self.programs(op),
            None => self.operands(op),
        };
        let step = step.filter(|step| {
            let avals = step.avals(&self.avals);
            avals.is_some_and(|avals| {
                avals.iter().all(|a| {
                    let shape = dims(a);
                    shape.iter().product::<usize>() <= MAX_NUMEL && shape.len() <= MAX_RANK
                })
            })
        });
        let outs = step.as_ref().and_then(|step| {
            let elementwise = matches!(
                op.def().eval(),
                Eval::Unary(_) | Eval::Binary(_) | Eval::Many(_)
            );
            let inside = |v: &usize| self.is_in_domain(op, *v);
            if smooth && elementwise && !step.data.iter().all(inside) {
                return None;
            }
            let outs = step
                .apply(&self.values)
                .expect("`avals` has checked the operands");
            // Evaluation may fail because of the data: an integer division by 0, or a label out of
            // range.
            evaluate(&outs).ok()?;
            // Products of larger integers may wrap.
            let moderate = |y: &Tensor| match y.dtype() {
                dtype if dtype.is_float() => {
                    let floats = y.cast(DType::F64).to_vec::<f64>();
                    floats.iter().all(|y| y.abs() < 30.0)
                }
                dtype if dtype.is_integer() => {
                    let integers = y.cast(DType::I64).to_vec::<i64>();
                    integers.iter().all(|y| y.unsigned_abs() < 1 << 33)
                }
                _ => true,
            };
            (self.kind == Kind::Any || outs.iter().all(moderate)).then_some(outs)
        });
        let Some((step, outs)) = step.zip(outs) else {
            // Remove leaves that were added for the op, too.
            self.graph.nodes.truncate(n_nodes);
            self.values.truncate(n_values);
            self.avals.truncate(n_values);
            return None;
        };
        self.avals.extend(outs.iter().map(aval));
        self.values.extend(outs);
        self.graph.nodes.push(Node::Step(step));
        Some(())
    }

    /// Returns whether a value lies where the laws of an op are tested.
    fn is_in_domain(&self, op: Op, value: usize) -> bool {
        let (lo, hi) = op.def().laws().domain;
        let x = &self.values[value];
        x.dtype() != DType::F64 || x.to_vec::<f64>().iter().all(|x| (lo..=hi).contains(x))
    }

    /// Adds a leaf like a value, with elements where the laws of an op are tested.
    fn moved_into_domain(&mut self, op: Op, value: usize) -> usize {
        let (lo, hi) = op.def().laws().domain;
        let x = &self.values[value];
        let (dtype, shape, n) = (x.dtype(), x.shape().to_vec(), x.numel());
        let rng = &mut *self.rng;
        let element = |_| lo + (hi - lo) * (rng.unit() + 1.0) / 2.0;
        let elements: Vec<f64> = (0..n).map(element).collect();
        self.add_leaf(Tensor::from_vec(elements, shape).cast(dtype))
    }

    fn operands(&mut self, op: Op) -> Option<Step> {
        let mut n_outs = 1;
        let mut likes = Vec::new();
        let mut statics = Vec::new();
        let data = match op {
            _ if matches!(op.def().eval(), Eval::Unary(_) | Eval::Test(_)) => {
                vec![self.pick(|_| true)?]
            }
            _ if matches!(op.def().eval(), Eval::Binary(_) | Eval::Compare(_)) => {
                let x = self.pick(|_| true)?;
                self.both(x)?.to_vec()
            }
            _ if matches!(op.def().eval(), Eval::Bits(_)) => {
                let x = self.pick(|a| a.dtype.is_some_and(|d| !d.is_float()))?;
                self.both(x)?[..n_operands(op)].to_vec()
            }
            _ if matches!(op.def().eval(), Eval::Many(_)) => {
                let x = self.pick_float()?;
                let dtype = self.avals[x].dtype?;
                let mut all = vec![x];
                (1..n_operands(op)).for_each(|_| all.push(self.partner(x, dtype)));
                // By chance, operands are seldom all in the domain.
                for v in &mut all {
                    if self.kind == Kind::Smooth && !self.is_in_domain(op, *v) {
                        *v = self.moved_into_domain(op, *v);
                    }
                }
                all
            }
            Op::Select => {
                let x = self.pick(|_| true)?;
                let both = self.both(x)?;
                vec![self.partner(x, DType::Bool), both[0], both[1]]
            }
            Op::Scalar | Op::FullLike => {
                likes = vec![self.pick(|_| true)?];
                statics = vec![self.constant(self.avals[likes[0]].dtype?)];
                Vec::new()
            }
            Op::BroadcastLike => {
                let to = self.pick(|_| true)?;
                let dtype = self.dtype();
                let x = self.partner(to, dtype);
                likes = vec![x, to];
                vec![x]
            }
            Op::Unbroadcast => {
                let y = self.pick_number()?;
                let dtype = self.dtype();
                likes = vec![self.partner(y, dtype), y];
                vec![y]
            }
            Op::SumT | Op::MeanT => {
                let x = self.pick_number()?;
                likes = vec![x];
                statics = vec![self.axes(dims(&self.avals[x]).len()), self.switch()];
                vec![self.result_of(Op::Sum, &statics, &[x, x])?]
            }
            Op::Matmul => {
                likes = self.factors()?.to_vec();
                likes.clone()
            }
            Op::MatmulLhsT | Op::MatmulRhsT => {
                let [x, y] = self.factors()?;
                likes = vec![x, y];
                let ct = self.result_of(Op::Matmul, &[], &[x, y, x, y])?;
                if op == Op::MatmulLhsT {
                    vec![ct, y]
                } else {
                    vec![x, ct]
                }
            }
            Op::Conv | Op::ConvInputT | Op::ConvWeightT | Op::ConvTranspose => {
                let (x, w, given) = self.convolved(op)?;
                statics = given;
                if op == Op::ConvTranspose {
                    vec![x, w]
                } else {
                    likes = vec![x, w];
                    match op {
                        Op::Conv => vec![x, w],
                        _ => {
                            let z = self.result_of(Op::Conv, &statics, &[x, w, x, w])?;
                            if op == Op::ConvInputT {
                                vec![z, w]
                            } else {
                                vec![x, z]
                            }
                        }
                    }
                }
            }
            Op::SumPoolT | Op::UpsampleT => {
                let x = self.pick_number()?;
                likes = vec![x];
                statics = self.pooling(dims(&self.avals[x]).len());
                let pool = match op {
                    Op::UpsampleT => {
                        statics.truncate(1);
                        Op::Upsample
                    }
                    _ => {
                        let is_float = self.avals[x].dtype.is_some_and(DType::is_float);
                        let is_mean = is_float && self.rng.once_in(2);
                        statics.push(Static::Bool(is_mean));
                        Op::SumPool
                    }
                };
                vec![self.result_of(pool, &statics, &[x, x])?]
            }
            Op::MaxPoolJvp | Op::MaxPoolVjp => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                statics = self.pooling(shape.len());
                let v = match op {
                    Op::MaxPoolJvp => self.get(dtype?, &shape),
                    _ => self.result_of(Op::MaxPool, &statics, &[x])?,
                };
                vec![v, x]
            }
            Op::Concat => {
                let (parts, axis) = self.parts()?;
                statics = vec![axis];
                likes = parts.clone();
                parts
            }
            Op::ConcatT => {
                let (parts, axis) = self.parts()?;
                let whole = self.result_of(
                    Op::Concat,
                    std::slice::from_ref(&axis),
                    &[&parts[..], &parts[..]].concat(),
                )?;
                statics = vec![axis];
                n_outs = parts.len();
                likes = parts;
                vec![whole]
            }
            Op::Stack => {
                let x = self.pick(|_| true)?;
                let shape = dims(&self.avals[x]);
                statics = vec![Static::Int(self.axis(shape.len() + 1)?)];
                let dtype = self.avals[x].dtype?;
                let mut all = vec![x];
                (0..self.rng.below(3)).for_each(|_| all.push(self.get(dtype, &shape)));
                all
            }
            Op::Split => {
                likes = vec![self.pick(|_| true)?];
                let shape = dims(&self.avals[likes[0]]);
                let axis = self.axis(shape.len())?;
                let n = shape[axis.rem_euclid(shape.len() as i64) as usize];
                n_outs = 1 + self.rng.below(3);
                let sizes = if n.is_multiple_of(n_outs) && self.rng.once_in(2) {
                    Static::All
                } else {
                    let mut cuts: Vec<usize> = (1..n_outs).map(|_| self.rng.below(n + 1)).collect();
                    cuts.extend([0, n]);
                    cuts.sort_unstable();
                    Static::Ints(cuts.windows(2).map(|w| (w[1] - w[0]) as i64).collect())
                };
                statics = vec![sizes, Static::Int(axis)];
                likes.clone()
            }
            Op::Unbind => {
                let x = self.pick(|_| true)?;
                let shape = dims(&self.avals[x]);
                let axis = self.axis(shape.len())?;
                n_outs = shape[axis.rem_euclid(shape.len() as i64) as usize].max(1);
                statics = vec![Static::Int(axis)];
                vec![x]
            }
            Op::ReshapeT => {
                let x = self.pick(|_| true)?;
                likes = vec![x];
                statics = vec![self.reshaped(&dims(&self.avals[x]))];
                vec![self.result_of(Op::Reshape, &statics, &[x, x])?]
            }
            Op::CastT => {
                let x = self.pick(|_| true)?;
                likes = vec![x];
                statics = vec![Static::DType(self.dtype())];
                vec![self.result_of(Op::Cast, &statics, &[x, x])?]
            }
            Op::SliceT => {
                let x = self.pick(|_| true)?;
                likes = vec![x];
                statics = self.ranges(&dims(&self.avals[x])).to_vec();
                vec![self.result_of(Op::Slice, &statics, &[x, x])?]
            }
            Op::Squeeze => {
                let x = self.pick(|a| a.shape.known().is_some_and(|d| d.contains(&1)))?;
                let shape = dims(&self.avals[x]);
                let axes = (0..shape.len()).filter(|a| shape[*a] == 1 && !self.rng.once_in(3));
                statics = vec![Static::Ints(axes.map(|a| a as i64).collect())];
                vec![x]
            }
            Op::Unsqueeze => {
                let x = self.pick(|_| true)?;
                let rank = dims(&self.avals[x]).len() + 1;
                statics = vec![Static::Int(self.axis(rank)?)];
                vec![x]
            }
            Op::BroadcastTo => {
                let to = self.pick(|_| true)?;
                let dtype = self.dtype();
                statics = vec![Static::Ints(
                    dims(&self.avals[to]).iter().map(|n| *n as i64).collect(),
                )];
                vec![self.partner(to, dtype)]
            }
            Op::Full => {
                let dtype = self.dtype();
                let lens = shape(self.rng).iter().map(|n| *n as i64).collect();
                statics = vec![
                    Static::Ints(lens),
                    self.constant(dtype),
                    Static::DType(dtype),
                ];
                Vec::new()
            }
            Op::Solve => {
                let x = self.pick(|a| {
                    let shape = dims(a);
                    a.dtype.is_some_and(DType::is_float) && (1..=3).contains(&shape.len())
                })?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                let n = shape[shape.len().max(2) - 2];
                statics = vec![Static::Int(self.rng.below(5) as i64), self.switch()];
                vec![self.get(dtype?, &[n, n]), x]
            }
            // Few values are square matrices.
            _ if op.def().laws().dominant && self.rng.once_in(2) => {
                n_outs = results_of(op);
                let dtype = self.float_dtype();
                let n = self.rng.below(4);
                vec![self.get(dtype, &[n, n])]
            }
            Op::Eye => {
                statics = vec![
                    Static::Int(self.rng.below(4) as i64),
                    Static::DType(self.dtype()),
                ];
                Vec::new()
            }
            Op::Iota => {
                let dtype = self.dtype_of_numbers();
                statics = vec![Static::Int(self.rng.below(5) as i64), Static::DType(dtype)];
                Vec::new()
            }
            Op::CrossEntropy | Op::CrossEntropyGrad => {
                let x = self.pick_float()?;
                let shape = dims(&self.avals[x]);
                let (classes, rows) = shape.split_last()?;
                let n = rows.iter().product();
                if *classes == 0 {
                    return None;
                }
                let labels = (0..n).map(|_| self.rng.below(*classes) as i64);
                let labels = Tensor::from_vec(labels.collect::<Vec<i64>>(), rows);
                let dtype = self.rng.of(&[DType::I32, DType::I64]);
                let labels = self.add_leaf(labels.cast(dtype));
                vec![x, labels]
            }
            Op::Searchsorted => {
                let is_number = |a: &Aval| a.dtype.is_some_and(|d| d != DType::Bool);
                let x = self.pick(|a| is_number(a) && !dims(a).is_empty())?;
                let mut shape = dims(&self.avals[x]);
                shape.pop();
                shape.extend((0..self.rng.below(2)).map(|_| self.rng.below(4)));
                let values = self.get(self.avals[x].dtype?, &shape);
                vec![x, values]
            }
            Op::Take | Op::TakeT | Op::Scatter | Op::ScatterExtreme => {
                let flag = self.rng.once_in(2);
                let any = op == Op::Take || op == Op::Scatter && flag;
                let x = if any {
                    self.pick(|_| true)?
                } else {
                    self.pick_number()?
                };
                let shape = dims(&self.avals[x]);
                let axis = self.axis(shape.len())?;
                let at = axis.rem_euclid(shape.len() as i64) as usize;
                let along = self.rng.once_in(2);
                let n_indices = self.rng.below(4);
                let mut lens = vec![n_indices; self.rng.below(3)];
                if along {
                    let rng = &mut *self.rng;
                    let len = |n: &usize| if rng.once_in(3) { 1 } else { *n };
                    lens = shape.iter().map(len).collect();
                    lens[at] = n_indices;
                }
                let indices = self.indices(shape[at], &lens)?;
                statics = vec![Static::Int(axis), Static::Bool(along), Static::Bool(flag)];
                match op {
                    Op::Take => {
                        likes = vec![x];
                        vec![x, indices]
                    }
                    _ => {
                        let part = self.result_of(Op::Take, &statics, &[x, indices, x])?;
                        likes = if op == Op::TakeT {
                            vec![x]
                        } else {
                            vec![x, part]
                        };
                        match op {
                            Op::TakeT => vec![part, indices],
                            _ => vec![x, indices, part],
                        }
                    }
                }
            }
            Op::SelectIndexT => {
                let x = self.pick(|_| true)?;
                likes = vec![x];
                let axis = self.axis(dims(&self.avals[x]).len())?;
                statics = vec![Static::Int(axis), Static::Int(self.rng.below(6) as i64 - 3)];
                vec![self.result_of(Op::SelectIndex, &statics, &[x, x])?]
            }
            Op::SetSlice => {
                let set = self.rng.once_in(2);
                let x = match set {
                    true => self.pick(|_| true)?,
                    false => self.pick_number()?,
                };
                statics = self.ranges(&dims(&self.avals[x])).to_vec();
                let updates = self.result_of(Op::Slice, &statics, &[x, x])?;
                statics.push(Static::Bool(set));
                likes = vec![x, updates];
                likes.clone()
            }
            Op::DynamicSlice
            | Op::DynamicSliceLike
            | Op::DynamicSliceT
            | Op::DynamicUpdateSlice => {
                let set = self.rng.once_in(2);
                let number = op == Op::DynamicSliceT || op == Op::DynamicUpdateSlice && !set;
                let x = if number {
                    self.pick_number()?
                } else {
                    self.pick(|_| true)?
                };
                let shape = dims(&self.avals[x]);
                let n_axes = self.rng.below(shape.len() + 1);
                let sizes: Vec<usize> = shape[..n_axes]
                    .iter()
                    .map(|n| self.rng.below(n + 1))
                    .collect();
                let scalar = n_axes == 1 && self.rng.once_in(2);
                // Starts are moved into their ranges, so all integers are valid.
                let lens = if scalar { vec![] } else { vec![n_axes] };
                let starts = self.indices(3, &lens)?;
                let part = [&sizes, &shape[n_axes..]].concat();
                if op == Op::DynamicSlice {
                    let sizes = sizes.iter().map(|len| *len as i64);
                    statics = vec![Static::Ints(sizes.collect())];
                    vec![x, starts]
                } else {
                    let part = self.get(self.avals[x].dtype?, &part);
                    likes = vec![x, part];
                    match op {
                        Op::DynamicSliceLike => vec![x, starts],
                        Op::DynamicSliceT => vec![part, starts],
                        _ => {
                            statics = vec![Static::Bool(set)];
                            vec![x, starts, part]
                        }
                    }
                }
            }
            Op::SegmentSum | Op::SegmentSumT => {
                let x = self.pick_number()?;
                let shape = dims(&self.avals[x]);
                let (n, lens) = match op {
                    Op::SegmentSum => {
                        let rank = self.rng.below(shape.len() + 1);
                        (1 + self.rng.below(3), shape[..rank].to_vec())
                    }
                    _ => (*shape.first()?, vec![self.rng.below(4)]),
                };
                statics = vec![Static::Int(n as i64)];
                vec![x, self.indices(n, &lens)?]
            }
            Op::SoftmaxT | Op::LogSoftmaxJvp | Op::LogSoftmaxVjp => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                statics = vec![Static::Int(self.axis(shape.len())?)];
                vec![x, self.get(dtype?, &shape)]
            }
            Op::TopK | Op::TopKIndices => {
                let x = self.pick_float()?;
                let shape = dims(&self.avals[x]);
                let axis = self.axis(shape.len())?;
                let at = axis.rem_euclid(shape.len() as i64) as usize;
                let count = self.rng.below(shape[at] + 1) as i64;
                statics = vec![Static::Int(count), Static::Int(axis)];
                vec![x]
            }
            Op::DiagT => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let offset = self.rng.below(5) as i64 - 2;
                let side = self.rng.below(3) + offset.unsigned_abs() as usize;
                statics = vec![Static::Int(offset)];
                vec![self.get(dtype?, &[side, side])]
            }
            Op::DiagonalT => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let [rows, columns] = [self.rng.below(4), self.rng.below(4)];
                let offset = self.rng.below(3);
                statics = vec![Static::Int(offset as i64)];
                likes = vec![self.get(dtype?, &[rows, columns])];
                let len = rows.min(columns.saturating_sub(offset));
                vec![self.get(dtype?, &[len])]
            }
            Op::PadZerosT => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                let [low, high] = [self.rng.below(3), self.rng.below(3)];
                statics = vec![
                    Static::Int(low as i64),
                    Static::Int(high as i64),
                    Static::Int(0),
                ];
                likes = vec![x];
                let padded: Vec<usize> = shape.iter().map(|len| len + low + high).collect();
                vec![self.get(dtype?, &padded)]
            }
            Op::Recurrence => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                statics = vec![self.axes(shape.len()), self.switch(), self.switch()];
                vec![x, self.get(dtype?, &shape)]
            }
            Op::NormalizeT => {
                let x = self.pick_float()?;
                let Aval { dtype, .. } = self.avals[x];
                let shape = dims(&self.avals[x]);
                let mut kept = shape.to_vec();
                // `Normalize` works along the last axis here.
                *kept.last_mut()? = 1;
                statics = vec![Static::Int(-1)];
                vec![x, self.get(dtype?, &shape), self.get(dtype?, &kept)]
            }
            Op::LayerNorm => {
                let x = self.pick_float()?;
                let last = *dims(&self.avals[x]).last()?;
                statics = vec![Static::Float(0.1)];
                let dtype = self.avals[x].dtype?;
                vec![x, self.get(dtype, &[last]), self.get(dtype, &[last])]
            }
            Op::NormJvp | Op::NormVjp => {
                let x = self.pick_float()?;
                let dtype = self.avals[x].dtype?;
                let shape = dims(&self.avals[x]);
                let last = [*shape.last()?];
                let which = self.rng.below(3);
                let active = Static::Ints(vec![which as i64]);
                statics = vec![self.switch(), Static::Float(0.1), active];
                let third = match (op, which) {
                    (Op::NormJvp, 1 | 2) => self.get(dtype, &last),
                    _ => self.get(dtype, &shape),
                };
                vec![x, self.get(dtype, &last), third]
            }
            Op::Attention | Op::AttentionLse | Op::AttentionJvp | Op::AttentionVjp => {
                let q = self.pick(|a| a.dtype.is_some_and(DType::is_float) && dims(a).len() > 1)?;
                let Aval { dtype, .. } = self.avals[q];
                let dtype = dtype?;
                let queries = dims(&self.avals[q]);
                let (features, rows) = queries.split_last()?;
                let (_, batch) = rows.split_last()?;
                let of = |n: usize, width: usize| [batch, &[n, width]].concat();
                let (n, width) = (self.rng.below(4), self.rng.below(4));
                let (keys, values) = (of(n, *features), of(n, width));
                let k = self.get(dtype, &keys);
                statics = vec![self.switch()];
                let mask = match self.rng.below(4) {
                    0 => None,
                    1 => Some(self.get(DType::Bool, &[1, n])),
                    _ => Some(self.get(DType::Bool, &[*rows.last()?, n])),
                };
                if op == Op::AttentionLse {
                    [q, k].into_iter().chain(mask).collect()
                } else {
                    let mut data = vec![q, k, self.get(dtype, &values)];
                    let mixed = [rows, &[width]].concat();
                    if op == Op::Attention {
                        data.extend(mask);
                    } else {
                        data.extend([self.get(dtype, &mixed), self.get(dtype, rows)]);
                        data.extend(mask);
                        let which = self.rng.below(3);
                        statics.push(Static::Ints(vec![which as i64]));
                        data.push(match op {
                            Op::AttentionVjp => self.get(dtype, &mixed),
                            _ => self.get(dtype, [&queries, &keys, &values][which]),
                        });
                    }
                    data
                }
            }
            Op::RmsNorm => {
                let x = self.pick_float()?;
                let last = *dims(&self.avals[x]).last()?;
                statics = vec![Static::Float(0.1)];
                vec![x, self.get(self.avals[x].dtype?, &[last])]
            }
            Op::FoldIn => vec![self.get(DType::I64, &[2]), self.get(DType::I64, &[])],
            Op::RandomPermutation => {
                statics = vec![Static::Int(self.rng.below(7) as i64)];
                vec![self.get(DType::I64, &[2])]
            }
            Op::RandomBits | Op::RandomUniform | Op::RandomNormal | Op::RandomBernoulli => {
                let shape = shape(self.rng);
                let shape = Static::Ints(shape.iter().map(|&len| len as i64).collect());
                let dtype = self.rng.of(&[DType::F64, DType::F32]);
                statics = match op {
                    Op::RandomBits => vec![shape],
                    Op::RandomBernoulli => vec![shape, Static::Float(0.4)],
                    _ => vec![shape, Static::DType(dtype)],
                };
                vec![self.get(DType::I64, &[2])]
            }
            _ => return self.one_operand(op),
        };
        Some(Step {
            op,
            statics,
            data,
            likes,
            n_outs,
        })
    }

    /// Picks an operand of an op that has one, and static arguments by their kinds.
    fn one_operand(&mut self, op: Op) -> Option<Step> {
        let Operands::Fixed(1, n_likes @ 0..=1) = op.def().operands() else {
            panic!("the generator does not know how the operands of `{op}` depend on each other")
        };
        let takes = op.def().statics();
        // Which dtypes an op takes does not depend on the values of its static arguments.
        let any = vec![Static::DType(DType::F64); takes.len()];
        let x = self.pick(|a| op.def().dtype(&any, &vec![a; 1 + n_likes]).is_ok())?;
        let shape = dims(&self.avals[x]);
        let rank = shape.len();
        let ranges = self.ranges(&shape);
        let pooling = self.pooling(rank);
        let mut statics = Vec::with_capacity(takes.len());
        for arg in takes {
            statics.push(match arg.kind {
                StaticKind::Window => pooling[0].clone(),
                StaticKind::Strides => pooling[1].clone(),
                StaticKind::Padding => pooling[2].clone(),
                StaticKind::Axis => Static::Int(self.axis(rank)?),
                StaticKind::Axes => self.axes(rank),
                StaticKind::Permutation => self.permutation(rank),
                StaticKind::Reshape => self.reshaped(&shape),
                StaticKind::Starts => ranges[0].clone(),
                StaticKind::Stops => ranges[1].clone(),
                StaticKind::Steps => ranges[2].clone(),
                StaticKind::Flag | StaticKind::KnownFlag => self.switch(),
                StaticKind::DType => Static::DType(self.dtype()),
                StaticKind::Epsilon => Static::Float(0.1),
                StaticKind::Probability => Static::Float(0.4),
                StaticKind::Offset => Static::Int(self.rng.below(5) as i64 - 2),
                StaticKind::Margins => Static::Int(self.rng.below(3) as i64),
                StaticKind::Fill => Static::Int(1),
                StaticKind::Sharding => {
                    let mesh = Arc::new(Mesh::new("m", &[("x", 2)]).expect("a mesh"));
                    ShardingSpec::replicated(&mesh, rank).into()
                }
                StaticKind::Index => Static::Int(self.rng.below(6) as i64 - 3),
                StaticKind::Count | StaticKind::KnownCount => Static::Int(self.rng.below(4) as i64),
                kind => panic!("the generator does not know values of {kind:?} for `{op}`"),
            });
        }
        Some(Step {
            op,
            statics,
            data: vec![x],
            likes: vec![x; n_likes],
            n_outs: results_of(op),
        })
    }
}

/// Returns the number of operands of an elementwise op.
fn n_operands(op: Op) -> usize {
    let Operands::Fixed(n, _) = op.def().operands() else {
        unreachable!("an elementwise op has a fixed number of operands")
    };
    n
}
