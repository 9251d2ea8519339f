//! Derivatives and batches of programs for devices are those of the function without devices.

use super::collectives::cases;
use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{
    Reduction, all_gather, all_reduce, axis_index, pmean, ppermute, reduce_scatter, shard_map,
    with_sharding,
};
use gradloom_tests::noise;

/// Compares two functions of a tensor: values, both modes, second derivatives and batches.
fn compare(what: &str, f: &dyn Fn(&Tensor) -> Tensor, g: &dyn Fn(&Tensor) -> Tensor, x: &Tensor) {
    let near = |found: &Tensor, expected: &Tensor, of: &str| {
        assert_near(found, expected, &format!("{what}: {of}"));
    };
    let y = g(x);
    near(&f(x), &y, "value");
    let dx = noise(x.shape(), 11);
    let (_, dy) = jvp(f, x, &dx);
    near(&dy, &jvp(g, x, &dx).1, "jvp");
    let ct = noise(y.shape(), 12);
    let pulled = |f: &dyn Fn(&Tensor) -> Tensor| {
        let (_, pullback) = vjp(f, x);
        pullback.call(&ct)
    };
    near(&pulled(f), &pulled(g), "vjp");
    let slope =
        |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| grad(|x: &Tensor| (f(x) * &ct).sum(..))(x);
    let second = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| (slope(f, x) * &dx).sum(..))(x);
    near(&second(f), &second(g), "reverse over reverse");
    let forward = |f: &dyn Fn(&Tensor) -> Tensor| jvp(|x: &Tensor| slope(f, x), x, &dx).1;
    near(&forward(f), &forward(g), "forward over reverse");
    let lanes = Tensor::stack(&[x.clone(), &dx * 0.5, x * -1.0], 0);
    near(&vmap(f)(&lanes), &vmap(g)(&lanes), "vmap");
    let each = |f: &dyn Fn(&Tensor) -> Tensor| vmap(|x: &Tensor| slope(f, x))(&lanes);
    near(&each(f), &each(g), "vmap of the gradient");
}

#[test]
fn each_collective_has_the_derivatives_and_batches_of_its_definition() {
    for grid in Grid::all() {
        let x = noise(&[12 * grid.n(), 12], 3) + 1.5;
        for axes in grid.choices() {
            // One order of two axes is enough: values are compared for both.
            if axes.len() > 1 && axes[0] == "b" {
                continue;
            }
            for (name, on_devices, on_host) in cases() {
                let what = format!("{name} over {axes:?} of {:?}", grid.sizes);
                let run = |x: &Tensor| on_devices(&x.sin(), &axes).square();
                let map = shard_map(run, &grid.mesh, grid.rows(), grid.rows());
                let host = |x: &Tensor| {
                    let y = grid.host(x, &axes, |all, i| {
                        let all: Vec<Tensor> = all.iter().map(Tensor::sin).collect();
                        on_host(&all, i)
                    });
                    y.square()
                };
                compare(&what, &map, &host, &x);
            }
        }
    }
}

#[test]
fn a_replicated_weight_has_the_gradient_of_the_whole() {
    for grid in Grid::all() {
        let n = grid.n();
        let (x, w) = (noise(&[4 * n, 3], 1), noise(&[3], 2));
        let names = grid.names.clone();
        // The weight meets values that differ, and values that do not.
        let device = |(w, x): &(Tensor, Tensor)| {
            let h = (x * w).tanh();
            let mean = pmean(&h.mean(0), &names[..]);
            let scaled = &mean * w;
            (h * &scaled, (scaled * w).sum(..))
        };
        let map = shard_map(device, &grid.mesh, (None, grid.rows()), (grid.rows(), None));
        let host = |(w, x): &(Tensor, Tensor)| {
            let h = (x * w).tanh();
            let scaled = h.mean(0) * w;
            (h * &scaled, (scaled * w).sum(..))
        };
        let total = |(h, s): (Tensor, Tensor)| h.square().sum(..) + s.sin();
        for of in ["w", "x"] {
            let at = |v: &Tensor| match of {
                "w" => (v.clone(), x.clone()),
                _ => (w.clone(), v.clone()),
            };
            let f = |v: &Tensor| total(map(&at(v)));
            let g = |v: &Tensor| total(host(&at(v)));
            let v = if of == "w" { &w } else { &x };
            compare(&format!("{of} on {:?}", grid.sizes), &f, &g, v);
        }
    }
}

