//! Graphs that are expensive if work is done per path instead of per node.

use gradloom::testing::op_by_op;
use gradloom::{DType, Tensor, cache, evaluate, grad, hvp, jvp};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Time limit, far above the time needed and far below that of an algorithm that visits every path
/// or pair of operands.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn stacked_diamonds_take_time_proportional_to_nodes_and_not_paths() {
    let start = Instant::now();
    let f = |x: &Tensor| (0..60).fold(x.clone(), |y, _| &y + &y);
    let x = Tensor::scalar(1.5f64);
    assert_eq!(f(&x).item::<f64>(), 1.5 * 2f64.powi(60));
    assert_eq!(grad(f)(&x).item::<f64>(), 2f64.powi(60));
    assert_eq!(jvp(f, &x, &x).1.item::<f64>(), 1.5 * 2f64.powi(60));
    // y = x^(2^n): y' = 2^n, y'' = 2^n (2^n - 1) at x = 1.
    let power = |x: &Tensor| (0..20).fold(x.clone(), |y, _| &y * &y);
    let (one, n) = (Tensor::scalar(1.0f64), 2f64.powi(20));
    assert_eq!(grad(power)(&one).item::<f64>(), n);
    assert_eq!(hvp(power, &one, &one).item::<f64>(), n * (n - 1.0));
    assert!(start.elapsed() < SOON);
}

#[test]
fn a_value_may_have_ten_thousand_consumers() {
    let start = Instant::now();
    let n = 10_000;
    let f = |x: &Tensor| {
        let y = x.exp();
        (0..n).fold(Tensor::scalar(0.0f64), |sum, i| sum + (&y * f64::from(i)))
    };
    let total = f64::from(n * (n - 1) / 2);
    let x = Tensor::scalar(0.0f64);
    assert_eq!(f(&x).item::<f64>(), total);
    assert_eq!(grad(f)(&x).item::<f64>(), total);
    assert!(start.elapsed() < SOON);
}

#[test]
fn a_thousand_tensors_can_be_concatenated() {
    let start = Instant::now();
    let n = 1000;
    let x: Vec<Tensor> = (0..n).map(|i| Tensor::from([f64::from(i), 1.0])).collect();
    let all = Tensor::concat(&x, 0);
    assert_eq!(all.shape(), [2000]);
    assert_eq!(all.sum(..).item::<f64>(), f64::from(n * (n - 1) / 2 + n));
    let gradient = grad(|x: &Vec<Tensor>| Tensor::concat(x, 0).square().sum(..))(&x);
    evaluate(&gradient).unwrap();
    assert_eq!(gradient[7].to_vec::<f64>(), [14.0, 2.0]);
    let gradient = grad(|x: &Vec<Tensor>| Tensor::stack(x, 1).square().sum(..))(&x);
    assert_eq!(gradient[999].to_vec::<f64>(), [1998.0, 2.0]);
    let same = Tensor::stack(&vec![x[3].clone(); 1000], 0);
    assert_eq!(same.sum(0).to_vec::<f64>(), [3000.0, 1000.0]);
    assert!(start.elapsed() < SOON);
}

/// Row S1.6 of the requirements.
#[test]
fn sixteen_threads_evaluate_one_promise_and_overlapping_graphs() {
    for round in 0..10 {
        let x = Tensor::arange(500, DType::F64) * 0.01;
        let shared = x.sin();
        let products: Vec<Tensor> = (0..16)
            .map(|i| (&shared * (f64::from(i) + 0.5)).cos())
            .collect();
        let chain = products
            .iter()
            .fold(shared.clone(), |sum, p| (sum + p).tanh());
        let barrier = Barrier::new(16);
        let found: Vec<(Vec<f64>, Vec<f64>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|i| {
                    // Each thread has its own handles, and some threads drop theirs while others
                    // compute.
                    let (shared, product, chain) =
                        (shared.clone(), products[i].clone(), chain.clone());
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        match (i + round) % 4 {
                            0 => evaluate(&(chain.clone(), product)).unwrap(),
                            1 => evaluate(&(product, shared.clone())).unwrap(),
                            2 => drop(product),
                            _ => {
                                evaluate(&vec![&shared; 2].into_iter().cloned().collect::<Vec<_>>())
                                    .unwrap()
                            }
                        }
                        (shared.to_vec(), chain.to_vec())
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let sines = op_by_op(|| x.sin()).to_vec::<f64>();
        assert!(found.iter().all(|f| *f == found[0]));
        assert_eq!(found[0].0, sines);
        assert!(shared.is_realised() && chain.is_realised());
    }
}

/// Rows S1.13, S2.15d of the requirements.
#[test]
fn a_promise_outlives_the_handles_of_its_operands() {
    let promise = {
        let x = Tensor::from([1.0f64, 2.0, 3.0]);
        let [a, b, c] = x.exp().log().split::<3>(0);
        drop((a, c));
        b * 2.0
    };
    // Other evaluations run in between.
    (0..3).for_each(|i| drop(Tensor::full([i], 1.0, DType::F32).exp().to_vec::<f32>()));
    let threads = std::thread::spawn(move || (promise.to_vec::<f64>(), promise));
    let (value, promise) = threads.join().unwrap();
    assert!((value[0] - 4.0).abs() < 1e-14);
    assert_eq!(promise.to_vec::<f64>(), value);
}

#[test]
fn a_tree_of_targets_may_be_wide_and_contain_one_tensor_many_times() {
    let y = Tensor::from([0.5f32]).tanh();
    let targets = vec![y.clone(); 20_000];
    evaluate(&targets).unwrap();
    assert!(y.is_realised());
    let many: Vec<Tensor> = (0..5_000).map(|i| &y + f64::from(i)).collect();
    evaluate(&many).unwrap();
    assert_eq!(many[4_999].item::<f32>(), y.item::<f32>() + 4_999.0);
}

#[test]
fn the_cache_stays_within_its_bounds_for_any_number_of_shapes() {
    for n in 0..3_000 {
        let x = Tensor::zeros([n], DType::F32);
        assert_eq!(x.exp().sum(..).item::<f32>(), n as f32);
    }
    let stats = cache::stats();
    assert!(stats.plans <= cache::DEFAULT_CAPACITY, "{stats:?}");
}

#[test]
fn gradients_in_many_threads_share_promises_that_other_threads_evaluate() {
    let x = Tensor::arange(200, DType::F64) * 0.02;
    for _ in 0..10 {
        let shared = x.sin().exp();
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for i in 0..8 {
                let (shared, barrier, x) = (&shared, &barrier, &x);
                scope.spawn(move || {
                    barrier.wait();
                    if i % 3 == 0 {
                        evaluate(shared).unwrap();
                    }
                    let gradient = grad(|w: &Tensor| (w * shared).sum(..))(x);
                    assert_eq!(gradient.to_vec::<f64>(), shared.to_vec::<f64>());
                });
            }
        });
    }
}

#[test]
fn a_traced_value_may_be_read_in_another_thread() {
    let f = |x: &Tensor| {
        let y = x * x;
        let z = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let z = &y * x;
                assert_eq!(z.item::<f64>(), 8.0);
                z
            });
            there.join().unwrap()
        });
        assert_eq!(y.item::<f64>(), 4.0);
        z + y
    };
    // y = x^3 + x^2
    let x = Tensor::scalar(2.0f64);
    assert_eq!(grad(f)(&x).item::<f64>(), 16.0);
    assert_eq!(grad(grad(f))(&x).item::<f64>(), 14.0);
    assert_eq!(grad(grad(grad(f)))(&x).item::<f64>(), 6.0);
}
