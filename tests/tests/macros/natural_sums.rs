//! Sums and products of iterators of tensors.
//!
//! Each body is a traced function and a plain one, which are compared.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use std::collections::BTreeMap;

#[derive(Clone, Tree)]
struct Model {
    xs: Vec<Tensor>,
    y: Tensor,
    map: BTreeMap<String, Tensor>,
    #[tree(skip)]
    ks: Vec<f64>,
}

#[traced]
impl Model {
    fn cell(&self, x: &Tensor) -> Tensor {
        (x * &self.y).sin()
    }
}

fn argument() -> Model {
    let tensor = |k: f64| Tensor::from([0.3 + k, -0.2 * k, 0.5]);
    let map = [("a", 0.8), ("b", 1.8)].map(|(name, k)| (name.to_owned(), tensor(k)));
    Model {
        xs: [0.1, 0.2, 0.4].map(tensor).to_vec(),
        y: tensor(0.7),
        map: map.into(),
        ks: vec![0.5, 0.25, 2.0],
    }
}

bodies_of_model! {
    result |m| { m.xs.iter().map(|x| x.square()).sum() }
    typed |m| { let s: Tensor = m.xs.iter().map(|x| x.square()).sum(); s * &m.y }
    fish |m| { let s = m.xs.iter().map(|x| x.square()).sum::<Tensor>(); s * &m.y }
    refs |m| { m.xs.iter().sum::<Tensor>() * &m.y }
    refs_typed |m| { let s: Tensor = m.xs.iter().sum(); s * 2.0 }
    product |m| { m.xs.iter().product::<Tensor>() }
    cloned |m| { m.xs.iter().cloned().sum::<Tensor>() }
    captured |m| { let h = m.y.sin(); let s: Tensor = m.xs.iter().map(|x| x * &h).sum(); s.square() }
    method |m| { m.xs.iter().map(|x| m.cell(x)).sum() }
    zipped |m| { m.xs.iter().zip(&m.ks).map(|(x, k)| x * *k).sum() }
    number |m| { let k: f64 = m.ks.iter().sum(); &m.y * k }
    number_fish |m| { &m.y * m.ks.iter().sum::<f64>() }
    number_map |m| { &m.y * m.ks.iter().map(|k| k * k).sum::<f64>() }
    values |m| { m.map.values().sum() }
    local |m| { let l: Vec<Tensor> = m.xs.iter().map(|x| x.sin()).collect(); let s: Tensor = l.iter().sum(); s * &l[0] }
    pushed |m| { let mut l = Vec::new(); for x in &m.xs { l.push(x * &m.y); } let s: Tensor = l.iter().sum(); s }
    into |m| { let mut l = Vec::new(); for x in &m.xs { l.push(x * &m.y); } l.into_iter().sum() }
    array |m| { let (a, b) = (m.y.sin(), m.y.cos()); [a, b].iter().sum::<Tensor>() }
    filtered |m| { m.xs.iter().enumerate().filter(|(i, _)| *i > 0).map(|(_, x)| x.square()).sum() }
    in_expr |m| { &m.y + m.xs.iter().map(|x| x.square()).sum::<Tensor>() * 2.0 }
    then |m| { m.xs.iter().map(|x| x.square()).sum::<Tensor>().sum(..) }
    mean |m| { m.xs.iter().map(|x| x.square()).sum::<Tensor>() / m.xs.len() as f64 }
    in_loop |m| { let mut y = m.y.clone(); for i in 0..2 { let s: Tensor = m.xs.iter().map(|x| x * &y).sum(); y = s.sin(); } y }
    branch |m| { if m.ks.len() > 1 { m.xs.iter().sum() } else { m.y.clone() } }
}
