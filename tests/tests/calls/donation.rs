//! Donation: a call overwrites an argument only if it owns it alone. Other handles, other threads
//! and failed calls still see the old values.

use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::bits;
use std::sync::Barrier;
use std::thread;

/// Number of elements, large enough that calls are promises and may reuse argument buffers.
const N: usize = 40_000;

#[traced]
fn moved(x: &Tensor, y: &Tensor) -> Tensor {
    x * 0.5 + y * 0.25 + 1.0
}

#[traced]
fn waves(x: &Tensor, w: &Tensor) -> Tensor {
    (x * w).sin() * x.tanh()
}

#[traced]
fn picked(x: &Tensor, w: &Tensor, #[nodiff] labels: &Tensor) -> (Tensor, Tensor) {
    (x.sin() * w, x.reshape([-1, 4]).cross_entropy(labels))
}

fn long(seed: u64) -> Tensor {
    let x = noise(&[N], seed);
    evaluate(&x).unwrap();
    // A buffer without other owners.
    Tensor::from(x.to_vec::<f64>())
}

#[test]
fn one_thread_drops_an_argument_while_another_calls() {
    let (first, y) = (long(1), long(2));
    let (before, after) = (bits(&first), bits(&op_by_op(|| moved(&first, &y))));
    for turn in 0..40 {
        let x = Tensor::from(first.to_vec::<f64>());
        let (other, y) = (x.clone(), &y);
        let (start, both) = (&Barrier::new(2), (&before, &after));
        thread::scope(|scope| {
            let caller = scope.spawn(move || {
                let z = moved(&x, y);
                start.wait();
                drop(x);
                assert_eq!(&bits(&z), both.1);
            });
            scope.spawn(move || {
                start.wait();
                match turn % 4 {
                    // Drop the handle while the call checks whether it owns its arguments alone.
                    0 => drop(other),
                    1 => assert_eq!(&bits(&other), both.0),
                    // Call concurrently. Either call may be the last owner of the argument.
                    2 => {
                        let z = moved(&other, y);
                        drop(other);
                        assert_eq!(&bits(&z), both.1);
                    }
                    _ => {
                        let copy = other.clone();
                        drop(other);
                        let z = moved(&copy, &copy);
                        assert_eq!(bits(&copy), *both.0);
                        drop(copy);
                        assert_eq!(bits(&z).len(), 1);
                    }
                }
            });
            caller.join().unwrap();
        });
    }
}

#[test]
fn an_argument_passed_twice_is_not_overwritten_between_reads() {
    let first = long(1);
    let expected = bits(&op_by_op(|| moved(&first, &first)));
    let chained = bits(&op_by_op(|| {
        let y = moved(&first, &first);
        moved(&y, &y)
    }));
    for _ in 0..4 {
        let x = Tensor::from(first.to_vec::<f64>());
        let z = moved(&x.clone(), &x);
        drop(x);
        assert_eq!(bits(&z), expected);
        // The result of a pending call, passed twice.
        let x = Tensor::from(first.to_vec::<f64>());
        let y = moved(&x, &x);
        let z = moved(&y, &y);
        drop((x, y));
        assert_eq!(bits(&z), chained);
        // A call in between keeps the value that another could overwrite.
        let x = Tensor::from(first.to_vec::<f64>());
        let (y, z) = (moved(&x, &x), waves(&x, &x));
        drop(x);
        assert_eq!(bits(&y), expected);
        assert_eq!(bits(&z), bits(&op_by_op(|| waves(&first, &first))));
    }
}

#[test]
fn a_dropped_pullback_donates_its_residuals_and_a_live_one_keeps_them() {
    let (x, w, ct) = (long(1), long(2), long(3));
    let expected = bits(&op_by_op(|| waves::vjp(&x, &w).1(&ct)));
    let value = bits(&op_by_op(|| waves(&x, &w)));
    for turn in 0..12 {
        let (y, pullback) = waves::vjp(&x, &w);
        let (first, second) = (pullback(&ct), pullback(&ct));
        match turn % 3 {
            0 => drop(pullback),
            1 => {
                assert_eq!(bits(&pullback(&ct)), expected);
                drop(pullback);
            }
            _ => thread::scope(|scope| {
                let third = pullback(&ct);
                let reader = scope.spawn(move || bits(&third));
                drop(pullback);
                assert_eq!(reader.join().unwrap(), expected);
            }),
        }
        thread::scope(|scope| {
            let other = scope.spawn(move || bits(&first));
            assert_eq!(bits(&second), expected);
            assert_eq!(other.join().unwrap(), expected);
        });
        assert_eq!(bits(&y), value);
    }
}

#[test]
fn a_failed_call_does_not_change_arguments_or_residuals() -> Result<()> {
    let (first, w) = (long(1), long(2));
    let n = first.numel() / 4;
    let right = Tensor::from(vec![1i64; n]);
    let wrong = Tensor::from((0..n as i64).map(|i| i % 5).collect::<Vec<i64>>());
    let expected = bits(&op_by_op(|| picked(&first, &w, &right)));
    let ct = (w.clone(), Tensor::from(1.0f64));
    let grads = bits(&op_by_op(|| picked::vjp(&first, &w, &right).1(&ct)));
    for _ in 0..3 {
        let x = Tensor::from(first.to_vec::<f64>());
        let (y, pullback) = picked::vjp(&x, &w, &wrong);
        let failed = pullback(&ct);
        assert!(evaluate(&failed).is_err());
        assert!(evaluate(&y).is_err());
        let (again, other) = picked::vjp(&x, &w, &right);
        drop(x);
        assert_eq!(bits(&other(&ct)), grads);
        assert_eq!(bits(&again), expected);
        // Evaluate the failed call again, after the user's handles are gone.
        drop(pullback);
        assert!(evaluate(&failed).is_err());
    }
    assert_eq!(bits(&picked(&first, &w, &right)), expected);
    Ok(())
}

#[traced]
fn halved_and_taken(x: &Tensor, table: &Tensor, #[nodiff] i: &Tensor) -> (Tensor, Tensor) {
    (x * 0.5, table.take(i, 0))
}

#[test]
fn a_task_that_fails_later_leaves_an_argument_that_another_task_read() {
    let n = 40_000;
    let table = Tensor::from([1.0, 2.0]);
    let mut indices = vec![0i64; n];
    let good = Tensor::from(indices.clone());
    indices[n - 1] = 9;
    let bad = Tensor::from(indices);
    let ones = || Tensor::from(vec![1.0; n]);
    evaluate(&halved_and_taken(&ones(), &table, &good)).unwrap();
    let x = ones();
    let (half, rows) = halved_and_taken(&x, &table, &bad);
    drop(x);
    assert!(evaluate(&rows).is_err());
    drop(rows);
    assert_eq!(half.to_vec::<f64>(), [0.5; 40_000]);
}
