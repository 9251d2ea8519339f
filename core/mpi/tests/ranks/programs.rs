//! Programs on whole values and on parts, compared with simulated devices and with one device.

use crate::collectives::{Agreement, assert_agrees, data};
use crate::launch::{Test, succeeds};
use gradloom::checkpoint;
use gradloom::events::{self, Event};
use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;
use gradloom::sharding::{
    Mesh, Reduction, ShardingSpec, Speed, all_gather, all_reduce, axis_index, pmean,
    reduce_scatter, shard_map, sharded,
};
use gradloom::tree;
use gradloom_mpi::World;
use std::sync::Arc;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "programs_are_those_of_simulated_devices",
        ranks: &[1, 2, 4],
        rank: programs,
        check: succeeds,
    },
    Test {
        name: "checkpoints_with_collectives_are_those_of_simulated_devices",
        ranks: &[1, 2, 4],
        rank: checkpoints,
        check: succeeds,
    },
    Test {
        name: "steps_on_parts_are_those_of_one_device",
        ranks: &[2, 4],
        rank: training,
        check: succeeds,
    },
    Test {
        name: "a_second_call_neither_traces_nor_plans",
        ranks: &[2],
        rank: second_calls,
        check: succeeds,
    },
    Test {
        name: "functions_return_trees_and_errors",
        ranks: &[2],
        rank: forms,
        check: succeeds,
    },
    Test {
        name: "a_report_names_lines_that_communicate",
        ranks: &[1, 2],
        rank: lines,
        check: succeeds,
    },
];

fn close(found: &impl Tree, expected: &impl Tree, what: &str) {
    let pairs = tree::leaves_with_paths(found).into_iter();
    for ((path, found), (_, expected)) in pairs.zip(tree::leaves_with_paths(expected)) {
        let what = format!("{what}: {path}");
        assert_agrees(&found, &expected, Agreement::Close, &what);
    }
}

/// Compares a function of whole values with simulated devices, and with the function itself.
fn check<X: Tree, Y: Tree>(
    world: &World,
    mesh: &Arc<Mesh>,
    what: &str,
    specs: [Option<ShardingSpec>; 2],
    x: &X,
    f: impl Fn(&X) -> Y + Copy,
) {
    let [ins, outs] = specs;
    let simulated = sharded(f, mesh, ins.clone(), outs.clone())(x);
    let found = world.sharded(f, mesh, ins, outs).call(x).unwrap();
    close(&found, &simulated, what);
    close(&found, &f(x), what);
}

fn programs() {
    let world = World::new().unwrap();
    let n = world.size();
    let line = Arc::new(Mesh::new("m", &[("x", n)]).unwrap());
    let grid = match n {
        4 => Mesh::new("g", &[("x", 2), ("y", 2)]),
        n => Mesh::new("g", &[("x", n), ("y", 1)]),
    };
    let grid = Arc::new(grid.unwrap());
    for mesh in [&line, &grid] {
        let rows = || Some(ShardingSpec::split(mesh, &[&["x"]]).unwrap());
        let columns = || Some(ShardingSpec::split(mesh, &[&[], &["x"]]).unwrap());
        // Lengths that no number of ranks divides.
        let (w, x) = (data(DType::F32, &[5]), data(DType::F32, &[7, 5]));
        let loss = |(w, x): &(Tensor, Tensor)| x.matmul(w).square().mean(..);
        let specs = || [rows(), None];
        check(
            &world,
            mesh,
            "a loss",
            specs(),
            &(w.clone(), x.clone()),
            loss,
        );
        check(
            &world,
            mesh,
            "its gradient",
            specs(),
            &(w, x.clone()),
            |x| grad(loss)(x),
        );
        check(&world, mesh, "a softmax", [columns(), columns()], &x, |x| {
            x.softmax(-1)
        });
        check(
            &world,
            mesh,
            "a softmax by rows",
            [columns(), rows()],
            &x,
            |x| x.softmax(-1),
        );
        check(&world, mesh, "a maximum", [rows(), None], &x, |x| x.max(0));
        check(
            &world,
            mesh,
            "a cumulative sum",
            [rows(), rows()],
            &x,
            |x| x.cumsum(0),
        );
        check(&world, mesh, "a sort", [rows(), None], &x, |x| x.sort(0));
        check(&world, mesh, "nothing to send", [rows(), rows()], &x, |x| {
            x.sin()
        });
        check(&world, mesh, "an argument", [rows(), columns()], &x, |x| {
            x.clone()
        });
        let q = data(DType::F32, &[2, 4, 8, 4]);
        let heads = Some(ShardingSpec::split(mesh, &[&[], &["x"]]).unwrap());
        check(&world, mesh, "attention", [heads.clone(), heads], &q, |q| {
            let scores = (q.matmul(q.swap_axes(-1, -2)) * 0.5).softmax(-1);
            scores.matmul(q)
        });
    }
}

