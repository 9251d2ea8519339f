//! Memory of traced and untraced values. This file has only one test, because the counts are those of the process.

use gradloom::engine::{self, Mode};
use gradloom::prelude::*;
use gradloom::{Param, evaluate, report};

/// Number of elements of each tensor.
const N: usize = 1 << 16;

/// Returns the number of live tensors of `N` elements.
fn live() -> usize {
    let bytes = report::memory().live_bytes;
    // A few single numbers are live too.
    (bytes + N) / (4 * N)
}

fn chain(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..8 {
        y = y.tanh() * 1.5;
    }
    y
}

/// S1.14, S1.20, S1.21, S2.32: untraced intermediate values are freed, and traced ones are kept until the trace, the
/// pullback or the graph is closed.
#[test]
fn memory_of_traced_and_untraced_values() {
    assert_eq!(live(), 0);
    let x = Tensor::from(vec![0.5f32; N]);
    assert_eq!(live(), 1);
    let memory = report::memory();
    assert_eq!((memory.live_bytes, memory.live_buffers), (4 * N, 1));
    let copy = x.clone();
    drop(copy);
    assert_eq!(live(), 1);

    // Untraced: only the result stays, in one plan and op by op.
    let y = chain(&x);
    assert_eq!(live(), 1, "a promise has no elements");
    evaluate(&y).unwrap();
    assert_eq!(live(), 2);
    let by_op = engine::enter(Mode::OpByOp);
    let z = chain(&x);
    assert_eq!(live(), 3);
    drop((y, z, by_op));
    assert_eq!(live(), 1);

    // A held intermediate value stays as long as its handle.
    let h = x.tanh();
    let y = chain(&h);
    evaluate(&y).unwrap();
    assert_eq!(live(), 3);
    drop(h);
    assert_eq!(live(), 2);
    drop(y);

    // Traced: the residuals stay until the pullback is dropped.
    let (y, pullback) = gradloom::vjp(|x: &Tensor| chain(x), &x);
    evaluate(&y).unwrap();
    let residuals = pullback.bytes() / (4 * N);
    assert!(residuals >= 8);
    assert!(live() >= 2 + residuals - 1, "{} live", live());
    let ct = pullback.call(&x);
    evaluate(&ct).unwrap();
    drop((pullback, y));
    assert_eq!(live(), 2);
    drop(ct);

    // Values that a traced closure computes stay until the trace is closed.
    let inside = std::cell::Cell::new(0);
    let slope = grad(|x: &Tensor| {
        let by_op = engine::enter(Mode::OpByOp);
        let y = chain(x);
        drop(by_op);
        inside.set(live());
        y.sum(..)
    })(&x);
    assert!(inside.get() >= 16, "{} live", inside.get());
    evaluate(&slope).unwrap();
    assert_eq!(live(), 2);
    drop(slope);

    // The nodes of an eager graph stay until it is released, or until no handle leads to them.
    let guard = engine::enter(Mode::EagerGraph);
    let y = chain(&x);
    assert_eq!(live(), 17);
    drop(y);
    let y = chain(&x);
    guard.release();
    assert_eq!(live(), 2);
    let before = report::memory();
    let mut most = 0;
    for _ in 0..200 {
        chain(&x);
        most = most.max(live());
    }
    assert!(
        most < 80,
        "{most} live: values that nothing needs are dropped"
    );
    guard.release();
    assert_eq!(report::memory().live_buffers, before.live_buffers);
    drop((y, guard));
    assert_eq!(live(), 1);

    // The graph behind a parameter stays until the backward pass.
    let w = Param::new(x).unwrap();
    let y = chain(&w.tensor());
    let loss = y.sum(..);
    evaluate(&loss).unwrap();
    loss.backward().unwrap();
    evaluate(&w.grad().unwrap()).unwrap();
    drop(y);
    assert!(live() <= 3, "{} live", live());
    drop(loss);
    w.zero_grad();
    assert!(live() <= 2, "{} live", live());
    drop(w);
    assert_eq!(live(), 0);

    // Small buffers that are kept for reuse are free.
    let before = report::memory();
    let small: Vec<Tensor> = (0..100).map(|i| Tensor::from([i as f32; 10])).collect();
    let during = report::memory();
    assert_eq!(during.live_buffers - before.live_buffers, 100);
    drop(small);
    let after = report::memory();
    assert_eq!(after.live_bytes, before.live_bytes);
    assert!(after.free_bytes > 0);
    std::thread::spawn(|| drop(Tensor::from([1.0f32; 10]) * 2.0))
        .join()
        .unwrap();
    assert_eq!(report::memory().live_bytes, before.live_bytes);
}
