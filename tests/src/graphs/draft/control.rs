//! Control flow ops, whose programs are random graphs too.

use super::{Draft, Kind, Node, Step, dims};
use crate::graphs::Graph;
use gradloom::{DType, Tensor};
use gradloom_ir::op::Diff;
use gradloom_ir::{Aval, Builder, Op, Program, Programs, Static};

/// Maximum number of control flow ops in each other.
const MAX_DEPTH: usize = 2;
/// Maximum number of turns of a loop.
const MAX_TURNS: usize = 4;

/// A graph that an op runs. Its first values are its operands.
struct Body {
    graph: Graph,
    avals: Vec<Aval>,
    n_operands: usize,
}

impl Body {
    /// Returns the leaves that are not operands, as values of the body.
    fn captured(&self) -> Vec<(usize, Tensor)> {
        let leaves = self.graph.leaves().into_iter().skip(self.n_operands);
        let mut leaves = leaves.collect::<Vec<_>>().into_iter();
        let tensors = self.graph.nodes.iter().filter_map(|node| match node {
            Node::Leaf(x) => Some(x.clone()),
            Node::Step(_) => None,
        });
        let tensors = tensors.skip(self.n_operands);
        tensors
            .map(|x| (leaves.next().expect("one for each tensor"), x))
            .collect()
    }
}

/// Returns whether a program inside of an op may have the op.
///
/// The interpreter does not tell whether a result inside depends on rounding, so these ops are left out.
fn fits_inside(op: Op, kind: Kind) -> bool {
    let def = op.def();
    let depends_on_rounding = matches!(def.diff(), Diff::Zero(_))
        || def.laws().dominant
        || matches!(
            op,
            Op::Cast | Op::CastT | Op::Svd | Op::Eigh | Op::Qr | Op::Pinv | Op::Stddev
        );
    kind == Kind::Any || !depends_on_rounding
}