/// Two layers that a checkpoint computes, with columns and then rows of weights on each rank, and their gradient.
fn checkpoints() {
    let world = World::new().unwrap();
    let mesh = Arc::new(Mesh::new("m", &[("x", world.size())]).unwrap());
    let spec = |dims: &[&[&str]]| ShardingSpec::split(&mesh, dims).unwrap();
    let (columns, rows) = (spec(&[&[], &["x"]]), spec(&[&["x"]]));
    let sum = |x: &Tensor| all_reduce(x, "x", Reduction::Sum);
    let layer = checkpoint(|(x, u, w): &(Tensor, Tensor, Tensor)| {
        let scale = axis_index("x").cast(DType::F32) * 0.25 + 1.0;
        let inner = checkpoint(|h: &Tensor| sum(&h.matmul(w)).tanh());
        let y = inner(&(x.matmul(u) * scale).tanh());
        // Collectives along the last axis, which moves to the front.
        let parts = reduce_scatter(&y, "x", 1);
        y + all_gather(&parts, "x", 1)
    });
    let f = |(x, u, w): &(Tensor, Tensor, Tensor)| {
        let block = |x: Tensor| layer(&(x, u.clone(), w.clone()));
        let loss = |x: &Tensor| block(block(x.clone())).square().mean(..);
        let (loss, slope) = value_and_grad(loss)(x);
        (loss, sum(&slope))
    };
    let specs = (None, columns, rows);
    let args = (
        data(DType::F32, &[3, 4]),
        data(DType::F32, &[4, 8]),
        data(DType::F32, &[8, 4]),
    );
    let simulated = shard_map(f, &mesh, specs.clone(), None)(&args);
    let found = world.shard_map(f, &mesh, specs, None).call(&args).unwrap();
    close(&found, &simulated, "layers with checkpoints");
}

/// A perceptron whose first weights are divided by columns, and the second ones by rows.
#[derive(Clone, Tree)]
struct Mlp {
    up: Tensor,
    bias: Tensor,
    down: Tensor,
}

type Argument = (Mlp, AdamState<Mlp>, Tensor, Tensor);

fn step((model, state, x, y): &Argument) -> (Mlp, AdamState<Mlp>, Tensor) {
    let loss = |model: &Mlp| {
        let hidden = (x.matmul(&model.up) + &model.bias).gelu();
        (hidden.matmul(&model.down) - y).square().mean(..)
    };
    let (l, grads) = value_and_grad(loss)(model);
    let (model, state) = Adam::default().step(model, &grads, state);
    (model, state, l)
}

fn training() {
    let world = World::new().unwrap();
    let n = world.size();
    let mesh = Arc::new(Mesh::new("m", &[("data", n / 2), ("model", 2)]).unwrap());
    let spec = |dims: &[&[&str]]| Some(ShardingSpec::split(&mesh, dims).unwrap());
    let of_model = [
        ("up", spec(&[&[], &["model"]])),
        ("bias", spec(&[&["model"]])),
        ("down", spec(&[&["model"]])),
    ];
    let of_state = [
        ("mean", of_model.clone().into()),
        ("square", gradloom::sharding::Specs::from(of_model.clone())),
    ];
    let rows = spec(&[&["data"]]);
    let ins = (
        of_model.clone(),
        of_state.clone(),
        rows.clone(),
        rows.clone(),
    );
    let outs = (of_model.clone(), of_state.clone(), None::<ShardingSpec>);
    let divided = world.sharded(step, &mesh, ins.clone(), outs);

    let mut model = Mlp {
        up: data(DType::F32, &[3, 8]),
        bias: data(DType::F32, &[8]),
        down: data(DType::F32, &[8, 2]),
    };
    let mut state = Adam::default().init(&model);
    let batch = |i: usize| {
        let x = data(DType::F32, &[4 * (i + 1), 3]);
        let x = x.slice([4 * i as i64, 0], [4 * (i as i64 + 1), 3], [1i64, 1]);
        (x.clone(), x.matmul(data(DType::F32, &[3, 2])).tanh())
    };
    let (x, y) = batch(0);
    let whole: Argument = (model.clone(), state.clone(), x, y);
    let mut parts: Argument = world.part(&whole, &mesh, ins.clone()).unwrap();
    assert_eq!(parts.0.up.shape(), [3, 4]);
    assert_eq!(parts.2.shape(), [4 / (n / 2), 3]);
    for i in 0..4 {
        let (x, y) = batch(i);
        let of_batch = world
            .part(&(x.clone(), y.clone()), &mesh, rows.clone())
            .unwrap();
        let found = divided
            .on_parts(&(parts.0, parts.1, of_batch.0, of_batch.1))
            .unwrap();
        let l;
        (model, state, l) = step(&(model, state, x, y));
        close(&found.2, &l, "the loss");
        parts = (found.0, found.1, parts.2, parts.3);
    }
    let found = world.whole(&parts.0, &mesh, of_model).unwrap();
    close(&found, &model, "the model");
}

