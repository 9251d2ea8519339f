//! Each collective computes what the devices of its group would compute together.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{
    Reduction, all_gather, all_reduce, all_to_all, axis_index, axis_size, broadcast, pmean,
    ppermute, reduce_scatter, shard_map,
};
use gradloom_tests::noise;

/// A collective on devices, and the same from the operands of a group.
type Case = (
    &'static str,
    Box<dyn Fn(&Tensor, &[&str]) -> Tensor>,
    Box<dyn Fn(&[Tensor], usize) -> Tensor>,
);

fn fold(all: &[Tensor], f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    all[1..].iter().fold(all[0].clone(), |y, x| f(&y, x))
}

fn part(x: &Tensor, axis: isize, i: usize, n: usize) -> Tensor {
    let k = x.dim(axis) / n;
    x.moveaxis(axis, 0).i(i * k..(i + 1) * k).moveaxis(0, axis)
}

/// Pairs that shift all positions by one, but leave out the last.
fn shift(n: usize) -> Vec<(usize, usize)> {
    (0..n - 1).map(|i| (i, i + 1)).collect()
}

/// The collectives on parts of shape `[12, 12]`, and of any dtype but `bool`.
pub(super) fn cases() -> Vec<Case> {
    vec![
        (
            "sum",
            Box::new(|x, axes| all_reduce(x, axes, Reduction::Sum)),
            Box::new(|all, _| fold(all, |x, y| x + y)),
        ),
        (
            "prod",
            Box::new(|x, axes| all_reduce(x, axes, Reduction::Prod)),
            Box::new(|all, _| fold(all, |x, y| x * y)),
        ),
        (
            "max",
            Box::new(|x, axes| all_reduce(x, axes, Reduction::Max)),
            Box::new(|all, _| Tensor::stack(all, 0).max(0)),
        ),
        (
            "min",
            Box::new(|x, axes| all_reduce(x, axes, Reduction::Min)),
            Box::new(|all, _| Tensor::stack(all, 0).min(0)),
        ),
        (
            "all_gather",
            Box::new(|x, axes| all_gather(x, axes, -1)),
            Box::new(|all, _| Tensor::concat(all, -1)),
        ),
        (
            "reduce_scatter",
            Box::new(|x, axes| reduce_scatter(x, axes, 1)),
            Box::new(|all, i| part(&fold(all, |x, y| x + y), 1, i, all.len())),
        ),
        (
            "all_to_all",
            Box::new(|x, axes| all_to_all(x, axes, 1, 0)),
            Box::new(|all, i| {
                let parts = all.iter().map(|x| part(x, 1, i, all.len()));
                Tensor::concat(&parts.collect::<Vec<_>>(), 0)
            }),
        ),
        (
            "all_to_all along one axis",
            Box::new(|x, axes| all_to_all(x, axes, 0, 0)),
            Box::new(|all, i| {
                let parts = all.iter().map(|x| part(x, 0, i, all.len()));
                Tensor::concat(&parts.collect::<Vec<_>>(), 0)
            }),
        ),
        (
            "ppermute",
            Box::new(|x, axes| ppermute(x, axes, &shift(axis_size(axes)))),
            Box::new(|all, i| match i {
                0 => all[0].zeros_like(),
                i => all[i - 1].clone(),
            }),
        ),
        (
            "broadcast",
            Box::new(|x, axes| broadcast(x, axes, axis_size(axes) - 1)),
            Box::new(|all, _| all[all.len() - 1].clone()),
        ),
    ]
}

#[test]
fn each_collective_gives_what_its_group_has() {
    for grid in Grid::all() {
        let x = noise(&[12 * grid.n(), 12], 3);
        for axes in grid.choices() {
            for (name, on_devices, on_host) in cases() {
                let what = format!("{name} over {axes:?} of {:?}", grid.sizes);
                let run = |x: &Tensor| on_devices(x, &axes);
                let found = shard_map(run, &grid.mesh, grid.rows(), grid.rows())(&x);
                let expected = grid.host(&x, &axes, &on_host);
                assert_near(&found, &expected, &what);
            }
        }
    }
}

#[test]
fn integers_bools_and_maxima_are_equal_bit_for_bit() {
    for grid in Grid::all() {
        let x = (noise(&[12 * grid.n(), 12], 5) * 1e10).cast(DType::I64);
        for axes in grid.choices() {
            for (name, on_devices, on_host) in cases() {
                let run = |x: &Tensor| on_devices(x, &axes);
                let map = shard_map(run, &grid.mesh, grid.rows(), grid.rows());
                let (found, expected) = (map(&x), grid.host(&x, &axes, &on_host));
                assert_eq!(found.to_vec::<i64>(), expected.to_vec::<i64>(), "{name}");
                let small = x.cast(DType::I32);
                let (found, expected) = (map(&small), grid.host(&small, &axes, &on_host));
                assert_eq!(found.to_vec::<i32>(), expected.to_vec::<i32>(), "{name}");
            }
            let bools = x.gt(x.zeros_like());
            for (reduction, any) in [(Reduction::Max, true), (Reduction::Min, false)] {
                let run = |x: &Tensor| all_reduce(x, &axes[..], reduction);
                let found = shard_map(run, &grid.mesh, grid.rows(), grid.rows())(&bools);
                let expected = grid.host(&bools, &axes, |all, _| {
                    let all = Tensor::stack(all, 0);
                    if any { all.any(0) } else { all.all(0) }
                });
                assert_eq!(found.to_vec::<bool>(), expected.to_vec::<bool>());
            }
        }
    }
}

