//! Programs for devices on several threads of the user, with any number of threads of the kernels.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{Reduction, all_reduce, shard_map};
use gradloom_tests::noise;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn results_do_not_depend_on_threads() {
    let grid = Grid::new(&[2, 3]);
    let (x, w) = (noise(&[120, 40], 1), noise(&[40, 40], 2));
    let device = |(x, w): &(Tensor, Tensor)| {
        let h = x.matmul(w).tanh();
        let total = all_reduce(&h.sum(0), ["a", "b"], Reduction::Sum);
        (h.matmul(w) * total).sin()
    };
    let run = || {
        let map = shard_map(device, &grid.mesh, (grid.rows(), None), grid.rows());
        map(&(x.clone(), w.clone())).to_vec::<f64>()
    };
    let before = gradloom::threads();
    gradloom::set_threads(1);
    let expected = run();
    for n in [2, 4, 8] {
        gradloom::set_threads(n);
        assert_eq!(run(), expected);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..5).map(|_| run()).collect::<Vec<_>>()))
                .collect();
            for found in all.into_iter().flat_map(|one| one.join().unwrap()) {
                assert_eq!(found, expected);
            }
        });
    }
    gradloom::set_threads(before);
}

#[test]
fn a_panic_while_a_program_is_traced_leaves_no_mesh_behind() {
    let grid = Grid::new(&[2]);
    let x = noise(&[4], 1);
    let broken = |x: &Tensor| -> Tensor {
        assert!(x.rank() > 1, "the test panics here");
        x.clone()
    };
    let map = shard_map(broken, &grid.mesh, grid.rows(), grid.rows());
    let panic = catch_unwind(AssertUnwindSafe(|| map(&x))).unwrap_err();
    assert!(
        panic
            .downcast_ref::<&str>()
            .unwrap()
            .contains("panics here")
    );
    let outside = |x: &Tensor| -> Result<Tensor> { Ok(all_reduce(x, "a", Reduction::Sum)) };
    assert!(vjp(outside, &x).is_err());
    let sum = |x: &Tensor| all_reduce(&x.sum(..), "a", Reduction::Sum);
    let y = shard_map(sum, &grid.mesh, grid.rows(), None)(&x);
    assert_near(&y, &x.sum(..), "the next program");
}

#[test]
fn a_second_call_makes_no_plan() {
    let grid = Grid::new(&[2]);
    let sum = |x: &Tensor| all_reduce(&x.sin().sum(..), "a", Reduction::Sum);
    let map = shard_map(sum, &grid.mesh, grid.rows(), None);
    let run = |seed| grad(&map)(&noise(&[4, 3], seed)).to_vec::<f64>();
    run(1);
    let (_, log) = gradloom::events::record(|| run(2));
    let planned = log
        .iter()
        .filter(|event| matches!(event, gradloom::events::Event::Planned { .. }));
    assert_eq!(planned.count(), 0, "{log:?}");
}

#[test]
fn a_program_runs_programs_for_another_mesh() {
    let (outer, inner) = (Grid::new(&[2]), Grid::new(&[3]));
    let x = noise(&[6], 1);
    let sum = |x: &Tensor| all_reduce(&x.sum(..), "a", Reduction::Sum);
    let device = |x: &Tensor| {
        let own = shard_map(sum, &inner.mesh, inner.rows(), None)(&(x * 2.0));
        all_reduce(&own, "a", Reduction::Max)
    };
    let y = shard_map(device, &outer.mesh, outer.rows(), None)(&x);
    let halves = [x.i(..3).sum(..) * 2.0, x.i(3..).sum(..) * 2.0];
    assert_near(&y, &Tensor::stack(&halves, 0).max(..), "the larger half");
}