fn second_calls() {
    let world = World::new().unwrap();
    let mesh = Arc::new(Mesh::new("m", &[("data", world.size())]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["data"]]).unwrap();
    let slope = |(w, x): &(Tensor, Tensor)| {
        let local = grad(|w: &Tensor| x.matmul(w).square().mean(..))(w);
        pmean(&local, "data")
    };
    let slope = world.shard_map(slope, &mesh, (None, rows.clone()), None);
    let loss = world.sharded(|x: &Tensor| x.square().sum(..), &mesh, rows, None);
    let w = data(DType::F32, &[3]);
    for (i, len) in [4, 8, 4, 8, 4].into_iter().enumerate() {
        let x = data(DType::F32, &[len, 3]) * (i + 1) as f64;
        evaluate(&x).unwrap();
        let ((slope, loss), log) = events::record(|| {
            (
                slope.call(&(w.clone(), x.clone())).unwrap(),
                loss.call(&x).unwrap(),
            )
        });
        let made = |event: &&Event| {
            matches!(
                event,
                Event::Traced { .. } | Event::Planned { .. } | Event::Hit { .. }
            )
        };
        let n_made = log.iter().filter(made).count();
        assert_eq!(n_made > 0, i < 2, "call {i}: {log:?}");
        let expected = grad(|w: &Tensor| x.matmul(w).square().mean(..))(&w);
        close(&slope, &expected, "a slope");
        close(&loss, &x.square().sum(..), "a loss");
    }
}

/// A value with a field that is not a tensor.
#[derive(Clone, Tree)]
struct Power {
    x: Tensor,
    #[tree(skip)]
    exponent: i32,
}

fn forms() {
    let world = World::new().unwrap();
    let mesh = Arc::new(Mesh::new("m", &[("x", world.size())]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["x"]]).unwrap();
    // A field that is not a tensor belongs to the shapes.
    let power = |of: &Power| Power {
        x: of.x.pow(f64::from(of.exponent)),
        exponent: of.exponent + 1,
    };
    let power = world.sharded(power, &mesh, rows.clone(), rows.clone());
    for exponent in [2, 3, 2] {
        let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
        let found = power.call(&Power { x, exponent }).unwrap();
        assert_eq!(found.exponent, exponent + 1);
        assert_eq!(found.x.to_vec::<f32>()[1], 2.0f32.powi(exponent));
    }
    // A function without results, one with an error of its own, and one that does not fit.
    let x = Tensor::from([1.0f32, 2.0]);
    world
        .sharded(|_: &Tensor| (), &mesh, rows.clone(), None)
        .call(&x)
        .unwrap();
    let fails = |x: &Tensor| -> Result<Tensor> { x.try_item::<f32>().map(Tensor::from) };
    let error = world
        .sharded(fails, &mesh, rows.clone(), None)
        .call(&x)
        .unwrap_err();
    assert!(error.to_string().starts_with("rank 0 failed: "), "{error}");
    let misfit = |x: &Tensor| x.matmul(Tensor::from([1.0f32, 2.0, 3.0]));
    let error = world
        .sharded(misfit, &mesh, rows.clone(), None)
        .call(&x)
        .unwrap_err();
    assert!(error.to_string().starts_with("rank 0 failed: "), "{error}");
    // Parts that are not equal.
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let error = world.part(&x, &mesh, rows.clone()).unwrap_err();
    assert!(
        error.to_string().contains("axis 0 of f32[3] has 2 parts"),
        "{error}"
    );
    let longer = |x: &Tensor| Tensor::concat(&[x, &Tensor::from([1.0f32])], 0);
    let x = Tensor::from([1.0f32]);
    let error = world
        .sharded(longer, &mesh, rows.clone(), rows.clone())
        .on_parts(&x);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("`result` cannot be divided equally"),
        "{error}"
    );
    // Another mesh.
    let other = Arc::new(Mesh::new("m", &[("x", 3)]).unwrap());
    let error = world
        .sharded(|x: &Tensor| x.sin(), &other, None, None)
        .call(&x);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("does not have the devices 0 to 1"),
        "{error}"
    );
    // The derivative of a call would be lost.
    let sin = world.sharded(|x: &Tensor| x.sin(), &mesh, None, None);
    let slope = |x: &Tensor| -> Result<Tensor> {
        sin.call(x).map_err(|error| {
            assert!(
                error.to_string().contains("is traced by a transform"),
                "{error}"
            );
            Error::of_host("sin", error.to_string())
        })
    };
    assert!(grad(slope)(&Tensor::from(1.0f32)).is_err());
}

fn lines() {
    let world = World::new().unwrap();
    let mesh = Arc::new(Mesh::new("m", &[("x", world.size())]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["x"]]).unwrap();
    let slope = |(w, x): &(Tensor, Tensor)| grad(|w: &Tensor| (w * x).square().sum(..))(w);
    let here = line!() - 1;
    let specs = (ShardingSpec::replicated(&mesh, 1), rows);
    let step = world.sharded(slope, &mesh, specs, None);
    let of = |shape: &[usize]| Tensor::zeros(shape, DType::F32);
    let explained = step.explain(&(of(&[3]), of(&[8, 3])), &Speed::default());
    let explained = explained.unwrap();
    let found = explained.by_line();
    let found: Vec<_> = found
        .iter()
        .map(|(at, n, _)| (at.map(|at| at.line()), *n))
        .collect();
    let expected = [(Some(here), 1)];
    assert_eq!(found, &expected[..usize::from(world.size() > 1)]);
}
