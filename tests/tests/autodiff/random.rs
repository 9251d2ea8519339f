//! Derivatives of random graphs: both modes agree, in first and second order, and do not depend on
//! values evaluated earlier.
//!
//! `GRADLOOM_GRAPHS=30000 cargo test --release -p gradloom-tests --test autodiff random` tests
//! more graphs.

use gradloom::{DType, Result, Tensor, evaluate, grad, hvp, jvp, value_and_grad};
use gradloom_ir::Op;
use gradloom_ir::op::Diff;
use gradloom_tests::graphs::{Graph, Kind, Node, Rng, bits, graph};
use gradloom_tests::noise;
use std::collections::BTreeMap;

/// Default numbers of graphs that are differentiated once, and twice.
const GRAPHS: u64 = 600;
const TWICE: u64 = 200;

fn count(usual: u64) -> u64 {
    let asked = std::env::var("GRADLOOM_GRAPHS").ok();
    asked.map_or(usual, |n| n.parse().expect("`GRADLOOM_GRAPHS` is a number"))
}

/// A graph as a function of its float leaves, with a scalar result.
struct Function {
    graph: Graph,
    /// All leaves, and the indices of the float ones.
    leaves: Vec<Tensor>,
    floats: Vec<usize>,
    /// Float values without consumers.
    sinks: Vec<usize>,
}

impl Function {
    fn new(graph: Graph) -> Function {
        let leaves = graph.nodes.iter().filter_map(|node| match node {
            Node::Leaf(x) => Some(x.clone()),
            Node::Step(_) => None,
        });
        let leaves: Vec<Tensor> = leaves.collect();
        let floats = (0..leaves.len()).filter(|i| leaves[*i].dtype() == DType::F64);
        let floats = floats.collect();
        let values = graph.record(None, |_, _| {}).unwrap();
        let read: Vec<usize> = graph.steps().flat_map(|s| s.data.clone()).collect();
        let sinks =
            (0..values.len()).filter(|v| values[*v].dtype() == DType::F64 && !read.contains(v));
        let sinks = sinks.collect();
        Function {
            graph,
            leaves,
            floats,
            sinks,
        }
    }

    fn at(&self) -> Vec<Tensor> {
        self.floats
            .iter()
            .map(|i| self.leaves[*i].clone())
            .collect()
    }

    fn directions(&self, seed: u64) -> Vec<Tensor> {
        self.at()
            .iter()
            .enumerate()
            .map(|(i, x)| noise(x.shape(), seed + i as u64))
            .collect()
    }

    /// Computes the value at `x`. With `early`, evaluates random intermediate values.
    fn call(&self, x: &[Tensor], mut early: Option<Rng>) -> Tensor {
        let mut leaves = self.leaves.clone();
        for (i, x) in self.floats.iter().zip(x) {
            leaves[*i] = x.clone();
        }
        let values = self.graph.record(Some(&leaves), |values, start| {
            if early.as_mut().is_some_and(|rng| rng.once_in(3)) {
                evaluate(&values[start..].to_vec()).unwrap();
            }
        });
        let values = values.unwrap();
        let weighted = self
            .sinks
            .iter()
            .map(|v| (&values[*v] * noise(values[*v].shape(), *v as u64)).sum(..));
        weighted
            .reduce(|a, b| a + b)
            .unwrap_or_else(|| Tensor::scalar(0.0))
    }
}

fn elements(tensors: &[Tensor]) -> Vec<f64> {
    tensors.iter().flat_map(|t| t.to_vec::<f64>()).collect()
}

fn all_bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    tensors.iter().map(bits).collect()
}

