//! Messages of mistakes in meshes, specs and programs for devices.

use super::Grid;
use gradloom::checkpoint;
use gradloom::prelude::*;
use gradloom::sharding::{
    Mesh, Reduction, ShardingSpec, Specs, all_gather, all_reduce, all_to_all, axis_index,
    broadcast, pmean, ppermute, reduce_scatter, shard_map, sharded, with_sharding,
};
use std::sync::Arc;

/// The error of a function on parts of `f64[4, 3]` on a mesh of two devices.
fn failed(
    in_specs: impl Into<Specs>,
    out_specs: impl Into<Specs>,
    f: impl Fn(&Tensor) -> Tensor,
) -> String {
    let grid = Grid::new(&[2]);
    let x = Tensor::zeros([4, 3], DType::F64);
    let fallible = |x: &Tensor| -> Result<Tensor> { Ok(f(x)) };
    match shard_map(fallible, &grid.mesh, in_specs, out_specs)(&x) {
        Ok(y) => match gradloom::evaluate(&y) {
            Ok(()) => "no error".to_owned(),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

fn rows() -> ShardingSpec {
    Grid::new(&[2]).rows()
}

/// The error of a call outside of a program for devices.
fn outside(f: impl Fn(&Tensor) -> Tensor) -> String {
    let x = Tensor::zeros([4, 3], DType::F64);
    let fallible = |x: &Tensor| -> Result<Tensor> { Ok(f(x)) };
    let Err(error) = vjp(fallible, &x) else {
        return "no error".to_owned();
    };
    error.to_string()
}

#[test]
fn a_collective_outside_of_a_program_for_devices_is_an_error() {
    let all = [
        outside(|x| all_reduce(x, "a", Reduction::Sum)),
        outside(|x| all_gather(x, "a", 0)),
        outside(|x| reduce_scatter(x, "a", 0)),
        outside(|x| all_to_all(x, "a", 0, 1)),
        outside(|x| ppermute(x, "a", &[(0, 1)])),
        outside(|x| pmean(x, "a")),
        outside(|x| broadcast(x, "a", 0)),
        outside(|x| x * axis_index("a").cast(DType::F64)),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    all_reduce: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    all_gather: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    reduce_scatter: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    all_to_all: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    ppermute: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    pmean: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    broadcast: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    axis_index: it works on the values of several devices, so call it inside of a function that `shard_map` runs
    "#);
}

#[test]
fn specs_that_do_not_fit_are_errors() {
    let grid = Grid::new(&[2]);
    let columns = ShardingSpec::split(&grid.mesh, &[&[], &["a"]]).unwrap();
    let other = Arc::new(Mesh::new("n", &[("a", 2)]).unwrap());
    let partial = ShardingSpec::replicated(&grid.mesh, 1);
    let partial = partial
        .with_partial(&[("a".into(), Reduction::Sum)])
        .unwrap();
    let cube = ShardingSpec::split(&grid.mesh, &[&[], &[], &["a"]]).unwrap();
    let same = |x: &Tensor| x.clone();
    let all = [
        failed(&columns, None, same),
        failed(&cube, None, same),
        failed(ShardingSpec::split(&other, &[&["a"]]).unwrap(), None, same),
        failed(rows(), rows(), |x| x.sum(..)),
        failed(rows(), None, same),
        failed(rows(), None, |x| x.sum(..)),
        failed([("w", rows())], None, same),
        failed((rows(), rows()), rows(), same),
        failed(rows(), (rows(), rows()), same),
        failed(partial, rows(), same),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    shard_map: `argument` is f64[4, 3]: axis 1 has length 3, which 2 devices cannot divide equally; pad it
    shard_map: `argument` is f64[4, 3], and its spec has 3 dims: sharding<@m, [{}, {}, {"a"}]>
    shard_map: sharding<@n, [{"a"}]> does not refer to mesh @m <["a"=2]>
    shard_map: `result` is f64[], and its spec has 1 dim: sharding<@m, [{"a"}]>
    shard_map: `result` may differ between the devices along "a", and its spec does not divide it there: use `all_reduce` or `all_gather`, or name the axis in `out_specs`
    shard_map: `result` may differ between the devices along "a", and its spec does not divide it there: use `all_reduce` or `all_gather`, or name the axis in `out_specs`
    shard_map: `in_specs` has an entry for `w`, which names no tensor
    shard_map: `in_specs` has 2 entries, and none for a single tensor
    shard_map: `out_specs` has 2 entries, and none for a single tensor
    shard_map: sharding<@m, [{}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    "#);
}

/// A whole tensor has no addends, one for each device.
#[test]
fn a_partial_spec_of_a_whole_tensor_is_an_error_of_each_call() {
    let grid = Grid::new(&[2]);
    let partial = ShardingSpec::replicated(&grid.mesh, 2);
    let partial = &partial
        .with_partial(&[("a".into(), Reduction::Sum)])
        .unwrap();
    let divided = |ins: Option<&ShardingSpec>, outs: Option<&ShardingSpec>| {
        outside(|x| {
            let f = sharded(
                |x: &Tensor| x.sin(),
                &grid.mesh,
                ins.cloned(),
                outs.cloned(),
            );
            f(x)
        })
    };
    let all = [
        outside(|x| x.shard(partial)),
        outside(|x| x.reshard(partial)),
        outside(|x| with_sharding(x, partial)),
        divided(Some(partial), None),
        divided(None, Some(partial)),
        failed(rows(), partial, |x| x.clone()),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    shard: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    reshard: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    with_sharding: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    sharded: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    sharded: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    shard_map: sharding<@m, [{}, {}], partial={"a": sum}> is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the results of devices by `all_reduce`
    "#);
}

#[test]
fn collectives_that_do_not_fit_are_errors() {
    let all = [
        failed(rows(), None, |x| all_reduce(x, "b", Reduction::Sum)),
        failed(rows(), None, |x| all_reduce(x, ["a", "a"], Reduction::Sum)),
        failed(rows(), None, |x| {
            all_reduce(&x.gt(x.zeros_like()), "a", Reduction::Sum)
        }),
        failed(rows(), None, |x| all_gather(x, "a", 2)),
        failed(rows(), None, |x| reduce_scatter(x, "a", 1)),
        failed(rows(), None, |x| all_to_all(x, "a", 1, 0)),
        failed(rows(), None, |x| ppermute(x, "a", &[(0, 2)])),
        failed(rows(), None, |x| ppermute(x, "a", &[(0, 1), (1, 1)])),
        failed(rows(), None, |x| ppermute(x, "a", &[(0, 1), (0, 0)])),
        failed(rows(), None, |x| broadcast(x, "a", 2)),
        failed(rows(), None, |x| pmean(&x.cast(DType::I64), "a")),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    all_reduce: there is no axis "b" in mesh @m <["a"=2]>
    all_reduce: the axis `a` occurs twice
    all_reduce: the dtype is bool, expected a number: the operand is bool[2, 3]
    all_gather: axis 2 is out of range for rank 2: the operand is f64[2, 3]
    reduce_scatter: an axis of length 3 cannot be split into 2 equal parts: the operand is f64[2, 3]
    all_to_all: an axis of length 3 cannot be split into 2 equal parts: the operand is f64[2, 3]
    ppermute: a group of 2 devices has no device 2: the operand is f64[2, 3]
    ppermute: device 1 receives twice in [(0, 1), (1, 1)]: the operand is f64[2, 3]
    ppermute: device 0 sends twice in [(0, 1), (0, 0)]: the operand is f64[2, 3]
    broadcast: a group of 2 devices has no position 2
    pmean: the operand is i64[2, 3], expected a float
    "#);
}

#[test]
fn programs_that_devices_cannot_run_are_errors() {
    let all = [
        failed(rows(), None, |x| {
            gradloom::fori_loop(0..2, |_, h: &Tensor| all_reduce(h, "a", Reduction::Sum), x)
        }),
        failed(rows(), None, |x| {
            gradloom::checkpoint(|x: &Tensor| {
                let all = |h: &Tensor, _: &Tensor| (all_reduce(h, "a", Reduction::Sum), ());
                gradloom::scan(all, x, x).0
            })(x)
        }),
        failed(rows(), None, |x| x * x.sum(..).item::<f64>()),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    shard_map: `all_reduce` is in the program of a `scan`, where devices do not meet; write the loop in Rust, or move the collective out of it
    shard_map: `all_reduce` is in the program of a `scan`, where devices do not meet; write the loop in Rust, or move the collective out of it
    this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read
    "#);
}

#[test]
fn an_error_of_a_device_names_the_device() {
    let grid = Grid::new(&[2, 2]);
    let x = Tensor::from([[1.0f64], [2.0], [3.0], [4.0]]);
    let labels = Tensor::from([0i64, 0, 7, 0]);
    let loss = |(x, labels): &(Tensor, Tensor)| x.cross_entropy(labels);
    let map = shard_map(
        |x: &(Tensor, Tensor)| loss(x).unsqueeze(0),
        &grid.mesh,
        (grid.rows(), grid.rows()),
        grid.rows(),
    );
    let y = map(&(x.clone(), labels));
    let error = gradloom::evaluate(&y).unwrap_err();
    insta::assert_snapshot!(error, @"device 2: `cross_entropy`: label 7 at row 0 is out of range for 1 classes, counted in the part of the device");
    // The program runs again with other values.
    let y = map(&(x, Tensor::zeros([4], DType::I64)));
    assert_eq!(y.to_vec::<f64>(), [0.0; 4]);
}

#[test]
fn a_spec_of_another_rank_is_an_error() {
    let all = [
        outside(|x| with_sharding(x, &rows())),
        outside(|x| x.shard(&rows())),
        outside(|x| x.reshard(&rows())),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    with_sharding: `x` is f64[4, 3], and its spec has 1 dim: sharding<@m, [{"a"}]>
    shard: `x` is f64[4, 3], and its spec has 1 dim: sharding<@m, [{"a"}]>
    reshard: `x` is f64[4, 3], and its spec has 1 dim: sharding<@m, [{"a"}]>
    "#);
}

#[test]
fn a_value_of_a_device_cannot_be_used_outside() {
    let grid = Grid::new(&[2]);
    let mut kept = None;
    let x = Tensor::zeros([4], DType::F64);
    let slot = std::cell::RefCell::new(&mut kept);
    let leak = |x: &Tensor| {
        let y = all_reduce(x, "a", Reduction::Sum);
        **slot.borrow_mut() = Some(y.clone());
        y
    };
    let y = shard_map(leak, &grid.mesh, grid.rows(), None)(&x);
    assert_eq!(y.to_vec::<f64>(), [0.0, 0.0]);
    let leaked = || slot.borrow().as_ref().expect("it is kept") + 1.0;
    let error = leaked().try_to_vec::<f64>().unwrap_err();
    insta::assert_snapshot!(error, @"all_reduce: it works on the values of several devices, so call it inside of a function that `shard_map` runs");
    let y = shard_map(checkpoint(leak), &grid.mesh, grid.rows(), None)(&x);
    assert_eq!(y.to_vec::<f64>(), [0.0, 0.0]);
    let error = leaked().try_to_vec::<f64>().unwrap_err();
    insta::assert_snapshot!(error, @"all_reduce: it works on the values of several devices, so call it inside of a function that `shard_map` runs");
}
