//! Ranks that fail, and what the others get.

use crate::launch::{Output, Test, succeeds};
use gradloom::prelude::*;
use gradloom::sharding::{Mesh, ShardingSpec, load_checkpoint, save_checkpoint};
use gradloom_mpi::{MpiError, World};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "an_error_of_one_rank_is_an_error_of_all",
        ranks: &[2, 4],
        rank: wrong_label,
        check: succeeds,
    },
    Test {
        name: "a_panic_in_a_function_is_an_error_of_the_others",
        ranks: &[3],
        rank: panic_in_a_function,
        check: |output| {
            assert!(!output.success, "rank 1 panicked: {}", output.text);
            each_other(output, "rank 1 failed: it panicked: no more");
        },
    },
    Test {
        name: "a_panic_between_calls_is_an_error_of_the_others",
        ranks: &[3],
        rank: panic_between_calls,
        check: |output| {
            assert!(!output.success, "rank 1 panicked: {}", output.text);
            each_other(output, "rank 1 has left: it panicked");
        },
    },
    Test {
        name: "a_rank_that_returns_is_an_error_of_the_others",
        ranks: &[3],
        rank: early_return,
        check: |output| {
            succeeds(output);
            each_other(output, "rank 1 has left: its `World` was dropped");
        },
    },
    Test {
        name: "different_calls_are_errors",
        ranks: &[2, 3, 4],
        rank: different_calls,
        check: succeeds,
    },
    Test {
        name: "a_killed_rank_ends_all_and_the_checkpoint_stays_whole",
        ranks: &[3],
        rank: killed,
        check: |output| {
            assert!(!output.success, "rank 1 was killed: {}", output.text);
            let named = output.text.contains("process rank 1 with PID");
            assert!(named && output.text.contains("signal 9"), "{}", output.text);
            let model = load_checkpoint(checkpoint(), &model(0.0), None);
            let found = model.expect("the checkpoint is whole").to_vec::<f32>();
            assert!(found[0] >= 3.0, "the checkpoint of a step: {}", found[0]);
            assert!(found.iter().all(|x| *x == found[0]));
            std::fs::remove_dir_all(checkpoint()).unwrap();
        },
    },
    Test {
        name: "a_rank_that_exits_ends_all",
        ranks: &[3],
        rank: exits,
        check: |output| {
            assert!(!output.success, "{}", output.text);
            assert!(output.text.contains("process rank 1"), "{}", output.text);
        },
    },
];

/// Checks that each rank but rank 1 has printed its error.
fn each_other(output: &Output, error: &str) {
    for rank in (0..output.ranks).filter(|rank| *rank != 1) {
        let line = format!("rank {rank} got: {error}");
        assert!(
            output.text.contains(&line),
            "no `{line}` in {}",
            output.text
        );
    }
}

fn world() -> (World, Arc<Mesh>, ShardingSpec) {
    let world = World::new().unwrap();
    let mesh = Arc::new(Mesh::new("m", &[("x", world.size())]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["x"]]).unwrap();
    (world, mesh, rows)
}

fn wrong_label() {
    let (world, mesh, rows) = world();
    let n = world.size();
    let loss = |(x, labels): &(Tensor, Tensor)| x.cross_entropy(labels);
    let divided = world.sharded(loss, &mesh, rows, None);
    let x = Tensor::zeros([n, 3], DType::F32);
    let good = Tensor::from(vec![2i64; n]);
    let mut bad = vec![2i64; n];
    bad[1] = 7;
    for _ in 0..3 {
        let error = divided
            .call(&(x.clone(), Tensor::from(bad.clone())))
            .unwrap_err();
        assert!(matches!(error, MpiError::Failed { rank: 1, .. }), "{error}");
        let expected = loss(&(x.clone(), Tensor::from(bad.clone())));
        let expected = evaluate(&expected).unwrap_err().to_string();
        assert!(
            error.to_string().contains("label"),
            "{error}, and {expected}"
        );
        // The ranks go on.
        let found = divided.call(&(x.clone(), good.clone())).unwrap();
        assert!((found.item::<f32>() - 3.0f32.ln()).abs() < 1e-6);
    }
}

fn panic_in_a_function() {
    let (world, mesh, rows) = world();
    let rank = world.rank();
    let f = |x: &Tensor| match rank {
        1 => panic!("no more"),
        _ => x.sum(..),
    };
    let x = Tensor::zeros([6], DType::F32);
    let error = world.sharded(f, &mesh, rows, None).call(&x).unwrap_err();
    println!("rank {rank} got: {error}");
}

