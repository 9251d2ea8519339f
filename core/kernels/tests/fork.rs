//! Processes that fork while their threads compute.
#![cfg(target_os = "linux")]

use gradloom::optim::{Optimiser, Sgd};
use gradloom::{Tensor, evaluate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the exit code of a child that runs `f`. A signal ends a child that hangs.
fn child(f: impl FnOnce() -> bool) -> Result<i32, i32> {
    // SAFETY: the child only computes, which this module supports after a fork, and exits
    // without returning to the test runner.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "a process can be forked");
    if pid == 0 {
        // SAFETY: `alarm` takes no pointers.
        unsafe { libc::alarm(30) };
        let done = catch_unwind(AssertUnwindSafe(f));
        let code = done.map_or(2, |right| i32::from(!right));
        // SAFETY: `_exit` ends the process without running any other code.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the write of one integer.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    match libc::WIFEXITED(status) {
        true => Ok(libc::WEXITSTATUS(status)),
        false => Err(libc::WTERMSIG(status)),
    }
}

fn numbers(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| (i % 7) as f32).collect::<Vec<f32>>(), [n])
}

/// Uses the engine, the buffer pool, huge pages and the thread pool.
fn compute(n: usize) -> bool {
    let x = numbers(n);
    let sum = (&x * 2.0 + 1.0).sum(..).item::<f32>();
    let y = x.reshape([n / 64, 64]).t().tanh();
    let expected: f32 = (0..n).map(|i| 2.0 * (i % 7) as f32 + 1.0).sum();
    evaluate(&y).is_ok() && (sum - expected).abs() <= 1e-4 * expected
}

#[test]
fn children_compute_while_other_threads_compute() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for k in 0..3 {
            let stop = &stop;
            s.spawn(move || {
                let mut n: usize = 64 * (k + 1);
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 5 + 64) % (1 << 20);
                    assert!(compute(n.next_multiple_of(64)));
                }
            });
        }
        let children: Vec<_> = (0..100)
            .map(|i| child(|| compute(64 << (i % 14)) && compute(64)))
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(children.iter().all(|code| *code == Ok(0)), "{children:?}");
    });
}

#[test]
fn a_value_being_computed_during_a_fork_is_an_error_in_the_child() {
    let sgd = Sgd::default();
    let n = 1 << 22;
    let (params, grads) = (numbers(n), numbers(n));
    let mut errors = 0;
    for _ in 0..5 {
        let state = sgd.init(&params);
        let (next, _) = sgd.step(&params, &grads, &state);
        let begun = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                begun.store(true, Ordering::Release);
                evaluate(&next).unwrap();
            });
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_micros(500));
            let code = child(|| match evaluate(&next) {
                Ok(()) => true,
                Err(error) => {
                    assert!(error.to_string().contains("forked"), "{error}");
                    false
                }
            });
            assert!(matches!(code, Ok(0 | 1)), "{code:?}");
            errors += code.unwrap_or(0);
        });
    }
    println!("{errors} of 5 children found the value locked");
}
