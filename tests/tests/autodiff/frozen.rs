//! Fields marked `#[nodiff]`: frozen parts of a model, buffers and integer tables.

use gradloom::optim::{Adam, AdamW, Sgd, clip_by_norm};
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;

#[derive(Clone, Debug, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Debug, Tree)]
struct Model {
    #[nodiff]
    embedding: Layer,
    head: Layer,
    #[nodiff]
    mean: Tensor,
    #[nodiff]
    table: Vec<Tensor>,
    #[nodiff]
    mask: Tensor,
}

fn layer(seed: u64) -> Layer {
    let [w, b] = [seed, seed + 1].map(|seed| noise(&[3, 3], seed).cast(DType::F64));
    Layer { w, b }
}

fn model() -> Model {
    Model {
        embedding: layer(1),
        head: layer(3),
        mean: noise(&[3], 5).cast(DType::F64),
        table: vec![Tensor::from([2i64, 0, 1])],
        mask: Tensor::from([true, false, true]),
    }
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[traced(order = 2)]
fn loss(model: &Model, x: &Tensor) -> Tensor {
    let h = model.embedding.forward(&(x - &model.mean)).tanh();
    let h = model.table[0].one_hot(3, DType::F64).matmul(&h);
    let y = model.mask.select(model.head.forward(&h), &h);
    (y.square() + model.table[0].cast(DType::F64)).mean(..)
}

fn x() -> Tensor {
    noise(&[3, 3], 9).cast(DType::F64)
}

/// The same loss of the only part that is not frozen.
fn of_head(head: &Layer) -> Tensor {
    let head = head.clone();
    loss(&Model { head, ..model() }, &x())
}

#[test]
fn the_gradient_of_a_frozen_field_is_zero() {
    assert!(!loss::PROGRAM.starts_with("recorded"), "{}", loss::PROGRAM);
    assert_eq!(loss::RECORDED, None);
    let (model, x) = (model(), x());
    let expected = grad(of_head)(&model.head);
    let zeros = |layer: &Layer| tree::scale(layer, 0.0);
    let check = |gradient: &Model| {
        tree::assert_close(&gradient.head, &expected, 1e-12);
        tree::assert_close(&gradient.embedding, &zeros(&model.embedding), 0.0);
        assert_eq!(gradient.mean.to_vec::<f64>(), [0.0; 3]);
        assert_eq!(gradient.table[0].to_vec::<i64>(), [0; 3]);
        assert_eq!(gradient.mask.to_vec::<bool>(), [false; 3]);
    };
    for _ in 0..2 {
        check(&loss::grad(&model, &x).model);
        let (y, pullback) = loss::vjp(&model, &x);
        check(&pullback(&y.ones_like()).0);
    }
    check(&grad(|model: &Model| loss(model, &x))(&model));
    let plain = |model: &Model| {
        let h = (&x - &model.mean).matmul(&model.embedding.w) + &model.embedding.b;
        let h = model.table[0].one_hot(3, DType::F64).matmul(h.tanh());
        let y = h.matmul(&model.head.w) + &model.head.b;
        (model.mask.select(&y, &h).square() + model.table[0].cast(DType::F64)).mean(..)
    };
    check(&grad(plain)(&model));
    finds(|| loss::grad(&model, &x));
}

#[test]
fn the_tangent_of_a_frozen_field_counts_as_zero() {
    let (model, x) = (model(), x());
    let mut tangent = model.clone();
    tangent.head = layer(7);
    let (_, expected) = jvp(of_head, &model.head, &tangent.head);
    let zero = x.zeros_like();
    let (_, dy) = loss::jvp((&model, &x), (&tangent, &zero));
    tree::assert_close(&dy, &expected, 1e-12);
    let (_, dy) = jvp(|model: &Model| loss(model, &x), &model, &tangent);
    tree::assert_close(&dy, &expected, 1e-12);

    let change = hvp(|model: &Model| loss(model, &x), &model, &tangent);
    let expected = hvp(of_head, &model.head, &tangent.head);
    tree::assert_close(&change.head, &expected, 1e-12);
    assert_eq!(change.mean.to_vec::<f64>(), [0.0; 3]);
    let (_, change) = loss::hvp((&model, &x), (&tangent, &zero));
    tree::assert_close(&change.model.head, &expected, 1e-12);
    assert_eq!(change.model.mean.to_vec::<f64>(), [0.0; 3]);
}

#[test]
fn optimisers_keep_frozen_fields() {
    let (model, x) = (model(), x());
    let gradient = clip_by_norm(&loss::grad(&model, &x).model, 0.5);
    let check = |next: &Model| {
        tree::assert_close(&next.embedding, &model.embedding, 0.0);
        tree::assert_close(&next.mean, &model.mean, 0.0);
        assert_eq!(next.table[0].to_vec::<i64>(), [2, 0, 1]);
        assert_eq!(next.mask.to_vec::<bool>(), [true, false, true]);
        assert!(!tree::is_close(&next.head, &model.head, 1e-9));
    };
    check(&tree::sub(&model, &tree::scale(&gradient, 0.1)));
    let sgd = Sgd {
        momentum: 0.9,
        nesterov: true,
        ..Sgd::default()
    };
    let mut state = sgd.init(&model);
    for _ in 0..3 {
        let next = sgd.step(&model, &gradient, &state);
        check(&next.0);
        state = next.1;
    }
    let adam = AdamW::default();
    let mut state = adam.init(&model);
    for _ in 0..3 {
        let next = adam.step(&model, &gradient, &state);
        check(&next.0);
        state = next.1;
    }
    let adam = Adam::default();
    check(&adam.step(&model, &gradient, &adam.init(&model)).0);
    let free = (
        tree::dot(&gradient.head, &gradient.head),
        tree::dot(&gradient, &gradient),
    );
    tree::assert_close(&free.0, &free.1, 1e-12);
}
