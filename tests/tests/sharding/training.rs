//! Steps of training on several devices are those on one.

use super::{Grid, assert_near};
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom::sharding::{Reduction, ShardingSpec, all_reduce, pmean, shard_map};
use gradloom_tests::noise;

#[derive(Clone, Tree)]
struct Perceptron {
    u: Tensor,
    a: Tensor,
    w: Tensor,
    b: Tensor,
}

fn perceptron() -> Perceptron {
    Perceptron {
        u: noise(&[6, 12], 1),
        a: noise(&[12], 2),
        w: noise(&[12, 4], 3),
        b: noise(&[4], 4),
    }
}

fn loss(net: &Perceptron, x: &Tensor, y: &Tensor) -> Tensor {
    let h = (x.matmul(&net.u) + &net.a).tanh();
    (h.matmul(&net.w) + &net.b - y).square().mean(..)
}

/// Takes three steps by gradients that are given, and compares them with the steps on one device.
fn train(what: &str, step: impl Fn(&Perceptron) -> (Tensor, Perceptron), x: &Tensor, y: &Tensor) {
    let adam = Adam::default();
    let (mut found, mut expected) = (perceptron(), perceptron());
    let mut states = [adam.init(&found), adam.init(&expected)];
    for _ in 0..3 {
        let (value, grads) = step(&found);
        let one = |net: &Perceptron| loss(net, x, y);
        let (expected_value, expected_grads) = value_and_grad(one)(&expected);
        assert_near(&value, &expected_value, what);
        let all = |net: &Perceptron| [net.u.clone(), net.a.clone(), net.w.clone(), net.b.clone()];
        for (g, e) in all(&grads).iter().zip(&all(&expected_grads)) {
            assert_near(g, e, what);
        }
        let [a, b] = states;
        let (next, a) = adam.step(&found, &grads, &a);
        let (next_expected, b) = adam.step(&expected, &expected_grads, &b);
        (found, expected, states) = (next, next_expected, [a, b]);
    }
}

#[test]
fn data_parallel_steps_are_those_of_one_device() {
    for grid in Grid::all() {
        let (x, y) = (noise(&[24, 6], 5), noise(&[24, 4], 6));
        let names = grid.names.clone();
        // Outside: the gradient of the whole.
        let on_devices =
            |(net, x, y): &(Perceptron, Tensor, Tensor)| pmean(&loss(net, x, y), &names[..]);
        let specs = (None, grid.rows(), grid.rows());
        let map = shard_map(on_devices, &grid.mesh, specs.clone(), None);
        let step = |net: &Perceptron| {
            let f = |net: &Perceptron| map(&(net.clone(), x.clone(), y.clone()));
            value_and_grad(f)(net)
        };
        train("data parallel, outside", step, &x, &y);
        // Inside: gradients of parts, whose mean is the gradient.
        let on_devices = |(net, x, y): &(Perceptron, Tensor, Tensor)| {
            let (value, grads) = value_and_grad(|net: &Perceptron| loss(net, x, y))(net);
            let mean = |x: &Tensor| pmean(x, &names[..]);
            let grads = Perceptron {
                u: mean(&grads.u),
                a: mean(&grads.a),
                w: mean(&grads.w),
                b: mean(&grads.b),
            };
            (mean(&value), grads)
        };
        let map = shard_map(on_devices, &grid.mesh, specs, None);
        let step = |net: &Perceptron| map(&(net.clone(), x.clone(), y.clone()));
        train("data parallel, inside", step, &x, &y);
    }
}

#[test]
fn tensor_parallel_steps_are_those_of_one_device() {
    for sizes in [&[2][..], &[4], &[2, 2], &[2, 3]] {
        let grid = Grid::new(sizes);
        let (x, y) = (noise(&[24, 6], 5), noise(&[24, 4], 6));
        let last = *grid.names.last().unwrap();
        let spec = |dims: &[&[&str]]| ShardingSpec::split(&grid.mesh, dims).unwrap();
        let net = [
            ("u", Some(spec(&[&[], &[last]]))),
            ("a", Some(spec(&[&[last]]))),
            ("w", Some(spec(&[&[last], &[]]))),
            ("b", None),
        ];
        // The batch is divided along the other axes.
        let others = &grid.names[..grid.names.len() - 1];
        let rows = spec(&[others]);
        let on_devices = |(net, x, y): &(Perceptron, Tensor, Tensor)| {
            let h = (x.matmul(&net.u) + &net.a).tanh();
            let out = all_reduce(&h.matmul(&net.w), last, Reduction::Sum) + &net.b;
            pmean(&(out - y).square().mean(..), others)
        };
        let map = shard_map(on_devices, &grid.mesh, (net, rows.clone(), rows), None);
        let step = |net: &Perceptron| {
            let f = |net: &Perceptron| map(&(net.clone(), x.clone(), y.clone()));
            value_and_grad(f)(net)
        };
        train(&format!("tensor parallel on {sizes:?}"), step, &x, &y);
    }
}
