//! Random graphs over the whole op table, and ways to evaluate them.
//!
//! A [`Graph`] is a recipe of leaves and ops. It can be recorded repeatedly, all at once or in
//! pieces. Its values have the same bits whatever is evaluated together. The reference is
//! [`Graph::one_by_one`], which evaluates each op as soon as it is recorded.

mod draft;
mod interpret;
mod mutate;

pub use crate::rng::Rng;
pub use draft::{Kind, graph, shape};
pub use interpret::{Interpreted, interpret};

use gradloom::__private::replay;
use gradloom::{DType, Result, Tensor, bf16, evaluate, f16};
use gradloom_ir::{Aval, Builder, Op, Program, Static, Var};

/// An op applied to values. Values are numbered in the order of the nodes that produce them.
#[derive(Clone, Debug)]
pub struct Step {
    /// The op.
    pub op: Op,
    /// Static arguments.
    pub statics: Vec<Static>,
    /// Operands.
    pub data: Vec<usize>,
    /// Like operands, of which only the aval is read.
    pub likes: Vec<usize>,
    /// Number of results.
    pub n_outs: usize,
}

impl Step {
    /// Returns the avals of the results, or `None` if the op does not accept the operands.
    fn avals(&self, of: &[Aval]) -> Option<Vec<Aval>> {
        let args = self.data.iter().chain(&self.likes).map(|v| &of[*v]);
        let outs = self
            .op
            .infer(&self.statics, &args.collect::<Vec<_>>(), self.n_outs);
        let outs = outs.ok()?;
        // Transposes such as `SumT` are only emitted by rules and trust their operands. Their
        // cotangent operand must have the aval of the result of the forward op.
        let like = |i: usize| self.likes.get(i).map(|v| &of[*v]);
        let forward = |op: Op, data: &[Option<&Aval>]| {
            let mut args: Vec<&Aval> = data.iter().copied().collect::<Option<_>>()?;
            args.extend(self.likes.iter().map(|v| &of[*v]));
            Some(op.infer(&self.statics, &args, 1).ok()?.remove(0))
        };
        let given = |i: usize| Some(of[self.data[i]].clone());
        let fits = match self.op {
            Op::SumT => forward(Op::Sum, &[like(0)]) == given(0),
            Op::MeanT => forward(Op::Mean, &[like(0)]) == given(0),
            Op::ReshapeT => forward(Op::Reshape, &[like(0)]) == given(0),
            Op::SliceT => forward(Op::Slice, &[like(0)]) == given(0),
            Op::CastT => forward(Op::Cast, &[like(0)]) == given(0),
            Op::MatmulLhsT => {
                forward(Op::Matmul, &[like(0), like(1)]) == given(0)
                    && like(1) == Some(&of[self.data[1]])
            }
            Op::MatmulRhsT => {
                forward(Op::Matmul, &[like(0), like(1)]) == given(1)
                    && like(0) == Some(&of[self.data[0]])
            }
            Op::Matmul => like(0) == Some(&of[self.data[0]]) && like(1) == Some(&of[self.data[1]]),
            Op::Unbroadcast => {
                let (from, to) = (like(0)?, like(1)?);
                to.shape == of[self.data[0]].shape
                    && Op::BroadcastLike.infer(&[], &[from, from, to], 1).is_ok()
            }
            Op::BroadcastLike => like(0)?.shape == of[self.data[0]].shape,
            Op::ConcatT => {
                let args: Vec<&Aval> = self.likes.iter().map(|v| &of[*v]).collect();
                let whole = Op::Concat.infer(&self.statics, &[&args[..], &args[..]].concat(), 1);
                whole.ok()?.pop() == given(0)
            }
            Op::Sum | Op::Mean | Op::Reshape | Op::Slice | Op::Cast | Op::Split | Op::Concat => {
                (0..self.data.len()).all(|i| like(i) == Some(&of[self.data[i]]))
            }
            _ => true,
        };
        (fits && outs.len() == self.n_outs).then_some(outs)
    }

    /// Emits the op on these operands.
    fn emit(&self, b: &mut Builder, args: &[Var]) -> Vec<Var> {
        let attrs: Vec<_> = self.statics.iter().map(|s| b.attr(s.clone())).collect();
        b.emit_many(self.op, &attrs, args, self.n_outs)
    }

    /// Records the op.
    fn apply(&self, values: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut b = Builder::new();
        let args: Vec<Tensor> = self
            .data
            .iter()
            .chain(&self.likes)
            .map(|v| values[*v].clone())
            .collect();
        let params: Vec<_> = args.iter().map(|x| b.param(aval(x))).collect();
        let outs = self.emit(&mut b, &params);
        let program: Program = b.finish(params, outs);
        replay(&program, &args)
    }
}

/// Returns the aval of a tensor in terms of `ir`.
fn aval(x: &Tensor) -> Aval {
    Aval::new(x.dtype(), x.shape())
}

/// A leaf or an op.
#[derive(Clone, Debug)]
pub enum Node {
    /// A realised tensor.
    Leaf(Tensor),
    /// An op.
    Step(Step),
}

