//! Keys and indices that are parts of skipped fields, or that methods of these return.
//!
//! Each body is a traced function and a plain one, which are compared.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    from: usize,
    kind: String,
    of: Kind,
}

impl Edge {
    fn key(&self) -> &str {
        &self.kind
    }

    fn index(&self) -> usize {
        self.from
    }
}

#[derive(Clone, Tree)]
struct Model {
    nodes: Vec<Tensor>,
    weights: BTreeMap<String, Tensor>,
    #[tree(skip)]
    edges: Vec<Edge>,
    #[tree(skip)]
    kinds: Vec<Kind>,
    #[tree(skip)]
    main: Edge,
    #[tree(skip)]
    dims: Vec<usize>,
    #[tree(skip)]
    pairs: Vec<(usize, String)>,
}

fn argument() -> Model {
    let tensor = |k: f64| Tensor::from([0.3 + k, -0.2 * k]);
    let edge = |from, of: Kind| Edge {
        from,
        kind: of.name().to_owned(),
        of,
    };
    let weights = [("bond", 0.8), ("contact", 1.8)];
    Model {
        nodes: [0.1, 0.2, 0.4].map(tensor).to_vec(),
        weights: weights.map(|(name, k)| (name.to_owned(), tensor(k))).into(),
        edges: vec![
            edge(0, Kind::Bond),
            edge(2, Kind::Contact),
            edge(1, Kind::Bond),
        ],
        kinds: vec![Kind::Contact, Kind::Bond],
        main: edge(1, Kind::Contact),
        dims: vec![2, 1],
        pairs: vec![(0, "bond".to_owned()), (2, "contact".to_owned())],
    }
}

bodies_of_model! {
    index |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + &m.weights[&edge.kind] * &m.nodes[edge.from]; } y }
    get |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + m.weights.get(&edge.kind).unwrap() * &m.nodes[edge.from]; } y }
    if_let |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { if let Some(w) = m.weights.get(&edge.kind) { y = y + w * &m.nodes[edge.from]; } } y }
    matched |m| { let mut y = m.nodes[0].clone(); for edge in m.edges.iter() { y = match m.weights.get(&edge.kind) { Some(w) => y + w * 2.0, None => y.sin() }; } y }
    as_str |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + &m.weights[edge.kind.as_str()] * &m.nodes[edge.from]; } y }
    get_as_str |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + m.weights.get(edge.kind.as_str()).unwrap() * &m.nodes[edge.from]; } y }
    trimmed |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + &m.weights[edge.kind.as_str().trim()]; } y }
    slice |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + &m.weights[&edge.kind[..]]; } y }
    star |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = y + &m.weights[&*edge.kind]; } y }
    own_method |m| { let mut y = m.nodes[0].clone(); for kind in &m.kinds { y = &y * &m.weights[kind.name()]; } y }
    own_of_field |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = &y * &m.weights[edge.of.name()] * &m.nodes[edge.index()]; } y }
    own_key |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = &y * &m.weights[edge.key()]; } y }
    own_get |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { y = &y * m.weights.get(edge.key()).unwrap(); } y }
    direct |m| { &m.weights[&m.main.kind] * &m.weights[m.main.kind.as_str()] * &m.weights[m.main.of.name()] * &m.weights[m.main.key()] }
    bound |m| { let key = &m.main.kind; &m.weights[key] * 2.0 }
    bound_loop |m| { let mut y = m.nodes[0].clone(); for edge in &m.edges { let key = &edge.kind; y = y * &m.weights[key]; } y }
    by_index |m| { let mut y = m.nodes[0].clone(); for i in 0..m.edges.len() { y = y * &m.weights[&m.edges[i].kind]; } y }
    tuples |m| { let mut y = m.nodes[0].clone(); for (i, kind) in &m.pairs { y = y * &m.weights[kind] + &m.nodes[*i]; } y }
    tuples_zero |m| { let mut y = m.nodes[0].clone(); for pair in &m.pairs { y = y * &m.weights[&pair.1] + &m.nodes[pair.0]; } y }
    enumerated |m| { let mut y = m.nodes[0].clone(); for (i, edge) in m.edges.iter().enumerate() { y = y * &m.weights[&edge.kind] + i as f64; } y }
    reshaped |m| { let y = m.nodes[0].reshape(&m.dims); y.reshape(m.dims.clone()).sum(..) * &m.nodes[1] }
    dims |m| { m.nodes[0].reshape(m.dims.as_slice()) * 2.0 }
    pair_field |m| { let e = &m.main; &m.weights[&e.kind] * &m.nodes[e.from] }
}