#[test]
fn the_gradient_along_any_direction_is_the_tangent() {
    let mut met: BTreeMap<Op, u64> = BTreeMap::new();
    let (n, mut n_finite) = (count(GRAPHS), 0);
    for seed in 0..n {
        let mut rng = Rng::new(2 << 40 | seed);
        let n_steps = 1 + rng.below(24);
        let f = Function::new(graph(&mut rng, Kind::Smooth, n_steps));
        let (x, dx) = (f.at(), f.directions(seed));
        let (value, gradient) = value_and_grad(|x: &Vec<Tensor>| f.call(x, None))(&x);
        let (y, dy) = jvp(|x: &Vec<Tensor>| f.call(x, None), &x, &dx);
        assert_eq!(
            bits(&value),
            bits(&f.call(&x, None)),
            "seed {seed}: {:#?}",
            f.graph
        );
        assert_eq!(bits(&value), bits(&y), "seed {seed}: {:#?}", f.graph);

        // Neither evaluation inside the function nor a fallible function changes a bit.
        let early = Rng::new(seed);
        let again = grad(|x: &Vec<Tensor>| f.call(x, Some(early.clone())))(&x);
        assert_eq!(
            all_bits(&again),
            all_bits(&gradient),
            "seed {seed}: {:#?}",
            f.graph
        );
        let again = grad(|x: &Vec<Tensor>| -> Result<Tensor> { Ok(f.call(x, None)) })(&x);
        assert_eq!(
            all_bits(&again.unwrap()),
            all_bits(&gradient),
            "seed {seed}: {:#?}",
            f.graph
        );

        let terms: Vec<f64> = elements(&gradient)
            .iter()
            .zip(elements(&dx))
            .map(|(g, d)| g * d)
            .collect();
        let (reverse, forward) = (terms.iter().sum::<f64>(), dy.item::<f64>());
        if !reverse.is_finite() || !forward.is_finite() {
            continue;
        }
        n_finite += 1;
        f.graph
            .steps()
            .for_each(|step| *met.entry(step.op).or_default() += 1);
        let scale = terms.iter().map(|t| t.abs()).sum::<f64>().max(1.0);
        assert!(
            (reverse - forward).abs() <= 1e-10 * scale,
            "seed {seed}: {reverse} in reverse mode, {forward} in forward mode: {:#?}",
            f.graph
        );
    }
    assert!(n_finite * 10 >= n * 9, "{n_finite} of {n} are finite");
    // Random matrices may be nearly singular, so graphs of this kind have no ops that divide by them.
    let is_drawn =
        |op: &&Op| !matches!(op.def().diff(), Diff::Zero(_)) && !op.def().laws().dominant;
    for op in Op::ALL.iter().filter(is_drawn) {
        let times = met.get(op).copied().unwrap_or(0);
        assert!(
            times >= n / 200,
            "`{op}` occurs {times} times in {n} graphs"
        );
    }
}

#[test]
fn second_derivatives_agree_in_both_orders() {
    let (mut n, mut n_finite) = (count(TWICE), 0);
    for seed in 0..count(TWICE) {
        let mut rng = Rng::new(3 << 40 | seed);
        let n_steps = 1 + rng.below(8);
        let f = Function::new(graph(&mut rng, Kind::Smooth, n_steps));
        // The gradient of `while_loop` has no reverse mode.
        if f.graph.has(Op::While) {
            n -= 1;
            continue;
        }
        let (x, v) = (f.at(), f.directions(seed));
        let forward = hvp(|x: &Vec<Tensor>| f.call(x, None), &x, &v);
        let along = |x: &Vec<Tensor>| {
            let gradient = grad(|x: &Vec<Tensor>| f.call(x, None))(x);
            let terms = gradient.iter().zip(&v).map(|(g, v)| (g * v).sum(..));
            terms
                .reduce(|a, b| a + b)
                .unwrap_or_else(|| Tensor::scalar(0.0))
        };
        let reverse = grad(along)(&x);
        let (forward, reverse) = (elements(&forward), elements(&reverse));
        if !forward.iter().chain(&reverse).all(|x| x.is_finite()) {
            continue;
        }
        n_finite += 1;
        let scale = forward.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        for (a, b) in forward.iter().zip(&reverse) {
            assert!(
                (a - b).abs() <= 1e-9 * scale,
                "seed {seed}: {a} forward over reverse, {b} reverse over reverse: {:#?}",
                f.graph
            );
        }
    }
    assert!(n_finite * 10 >= n * 9, "{n_finite} of {n} are finite");
}
