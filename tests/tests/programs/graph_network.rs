//! A network that passes messages along the edges of a graph with several kinds of edges.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bond,
    Contact,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bond => "bond",
            Kind::Contact => "contact",
        }
    }
}

#[derive(Clone, Tree)]
struct Edge {
    #[tree(skip)]
    from: usize,
    #[tree(skip)]
    to: usize,
    #[tree(skip)]
    kind: String,
}

#[derive(Clone, Tree)]
struct Graph {
    nodes: Vec<Tensor>,
    edges: Vec<Edge>,
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct Layer {
    messages: BTreeMap<String, Linear>,
    update: Linear,
}

#[traced]
impl Layer {
    #[traced]
    fn forward(&self, graph: &Graph) -> Graph {
        let mut inbox = vec![Tensor::zeros([self.update.w.dim(1)], DType::F64); graph.nodes.len()];
        for Edge { from, to, kind } in &graph.edges {
            let message = self.messages[kind].forward(&graph.nodes[*from]).relu();
            inbox[*to] = &inbox[*to] + message;
        }
        let nodes: Vec<Tensor> = graph
            .nodes
            .iter()
            .zip(&inbox)
            .map(|(node, mail)| {
                self.update
                    .forward(&Tensor::concat(&[node, mail], -1))
                    .tanh()
            })
            .collect();
        Graph {
            nodes,
            edges: graph.edges.clone(),
        }
    }
}

#[traced]
fn energy(layers: &[Layer], graph: &Graph) -> Tensor {
    let mut graph = graph.clone();
    for layer in layers {
        graph = layer.forward(&graph);
    }
    let pooled = graph
        .nodes
        .iter()
        .map(|node| node.square().sum(..))
        .reduce(|a, b| a + b);
    pooled.unwrap() / graph.nodes.len() as f64
}

fn layer(key: Key, n: usize) -> Layer {
    let [a, b, c] = key.split_n();
    let linear = |key: Key, i: usize| Linear {
        w: key.normal([i, n], DType::F64) * 0.5,
        b: Tensor::full([n], 0.1, DType::F64),
    };
    Layer {
        messages: BTreeMap::from([
            ("bond".to_string(), linear(a, n)),
            ("contact".to_string(), linear(b, n)),
        ]),
        update: linear(c, 2 * n),
    }
}

/// The same with a matrix of all nodes and a matrix of adjacency for each kind.
fn dense(layers: &[Layer], graph: &Graph) -> Tensor {
    let n = graph.nodes.len();
    let mut h = Tensor::stack(&graph.nodes, 0);
    for layer in layers {
        let mut mail = h.zeros_like();
        for (name, linear) in &layer.messages {
            let mut adjacency = vec![0.0f64; n * n];
            for e in graph.edges.iter().filter(|e| e.kind == *name) {
                adjacency[e.to * n + e.from] += 1.0;
            }
            mail += Tensor::from_vec(adjacency, [n, n]).matmul(linear.forward(&h).relu());
        }
        h = layer
            .update
            .forward(&Tensor::concat(&[&h, &mail], -1))
            .tanh();
    }
    h.square().sum(..) / n as f64
}

fn example() -> (Vec<Layer>, Graph) {
    let [a, b, c] = Key::new(9).split_n();
    let edges = [
        (0, 1, Kind::Bond),
        (1, 2, Kind::Bond),
        (2, 0, Kind::Contact),
        (3, 1, Kind::Contact),
        (0, 1, Kind::Bond),
    ];
    let nodes = c.split_many(4);
    let graph = Graph {
        nodes: nodes
            .into_iter()
            .map(|key| key.normal([3], DType::F64))
            .collect(),
        edges: edges
            .map(|(from, to, kind)| Edge {
                from,
                to,
                kind: kind.name().to_owned(),
            })
            .to_vec(),
    };
    let layers = vec![layer(a, 3), layer(b, 3)];
    evaluate((&layers, &graph)).unwrap();
    (layers, graph)
}

#[test]
fn the_energy_is_that_of_matrices_of_adjacency() {
    let (layers, graph) = example();
    let (value, grads) = energy::value_and_grad(&layers, &graph);
    near(
        "the value",
        &entries(&value),
        &entries(&dense(&layers, &graph)),
        1e-13,
    )
    .unwrap();
    let at = (layers, graph);
    let by = noise_like(&at, 1);
    let slope = gradloom::tree::dot(&(grads.layers, grads.graph), &by);
    let f = |(layers, graph): &(Vec<Layer>, Graph)| dense(layers, graph);
    near(
        "the slope",
        &entries(&slope),
        &differences(&f, &at, &by, 1e-4),
        1e-7,
    )
    .unwrap();
}

#[test]
fn a_second_step_records_and_plans_nothing_and_another_graph_plans_again() {
    assert_eq!(Layer::FORWARD_RECORDED, None);
    assert_eq!(energy::RECORDED, None);
    let (mut layers, graph) = example();
    finds(|| layers[0].forward(&graph));
    finds(|| energy::grad(&layers, &graph).layers);
    let mut step = |graph: &Graph| {
        let (value, grads) = energy::value_and_grad(&layers, graph);
        layers = gradloom::tree::sub(&layers, &gradloom::tree::scale(&grads.layers, 0.1));
        evaluate((&value, &layers)).unwrap();
    };
    step(&graph);
    plans_nothing(|| step(&graph));
    let mut other = graph.clone();
    other.edges.reverse();
    step(&other);
    plans_nothing(|| step(&other));
    other.edges[0].kind = Kind::Contact.name().to_owned();
    let value = energy(&layers, &other);
    near(
        "the value",
        &entries(&value),
        &entries(&dense(&layers, &other)),
        1e-13,
    )
    .unwrap();
}