#[test]
fn tied_maxima_share_their_derivative() {
    let grid = Grid::new(&[4]);
    let x = Tensor::from([1.0f64, 3.0, 3.0, 2.0]);
    let max = |x: &Tensor| all_reduce(x, "a", Reduction::Max).sum(..);
    let slope = grad(shard_map(max, &grid.mesh, grid.rows(), None))(&x);
    assert_eq!(
        slope.to_vec::<f64>(),
        grad(|x: &Tensor| x.max(..))(&x).to_vec::<f64>()
    );
}

#[test]
fn a_product_with_zeros_has_its_derivative() {
    let grid = Grid::new(&[2, 2]);
    let prod = |x: &Tensor| all_reduce(x, ["a", "b"], Reduction::Prod).sum(..);
    let map = shard_map(prod, &grid.mesh, grid.rows(), None);
    for zeros in [[0.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0, 4.0]] {
        let x = Tensor::from(zeros);
        let slope = grad(&map)(&x).to_vec::<f64>();
        assert_eq!(slope, grad(|x: &Tensor| x.prod(..))(&x).to_vec::<f64>());
    }
}

#[test]
fn a_ring_of_products_is_a_matrix_product() {
    let grid = Grid::new(&[4]);
    let (x, w) = (noise(&[8, 8], 1), noise(&[8, 6], 2));
    let columns = gradloom::sharding::ShardingSpec::split(&grid.mesh, &[&[], &["a"]]).unwrap();
    let ring: Vec<(usize, usize)> = (0..4).map(|i| (i, (i + 1) % 4)).collect();
    // Each device has rows of `x` and of `w`. The rows of `w` travel.
    let device = |(x, w): &(Tensor, Tensor)| {
        let (mut w, mut y) = (w.clone(), Tensor::zeros([2, 6], DType::F64));
        for turn in 0..4i64 {
            let owner = (axis_index("a") + (4 - turn)) % 4i64;
            let places = Tensor::arange(2, DType::I64) + owner * 2i64;
            y += x.take(&places, 1).matmul(&w);
            w = ppermute(&w, "a", &ring);
        }
        y
    };
    let map = shard_map(device, &grid.mesh, (grid.rows(), grid.rows()), grid.rows());
    let f = |w: &Tensor| map(&(x.clone(), w.clone())).tanh();
    compare("ring", &f, &|w: &Tensor| x.matmul(w).tanh(), &w);
    // Rows gathered, columns scattered.
    let device = |(x, w): &(Tensor, Tensor)| {
        let part = x.matmul(w);
        reduce_scatter(&all_gather(&part, "a", 1), "a", 0)
    };
    let map = shard_map(device, &grid.mesh, (columns, grid.rows()), None);
    let _ = map;
}

#[test]
fn derivatives_inside_count_the_result_of_each_device() {
    let grid = Grid::new(&[2, 2]);
    let (x, w) = (noise(&[8, 3], 1), noise(&[3], 2));
    let loss = |w: &Tensor, x: &Tensor| (x * w).tanh().square().mean(..);
    let step = |(w, x): &(Tensor, Tensor)| {
        let local = grad(|w: &Tensor| loss(w, x))(w);
        let of_mean = grad(|w: &Tensor| pmean(&loss(w, x), ["a", "b"]))(w);
        (pmean(&local, ["a", "b"]), pmean(&of_mean, ["a", "b"]))
    };
    let map = shard_map(step, &grid.mesh, (None, grid.rows()), None);
    let (local, of_mean) = map(&(w.clone(), x.clone()));
    let expected = grad(|w: &Tensor| loss(w, &x))(&w);
    assert_near(&local, &expected, "gradients of parts");
    assert_near(
        &of_mean,
        &expected,
        "gradients of a mean that counts four times, a quarter each",
    );
    // The derivative of the whole function, which has derivatives inside.
    let f = |w: &Tensor| map(&(w.clone(), x.clone())).0;
    let g = |w: &Tensor| grad(|w: &Tensor| loss(w, &x))(w);
    compare("gradient inside", &f, &g, &w);
}

