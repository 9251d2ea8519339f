//! `vmap` whose lanes a mesh axis splits: the values of `vmap`, with the axis in the specs.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{
    Reduction, ShardingSpec, Speed, all_reduce, explain_sharding, shard_map, sharded, with_sharding,
};
use gradloom::{Vmap, VmapAxes};
use gradloom_tests::noise;

#[traced(returns(O@b))]
fn dense(#[shape(I)] x: &Tensor, #[shape(I, O@b)] w: &Tensor) -> Tensor {
    x.matmul(w).tanh()
}

fn spec(grid: &Grid, dims: &[&[&str]]) -> ShardingSpec {
    ShardingSpec::split(&grid.mesh, dims).unwrap()
}

#[test]
fn lanes_that_an_axis_splits_have_the_values_of_all_lanes() {
    for grid in [Grid::new(&[2, 2]), Grid::new(&[2, 3])] {
        let (x, w) = (noise(&[5, 3], 1), noise(&[3, 4], 2));
        let columns = spec(&grid, &[&["b"]]);
        let one = |x: &Tensor| with_sharding(&x.matmul(&w).tanh(), &columns);
        let plain = |x: &Tensor| x.matmul(&w).tanh();
        let all = Vmap::new(one).spmd_axis_name("a");
        let f = |x: &Tensor| all.call(x);
        let found = f(&x);
        assert_eq!(found.sharding(), Some(&spec(&grid, &[&["a"], &["b"]])));
        assert_eq!(found.to_vec::<f64>(), vmap(plain)(&x).to_vec::<f64>());

        let divided = sharded(f, &grid.mesh, None, None);
        assert_near(&divided(&x), &vmap(plain)(&x), "value");
        let loss = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| f(x).square().sum(..))(&x);
        assert_near(&loss(&divided), &loss(&vmap(plain)), "gradient");
        let explained = explain_sharding(f, &grid.mesh, None, None, &x, &Speed::default());
        let explained = explained.unwrap().to_string();
        let result = explained
            .lines()
            .find(|line| line.starts_with("result"))
            .unwrap();
        assert!(result.contains(r#"[{"a"}, {"b"}]"#), "{explained}");
    }
}

#[test]
fn annotations_and_sharded_functions_have_the_axis_of_the_lanes() {
    let grid = Grid::new(&[2, 2]);
    let (x, w) = (noise(&[4, 3], 1), noise(&[3, 4], 2));
    let axes = || VmapAxes::new((0, None)).spmd_axis_name("a");
    let f = |(x, w): &(Tensor, Tensor)| dense::vmap(axes(), x, w);
    let explained = explain_sharding(
        f,
        &grid.mesh,
        None,
        None,
        &(x.clone(), w.clone()),
        &Speed::default(),
    );
    let explained = explained.unwrap().to_string();
    let result = explained
        .lines()
        .find(|line| line.starts_with("result"))
        .unwrap();
    assert!(result.contains(r#"[{"a"}, {"b"}]"#), "{explained}");
    let args = (x.clone(), w.clone());
    assert_near(
        &sharded(f, &grid.mesh, None, None)(&args),
        &x.matmul(&w).tanh(),
        "annotation",
    );

    let inner = sharded(
        |x: &Tensor| x.sin(),
        &grid.mesh,
        spec(&grid, &[&["b"]]),
        None,
    );
    let found = Vmap::new(inner).spmd_axis_name("a").call(&x);
    assert_near(&found, &x.sin(), "sharded");
}

#[test]
fn devices_of_a_shard_map_have_some_lanes_each() {
    for grid in [Grid::new(&[2, 2]), Grid::new(&[2, 3])] {
        let n = grid.sizes[1];
        let columns = spec(&grid, &[&["b"]]);
        let body = |x: &Tensor| all_reduce(&x.sin().sum(..), "b", Reduction::Sum) * x;
        let map = shard_map(body, &grid.mesh, &columns, &columns);
        let x = noise(&[6, 2 * n], 1);
        let split = Vmap::new(&map).spmd_axis_name("a");
        let whole = vmap(&map);
        assert_eq!(split.call(&x).to_vec::<f64>(), whole(&x).to_vec::<f64>());
        let program = gradloom::trace::trace(|x: &Tensor| split.call(x), &x).to_string();
        assert!(program.contains("{a}, {b}"), "{program}");
        let slope = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| f(x).square().sum(..))(&x);
        assert_near(&slope(&|x| split.call(x)), &slope(&whole), "gradient");
        let (y, dy) = jvp(|x: &Tensor| split.call(x), &x, &noise(&[6, 2 * n], 2));
        let (z, dz) = jvp(&whole, &x, &noise(&[6, 2 * n], 2));
        assert_near(&y, &z, "value");
        assert_near(&dy, &dz, "tangent");
    }
}

#[test]
fn an_axis_that_cannot_split_the_lanes_is_an_error() {
    let grid = Grid::new(&[2, 2]);
    let x = noise(&[3, 4], 1);
    let columns = spec(&grid, &[&["b"]]);
    let failed = |axis: &str, f: &dyn Fn(&Tensor) -> Tensor| {
        let fallible = |x: &Tensor| -> Result<Tensor> { Ok(f(x)) };
        let error = Vmap::new(fallible).spmd_axis_name(axis).call(&x);
        error.map(drop).unwrap_err().to_string()
    };
    let placed = |x: &Tensor| with_sharding(x, &columns);
    let divided = |x: &Tensor| sharded(|x: &Tensor| x.sin(), &grid.mesh, None, None)(x);
    let map = |x: &Tensor| shard_map(|x: &Tensor| x * 2.0, &grid.mesh, &columns, &columns)(x);
    let reduced = |x: &Tensor| {
        shard_map(
            |x: &Tensor| all_reduce(x, "a", Reduction::Sum),
            &grid.mesh,
            &columns,
            &columns,
        )(x)
    };
    let all = [
        failed("c", &placed),
        failed("b", &placed),
        failed("c", &divided),
        failed("c", &map),
        failed("b", &map),
        failed("a", &map),
        failed("a", &reduced),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    `vmap`: `c` cannot split the lanes: there is no such axis in mesh @m <["a"=2, "b"=2]>
    `vmap`: `b` cannot split the lanes: sharding<@m, [{"b"}]> uses it already
    `vmap`: `c` cannot split the lanes: there is no such axis in mesh @m <["a"=2, "b"=2]>
    `vmap`: `c` cannot split the lanes: the mesh {a: 2, b: 2} has no such axis
    `vmap`: `b` cannot split the lanes: a spec of `shard_map`, [{b}], uses it already
    `vmap`: `a` cannot split the lanes: the 2 devices of a `shard_map` along it cannot divide 3 lanes equally
    `vmap`: `a` cannot split the lanes: `all_reduce` exchanges values along it
    "#);
}
