//! Loops and branches in functions that the devices of a mesh compute together: each device runs them on its parts.

use super::automatic::{compare, spec};
use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{Explanation, ShardingSpec, Specs, Speed, explain_sharding, sharded};
use gradloom::{checkpoint, cond, scan, while_loop};
use gradloom_tests::noise;

/// All states of a recurrent network from inputs `[turns, batch, width]`.
fn states(w: &Tensor, xs: &Tensor) -> Tensor {
    let turn = |h: &Tensor, x: &Tensor| {
        let h = (x + h.matmul(w)).tanh();
        (h.clone(), h)
    };
    scan(turn, &xs.i(0).zeros_like(), xs).1
}

fn explained(
    f: impl Fn(&(Tensor, Tensor)) -> Tensor,
    grid: &Grid,
    xs: &Tensor,
    dims: &[&[&str]],
) -> Explanation {
    let w = Tensor::zeros([xs.dim(-1), xs.dim(-1)], xs.dtype());
    let specs: Specs = (Specs::from(None), Specs::from(spec(grid, dims))).into();
    let args = (w, xs.clone());
    explain_sharding(f, &grid.mesh, specs, None, &args, &Speed::default()).unwrap()
}

#[test]
fn loops_on_parts_give_what_one_device_gives() {
    type Function = (&'static str, Box<dyn Fn(&Tensor) -> Tensor>);
    let w = noise(&[4, 4], 2);
    let inner = w.clone();
    let columns = noise(&[4], 6);
    let functions: Vec<Function> = vec![
        ("states", Box::new(move |xs| states(&w, xs))),
        (
            "weights",
            Box::new(move |xs| {
                let loss = |w: &Tensor| states(w, xs).square().sum(..);
                grad(loss)(&inner)
            }),
        ),
        (
            "mean",
            Box::new(|xs| {
                scan(
                    |h: &Tensor, x: &Tensor| (h + x.mean(0), ()),
                    &xs.i(0).sum(0),
                    xs,
                )
                .0
            }),
        ),
        (
            "greatest",
            Box::new(|xs| {
                scan(
                    |h: &Tensor, x: &Tensor| (h.maximum(x.max(0)), ()),
                    &xs.i(0).max(0),
                    xs,
                )
                .0
            }),
        ),
        (
            "counter",
            Box::new(|xs| {
                let turn = |(n, h): &(Tensor, Tensor), x: &Tensor| ((n + 1.0, h * n + x), ());
                scan(turn, &(Tensor::scalar(1.0), xs.i(0)), xs).0.1
            }),
        ),
        (
            "checkpoint",
            Box::new(|xs| {
                let turn = |h: &Tensor, x: &Tensor| {
                    let h = checkpoint(|(h, x): &(Tensor, Tensor)| (h * x).sin())(&(
                        h.clone(),
                        x.clone(),
                    ));
                    (h.clone(), h)
                };
                scan(turn, &xs.i(0), xs).1
            }),
        ),
        (
            "two loops",
            Box::new(|xs| {
                let turn = |h: &Tensor, x: &Tensor| {
                    let inner = |g: &Tensor, x: &Tensor| ((g * x).cos(), ());
                    let h = scan(inner, h, &Tensor::stack(&[x.clone(), x * 2.0], 0)).0;
                    (h.clone(), ())
                };
                scan(turn, &xs.i(0), xs).0
            }),
        ),
        (
            "branch",
            Box::new(move |xs| {
                let choice = xs.sum(..).gt(0.0);
                cond(
                    &choice,
                    |x: &Tensor| (x * &columns).sin(),
                    |x: &Tensor| x.cos(),
                    xs,
                )
            }),
        ),
    ];
    let xs = noise(&[3, 6, 4], 3);
    for (grid, spec) in divided() {
        for (name, f) in &functions {
            let g = sharded(f, &grid.mesh, &spec, None);
            compare(&format!("{name} {spec}"), &g, f, &xs);
        }
    }
}

/// Specs of a tensor of rank 3 on all meshes of the tests.
fn divided() -> Vec<(Grid, ShardingSpec)> {
    let dims = |names: &[&'static str]| {
        let (first, last) = (names[0], names[names.len() - 1]);
        let mut all = vec![
            [None, Some(first), None],
            [None, None, Some(last)],
            [Some(first), None, None],
        ];
        if first != last {
            all.push([None, Some(first), Some(last)]);
        }
        all
    };
    let of_grid = |sizes: &[usize]| {
        let all = dims(&Grid::new(sizes).names).into_iter();
        let sizes = sizes.to_vec();
        all.map(move |dims| {
            let grid = Grid::new(&sizes);
            let dims: Vec<&[&str]> = dims.iter().map(|name| name.as_slice()).collect();
            let spec = spec(&grid, &dims);
            (grid, spec)
        })
    };
    let grids = Grid::all();
    grids.iter().flat_map(|grid| of_grid(&grid.sizes)).collect()
}

/// Reverse mode runs such a loop again, so it has no second derivative in reverse mode.
#[test]
fn loops_with_conditions_on_parts_give_what_one_device_gives() {
    let rows = noise(&[6, 4], 5);
    let counted = |xs: &Tensor| {
        let turn = |(n, h): &(Tensor, Tensor)| (n + 1.0, (h * &rows).sin());
        let start = (Tensor::scalar(0.0f64), xs.sum(0));
        while_loop(|(n, _): &(Tensor, Tensor)| n.lt(3.0), turn, &start).1
    };
    let of_a_sum = |xs: &Tensor| {
        let turn = |h: &Tensor| h * 0.5;
        while_loop(|h: &Tensor| h.square().sum(..).gt(1.0), turn, xs)
    };
    type Function<'a> = (&'a str, &'a dyn Fn(&Tensor) -> Tensor);
    let functions: [Function<'_>; 2] = [("counted", &counted), ("of a sum", &of_a_sum)];
    let (xs, dx) = (noise(&[3, 6, 4], 3), noise(&[3, 6, 4], 4));
    for (grid, spec) in divided() {
        for (name, f) in functions {
            let g = sharded(f, &grid.mesh, &spec, None);
            let what = format!("{name} {spec}");
            assert_near(&g(&xs), &f(&xs), &what);
            assert_near(&jvp(&g, &xs, &dx).1, &jvp(f, &xs, &dx).1, &what);
            let slope = grad(|xs: &Tensor| g(xs).sin().sum(..));
            assert_near(
                &slope(&xs),
                &grad(|xs: &Tensor| f(xs).sin().sum(..))(&xs),
                &what,
            );
        }
    }
}

#[test]
fn a_batch_stays_divided_through_a_loop() {
    let grid = Grid::new(&[4]);
    let xs = Tensor::zeros([10, 8, 32], DType::F32);
    let batch: &[&[&str]] = &[&[], &["a"], &[]];
    let forward = explained(|(w, xs)| states(w, xs), &grid, &xs, batch);
    assert_eq!(forward.sent(), 0, "{forward}");
    let one = explained(|(w, xs)| states(w, xs), &Grid::new(&[1]), &xs, batch);
    assert_eq!(forward.flops * 4.0, one.flops);
    // The states before and after a turn are added up after the last turn, once.
    let slope = |(w, xs): &(Tensor, Tensor)| grad(|w: &Tensor| states(w, xs).sum(..))(w);
    let back = explained(slope, &grid, &xs, batch);
    let kinds: Vec<(&str, usize, u128)> = back
        .by_kind()
        .into_iter()
        .map(|(name, _, n, sent)| (name, n, sent))
        .collect();
    assert_eq!(
        kinds,
        [("all_reduce", 1, 2 * 3 * 32 * 32 * 4 / 4)],
        "{back}"
    );
}

#[test]
fn a_loop_runs_whole_along_an_axis_if_that_sends_less() {
    let grid = Grid::new(&[2, 2]);
    let xs = Tensor::zeros([10, 8, 32], DType::F32);
    let of = explained(|(w, xs)| states(w, xs), &grid, &xs, &[&[], &["a"], &["b"]]);
    insta::assert_snapshot!(of);
}

#[test]
fn lengths_that_devices_do_not_divide_equally() {
    let grid = Grid::new(&[4]);
    let xs = noise(&[3, 7, 5], 1);
    let w = noise(&[5, 5], 2);
    let batch = spec(&grid, &[&[], &["a"], &[]]);
    let f = |xs: &Tensor| states(&w, xs);
    assert_near(
        &sharded(f, &grid.mesh, &batch, None)(&xs),
        &f(&xs),
        "states",
    );
    // A gradient of weights adds up over the batch, and padding would count: it is computed whole.
    let f = |xs: &Tensor| grad(|w: &Tensor| states(w, xs).square().sum(..))(&w);
    assert_near(
        &sharded(f, &grid.mesh, &batch, None)(&xs),
        &f(&xs),
        "weights",
    );
}

/// Weights of layers, stacked: `[layers, width, hidden]` and `[layers, hidden, width]`.
type Weights = (Tensor, Tensor);

/// Layers of a perceptron, one in each turn of a loop.
fn layers(x: &Tensor, (up, down): &Weights) -> Tensor {
    let turn = |x: &Tensor, (up, down): &Weights| (x + x.matmul(up).tanh().matmul(down), ());
    scan(turn, x, &(up.clone(), down.clone())).0
}

fn loss((x, weights): &(Tensor, Weights)) -> Tensor {
    layers(x, weights).square().sum(..)
}

fn slopes((x, weights): &(Tensor, Weights)) -> Weights {
    grad(|weights: &Weights| layers(x, weights).square().sum(..))(weights)
}

/// Specs of a batch that is divided over `a`, and of weights whose hidden units are divided over `b`.
fn of_layers(grid: &Grid) -> Specs {
    let weights = (
        Specs::from(spec(grid, &[&[], &[], &["b"]])),
        Specs::from(spec(grid, &[&[], &["b"], &[]])),
    );
    (
        Specs::from(spec(grid, &[&["a"], &[]])),
        Specs::from(weights),
    )
        .into()
}

#[test]
fn layers_whose_turns_exchange_values_are_divided() {
    let grid = Grid::new(&[2, 2]);
    let weights = (noise(&[3, 4, 6], 1), noise(&[3, 6, 4], 2));
    let args = (noise(&[8, 4], 3), weights);
    let value = sharded(loss, &grid.mesh, of_layers(&grid), None);
    assert_near(&value(&args), &loss(&args), "value");
    let found = sharded(slopes, &grid.mesh, of_layers(&grid), None)(&args);
    let expected = slopes(&args);
    assert_near(&found.0, &expected.0, "weights up");
    assert_near(&found.1, &expected.1, "weights down");
    assert_near(&grad(value)(&args).0, &grad(loss)(&args).0, "batch");
}

#[test]
fn layers_in_a_loop_send_what_layers_in_a_row_send() {
    let grid = Grid::new(&[2, 4]);
    let [n, batch, width, hidden] = [3, 8, 32, 64];
    let zeros = |shape: [usize; 3]| Tensor::zeros(shape, DType::F32);
    let weights = (zeros([n, width, hidden]), zeros([n, hidden, width]));
    let args = (Tensor::zeros([batch, width], DType::F32), weights);
    let (mesh, speed) = (&grid.mesh, Speed::default());
    let kinds = |of: &Explanation| -> Vec<(&str, String, usize, u128)> {
        let kinds = of.by_kind().into_iter();
        let axes = |axes: Vec<_>| format!("{axes:?}");
        kinds
            .map(|(name, of, n, sent)| (name, axes(of), n, sent))
            .collect()
    };
    let looped = explain_sharding(slopes, mesh, of_layers(&grid), None, &args, &speed).unwrap();
    let row = |(x, (up, down)): &(Tensor, Weights)| {
        let loss = |(up, down): &Weights| {
            let mut x = x.clone();
            for i in 0..n as i64 {
                x = &x + x.matmul(up.i(i)).tanh().matmul(down.i(i));
            }
            x.square().sum(..)
        };
        grad(loss)(&(up.clone(), down.clone()))
    };
    let row = explain_sharding(row, mesh, of_layers(&grid), None, &args, &speed).unwrap();
    let reduced = looped
        .collectives
        .iter()
        .filter(|of| of.name == "all_reduce");
    // One in each layer, and one in each layer but the first for the derivative.
    assert_eq!(reduced.count(), n + n - 1);
    assert_eq!(kinds(&looped), kinds(&row), "{looped}\n{row}");
}
