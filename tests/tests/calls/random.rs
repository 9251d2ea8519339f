//! Random calls of traced functions, on several threads, give the bits of evaluation op by op.
//! Arguments may be equal, dropped, donated, or read late or on another thread, and calls may panic
//! in between.
//!
//! `GRADLOOM_CALLS=100000 cargo test --release -p gradloom-tests --test calls random` makes more
//! calls.

use gradloom::optim::{Adam, Sgd};
use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom::{explain, set_threads};
use gradloom_tests::graphs::{Rng, bits};
use gradloom_tests::panics::panic_of;
use std::sync::{Arc, Mutex};
use std::thread;

/// Default number of calls of each thread on small tensors.
const CALLS: usize = 800;

/// Number of threads.
const THREADS: u64 = 3;

/// A tensor, and the expected bits of its elements.
#[derive(Clone)]
struct Value {
    tensor: Tensor,
    bits: Arc<[u64]>,
}

impl Value {
    fn new(rng: &mut Rng, n: usize) -> Value {
        Value::of(Tensor::from_vec(
            (0..n).map(|_| 2.0 * rng.unit()).collect::<Vec<f64>>(),
            [n],
        ))
    }

    fn of(tensor: Tensor) -> Value {
        let bits = bits(&tensor).into();
        Value { tensor, bits }
    }

    /// Returns another tensor with the same elements.
    fn copy(&self) -> Tensor {
        let elements = self.bits.iter().map(|bits| f64::from_bits(*bits));
        Tensor::from(elements.collect::<Vec<f64>>())
    }

    #[track_caller]
    fn check(&self, what: &str) {
        assert!(
            bits(&self.tensor) == *self.bits,
            "{what}: the bits differ from evaluation op by op"
        );
    }
}

#[traced]
fn linear(x: &Tensor, y: &Tensor) -> Tensor {
    x * 0.5 + y * 0.25 + 1.0
}

#[traced]
fn wave(x: &Tensor, y: &Tensor) -> Tensor {
    (x * y).sin() * x.tanh()
}

#[traced]
fn swap(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (y.clone(), x.clone())
}

#[traced]
fn twice(x: &Tensor, y: &Tensor) -> (Tensor, Tensor, Tensor) {
    let z = x - y;
    (z.clone(), z, x.clone())
}

#[traced]
fn turned(x: &Tensor) -> Tensor {
    x.reshape([-1, 4]).t().reshape(x.shape())
}

#[traced]
fn unchanged(x: &Tensor) -> Tensor {
    x.reshape([-1, 4]).reshape(x.shape())
}

#[traced]
fn summed(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for i in 0..n {
        y = y * 0.5 + x * (i as f64);
    }
    y
}

#[traced]
fn normalised(x: &Tensor, y: &Tensor) -> Tensor {
    let rows = (x * 0.3 + y).reshape([-1, 4]);
    (rows.softmax(-1) * 2.0).reshape(x.shape())
}

#[traced]
fn dropped(x: &Tensor, key: Key) -> Tensor {
    key.bernoulli(0.5, x.shape()).select(x, &(x * 0.0))
}

#[traced]
fn loss(x: &Tensor, y: &Tensor) -> Tensor {
    (x.square() * y).mean(..)
}

/// Its evaluation panics unless `label` is from 0 to 3.
#[traced]
fn labelled(x: &Tensor, label: i64) -> Tensor {
    let rows = x.reshape([-1, 4]);
    let labels = (x * 0.0).slice([0], [x.dim(0) / 4], [1]).cast(DType::I64) + label;
    rows.cross_entropy(&labels) + x.exp()
}

/// Makes the call with the given number. `more` selects its static arguments.
fn call(number: usize, x: &Tensor, y: &Tensor, more: usize) -> Vec<Tensor> {
    match number {
        0 => vec![linear(x, y)],
        1 => vec![wave(x, y)],
        2 => {
            let (a, b) = swap(x, y);
            vec![a, b]
        }
        3 => {
            let (a, b, c) = twice(x, y);
            vec![a, b, c]
        }
        4 => vec![turned(x)],
        5 => vec![unchanged(x)],
        6 => vec![summed(x, more % 3)],
        7 => vec![normalised(x, y)],
        8 => vec![dropped(x, Key::new(more as u64))],
        9 => vec![labelled(x, more as i64 % 4)],
        // Pending ops are an argument.
        10 => vec![x + y, linear(&(x * 2.0), y)],
        11 => {
            let (value, pullback) = wave::vjp(x, y);
            let (ct_x, ct_y) = pullback(&linear(x, y));
            vec![value, ct_x, ct_y]
        }
        12 => {
            let (value, tangent) = wave::jvp((x, y), (y, x));
            vec![value, tangent]
        }
        13 => vec![grad(|x: &Tensor| loss(&linear(x, y), x))(x)],
        14 => {
            let grads = loss::grad(x, y);
            let sgd = Sgd {
                lr: 0.1,
                momentum: 0.5,
                nesterov: more.is_multiple_of(2),
            };
            let (x, state) = sgd.step(x, &grads.x, &sgd.init(x));
            let (x, state) = sgd.step(&x, &grads.y, &state);
            vec![x, state.velocity.expect("`momentum` is not 0")]
        }
        _ => {
            let grads = loss::grad(x, y);
            let adam = Adam::default();
            let (x, state) = adam.step(x, &grads.x, &adam.init(x));
            let (x, state) = adam.step(&x, &grads.y, &state);
            vec![x, state.mean, state.square]
        }
    }
}