#[test]
fn a_collective_inside_of_a_derivative_that_is_taken_inside_is_exact() {
    // The sum of the results over all devices, with respect to the value of each.
    let grid = Grid::new(&[4]);
    let x = noise(&[4], 3);
    let device = |x: &Tensor| {
        grad(|x: &Tensor| {
            let total = all_reduce(&x.sin(), "a", Reduction::Sum);
            (total.square() * x).sum(..)
        })(x)
    };
    let found = shard_map(device, &grid.mesh, grid.rows(), grid.rows())(&x);
    let whole = |x: &Tensor| (x.sin().sum(..).square() * x).sum(..);
    assert_near(
        &found,
        &grad(whole)(&x),
        "the gradient of the sum of all results",
    );
}

#[test]
fn a_loop_and_a_condition_of_each_device_are_differentiated() {
    let grid = Grid::new(&[2]);
    let x = noise(&[4, 3], 1);
    let device = |x: &Tensor| {
        let decay = gradloom::fori_loop(0..3, |_, h: &Tensor| h.sin() * 0.5 + x, &x.zeros_like());
        let is_first = axis_index("a").equal(Tensor::from(0i64));
        let chosen = gradloom::cond(
            &is_first,
            |h: &Tensor| h.exp(),
            |h: &Tensor| h.cos(),
            &decay,
        );
        all_reduce(&chosen.sum(0), "a", Reduction::Sum)
    };
    let host = |x: &Tensor| {
        let mut h = x.zeros_like();
        for _ in 0..3 {
            h = h.sin() * 0.5 + x;
        }
        h.i(..2).exp().sum(0) + h.i(2..).cos().sum(0)
    };
    let map = shard_map(device, &grid.mesh, grid.rows(), None);
    compare("loop", &map, &host, &x);
}

#[test]
fn a_program_for_devices_runs_in_a_loop_and_under_a_checkpoint() {
    let grid = Grid::new(&[2]);
    let x = noise(&[4], 1);
    let device = |x: &Tensor| {
        let total = all_reduce(&x.sum(..), "a", Reduction::Sum);
        x.sin() * total
    };
    let map = shard_map(device, &grid.mesh, grid.rows(), grid.rows());
    let host = |x: &Tensor| x.sin() * x.sum(..);
    let f = |x: &Tensor| gradloom::fori_loop(0..2, |_, h: &Tensor| map(h), x);
    compare("loop", &f, &|x: &Tensor| host(&host(x)), &x);
    let f = gradloom::checkpoint(&map);
    compare("checkpoint", &f, &host, &x);
}

#[test]
fn a_spec_stays_with_its_tensor() {
    let grid = Grid::new(&[2, 2]);
    let spec =
        |dims: &[&[&str]]| gradloom::sharding::ShardingSpec::split(&grid.mesh, dims).unwrap();
    let (rows, columns) = (spec(&[&["a"], &[]]), spec(&[&[], &["b"]]));
    let x = noise(&[4, 6], 1);
    assert_eq!(x.sharding(), None);
    let y = x.shard(&rows);
    assert_eq!(y.sharding(), Some(&rows));
    assert_near(&y, &x, "values");
    assert_eq!(y.sharding(), Some(&rows), "also when it is computed");
    let z = y.reshard(&columns);
    assert_eq!(z.sharding(), Some(&columns));
    assert_eq!(z.clone().sharding(), Some(&columns));
    assert_eq!((&z + 1.0).sharding(), None);
    let f = |x: &Tensor| with_sharding(&x.sin(), &rows).square();
    compare("constraint", &f, &|x: &Tensor| x.sin().square(), &x);
}
