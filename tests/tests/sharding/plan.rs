//! The plan of the book for a decoder of 7 billion parameters, for the function as a user writes it.
//!
//! `core/ir/tests/spmd_plan.rs` makes the plan for the program as text.

use gradloom::prelude::*;
use gradloom::sharding::{Explanation, Mesh, ShardingSpec, Specs, Speed, explain_sharding};
use gradloom::value_and_grad;
use std::sync::Arc;

const LAYERS: usize = 32;
const WIDTH: usize = 4096;
const HEADS: usize = 32;
const HIDDEN: usize = 11008;
const WORDS: usize = 32000;
const LEN: usize = 2048;

#[derive(Clone, Tree)]
struct Layer {
    n: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    m: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

#[derive(Clone, Tree)]
struct Decoder {
    table: Tensor,
    layers: Vec<Layer>,
    last: Tensor,
    head: Tensor,
}

fn layer(of: &Layer, x: &Tensor) -> Tensor {
    let (batch, len) = (x.dim(0), x.dim(1));
    let h = x.rms_norm(&of.n, 1e-5);
    let heads = |w: &Tensor| {
        let y = h.matmul(w).reshape([batch, len, HEADS, WIDTH / HEADS]);
        y.swap_axes(1, 2)
    };
    let (q, k, v) = (heads(&of.q), heads(&of.k), heads(&of.v));
    let y = q.causal_attention(&k, &v).swap_axes(1, 2);
    let x = x + y.reshape([batch, len, WIDTH]).matmul(&of.o);
    let h = x.rms_norm(&of.m, 1e-5);
    &x + (h.matmul(&of.gate).silu() * h.matmul(&of.up)).matmul(&of.down)
}

fn loss(of: &Decoder, tokens: &Tensor, labels: &Tensor) -> Tensor {
    let x = of.table.take(tokens, 0);
    let x = of.layers.iter().fold(x, |x, of| layer(of, &x));
    x.rms_norm(&of.last, 1e-5)
        .matmul(&of.head)
        .cross_entropy(labels)
}

fn plan(data: usize, model: usize) -> Explanation {
    let mesh = Arc::new(Mesh::new("pod", &[("data", data), ("model", model)]).unwrap());
    let split = |dims: &[&[&str]]| ShardingSpec::split(&mesh, dims).unwrap();
    let columns = || Specs::from(split(&[&[], &["model"]]));
    let rows = || Specs::from(split(&[&["model"], &[]]));
    let whole = || Specs::from(ShardingSpec::replicated(&mesh, 1));
    let zeros = |shape: &[usize]| Tensor::zeros(shape.to_vec(), DType::F32);
    let square = || zeros(&[WIDTH, WIDTH]);
    let one = Layer {
        n: zeros(&[WIDTH]),
        q: square(),
        k: square(),
        v: square(),
        o: square(),
        m: zeros(&[WIDTH]),
        gate: zeros(&[WIDTH, HIDDEN]),
        up: zeros(&[WIDTH, HIDDEN]),
        down: zeros(&[HIDDEN, WIDTH]),
    };
    let of_layer: Specs = [
        ("n", whole()),
        ("q", columns()),
        ("k", columns()),
        ("v", columns()),
        ("o", rows()),
        ("m", whole()),
        ("gate", columns()),
        ("up", columns()),
        ("down", rows()),
    ]
    .into();
    let of_layers = vec![of_layer; LAYERS];
    let specs: Specs = [
        ("table", columns()),
        ("layers", Specs::from(&of_layers[..])),
        ("last", whole()),
        ("head", columns()),
    ]
    .into();
    let decoder = Decoder {
        table: zeros(&[WORDS, WIDTH]),
        layers: vec![one; LAYERS],
        last: zeros(&[WIDTH]),
        head: zeros(&[WIDTH, WORDS]),
    };
    let tokens = Tensor::zeros([data, LEN], DType::I64);
    let batch = Specs::from(split(&[&["data"], &[]]));
    let args = (decoder, tokens.clone(), tokens);
    let step = |(decoder, tokens, labels): &(Decoder, Tensor, Tensor)| {
        value_and_grad(|of: &Decoder| loss(of, tokens, labels))(decoder)
    };
    let ins: Specs = (specs.clone(), batch.clone(), batch).into();
    let outs: Specs = (Specs::from(ShardingSpec::replicated(&mesh, 0)), specs).into();
    explain_sharding(step, &mesh, ins, outs, &args, &Speed::default()).unwrap()
}

#[test]
fn a_function_has_the_plan_of_the_book() {
    let book = include_str!("../../../docs/book/src/sharding.md");
    let gib = |bytes: u128| format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64);
    let mut most = 0;
    for (data, model) in [(1, 8), (8, 8), (128, 8)] {
        let of = plan(data, model);
        println!("\ndata = {data}, model = {model}\n{}", of.summary());
        let row = book.lines().find(|row| {
            let start = format!("| {} | {data} x {model} | ", data * model);
            row.starts_with(&start)
        });
        let cells: Vec<&str> = row.expect("the book has the plan").split(" | ").collect();
        assert_eq!(cells[2], gib(of.params));
        assert_eq!(cells[4], gib(of.sent()));
        most = most.max(of.memory);
    }
    let most = format!("{} in the order of", gib(most));
    assert!(book.contains(&most), "{most}");
}
