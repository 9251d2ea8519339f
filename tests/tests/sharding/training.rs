//! Steps of training on several devices are those on one.

use super::{Grid, assert_near};
use gradloom::checkpoint;
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom::sharding::{Reduction, ShardingSpec, all_reduce, pmean, shard_map};
use gradloom::tree;
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

/// A block of a transformer. The heads, and then the hidden values, are divided over devices.
#[derive(Clone, Tree)]
struct Block {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    u: Tensor,
    w: Tensor,
}

/// Length of a head.
const HEAD: usize = 2;

impl Block {
    fn noise(seed: u64) -> Block {
        let (width, inner) = (6, 12 * HEAD);
        let weights = |i: u64, shape: &[usize]| noise(shape, 10 * seed + i) * 0.5;
        Block {
            q: weights(0, &[width, inner]),
            k: weights(1, &[width, inner]),
            v: weights(2, &[width, inner]),
            o: weights(3, &[inner, width]),
            u: weights(4, &[width, inner]),
            w: weights(5, &[inner, width]),
        }
    }

    /// Returns the output, given the sum over devices.
    fn apply(&self, x: &Tensor, sum: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let (batch, len) = (x.dim(0), x.dim(1));
        let heads = |w: &Tensor| {
            let y = x.matmul(w).reshape([batch, len, w.dim(1) / HEAD, HEAD]);
            y.swap_axes(1, 2)
        };
        let (q, k, v) = (heads(&self.q), heads(&self.k), heads(&self.v));
        let y = q.causal_attention(&k, &v).swap_axes(1, 2);
        let x = x + sum(&y.reshape([batch, len, self.o.dim(0)]).matmul(&self.o));
        &x + sum(&x.matmul(&self.u).gelu().matmul(&self.w))
    }
}

#[test]
fn tensor_parallel_blocks_with_checkpoints_train_as_on_one_device() {
    for sizes in [&[2][..], &[4], &[2, 2], &[2, 3]] {
        let grid = Grid::new(sizes);
        let (x, y) = (noise(&[4, 3, 6], 5), noise(&[4, 3, 6], 6));
        let last = *grid.names.last().unwrap();
        let spec = |dims: &[&[&str]]| Some(ShardingSpec::split(&grid.mesh, dims).unwrap());
        let columns = || spec(&[&[], &[last]]);
        let rows = || spec(&[&[last], &[]]);
        let of_block = [
            ("q", columns()),
            ("k", columns()),
            ("v", columns()),
            ("o", rows()),
            ("u", columns()),
            ("w", rows()),
        ];
        let others = &grid.names[..grid.names.len() - 1];
        type Argument = (Block, Block, Tensor, Tensor);
        let on_devices = |(first, second, x, y): &Argument| {
            let sum = |x: &Tensor| all_reduce(x, last, Reduction::Sum);
            let block = checkpoint(|(of, x): &(Block, Tensor)| of.apply(x, sum));
            let x = block(&(first.clone(), x.clone()));
            let x = block(&(second.clone(), x));
            pmean(&(x - y).square().mean(..), others)
        };
        let specs = (of_block.clone(), of_block, spec(&[others]), spec(&[others]));
        let map = shard_map(on_devices, &grid.mesh, specs, None);
        let on_one = |(first, second): &(Block, Block)| {
            let x = second.apply(&first.apply(&x, Tensor::clone), Tensor::clone);
            (x - &y).square().mean(..)
        };
        let whole = |(first, second): &(Block, Block)| {
            map(&(first.clone(), second.clone(), x.clone(), y.clone()))
        };
        let start = (Block::noise(1), Block::noise(2));
        let (mut found, mut expected) = (start.clone(), start);
        for step in 0..3 {
            let (loss, slopes) = value_and_grad(whole)(&found);
            let (expected_loss, expected_slopes) = value_and_grad(on_one)(&expected);
            assert_near(&loss, &expected_loss, "loss");
            let pairs = tree::leaves_with_paths(&slopes).into_iter();
            let pairs = pairs.zip(tree::leaves_with_paths(&expected_slopes));
            for ((path, slope), (_, expected)) in pairs {
                assert_near(
                    &slope,
                    &expected,
                    &format!("{sizes:?}, step {step}: {path}"),
                );
            }
            found = tree::map2(&found, &slopes, |w, slope| w - slope * 0.1);
            expected = tree::map2(&expected, &expected_slopes, |w, slope| w - slope * 0.1);
        }
    }
}