#[test]
fn a_maximum_is_nan_if_a_device_has_one() {
    let grid = Grid::new(&[4]);
    let x = Tensor::from([1.0f64, f64::NAN, 3.0, -1.0]);
    for reduction in [Reduction::Max, Reduction::Min] {
        let run = |x: &Tensor| all_reduce(x, "a", reduction);
        let y = shard_map(run, &grid.mesh, grid.rows(), None)(&x);
        assert!(y.to_vec::<f64>()[0].is_nan());
    }
}

#[test]
fn devices_know_their_position_and_their_number() {
    for grid in Grid::all() {
        for axes in grid.choices() {
            let run = |x: &Tensor| {
                let number = axis_index(&axes[..]) * 100 + axis_size(&axes[..]) as i64;
                x + number
            };
            let x = Tensor::zeros([grid.n()], DType::I64);
            let y = shard_map(run, &grid.mesh, grid.rows(), grid.rows())(&x);
            let expected = (0..grid.n()).map(|device| {
                let (group, at) = grid.group(device, &axes);
                at as i64 * 100 + group.len() as i64
            });
            assert_eq!(y.to_vec::<i64>(), expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn each_leaf_is_divided_as_its_spec_says() {
    let grid = Grid::new(&[2, 3]);
    let spec =
        |dims: &[&[&str]]| gradloom::sharding::ShardingSpec::split(&grid.mesh, dims).unwrap();
    let x = noise(&[6, 4, 3], 7);
    // The whole comes back for all specs.
    for dims in [
        vec![&["a"][..], &[]],
        vec![&[], &["a"], &["b"]],
        vec![&["b", "a"]],
        vec![&["b"], &["a"]],
        vec![],
    ] {
        let same = |x: &Tensor| x * 2.0;
        let y = shard_map(same, &grid.mesh, spec(&dims), spec(&dims))(&x);
        assert_near(&y, &(&x * 2.0), &format!("{dims:?}"));
    }
    let parts = |(x, (y, z)): &(Tensor, (Tensor, Tensor))| {
        assert_eq!(
            (x.shape(), y.shape(), z.shape()),
            (&[3, 4, 1][..], &[3][..], &[][..])
        );
        (y * z, x.sum(..) * z)
    };
    let specs = (spec(&[&["a"], &[], &["b"]]), (spec(&[&["a"]]), None));
    let map = shard_map(
        |x: &(Tensor, (Tensor, Tensor))| {
            let (y, sum) = parts(x);
            (y, all_reduce(&sum, ["a", "b"], Reduction::Sum))
        },
        &grid.mesh,
        specs,
        (spec(&[&["a"]]), None),
    );
    let (y, z) = (noise(&[6], 8), Tensor::from(0.5f64));
    let (found, sum) = map(&(x.clone(), (y.clone(), z.clone())));
    assert_near(&found, &(&y * &z), "the second leaf");
    assert_near(&sum, &(x.sum(..) * z), "the sum");
}

#[test]
fn a_part_of_an_axis_divides_a_dim() {
    use gradloom::sharding::{AxisRef, DimSharding, ShardingSpec};
    let grid = Grid::new(&[4]);
    let dims = vec![
        DimSharding::closed(vec![AxisRef::part("a", 2, 2)]),
        DimSharding::closed(vec![AxisRef::part("a", 1, 2)]),
    ];
    let spec = ShardingSpec::new(&grid.mesh, dims, Vec::new(), Vec::new()).unwrap();
    let x = noise(&[4, 6], 9);
    let run = |x: &Tensor| {
        assert_eq!(x.shape(), [2, 3]);
        all_reduce(&x.sum(..), "a", Reduction::Sum)
    };
    let y = shard_map(run, &grid.mesh, spec, None)(&x);
    assert_near(&y, &x.sum(..), "all four parts");
}

#[test]
fn a_mean_and_captured_values_are_those_of_all_devices() {
    let grid = Grid::new(&[2, 2]);
    let (x, w) = (noise(&[8, 3], 1), noise(&[3], 2));
    let run = |x: &Tensor| {
        // Neither value depends on the argument.
        let ones = all_reduce(&Tensor::ones([3], DType::F64), ["a", "b"], Reduction::Sum);
        pmean(&(x * &w * ones).mean(0), ["a", "b"])
    };
    let y = shard_map(run, &grid.mesh, grid.rows(), None)(&x);
    assert_near(&y, &(&x * &w * 4.0).mean(0), "a mean");
}

#[test]
fn empty_parts_and_scalars_are_values_too() {
    let grid = Grid::new(&[2]);
    let columns = gradloom::sharding::ShardingSpec::split(&grid.mesh, &[&[], &["a"]]).unwrap();
    let x = Tensor::zeros([0, 4], DType::F64);
    let run = |x: &Tensor| all_gather(&(x + 1.0), "a", 1);
    assert_eq!(
        shard_map(run, &grid.mesh, columns, None)(&x).shape(),
        [0, 4]
    );
    let run = |x: &Tensor| all_reduce(x, "a", Reduction::Sum);
    let y = shard_map(run, &grid.mesh, None, None)(&Tensor::from(1.5f64));
    assert_eq!(y.item::<f64>(), 3.0);
}

#[test]
fn maxima_of_zeros_have_the_sign_of_a_maximum_over_an_axis() {
    let grid = Grid::new(&[4]);
    for x in [[-0.0f32, 0.0, -0.0, 0.0], [0.0, -0.0, 0.0, -0.0]].map(Tensor::from) {
        for (reduction, expected) in [(Reduction::Max, x.max(0)), (Reduction::Min, x.min(0))] {
            let run = |x: &Tensor| all_reduce(x, "a", reduction);
            let y = shard_map(run, &grid.mesh, grid.rows(), None)(&x);
            let bits = |x: &Tensor| x.to_vec::<f32>()[0].to_bits();
            assert_eq!(bits(&y), bits(&expected), "{reduction:?} of {x:?}");
        }
    }
}
