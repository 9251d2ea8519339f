//! Each collective, compared with that of simulated devices.

use crate::launch::{Test, succeeds};
use gradloom::sharding::{
    Mesh, MeshAxisNames, Reduction, ShardingSpec, all_gather, all_reduce, all_to_all, axis_index,
    broadcast, pmean, ppermute, reduce_scatter, shard_map,
};
use gradloom::{DType, Tensor};
use gradloom_mpi::World;
use std::sync::Arc;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "collectives_of_all_ranks_are_those_of_simulated_devices",
        ranks: &[1, 2, 3, 4],
        rank: along_one_axis,
        check: succeeds,
    },
    Test {
        name: "collectives_of_groups_are_those_of_simulated_devices",
        ranks: &[4],
        rank: along_two_axes,
        check: succeeds,
    },
    Test {
        name: "all_ranks_have_the_same_bits_of_a_sum",
        ranks: &[3, 4],
        rank: bits_of_sums,
        check: succeeds,
    },
];

/// How results have to agree.
#[derive(Clone, Copy)]
pub(crate) enum Agreement {
    /// All bits are equal. NaN equals NaN.
    Exact,
    /// Numbers are close: sums may add up in another order.
    Close,
}

pub(crate) fn assert_agrees(found: &Tensor, expected: &Tensor, how: Agreement, what: &str) {
    assert_eq!(found.aval(), expected.aval(), "{what}");
    let bits = |x: &Tensor| -> Vec<u64> {
        let of_float = |x: f64| if x.is_nan() { 1 } else { x.to_bits() };
        match x.dtype().is_float() {
            true => each(x.cast(DType::F64).to_vec(), of_float),
            false => each(x.cast(DType::I64).to_vec(), |x: i64| x as u64),
        }
    };
    match how {
        Agreement::Exact => assert_eq!(bits(found), bits(expected), "{what}"),
        Agreement::Close => {
            let tolerance = match found.dtype() {
                DType::BF16 => 0.02,
                DType::F16 => 0.002,
                _ => 1e-5,
            };
            let floats = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
            for (found, expected) in floats(found).into_iter().zip(floats(expected)) {
                let error = (found - expected).abs();
                assert!(
                    error <= tolerance * expected.abs().max(1.0),
                    "{what}: {found} and {expected}"
                );
            }
        }
    }
}

fn each<T>(xs: Vec<T>, f: impl Fn(T) -> u64) -> Vec<u64> {
    xs.into_iter().map(f).collect()
}

/// Returns a tensor with elements of both signs.
pub(crate) fn data(dtype: DType, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let of = |i: usize| ((i * 37 + 11) % 101) as f64 / 25.0 - 2.0;
    macro_rules! integers {
        ($t:ty, $factor:expr) => {{
            let of = |i: usize| (i as $t).wrapping_mul($factor);
            Tensor::from_vec((0..n).map(of).collect(), shape.to_vec())
        }};
    }
    match dtype {
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => {
            Tensor::from_vec((0..n).map(of).collect(), shape.to_vec()).cast(dtype)
        }
        DType::I32 => integers!(i32, 1_234_567_891),
        DType::I64 => integers!(i64, 1_234_567_891_234_567_891),
        DType::I8 => integers!(i8, 91),
        DType::U8 => integers!(u8, 191),
        DType::Bool => Tensor::from_vec((0..n).map(|i| i % 3 == 0).collect(), shape.to_vec()),
    }
}

/// Returns floats of which some are NaN, infinite or zeros of both signs.
fn special(dtype: DType, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let of = |i: usize| match i % 11 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 | 5 => 0.0,
        4 | 6 => -0.0,
        7 => f64::from(f32::MIN_POSITIVE) / 4.0,
        i => i as f64 - 9.5,
    };
    // A part begins at another element of the list than the next part.
    let of = |i: usize| of(i * 5 + i / 7);
    Tensor::from_vec((0..n).map(of).collect(), shape.to_vec()).cast(dtype)
}

struct Case<'w> {
    world: &'w World,
    mesh: Arc<Mesh>,
    /// The spec of the argument.
    ins: ShardingSpec,
}