const NUMBERS: usize = 16;

/// Does something that must not change a result.
fn disturb(rng: &mut Rng, results: &[Value]) {
    let tensors: Vec<Tensor> = results.iter().map(|value| value.tensor.clone()).collect();
    match rng.below(8) {
        0 => set_threads(1 + rng.below(3)),
        1 => drop(explain(&tensors)),
        2 => evaluate(&tensors).expect("all results can be computed"),
        3 => {
            let x = &tensors[0];
            if x.rank() == 1 && x.numel() > 0 {
                let (text, ..) = panic_of(|| drop(labelled(x, 9).to_vec::<f64>()));
                assert!(text.contains("label"), "{text}");
            }
        }
        4 => {
            let value = rng.of(results);
            let other = thread::spawn(move || value.check("on another thread"));
            other.join().expect("another thread sees the same bits");
        }
        _ => {}
    }
}

/// Makes calls with tensors of `n` elements, and with results of this and other threads.
fn run(seed: u64, n: usize, calls: usize, shared: &Mutex<Vec<Value>>) {
    let rng = &mut Rng::new(seed);
    let mut pool: Vec<Value> = Vec::new();
    for i in 0..calls {
        while pool.len() < 3 {
            pool.push(Value::new(rng, n));
        }
        let number = rng.below(NUMBERS);
        let what = format!("seed {seed}, {n} elements, call {i}, of {number}");
        let more = rng.below(100);
        let (i, j) = (rng.below(pool.len()), rng.below(pool.len()));
        let [x, y] = [i, j].map(|i| pool[i].clone());

        // Arguments that are the same tensor are the same in the reference, too.
        let copy = x.copy();
        let other = if i == j { copy.clone() } else { y.copy() };
        let expected = op_by_op(|| {
            let results = call(number, &copy, &other, more);
            results.into_iter().map(Value::of).collect::<Vec<_>>()
        });
        let results = call(number, &x.tensor, &y.tensor, more);
        let with_bits = |(tensor, value): (Tensor, Value)| Value { tensor, ..value };
        let mut results: Vec<Value> = results.into_iter().zip(expected).map(with_bits).collect();

        // Drop the arguments before the results are evaluated.
        drop((x, y));
        if rng.once_in(3) {
            pool.remove(i.max(j));
            if i != j {
                pool.remove(i.min(j));
            }
        }
        disturb(rng, &results);
        rng.shuffle(&mut results);
        if rng.once_in(3) {
            results.truncate(1);
        }
        for result in results {
            if rng.once_in(2) {
                result.check(&what);
            }
            if result.tensor.shape() != [n] {
                continue;
            }
            let mut shared = shared
                .lock()
                .expect("no thread panics while it holds the lock");
            match rng.below(6) {
                0 => shared.push(result),
                1 => pool.extend(shared.pop().into_iter().chain([result])),
                _ => pool.push(result),
            }
        }
        while pool.len() > 8 {
            pool.swap_remove(rng.below(pool.len())).check(&what);
        }
    }
    for value in pool {
        value.check("at the end");
    }
}

#[test]
fn random_calls_give_the_bits_of_evaluation_op_by_op() {
    let asked = std::env::var("GRADLOOM_CALLS").ok();
    let calls = asked.map_or(CALLS, |n| n.parse().expect("`GRADLOOM_CALLS` is a number"));
    // From calls that are evaluated eagerly to promises, and to loops split between threads.
    for (n, share) in [
        (4, 1),
        (64, 1),
        (1024, 2),
        (4096, 8),
        (40_000, 32),
        (200_000, 100),
    ] {
        let shared = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let shared = &shared;
                scope.spawn(move || run(seed + n as u64, n, calls / share, shared));
            }
        });
        for value in shared.into_inner().expect("no thread has panicked") {
            value.check("at the end");
        }
    }
}