/// A graph that can be recorded.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Nodes in order: operands come before consumers.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Returns the leaves.
    pub fn leaves(&self) -> Vec<usize> {
        let mut at = 0;
        let mut leaves = Vec::new();
        for node in &self.nodes {
            match node {
                Node::Leaf(_) => {
                    leaves.push(at);
                    at += 1;
                }
                Node::Step(step) => at += step.n_outs,
            }
        }
        leaves
    }

    /// Returns the ops in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Step(step) => Some(step),
            Node::Leaf(_) => None,
        })
    }

    /// Returns whether the op occurs in the graph, or in a program of one of its ops.
    pub fn has(&self, op: Op) -> bool {
        fn inside(op: Op, statics: &[Static]) -> bool {
            let programs = statics.iter().filter_map(Static::programs).flatten();
            programs.into_iter().any(|program| {
                program.eqns.iter().any(|eqn| eqn.op == op) || inside(op, &program.attrs)
            })
        }
        self.steps()
            .any(|step| step.op == op || inside(op, &step.statics))
    }

    /// Records the graph on `leaves`, or on its own leaves. Calls `each` with all values so far and
    /// the index of the first added one, after each node.
    pub fn record(
        &self,
        leaves: Option<&[Tensor]>,
        mut each: impl FnMut(&mut Vec<Tensor>, usize),
    ) -> Result<Vec<Tensor>> {
        let mut values = Vec::new();
        let mut given = leaves.map(|l| l.iter());
        for node in &self.nodes {
            let start = values.len();
            match node {
                Node::Leaf(own) => values.push(
                    given
                        .as_mut()
                        .map_or(own, |g| g.next().expect("one tensor for each leaf"))
                        .clone(),
                ),
                Node::Step(step) => {
                    let outs = step.apply(&values)?;
                    values.extend(outs);
                }
            }
            each(&mut values, start);
        }
        Ok(values)
    }

    /// Returns the reference result: each op is evaluated as soon as it is recorded.
    pub fn one_by_one(&self) -> Result<Vec<Vec<u64>>> {
        let mut fault = None;
        let values = self.record(None, |values, start| {
            if fault.is_none() {
                fault = evaluate(&values[start..].to_vec()).err();
            }
        })?;
        fault.map_or(Ok(()), Err)?;
        Ok(values.iter().map(bits).collect())
    }

    /// Records the graph with less sharing: operands chosen at random are recorded again, and
    /// leaves copied.
    pub fn without_sharing(&self, rng: &mut Rng) -> Result<Vec<Tensor>> {
        let mut values: Vec<Tensor> = Vec::new();
        // For each value the step that computes it and the index of the result.
        let mut from: Vec<Option<(&Step, usize)>> = Vec::new();
        for node in &self.nodes {
            match node {
                Node::Leaf(own) => {
                    values.push(own.clone());
                    from.push(None);
                }
                Node::Step(step) => {
                    let mut operands = values.clone();
                    for v in &step.data {
                        if rng.once_in(2) {
                            continue;
                        }
                        operands[*v] = match from[*v] {
                            Some((step, i)) => step.apply(&values)?.swap_remove(i),
                            None => copy(&values[*v]),
                        };
                    }
                    values.extend(step.apply(&operands)?);
                    from.extend((0..step.n_outs).map(|i| Some((step, i))));
                }
            }
        }
        Ok(values)
    }
}

/// Copies the elements to another buffer.
pub fn copy(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::F32 => Tensor::from_vec(x.to_vec::<f32>(), x.shape()),
        DType::F64 => Tensor::from_vec(x.to_vec::<f64>(), x.shape()),
        DType::I32 => Tensor::from_vec(x.to_vec::<i32>(), x.shape()),
        DType::BF16 => Tensor::from_vec(x.to_vec::<bf16>(), x.shape()),
        DType::F16 => Tensor::from_vec(x.to_vec::<f16>(), x.shape()),
        DType::I64 => Tensor::from_vec(x.to_vec::<i64>(), x.shape()),
        DType::I8 => Tensor::from_vec(x.to_vec::<i8>(), x.shape()),
        DType::U8 => Tensor::from_vec(x.to_vec::<u8>(), x.shape()),
        DType::Bool => Tensor::from_vec(x.to_vec::<bool>(), x.shape()),
    }
}

/// Returns the elements as bits. All NaNs are the same, because it is unspecified which of two NaN
/// operands an addition returns.
pub fn bits(x: &Tensor) -> Vec<u64> {
    match x.dtype() {
        DType::F32 => {
            let of = |x: f32| if x.is_nan() { f32::NAN } else { x }.to_bits();
            x.to_vec::<f32>()
                .into_iter()
                .map(|x| of(x).into())
                .collect()
        }
        DType::F64 => {
            let of = |x: f64| if x.is_nan() { f64::NAN } else { x }.to_bits();
            x.to_vec::<f64>().into_iter().map(of).collect()
        }
        DType::I32 => x.to_vec::<i32>().into_iter().map(|x| x as u64).collect(),
        // A wider float has the same number, and one NaN.
        DType::BF16 | DType::F16 => bits(&x.cast(DType::F32)),
        DType::I64 => x.to_vec::<i64>().into_iter().map(|x| x as u64).collect(),
        DType::I8 => x.to_vec::<i8>().into_iter().map(|x| x as u64).collect(),
        DType::U8 => x.to_vec::<u8>().into_iter().map(u64::from).collect(),
        DType::Bool => x.to_vec::<bool>().into_iter().map(u64::from).collect(),
    }
}
