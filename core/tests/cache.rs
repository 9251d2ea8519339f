//! The plan cache, observed through the event log.
//!
//! These tests change settings of the whole process, so they form a binary of their own and run one
//! at a time.

use gradloom::events::{self, Event};
use gradloom::{DType, Tensor, cache, evaluate, grad, hessian, traced, value_and_grad, vmap};
use std::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::new(());

/// Locks out the other tests, and empties the cache and resets its settings.
fn fresh() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    cache::set_capacity(cache::DEFAULT_CAPACITY);
    cache::set_hash_bits(64);
    cache::clear();
    guard
}

/// Returns the events of `body`, one per line.
fn log(body: impl FnOnce()) -> String {
    let ((), events) = events::record(body);
    events.iter().map(|e| format!("{e}\n")).collect()
}

fn vector(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| i as f32).collect(), n)
}

/// Rows S1.1, S2.21, S2.23 of the requirements.
#[test]
fn a_second_call_with_equal_shapes_does_not_plan() {
    let _alone = fresh();
    let f = |x: &Tensor| ((x * 2.0).tanh() + x).sum(..).item::<f32>();
    insta::assert_snapshot!(log(|| {
        f(&vector(4));
        f(&vector(4));
        f(&Tensor::ones([4], DType::F32).exp().slice([0], [4], [1]));
    }), @r"
    planned p1: 5 equations
    ran p1
    hit p1
    ran p1
    planned p2: 7 equations
    ran p2
    ");
}

/// Row S2.17 of the requirements.
#[test]
fn reading_realised_values_emits_no_events() {
    let _alone = fresh();
    let y = vector(3).exp();
    evaluate(&y).unwrap();
    insta::assert_snapshot!(log(|| {
        y.to_vec::<f32>();
        evaluate(&(y.clone(), y.clone())).unwrap();
        evaluate(&()).unwrap();
    }), @"");
}

/// Row S2.19 of the requirements.
#[test]
fn a_miss_reports_the_difference_from_a_similar_key() {
    let _alone = fresh();
    let x = vector(6).reshape([2, 3]);
    evaluate(&x).unwrap();
    insta::assert_snapshot!(log(|| {
        (&vector(32) + &vector(32)).item_of_sum();
        (&vector(31) + &vector(31)).item_of_sum();
        (&vector(31) * &vector(31)).item_of_sum();
        let y = vector(31);
        (&y * &y).item_of_sum();
        evaluate(&x.sum(0)).unwrap();
        evaluate(&x.sum(1)).unwrap();
        evaluate(&x.cast(DType::I64).sum(1)).unwrap();
        evaluate(&x.cast(DType::I32).sum(1)).unwrap();
    }), @r"
    planned p1: 2 equations
    ran p1
    planned p2: 2 equations (leaf 0, axis 0: 32 -> 31; leaf 1, axis 0: 32 -> 31)
    ran p2
    planned p3: 2 equations (op 0: add -> mul)
    ran p3
    planned p4: 2 equations (leaves: 2 -> 1)
    ran p4
    planned p5: 1 equation (leaf 0: f32[6] -> f32[2, 3]; op 0: reshape -> sum)
    ran p5
    planned p6: 1 equation (op 0 (sum), static axes: 0 -> 1)
    ran p6
    planned p7: 2 equations (leaves: 2 -> 1; leaf 0: f32[31] -> f32[2, 3]; op 0: mul -> cast)
    ran p7
    planned p8: 2 equations (op 0 (cast), static dtype: i64 -> i32)
    ran p8
    ");
}

trait ItemOfSum {
    fn item_of_sum(&self) -> f32;
}

impl ItemOfSum for Tensor {
    fn item_of_sum(&self) -> f32 {
        self.sum(..).item()
    }
}

/// Row S2.30 of the requirements.
#[test]
fn the_least_recently_used_plan_is_evicted_first() {
    let _alone = fresh();
    cache::set_capacity(2);
    let run = |n: usize| evaluate(&vector(n).exp()).unwrap();
    insta::assert_snapshot!(log(|| {
        run(1);
        run(2);
        run(1);
        run(3);
        run(1);
        run(2);
    }), @r"
    planned p1: 1 equation
    ran p1
    planned p2: 1 equation (leaf 0, axis 0: 1 -> 2)
    ran p2
    hit p1
    ran p1
    planned p3: 1 equation (leaf 0, axis 0: 1 -> 3)
    evicted p2
    ran p3
    hit p1
    ran p1
    planned p4: 1 equation (leaf 0, axis 0: 1 -> 2)
    evicted p3
    ran p4
    ");
    assert_eq!(cache::stats().plans, 2);
    cache::set_capacity(0);
    assert_eq!(cache::stats().plans, 0);
    assert_eq!(vector(2).square().to_vec::<f32>(), [0.0, 1.0]);
    assert_eq!(vector(2).square().to_vec::<f32>(), [0.0, 1.0]);
}

/// Two results, of which the first takes most of the work.
#[traced]
fn both(x: &Tensor) -> (Tensor, Tensor) {
    (x.tanh().exp(), x * 2.0)
}

#[test]
fn an_evicted_plan_for_some_results_of_a_call_is_made_again() {
    let _alone = fresh();
    // So large that the call is a promise.
    let x = vector(1 << 14);
    let call = || {
        let (_, doubled) = both(&x);
        evaluate(&doubled).unwrap();
    };
    // Each call uses the plan for both results, so that for one result is the oldest.
    insta::assert_snapshot!(log(|| {
        call();
        evaluate(&x.sin()).unwrap();
        cache::set_capacity(2);
        call();
        call();
    }), @r"
    planned p1: 4 equations
    planned p2: 2 equations (targets: 2 -> 1)
    ran p2
    planned p3: 1 equation
    ran p3
    evicted p2
    hit p1
    planned p4: 2 equations (targets: 2 -> 1)
    evicted p3
    ran p4
    hit p1
    ran p4
    ");
}

/// Rows S2.15f, S2.44 of the requirements.
#[test]
fn colliding_hashes_do_not_change_results() {
    let _alone = fresh();
    let results = || -> Vec<Vec<f64>> {
        let x = Tensor::from([0.5f64, -1.5, 2.0]);
        let y = Tensor::from([1.0f64, 2.0, 4.0]);
        let all = [
            &x + &y,
            &x - &y,
            &y - &x,
            &x * &y,
            &x / &y,
            &y / &x,
            &x * &x,
            -&x,
            x.tanh(),
            x.exp(),
            x.sin(),
            x.cos(),
            x.abs(),
            x.square(),
            x.sum(0),
            x.max(0),
            x.min(0),
            x.mean(0),
            &x + 1.0,
            &x + 2.0,
            &x * 2.0,
            x.softmax(0),
            x.slice([1], [3], [1]),
            x.slice([0], [2], [1]),
        ];
        all.iter().map(|t| t.to_vec()).collect()
    };
    let expected = results();
    for bits in [4, 1, 0] {
        cache::clear();
        cache::set_hash_bits(bits);
        assert_eq!(results(), expected);
        let (again, events) = events::record(results);
        assert_eq!(again, expected);
        assert!(
            !events.iter().any(|e| matches!(e, Event::Planned { .. })),
            "{bits} bits"
        );
    }
}

#[test]
fn programs_of_closures_are_kept_within_the_capacity() {
    let _alone = fresh();
    let gradient = |x: &Tensor| grad(|x: &Tensor| (x.sin() * 3.0).sum(..))(x).to_vec::<f32>();
    let expected = gradient(&vector(3));
    assert_eq!(cache::stats().programs, 1);
    assert_eq!(gradient(&vector(3)), expected);
    assert_eq!(cache::stats().programs, 1);
    gradient(&vector(4));
    assert_eq!(cache::stats().programs, 2);
    cache::set_capacity(1);
    assert_eq!(cache::stats().programs, 1);
    assert_eq!(gradient(&vector(3)), expected);
    assert_eq!(cache::stats().programs, 1);
    cache::clear();
    assert_eq!(cache::stats().programs, 0);
    cache::set_capacity(0);
    assert_eq!(gradient(&vector(3)), expected);
    assert_eq!(cache::stats().programs, 0);
}

#[test]
fn derivatives_of_closures_do_not_depend_on_hashes() {
    let _alone = fresh();
    let one = |k: i64, n: usize| {
        let limit = k as f64 - 0.5;
        let f = move |x: &Tensor| (x.clamp(0.0, limit).square() + x.roll(k, 0).sin() * x).sum(..);
        (
            grad(f)(&vector(n)).to_vec::<f32>(),
            hessian(f)(&vector(n)).to_vec::<f32>(),
            vmap(grad(f))(&Tensor::stack(&[vector(n), vector(n)], 0)).to_vec::<f32>(),
        )
    };
    let all = || Vec::from_iter((2..5).flat_map(|k| (2..5).map(move |n| one(k, n))));
    cache::set_capacity(0);
    let expected = all();
    cache::set_capacity(cache::DEFAULT_CAPACITY);
    for bits in [64, 1, 0] {
        cache::clear();
        cache::set_hash_bits(bits);
        assert_eq!(all(), expected, "{bits} bits");
        assert_eq!(all(), expected, "{bits} bits");
    }
}

/// Row S2.33 of the requirements.
#[test]
fn a_training_loop_plans_once() {
    let _alone = fresh();
    let loss = |(w, x): &(Tensor, Tensor)| (x.matmul(w).tanh() - 0.5).square().mean(..);
    let mut w = Tensor::full([3, 2], 0.1, DType::F32);
    let x = vector(12).reshape([4, 3]) / 12.0;
    evaluate(&(w.clone(), x.clone())).unwrap();
    let mut step = || {
        let (value, (ct_w, _)) = value_and_grad(loss)(&(w.clone(), x.clone()));
        w = &w - ct_w * 0.1;
        evaluate(&(w.clone(), value.clone())).unwrap();
        value.item::<f32>()
    };
    let first = step();
    let log = log(|| {
        step();
        step();
    });
    assert!(step() < first);
    let kinds: Vec<&str> = log
        .lines()
        .map(|l| l.split([' ', ':']).next().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["traced", "hit", "ran", "traced", "hit", "ran"],
        "{log}"
    );
}

#[test]
fn counts_include_the_events_of_all_threads() {
    let _alone = fresh();
    let before = events::counts();
    std::thread::spawn(|| {
        grad(|x: &Tensor| (x * x).sum(..))(&vector(5)).to_vec::<f32>();
        grad(|x: &Tensor| (x * x).sum(..))(&vector(5)).to_vec::<f32>();
    })
    .join()
    .unwrap();
    let after = events::counts();
    assert_eq!(after.traced - before.traced, 2);
    assert_eq!(after.planned - before.planned, 1);
    assert_eq!(after.hit - before.hit, 1);
    assert_eq!(after.ran - before.ran, 2);
}

/// S2.20: the same targets in another order find their plan, and each gets its value.
#[test]
fn targets_in_another_order_find_their_plan() {
    let _alone = fresh();
    let work = |swapped: bool| {
        let x = vector(3);
        let (a, b) = (x.exp(), &x * 2.0);
        match swapped {
            false => evaluate((&a, &b)).unwrap(),
            true => evaluate((&b, &a)).unwrap(),
        }
        assert_eq!(b.to_vec::<f32>(), [0.0, 2.0, 4.0]);
        assert_eq!(a.to_vec::<f32>()[0], 1.0);
    };
    insta::assert_snapshot!(log(|| {
        work(false);
        work(true);
    }), @r"
    planned p1: 3 equations
    ran p1
    hit p1
    ran p1
    ");
}
