//! Graphs with one change, which the plan cache has to tell apart from the original.

use super::{Graph, Node, Rng, Step, aval};
use gradloom::DType;
use gradloom_ir::op::Eval;
use gradloom_ir::{Aval, Eqn, Op, Program, Programs, Static};

impl Graph {
    /// Returns a copy in which one op, static argument or operand differs, or `None` if no attempt
    /// fits.
    pub fn mutated(&self, rng: &mut Rng) -> Option<Graph> {
        let steps: Vec<usize> = (0..self.nodes.len())
            .filter(|i| matches!(self.nodes[*i], Node::Step(_)))
            .collect();
        if steps.is_empty() {
            return None;
        }
        (0..60).find_map(|_| {
            let i = rng.of(&steps);
            let mut graph = self.clone();
            let n_before: usize = self.nodes[..i].iter().map(n_values).sum();
            let Node::Step(step) = &mut graph.nodes[i] else {
                unreachable!("`i` is a step")
            };
            (change(step, n_before, rng) && graph.fits()).then_some(graph)
        })
    }

    /// Returns whether every op accepts its operands and has a small result.
    fn fits(&self) -> bool {
        let mut avals: Vec<Aval> = Vec::new();
        for node in &self.nodes {
            match node {
                Node::Leaf(x) => avals.push(aval(x)),
                Node::Step(step) => match step.avals(&avals) {
                    Some(outs) => avals.extend(outs),
                    None => return false,
                },
            }
            let numel = |a: &Aval| a.shape.known().map(|d| d.iter().product::<usize>());
            if avals.last().and_then(numel).is_none_or(|n| n > 4096) {
                return false;
            }
        }
        true
    }
}

fn n_values(node: &Node) -> usize {
    match node {
        Node::Leaf(_) => 1,
        Node::Step(step) => step.n_outs,
    }
}

/// Changes the op, an operand or a static argument at random. Returns whether the step differs.
fn change(step: &mut Step, n_before: usize, rng: &mut Rng) -> bool {
    match rng.below(5) {
        0 => {
            let before = step.op;
            step.op = rng.of(Op::ALL);
            step.op != before
        }
        1 if step.data.len() > 1 => {
            let (i, j) = (rng.below(step.data.len()), rng.below(step.data.len()));
            step.data.swap(i, j);
            if step.likes.len() == step.data.len() {
                step.likes.swap(i, j);
            }
            step.data[i] != step.data[j]
        }
        2 if !step.data.is_empty() => {
            let (i, v) = (rng.below(step.data.len()), rng.below(n_before));
            let before = std::mem::replace(&mut step.data[i], v);
            for like in step.likes.iter_mut().filter(|l| **l == before) {
                *like = v;
            }
            before != v
        }
        3 if !step.likes.is_empty() => {
            let (i, v) = (rng.below(step.likes.len()), rng.below(n_before));
            std::mem::replace(&mut step.likes[i], v) != v
        }
        _ if !step.statics.is_empty() => {
            let i = rng.below(step.statics.len());
            let other = another(&step.statics[i], rng);
            let before = std::mem::replace(&mut step.statics[i], other);
            before != step.statics[i]
        }
        _ => false,
    }
}

/// Changes an op with one operand in a program to another one that takes every number.
fn change_op(program: &mut Program, rng: &mut Rng) {
    let takes_number = |eqn: &Eqn| {
        let is_unary = matches!(eqn.op.def().eval(), Eval::Unary(_));
        is_unary && program.aval(eqn.out()).dtype != Some(DType::Bool)
    };
    let eqns = program.eqns.iter().enumerate();
    let unary = eqns.filter(|(_, eqn)| takes_number(eqn)).map(|(i, _)| i);
    let unary: Vec<usize> = unary.collect();
    if !unary.is_empty() {
        let at = rng.of(&unary);
        program.eqns[at].op = rng.of(&[Op::Neg, Op::Abs, Op::Square]);
    }
}

fn another(value: &Static, rng: &mut Rng) -> Static {
    match value {
        Static::Int(n) => match rng.below(4) {
            0 => Static::Float(*n as f64),
            1 => Static::Ints(vec![*n]),
            _ => Static::Int(n + rng.below(7) as i64 - 3),
        },
        Static::Float(x) => Static::Float(match rng.below(3) {
            0 => -x,
            1 => f64::from_bits(x.to_bits() ^ 1),
            _ => rng.of(&[0.0, -0.0, 1.0, f64::NAN, f64::INFINITY]),
        }),
        Static::Bool(b) => Static::Bool(!b),
        Static::Ints(ns) => {
            let mut ns = ns.clone();
            match rng.below(4) {
                0 => rng.shuffle(&mut ns),
                1 => ns.reverse(),
                2 => ns.push(1),
                _ if ns.is_empty() => return Static::All,
                _ => {
                    let i = rng.below(ns.len());
                    ns[i] = ns[i].wrapping_add(rng.below(5) as i64 - 2);
                }
            }
            Static::Ints(ns)
        }
        Static::All => Static::Int(rng.below(3) as i64 - 1),
        Static::DType(_) => Static::DType(rng.of(&DType::ALL)),
        Static::Programs(_) => {
            let mut all = value.programs().unwrap_or_default().to_vec();
            if !all.is_empty() {
                let at = rng.below(all.len());
                change_op(&mut all[at], rng);
            }
            Static::Programs(Programs::new(all))
        }
        Static::Host(_)
        | Static::Dims(..)
        | Static::Code(_)
        | Static::Mesh(_)
        | Static::Tilings(_)
        | Static::Reduce(_)
        | Static::Sharding(_)
        | Static::Specs(..) => {
            unreachable!("a graph has known static arguments, and no devices")
        }
    }
}
