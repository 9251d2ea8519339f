//! The collectives of divided programs, beside those that XLA's partitioner inserts into their exports.

use gradloom::prelude::*;
use gradloom::sharding::{Mesh, ShardingSpec, Specs, Speed, explain_sharding, sharded};
use gradloom::trace::trace;
use gradloom_tests::xla::{self, Job};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number and bytes of the collectives of each kind.
type Sent = BTreeMap<String, (usize, u128)>;

/// A divided program.
struct Divided {
    name: &'static str,
    ours: Sent,
    job: Job,
}

/// Returns the bytes that a device sends.
fn total(of: &Sent) -> u128 {
    of.values().map(|(_, bytes)| bytes).sum()
}

/// Returns collectives in one line.
fn line(of: &Sent) -> String {
    let kinds = of
        .iter()
        .map(|(kind, (n, bytes))| format!("{n} {kind} {bytes}"));
    kinds.collect::<Vec<_>>().join(", ")
}

fn mesh(axes: &[(&str, usize)]) -> Arc<Mesh> {
    Arc::new(Mesh::new("m", axes).unwrap())
}

fn spec(mesh: &Arc<Mesh>, dims: &[&[&str]]) -> ShardingSpec {
    ShardingSpec::split(mesh, dims).unwrap()
}

fn divided<X, R>(
    name: &'static str,
    mesh: &Arc<Mesh>,
    f: impl Fn(&X) -> R + Copy,
    (ins, outs): (impl Into<Specs>, impl Into<Specs>),
    x: &X,
) -> Divided
where
    X: Tree,
    R: Tree,
{
    let (ins, outs): (Specs, Specs) = (ins.into(), outs.into());
    let speed = Speed::default();
    let explained = explain_sharding(f, mesh, ins.clone(), outs.clone(), x, &speed).unwrap();
    let mut ours = Sent::new();
    for of in &explained.collectives {
        let kind = ours.entry(of.name.to_owned()).or_default();
        *kind = (kind.0 + 1, kind.1 + of.sent);
    }
    let traced = trace(sharded(f, mesh, ins, outs), x);
    let job = Job {
        name: name.to_owned(),
        text: gradloom_stablehlo::export(traced.program(), "divided").unwrap(),
        args: Vec::new(),
        devices: mesh.n_devices(),
    };
    Divided { name, ours, job }
}

fn zeros<const N: usize>(shape: [usize; N]) -> Tensor {
    Tensor::zeros(shape, DType::F32)
}

/// Returns a perceptron with one hidden layer.
fn perceptron((x, u, v): &(Tensor, Tensor, Tensor)) -> Tensor {
    x.matmul(u).relu().matmul(v)
}

/// Returns the gradients of the mean square of the perceptron's result.
fn gradients(all: &(Tensor, Tensor, Tensor)) -> (Tensor, Tensor, Tensor) {
    grad(|all: &(Tensor, Tensor, Tensor)| perceptron(all).square().mean(..))(all)
}

fn programs() -> Vec<Divided> {
    let (data, model) = (mesh(&[("data", 4)]), mesh(&[("model", 4)]));
    let both = mesh(&[("data", 2), ("model", 2)]);
    let whole = |mesh| spec(mesh, &[&[], &[]]);
    let rows = |mesh, axis| spec(mesh, &[&[axis], &[]]);
    let columns = |mesh, axis| spec(mesh, &[&[], &[axis]]);
    let batch = (zeros([64, 32]), zeros([32, 128]), zeros([128, 32]));
    let parallel = (
        whole(&model),
        columns(&model, "model"),
        rows(&model, "model"),
    );
    let in_both = (
        rows(&both, "data"),
        columns(&both, "model"),
        rows(&both, "model"),
    );
    let norm = |(x, w, u, v): &(Tensor, Tensor, Tensor, Tensor)| {
        x + perceptron(&(x.rms_norm(w, 1e-5), u.clone(), v.clone()))
    };
    let positions = spec(&model, &[&[], &["model"], &[]]);
    let attention = |(q, k, v): &(Tensor, Tensor, Tensor)| q.attention(k, v);
    let heads = || zeros([2, 4, 64, 16]);
    let in_parts = spec(&model, &[&[], &[], &["model"], &[]]);
    let softmax = |x: &Tensor| x.softmax(-1);
    vec![
        divided(
            "data parallel gradients",
            &data,
            gradients,
            (
                (rows(&data, "data"), whole(&data), whole(&data)),
                (rows(&data, "data"), whole(&data), whole(&data)),
            ),
            &batch,
        ),
        divided(
            "data parallel gradients, split weights",
            &data,
            gradients,
            (rows(&data, "data"), rows(&data, "data")),
            &batch,
        ),
        divided(
            "tensor parallel perceptron",
            &model,
            perceptron,
            (parallel.clone(), whole(&model)),
            &batch,
        ),
        divided(
            "tensor parallel gradients",
            &model,
            gradients,
            (parallel.clone(), parallel),
            &batch,
        ),
        divided(
            "data and tensor parallel gradients",
            &both,
            gradients,
            (in_both.clone(), in_both),
            &batch,
        ),
        divided(
            "sequence parallel norm and perceptron",
            &model,
            norm,
            (
                (
                    positions.clone(),
                    spec(&model, &[&[]]),
                    columns(&model, "model"),
                    rows(&model, "model"),
                ),
                positions,
            ),
            &(
                zeros([2, 64, 32]),
                zeros([32]),
                zeros([32, 128]),
                zeros([128, 32]),
            ),
        ),
        divided(
            "attention over split positions",
            &model,
            attention,
            (in_parts.clone(), in_parts),
            &(heads(), heads(), heads()),
        ),
        divided(
            "softmax over a split axis",
            &model,
            softmax,
            (columns(&model, "model"), columns(&model, "model")),
            &zeros([64, 128]),
        ),
        divided(
            "product of split rows and split rows",
            &model,
            |(a, b): &(Tensor, Tensor)| a.matmul(b),
            (rows(&model, "model"), rows(&model, "model")),
            &(zeros([64, 64]), zeros([64, 64])),
        ),
    ]
}

#[test]
fn divided_programs_send_no_more_than_those_that_xla_divides() {
    let programs = programs();
    let Some(python) = xla::python("comparisons with the collectives of XLA") else {
        return;
    };
    let jobs: Vec<Job> = programs.iter().map(|of| of.job.clone()).collect();
    let mut more = Vec::new();
    for (of, theirs) in programs.iter().zip(xla::collectives(&python, &jobs)) {
        let theirs = theirs.unwrap_or_else(|e| panic!("{}: {e}\n{}", of.name, of.job.text));
        let mut sent = Sent::new();
        for (kind, bytes) in theirs {
            let kind = sent.entry(kind).or_default();
            *kind = (kind.0 + 1, kind.1 + bytes);
        }
        println!(
            "| {} | {} | {} | {} | {} |",
            of.name,
            line(&of.ours),
            total(&of.ours),
            line(&sent),
            total(&sent)
        );
        if total(&of.ours) > total(&sent) {
            more.push(of.name);
        }
    }
    assert!(more.is_empty(), "more is sent by {more:?}");
}
