//! The depth of a graph is limited by memory, not by the stack.

use gradloom::{Tensor, evaluate, grad, jvp};
use std::thread;

const DEEP: usize = 1_000_000;

fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(256 * 1024).spawn(body);
    thread.unwrap().join().unwrap();
}

fn chain(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        // An op that no pass simplifies and that cannot overflow.
        y = y.abs();
    }
    y
}

/// Rows S1.19, S2.24 of the requirements.
#[test]
fn a_chain_of_a_million_ops_is_evaluated_and_dropped() {
    on_a_small_stack(|| {
        let x = Tensor::scalar(3.0f32);
        let y = chain(&x, DEEP);
        evaluate(&y).unwrap();
        assert_eq!(y.item::<f32>(), 3.0);
        drop(chain(&x, DEEP));
    });
}

#[test]
fn a_chain_of_a_million_ops_is_differentiated() {
    on_a_small_stack(|| {
        let x = Tensor::scalar(3.0f32);
        let f = |x: &Tensor| chain(x, DEEP);
        assert_eq!(grad(f)(&x).item::<f32>(), 1.0);
        let f = |x: &Tensor| chain(x, DEEP / 10);
        let (y, dy) = jvp(f, &x, &Tensor::scalar(2.0f32));
        assert_eq!((y.item::<f32>(), dy.item::<f32>()), (3.0, 2.0));
    });
}

#[test]
fn a_loop_that_updates_its_state_keeps_no_history() {
    let mut state = Tensor::from([1.0f64, 2.0]);
    for _ in 0..200 {
        let gradient = grad(|x: &Tensor| (x * x).sum(..))(&state);
        state = &state - gradient * 0.25;
        evaluate(&state).unwrap();
        // An op on a realised state has depth one, so dropping it takes bounded time.
    }
    assert!(state.to_vec::<f64>().iter().all(|x| x.abs() < 1e-50));
}