impl Case<'_> {
    /// Compares a function on whole values and on parts with simulated devices.
    fn check(
        &self,
        what: &str,
        x: &Tensor,
        outs: Option<ShardingSpec>,
        how: Agreement,
        f: impl Fn(&Tensor) -> Tensor + Copy,
    ) {
        let what = format!("{what} of {} on {}", x.aval(), self.mesh);
        let expected = shard_map(f, &self.mesh, self.ins.clone(), outs.clone())(x);
        let found = self
            .world
            .shard_map(f, &self.mesh, self.ins.clone(), outs.clone());
        assert_agrees(&found.call(x).unwrap(), &expected, how, &what);
        let part = self.world.part(x, &self.mesh, self.ins.clone()).unwrap();
        let part = found.on_parts(&part).unwrap();
        let whole = self.world.whole(&part, &self.mesh, outs).unwrap();
        assert_agrees(&whole, &expected, how, &format!("{what}, on parts"));
    }

    /// Checks all collectives along some axes. A part has a multiple of the size of the group along each axis.
    fn check_all(&self, axes: impl MeshAxisNames + Copy, n: usize, shape: &[usize]) {
        use Agreement::{Close, Exact};
        let split = |at: usize, names: &[&str]| {
            let mut dims: Vec<&[&str]> = vec![&[]; 3];
            dims[at] = names;
            Some(ShardingSpec::split(&self.mesh, &dims).unwrap())
        };
        let all: Vec<&str> = self
            .mesh
            .axes()
            .iter()
            .map(|axis| axis.name.as_str())
            .collect();
        for dtype in DType::ALL {
            let x = data(dtype, shape);
            let rows = || split(0, &all);
            for by in Reduction::ALL {
                let folds = matches!(by, Reduction::Sum | Reduction::Prod);
                if folds && dtype == DType::Bool {
                    continue;
                }
                let how = if folds && dtype.is_float() {
                    Close
                } else {
                    Exact
                };
                self.check(&format!("all_reduce {by}"), &x, rows(), how, |x| {
                    all_reduce(x, axes, by)
                });
                if !folds && dtype.is_float() {
                    let x = special(dtype, shape);
                    self.check(
                        &format!("{by} of special numbers"),
                        &x,
                        rows(),
                        Exact,
                        |x| all_reduce(x, axes, by),
                    );
                }
            }
            for axis in [0, 1, -1] {
                self.check(&format!("all_gather {axis}"), &x, rows(), Exact, |x| {
                    all_gather(x, axes, axis)
                });
            }
            for at in [0, 1, 2].into_iter().filter(|_| dtype != DType::Bool) {
                let how = if dtype.is_float() { Close } else { Exact };
                self.check(&format!("reduce_scatter {at}"), &x, rows(), how, |x| {
                    reduce_scatter(x, axes, at)
                });
            }
            for (cut, concat) in [(0, 0), (0, 1), (1, 0), (2, 1), (1, 2), (-1, -1)] {
                self.check(
                    &format!("all_to_all {cut} {concat}"),
                    &x,
                    rows(),
                    Exact,
                    |x| all_to_all(x, axes, cut, concat),
                );
            }
            let ring: Vec<(usize, usize)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
            for pairs in [&ring[..], &[(0, n - 1)], &[(n - 1, n - 1)], &[]] {
                self.check(&format!("ppermute {pairs:?}"), &x, rows(), Exact, |x| {
                    ppermute(x, axes, pairs)
                });
            }
            self.check("broadcast", &x, rows(), Exact, |x| {
                broadcast(x, axes, n - 1)
            });
            self.check("axis_index", &x, rows(), Exact, |x| {
                x.cast(DType::I64) + axis_index(axes)
            });
            if dtype.is_float() {
                self.check("pmean", &x, rows(), Close, |x| pmean(x, axes));
            }
            // The axes that divide a result of a reduction need not be those of its group.
            if all.len() == 1 && dtype != DType::Bool {
                self.check("a whole maximum", &x, None, Exact, |x| {
                    all_reduce(x, axes, Reduction::Max)
                });
                self.check("a product by columns", &x, split(1, &all), Close, |x| {
                    reduce_scatter(&x.cast(DType::F64), axes, 1)
                });
            }
        }
    }
}

fn along_one_axis() {
    let world = World::new().unwrap();
    let n = world.size();
    let mesh = Arc::new(Mesh::new("m", &[("x", n)]).unwrap());
    let ins = ShardingSpec::split(&mesh, &[&["x"]]).unwrap();
    let case = Case {
        world: &world,
        mesh,
        ins,
    };
    case.check_all("x", n, &[n * n, n, 3 * n]);
}

fn along_two_axes() {
    let world = World::new().unwrap();
    let devices = vec![2, 0, 3, 1];
    let mesh = Mesh::with_devices("m", &[("x", 2), ("y", 2)], devices).unwrap();
    let mesh = Arc::new(mesh);
    let ins = ShardingSpec::split(&mesh, &[&["x", "y"]]).unwrap();
    let case = Case {
        world: &world,
        mesh,
        ins,
    };
    case.check_all("x", 2, &[8, 2, 4]);
    case.check_all("y", 2, &[8, 2, 4]);
    case.check_all(["y", "x"], 4, &[16, 4, 4]);
}

fn bits_of_sums() {
    let world = World::new().unwrap();
    let n = world.size();
    let mesh = Arc::new(Mesh::new("m", &[("x", n)]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["x"]]).unwrap();
    for len in [1, 7, 1000, 40_000] {
        let x = data(DType::F32, &[n, len]) / 3.0;
        let sum = |x: &Tensor| all_reduce(x, "x", Reduction::Sum);
        // The result of each rank is a part of this one.
        let all = world.shard_map(sum, &mesh, rows.clone(), rows.clone());
        let all = all.call(&x).unwrap();
        for rank in 1..n {
            assert_agrees(&all.i(rank), &all.i(0), Agreement::Exact, "a sum");
        }
    }
}
