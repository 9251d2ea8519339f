//! Random keys as arguments of traced functions: the plan draws the random numbers.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, log};

/// Checks that calls with other keys reuse the plan of the first, and that each gives the numbers
/// of evaluation op by op, where draws are not planned.
#[track_caller]
fn finds<T: Tree>(f: impl Fn(Key) -> T) {
    let mut seen = Vec::new();
    for seed in 0..4 {
        let (y, events) = log(|| f(Key::new(seed)));
        let hit = events.first().is_some_and(|e| e == "hit p1") && events.len() < 3;
        assert!(seed == 0 || hit, "{events:?}");
        let found = bits(&y);
        assert_eq!(found, bits(&op_by_op(|| f(Key::new(seed)))));
        assert!(!seen.contains(&found), "two keys give the same numbers");
        seen.push(found);
    }
}

#[traced]
fn dropout(x: &Tensor, p: f64, key: Key) -> Tensor {
    let keep = key.bernoulli(1.0 - p, x.shape());
    keep.select(&(x / (1.0 - p)), &Tensor::zeros_like(x))
}

#[traced]
fn perceptron(w: &Tensor, v: &Tensor, #[nodiff] x: &Tensor, key: Key) -> Tensor {
    let [first, second] = key.split_n();
    let h = dropout(&x.matmul(w).tanh(), 0.25, first);
    dropout(&h.matmul(v), 0.5, second).square().mean(..)
}

#[test]
fn a_call_with_another_key_reuses_the_plan() {
    for n in [4, 200] {
        let x = noise(&[n, n], 1);
        finds(|key| dropout(&x, 0.5, key));
    }
}

#[test]
fn companions_with_another_key_reuse_their_plans() {
    let [w, v, x] = [1, 2, 3].map(|seed| noise(&[6, 6], seed));
    finds(|key| perceptron(&w, &v, &x, key));
    finds(|key| {
        let (y, g) = perceptron::value_and_grad(&w, &v, &x, key);
        (y, g.w, g.v)
    });
    finds(|key| perceptron::jvp((&w, &v, &x, key), (&v, &w)));
    finds(|key| perceptron::vjp(&w, &v, &x, key).0);
}

#[test]
fn a_pullback_reads_what_the_call_drew() {
    let [w, v, x] = [1, 2, 3].map(|seed| noise(&[6, 6], seed));
    for seed in 0..3 {
        let (y, pullback) = perceptron::vjp(&w, &v, &x, Key::new(seed));
        let grads = pullback(&Tensor::ones_like(&y));
        let (_, want) = perceptron::value_and_grad(&w, &v, &x, Key::new(seed));
        for (g, want) in [(&grads.0, &want.w), (&grads.1, &want.v)] {
            assert!((g - want).abs().max(..).item::<f64>() < 1e-15);
        }
    }
}

#[traced]
fn all_draws(like: &Tensor, key: Key) -> (Tensor, Tensor, Tensor, Tensor, Tensor) {
    let dtype = like.dtype();
    let [a, b, c, d, e] = key.fold_in(3).split_n();
    (
        a.bits([2, 3]),
        b.uniform([5], dtype),
        c.normal([3, 40], dtype),
        d.bernoulli(0.5, [100]),
        e.permutation(70),
    )
}

/// A random walk that draws its steps in a loop.
#[traced]
fn walk(x: &Tensor, steps: usize, key: Key) -> Tensor {
    let mut x = x.clone();
    let mut key = key;
    for i in 0..steps {
        let (now, later) = key.split();
        let step = now.fold_in(i as u32).normal(x.shape(), x.dtype());
        x = (x + step * 0.5).tanh();
        key = later;
    }
    x
}

#[traced]
fn noises(x: &Tensor, keys: Vec<Key>, more: Option<Key>) -> Tensor {
    let mut y = x.clone();
    for key in keys {
        y *= key.uniform([3], DType::F64);
    }
    match more {
        Some(key) => y + key.normal([3], DType::F64),
        None => y,
    }
}

#[test]
fn keys_can_be_split_and_used_in_loops_and_lists() {
    for dtype in [DType::F32, DType::F64] {
        let like = Tensor::zeros([1], dtype);
        gradloom::evaluate(&like).unwrap();
        finds(|key| all_draws(&like, key));
    }
    let x = noise(&[3], 5);
    finds(|key| walk(&x, 4, key));
    finds(|key| walk::jvp((&x, 4, key), &x));
    finds(|key| noises(&x, key.split_many(3), None));
    finds(|key| {
        let (a, b) = key.split();
        noises(&x, a.split_many(2), Some(b))
    });
}

/// The plan draws the same numbers as code outside any function.
#[test]
fn a_plan_draws_the_numbers_of_the_key() {
    let like = Tensor::scalar(0f32);
    for _ in 0..2 {
        let [a, b, c, d, e] = Key::new(9).fold_in(3).split_n();
        let drawn = all_draws(&like, Key::new(9));
        assert_eq!(bits(&drawn.0), bits(&a.bits([2, 3])));
        assert_eq!(bits(&drawn.1), bits(&b.uniform([5], DType::F32)));
        assert_eq!(bits(&drawn.2), bits(&c.normal([3, 40], DType::F32)));
        assert_eq!(bits(&drawn.3), bits(&d.bernoulli(0.5, [100])));
        assert_eq!(bits(&drawn.4), bits(&e.permutation(70)));
    }
}

#[traced]
fn reads_words(x: &Tensor, key: Key) -> Tensor {
    let [a, _] = key.fold_in(1).into_words();
    x * f64::from(a % 7 + 1)
}

#[traced(pure)]
fn said_to_be_pure(x: &Tensor, key: Key) -> Tensor {
    let [a, _] = key.fold_in(1).into_words();
    x * f64::from(a % 7 + 1)
}

#[test]
fn a_function_that_reads_words_is_recorded() {
    let recorded = reads_words::RECORDED.unwrap();
    assert!(recorded.contains("`.into_words()` at line"), "{recorded}");
    let x = noise(&[3], 5);
    for seed in 0..4 {
        assert_eq!(
            bits(&said_to_be_pure(&x, Key::new(seed))),
            bits(&reads_words(&x, Key::new(seed)))
        );
        let y = reads_words(&x, Key::new(seed));
        let [a, _] = Key::new(seed).fold_in(1).into_words();
        assert_eq!(bits(&y), bits(&(&x * f64::from(a % 7 + 1))));
    }
}

/// A key created in the body is a constant of the plan, however many numbers it draws.
#[traced]
fn own_key(x: &Tensor) -> Tensor {
    x * Key::new(7).uniform([100, 200], DType::F64)
}

#[test]
fn a_key_that_the_body_makes_is_a_constant() {
    let x = noise(&[100, 200], 5);
    let want = bits(&(&x * Key::new(7).uniform([100, 200], DType::F64)));
    assert_eq!(bits(&own_key(&x)), want);
    let (y, events) = log(|| own_key(&x));
    assert_eq!(events, ["hit p1"]);
    assert_eq!(bits(&y), want);
}

#[test]
fn errors_of_draws_are_reported_at_the_call() {
    #[traced]
    fn of(x: &Tensor, key: Key, dtype: DType) -> Tensor {
        x * key.uniform([2], dtype)
    }
    let x = noise(&[2], 1);
    let panic = std::panic::catch_unwind(|| of(&x, Key::new(0), DType::I32)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("the dtype is i32, expected `f32` or `f64`"),
        "{message}"
    );
}
