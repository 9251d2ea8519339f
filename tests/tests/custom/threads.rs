//! Backward passes on several threads.

use crate::functions::HostSin;
use gradloom::prelude::*;
use gradloom::{Param, custom_call};
use std::sync::Arc;
use std::thread;

/// S4.33: passes over losses that share parameters add up.
#[test]
fn concurrent_passes_over_shared_parameters_add_up() {
    let (n_threads, n_passes) = (8, 50);
    let f = Arc::new(HostSin::default());
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    let shared = w.tensor();
    thread::scope(|scope| {
        for i in 0..n_threads {
            let (f, w, shared) = (&f, &w, &shared);
            scope.spawn(move || {
                for k in 0..n_passes {
                    let x = if k % 2 == 0 {
                        shared.clone()
                    } else {
                        w.tensor()
                    };
                    let loss = (custom_call(f, &x) * 0.0 + &x * f64::from(i)).sum(..);
                    loss.backward().unwrap();
                }
            });
        }
    });
    let total = f64::from((0..n_threads).sum::<i32>() * n_passes);
    assert_eq!(w.grad().unwrap().to_vec::<f64>(), [total, total]);
}

/// S4.33: functions, contexts, parameters and results can be sent to other threads.
#[test]
fn a_graph_made_on_one_thread_is_followed_on_another() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let f = Arc::new(HostSin::default());
    let w = Param::new(Tensor::from([0.5f64])).unwrap();
    let y = custom_call(&f, &w.tensor()).sum(..);
    is_shared(&w);
    is_shared(&y);
    thread::spawn(move || y.backward().unwrap()).join().unwrap();
    assert_eq!(w.grad().unwrap().item::<f64>(), 0.5f64.cos());
}