impl Draft<'_> {
    /// Draws a control flow op that the generator knows.
    pub(super) fn control_op(&mut self) -> Op {
        self.rng
            .of(&[Op::Scan, Op::Scan, Op::While, Op::Switch, Op::Checkpoint])
    }

    /// Returns whether the next op has programs.
    pub(super) fn wants_control(&mut self) -> bool {
        self.depth < MAX_DEPTH && self.rng.once_in(12)
    }

    /// Draws operands of a control flow op, and its programs.
    pub(super) fn programs(&mut self, op: Op) -> Option<Step> {
        match op {
            Op::Scan => self.scan(),
            Op::While => self.while_loop(),
            Op::Switch => self.branches(),
            _ => self.checkpoint(),
        }
    }

    /// Draws up to `most` values.
    fn some(&mut self, most: usize, fits: impl Fn(&Aval) -> bool) -> Vec<usize> {
        let n = self.rng.below(most + 1);
        (0..n).filter_map(|_| self.pick(&fits)).collect()
    }

    fn tensors(&self, values: &[usize]) -> Vec<Tensor> {
        values.iter().map(|v| self.values[*v].clone()).collect()
    }

    /// Drafts a graph on these operands.
    fn body(&mut self, operands: &[Tensor]) -> Body {
        let kind = self.kind;
        let mut draft = Draft {
            rng: &mut *self.rng,
            kind,
            depth: self.depth + 1,
            graph: Graph::default(),
            values: Vec::new(),
            avals: Vec::new(),
        };
        for x in operands {
            draft.add_leaf(x.clone());
        }
        let n = 1 + draft.rng.below(4);
        draft.grow(n, |op| fits_inside(op, kind));
        Body {
            graph: draft.graph,
            avals: draft.avals,
            n_operands: operands.len(),
        }
    }

    /// Draws a value of a body with this aval. The last ones depend on the most ops.
    fn like(&mut self, body: &Body, wanted: &Aval) -> Option<usize> {
        let all = (0..body.avals.len()).filter(|v| body.avals[*v] == *wanted);
        let all: Vec<usize> = all.collect();
        match self.rng.once_in(3) {
            true if !all.is_empty() => Some(self.rng.of(&all)),
            _ => all.last().copied(),
        }
    }

    /// Adds the leaves that a body reads beside its operands. Returns them as values of the body and of this graph.
    fn capture(&mut self, body: &Body) -> (Vec<usize>, Vec<usize>) {
        let captured = body.captured().into_iter();
        captured.map(|(inner, x)| (inner, self.add_leaf(x))).unzip()
    }

    fn scan(&mut self) -> Option<Step> {
        let first = self.pick(|a| dims(a).first().is_some_and(|n| *n <= MAX_TURNS));
        let turns = match first {
            Some(v) if !self.rng.once_in(4) => dims(&self.avals[v])[0],
            _ => self.rng.below(MAX_TURNS),
        };
        let consts = self.some(2, |_| true);
        let carry = self.some(3, |_| true);
        let xs = self.some(2, |a| dims(a).first() == Some(&turns));
        let slices = xs.iter().map(|v| match turns {
            0 => Tensor::zeros(&self.values[*v].shape()[1..], self.values[*v].dtype()),
            _ => self.values[*v].select_index(0, 0),
        });
        let slices: Vec<Tensor> = slices.collect();
        let of = [&consts[..], &carry].concat();
        let body = self.body(&[self.tensors(&of), slices].concat());
        let mut outs = Vec::new();
        for i in 0..carry.len() {
            let aval = body.avals[consts.len() + i].clone();
            outs.push(self.like(&body, &aval)?);
        }
        let n_ys = self.rng.below(3);
        outs.extend((0..n_ys).map(|_| self.rng.below(body.avals.len().max(1))));
        if body.avals.is_empty() || outs.is_empty() {
            return None;
        }
        let (inner, outer) = self.capture(&body);
        let params = [inner, (0..body.n_operands).collect()].concat();
        let reverse = self.switch();
        let count = |n: usize| Static::Int(n as i64);
        Some(Step {
            op: Op::Scan,
            statics: vec![
                programs([body.graph.as_program(&params, &outs)]),
                count(turns),
                count(outer.len() + consts.len()),
                count(carry.len()),
                reverse,
            ],
            data: [outer, consts, carry, xs].concat(),
            likes: Vec::new(),
            n_outs: outs.len(),
        })
    }

    /// A loop that counts its turns.
    fn while_loop(&mut self) -> Option<Step> {
        let turns = self.rng.below(MAX_TURNS) as i32;
        let states = self.some(3, |_| true);
        let [limit, start] = [turns, 0].map(|n| self.add_leaf(Tensor::from(n)));
        let carry = [vec![start], states].concat();
        let body = self.body(&self.tensors(&carry));
        let mut outs = Vec::new();
        for state in &carry[1..] {
            let aval = self.avals[*state].clone();
            outs.push(self.like(&body, &aval)?);
        }
        let (inner, outer) = self.capture(&body);
        let consts = [vec![limit], outer].concat();

        let avals: Vec<Aval> = consts
            .iter()
            .chain(&carry)
            .map(|v| self.avals[*v].clone())
            .collect();
        let mut b = Builder::new();
        let params: Vec<_> = avals.iter().map(|aval| b.param(aval.clone())).collect();
        let is_before = b.emit(Op::Lt, &[], &[params[consts.len()], params[0]]);
        let cond = b.finish(params, vec![is_before]);

        let (mut b, values) = body.graph.emitted();
        let limit = b.param(avals[0].clone());
        let attrs = [
            Static::Ints(vec![]),
            Static::Int(1),
            Static::DType(DType::I32),
        ];
        let attrs = attrs.map(|value| b.attr(value));
        let one = b.emit(Op::Full, &attrs, &[]);
        let next = b.emit(Op::Add, &[], &[values[0], one]);
        let own = inner.into_iter().chain(0..body.n_operands);
        let params = [limit].into_iter().chain(own.map(|v| values[v])).collect();
        let outs = [next].into_iter().chain(outs.iter().map(|v| values[*v]));
        let body = b.finish(params, outs.collect());
        Some(Step {
            op: Op::While,
            statics: vec![programs([cond, body]), Static::Int(consts.len() as i64)],
            n_outs: carry.len(),
            data: [consts, carry].concat(),
            likes: Vec::new(),
        })
    }

    fn branches(&mut self) -> Option<Step> {
        let index = match self.rng.once_in(2) {
            true => Tensor::from(self.rng.once_in(2)),
            false => Tensor::from(self.rng.below(4) as i32 - 1),
        };
        let n_branches = if index.dtype() == DType::Bool { 2 } else { 3 };
        let index = self.add_leaf(index);
        let operands = self.some(3, |_| true);
        let bodies: Vec<Body> = (0..n_branches)
            .map(|_| self.body(&self.tensors(&operands)))
            .collect();
        let wanted = self.some(3, |_| true).into_iter();
        let wanted = wanted
            .filter(|v| operands.contains(v))
            .map(|v| self.avals[v].clone());
        let wanted: Vec<Aval> = wanted.collect();
        if wanted.is_empty() {
            return None;
        }
        let captured: Vec<_> = bodies.iter().map(|body| self.capture(body)).collect();
        let mut all = Vec::new();
        for (i, body) in bodies.iter().enumerate() {
            let outs: Option<Vec<usize>> =
                wanted.iter().map(|aval| self.like(body, aval)).collect();
            let outs = outs?;
            // Each branch takes what any of them reads.
            let (mut b, values) = body.graph.emitted();
            let mut params = Vec::new();
            for (j, (inner, outer)) in captured.iter().enumerate() {
                params.extend(inner.iter().zip(outer).map(|(inner, outer)| match i == j {
                    true => values[*inner],
                    false => b.param(self.avals[*outer].clone()),
                }));
            }
            params.extend(&values[..body.n_operands]);
            all.push(b.finish(params, outs.iter().map(|v| values[*v]).collect()));
        }
        let outer = captured.into_iter().flat_map(|(_, outer)| outer);
        Some(Step {
            op: Op::Switch,
            statics: vec![programs(all)],
            data: [index].into_iter().chain(outer).chain(operands).collect(),
            likes: Vec::new(),
            n_outs: wanted.len(),
        })
    }

    fn checkpoint(&mut self) -> Option<Step> {
        let operands = self.some(3, |_| true);
        let body = self.body(&self.tensors(&operands));
        if body.avals.is_empty() {
            return None;
        }
        let (n_outs, n_kept) = (1 + self.rng.below(2), self.rng.below(3));
        let outs: Vec<usize> = (0..n_outs + n_kept)
            .map(|_| self.rng.below(body.avals.len()))
            .collect();
        let (inner, outer) = self.capture(&body);
        let params = [inner, (0..body.n_operands).collect()].concat();
        let program = programs([body.graph.as_program(&params, &outs)]);
        Some(Step {
            op: Op::Checkpoint,
            statics: vec![program, Static::Int(n_kept as i64)],
            data: [outer, operands].concat(),
            likes: Vec::new(),
            n_outs,
        })
    }
}

fn programs(all: impl IntoIterator<Item = Program>) -> Static {
    Static::Programs(Programs::new(all.into_iter().collect()))
}
