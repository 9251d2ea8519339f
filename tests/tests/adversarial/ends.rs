//! End of a thread: a destructor may still compute after the thread-local state of the run time is
//! gone.

use gradloom::optim::{Adam, Sgd};
use gradloom::prelude::*;
use gradloom::{events, testing::op_by_op};
use gradloom_tests::graphs::bits;
use gradloom_tests::noise;
use std::cell::RefCell;
use std::sync::mpsc::Sender;

#[traced]
fn loss(x: &Tensor, w: &Tensor) -> Tensor {
    let y = x.matmul(w);
    y.attention(&y, &y).tanh().mean(..)
}

/// Calls traced functions, their companions, transforms and optimisers.
fn compute() -> Vec<Vec<u64>> {
    let (x, w) = (noise(&[65, 300], 1), noise(&[300, 33], 2));
    let (value, grads) = loss::value_and_grad(&x, &w);
    let by_closure = grad(|w: &Tensor| loss(&x, w).square())(&w);
    let (sgd, adam) = (Sgd::default(), Adam::default());
    let (w1, velocity) = sgd.step(&w, &grads.w, &sgd.init(&w));
    let (w2, moments) = adam.step(&w1, &by_closure, &adam.init(&w1));
    let mut all = vec![value, grads.x, w1, w2, moments.mean, w.t() + 1.0];
    velocity.visit(&mut |v| all.push(v.clone()));
    let (result, _) = events::record(|| evaluate(&all));
    result.unwrap();
    all.iter().map(bits).collect()
}

struct AtTheEnd(Option<Sender<Vec<Vec<u64>>>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some(sender) = &self.0 {
            let found = compute();
            sender.send([found, op_by_op(compute)].concat()).unwrap();
        }
    }
}

thread_local! {
    static LAST: RefCell<AtTheEnd> = const { RefCell::new(AtTheEnd(None)) };
}

#[test]
fn a_thread_local_destructor_can_compute() {
    let (sender, results) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Thread-locals are dropped in reverse order of initialisation, so this one outlives those
        // of the run time.
        LAST.with_borrow_mut(|last| last.0 = Some(sender));
        compute()
    });
    let expected = thread.join().unwrap();
    assert_eq!(
        results.recv().unwrap(),
        [expected.clone(), expected].concat()
    );
}
