//! Messages of mistakes in meshes, specs and programs for devices.

use super::Grid;
use gradloom::prelude::*;
use gradloom::sharding::{
    Mesh, Reduction, ShardingSpec, Specs, all_gather, all_reduce, all_to_all, axis_index,
    broadcast, pmean, ppermute, reduce_scatter, shard_map, with_sharding,
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
    insta::assert_snapshot!(all.join("\n"), @"");
}

#[test]
fn specs_that_do_not_fit_are_errors() {
    let grid = Grid::new(&[2]);
    let columns = ShardingSpec::split(&grid.mesh, &[&[], &["a"]]).unwrap();
    let other = Arc::new(Mesh::new("n", &[("a", 2)]).unwrap());
    let partial = rows().with_partial(&[]).unwrap();
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
    insta::assert_snapshot!(all.join("\n"), @"");
}

#[test]
fn collectives_that_do_not_fit_are_errors() {
    let all = [
        failed(rows(), None, |x| all_reduce(x, "b", Reduction::Sum)),
        failed(rows(), None, |x| all_reduce(x, ["a", "a"], Reduction::Sum)),
        failed(rows(), None, |x| {
            all_reduce(&x.gt(&x.zeros_like()), "a", Reduction::Sum)
        }),
        failed(rows(), None, |x| all_gather(x, "a", 2)),
        failed(rows(), None, |x| reduce_scatter(x, "a", 1)),
        failed(rows(), None, |x| all_to_all(x, "a", 1, 0)),
        failed(rows(), None, |x| ppermute(x, "a", &[(0, 2)])),
        failed(rows(), None, |x| ppermute(x, "a", &[(0, 1), (1, 1)])),
        failed(rows(), None, |x| broadcast(x, "a", 2)),
        failed(rows(), None, |x| pmean(&x.cast(DType::I64), "a")),
    ];
    insta::assert_snapshot!(all.join("\n"), @"");
}

#[test]
fn programs_that_devices_cannot_run_are_errors() {
    let all = [
        failed(rows(), None, |x| {
            gradloom::fori_loop(0..2, |_, h: &Tensor| all_reduce(h, "a", Reduction::Sum), x)
        }),
        failed(rows(), None, |x| {
            gradloom::checkpoint(|x: &Tensor| all_gather(x, "a", 0))(x)
        }),
        failed(rows(), None, |x| x * x.sum(..).item::<f64>()),
    ];
    insta::assert_snapshot!(all.join("\n"), @"");
}

#[test]
fn an_error_of_a_device_names_the_device() {
    let grid = Grid::new(&[2, 2]);
    let x = Tensor::from([[1.0f64], [2.0], [3.0], [4.0]]);
    let labels = Tensor::from([0i64, 0, 7, 0]);
    let loss = |(x, labels): &(Tensor, Tensor)| x.cross_entropy(labels);
    let map = shard_map(loss, &grid.mesh, (grid.rows(), grid.rows()), None);
    let run = |x: &Tensor| -> Result<Tensor> { Ok(map(&(x.clone(), labels.clone()))) };
    let _ = run;
    let map = shard_map(
        |x: &(Tensor, Tensor)| loss(x).unsqueeze(0),
        &grid.mesh,
        (grid.rows(), grid.rows()),
        grid.rows(),
    );
    let y = map(&(x.clone(), labels));
    let error = gradloom::evaluate(&y).unwrap_err();
    insta::assert_snapshot!(error, @"");
    // The program runs again with other values.
    let y = map(&(x, Tensor::zeros([4], DType::I64)));
    assert_eq!(y.to_vec::<f64>(), [0.0; 4]);
}

#[test]
fn a_spec_of_another_rank_is_an_error() {
    let x = Tensor::zeros([4, 3], DType::F64);
    let all = [
        outside(|x| with_sharding(x, &rows())),
        outside(|x| x.shard(&rows())),
        outside(|x| x.reshard(&rows())),
    ];
    drop(x);
    insta::assert_snapshot!(all.join("\n"), @"");
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
    let leaked = kept.unwrap() + 1.0;
    let error = leaked.try_to_vec::<f64>().unwrap_err();
    insta::assert_snapshot!(error, @"");
}