fn panic_between_calls() {
    let (world, mesh, rows) = world();
    let sum = world.sharded(|x: &Tensor| x.sum(..), &mesh, rows, None);
    let x = Tensor::ones([6], DType::F32);
    assert_eq!(sum.call(&x).unwrap().item::<f32>(), 6.0);
    assert!(world.rank() != 1, "no more");
    for _ in 0..2 {
        let error = sum.call(&x).unwrap_err();
        println!("rank {} got: {error}", world.rank());
    }
}

fn early_return() {
    let (world, mesh, rows) = world();
    if world.rank() == 1 {
        return;
    }
    let sum = world.sharded(|x: &Tensor| x.sum(..), &mesh, rows, None);
    let error = sum.call(&Tensor::ones([6], DType::F32)).unwrap_err();
    println!("rank {} got: {error}", world.rank());
}

fn different_calls() {
    let (world, mesh, rows) = world();
    let (rank, n) = (world.rank(), world.size());
    let sum = world.sharded(|x: &Tensor| x.sum(..), &mesh, rows.clone(), None);
    let max = world.sharded(|x: &Tensor| x.max(..), &mesh, rows.clone(), None);
    let x = Tensor::ones([n], DType::F32);
    // Another function.
    let called = if rank == 1 {
        max.call(&x)
    } else {
        sum.call(&x)
    };
    let error = called.unwrap_err();
    assert!(matches!(error, MpiError::Order { rank: 1, .. }), "{error}");
    // Another shape.
    let other = Tensor::ones([n * (1 + rank % 2)], DType::F32);
    let error = sum.call(&other).unwrap_err();
    assert!(matches!(error, MpiError::Program { rank: 1 }), "{error}");
    // Other elements.
    let error = sum.call(&(&x * (1 + rank % 2) as f64)).unwrap_err();
    assert!(
        matches!(error, MpiError::Elements { rank: 1, .. }),
        "{error}"
    );
    let captured = Tensor::from(rank as f32);
    let scaled = |x: &Tensor| x.sum(..) * &captured;
    let error = world
        .sharded(scaled, &mesh, rows, None)
        .call(&x)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`captured tensor 0` has other elements"),
        "{error}"
    );
    // Two ranks have each part.
    if n == 4 {
        let grid = Mesh::new("g", &[("x", 2), ("y", 2)]).unwrap();
        let grid = Arc::new(grid);
        let rows = ShardingSpec::split(&grid, &[&["x"]]).unwrap();
        let sum = world.sharded(|x: &Tensor| x.sum(..), &grid, rows, None);
        let part = Tensor::full([3], rank.min(2) as f64, DType::F32);
        let error = sum.on_parts(&part).unwrap_err();
        let is_1 = matches!(
            error,
            MpiError::Elements {
                rank: 1,
                first: 0,
                ..
            }
        );
        assert!(is_1, "{error}");
        let part = Tensor::full([3], (rank / 2) as f64, DType::F32);
        assert_eq!(sum.on_parts(&part).unwrap().item::<f32>(), 3.0);
    }
    // A failure on the first rank alone.
    let error = world
        .on_first_rank(|| Err::<(), _>("the disk is full"))
        .unwrap_err();
    assert_eq!(error.to_string(), "rank 0 failed: the disk is full");
    let found = world.on_first_rank(|| Ok::<_, String>(5)).unwrap();
    assert_eq!(found, (rank == 0).then_some(5));
    assert_eq!(sum.call(&x).unwrap().item::<f32>(), n as f32);
}

fn checkpoint() -> PathBuf {
    std::env::temp_dir().join("gradloom-mpi-killed")
}

fn model(step: f32) -> Tensor {
    Tensor::full([1 << 16], step, DType::F32)
}

fn killed() {
    let (world, mesh, _) = world();
    let save = |step: f32| save_checkpoint(checkpoint(), &model(step), &mesh, None);
    for step in 0..3 {
        world.on_first_rank(|| save(step as f32)).unwrap();
    }
    if world.rank() == 1 {
        thread::spawn(|| {
            thread::sleep(Duration::from_millis(300));
            let id = std::process::id().to_string();
            Command::new("kill").args(["-9", &id]).status()
        });
    }
    // Rank 0 is ended while it writes.
    let endless = || (3..).try_for_each(|step: u16| save(step.into()));
    let ended = world.on_first_rank(endless);
    unreachable!("{ended:?}");
}

fn exits() {
    let (world, mesh, rows) = world();
    if world.rank() == 1 {
        std::process::exit(0);
    }
    let sum = world.sharded(|x: &Tensor| x.sum(..), &mesh, rows, None);
    sum.call(&Tensor::ones([6], DType::F32)).unwrap();
}
