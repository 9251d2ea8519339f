//! Random graphs: the bits do not depend on how a graph is divided into evaluations.

use super::rng::Rng;
use gradloom::{DType, Tensor, evaluate, grad};

const N: usize = 3;

fn leaves(seed: u64) -> Vec<Tensor> {
    let mut rng = Rng(seed);
    let mut leaf = || {
        let data = (0..N * N).map(|_| rng.below(2001) as f64 / 1000.0 - 1.0);
        Tensor::from_vec(data.collect(), [N, N])
    };
    vec![leaf(), leaf(), leaf()]
}

/// Computes another tensor of the same shape from two tensors.
fn op(choice: usize, x: &Tensor, y: &Tensor) -> Tensor {
    match choice {
        0 => x + y,
        1 => x - y,
        2 => x * y,
        3 => x.maximum(y),
        4 => x.tanh(),
        5 => -x,
        6 => x.transpose(),
        7 => x.matmul(y) * 0.5,
        8 => x.mean_keepdims(0) - y,
        9 => y.sum_keepdims(-1).tanh() + x,
        10 => x.softmax(-1),
        11 => x.gt(y).select(x, y),
        12 => {
            let [a, b, c] = x.split::<3>(1);
            Tensor::concat(&[b, c, a], 1)
        }
        13 => Tensor::concat(&[x.slice([1], [3], [1]), y.slice([0], [1], [1])], 0),
        14 => Tensor::stack(&x.unbind::<3>(0), 1),
        15 => x.reshape([N * N]).slice([0], [N * N], [1]).reshape([N, N]),
        16 => y.max(1).broadcast_to([N, N]),
        17 => x.argmax(0).one_hot(N, DType::F64),
        18 => x.cast(DType::F32).cast(DType::F64),
        _ => x.sin(),
    }
}

/// Returns the tensors of a graph. Evaluates the `i`-th immediately if `evaluate_now(i)` is true.
fn graph(seed: u64, start: &[Tensor], evaluate_now: impl Fn(usize) -> bool) -> Vec<Tensor> {
    let mut rng = Rng(seed);
    let mut all = start.to_vec();
    for i in 0..30 {
        let (choice, x, y) = (rng.below(20), rng.below(all.len()), rng.below(all.len()));
        let z = op(choice, &all[x], &all[y]);
        if evaluate_now(i) {
            evaluate(&z).unwrap();
        }
        all.push(z);
    }
    all
}

fn bits(t: &Tensor) -> Vec<u64> {
    t.to_vec::<f64>().iter().map(|x| x.to_bits()).collect()
}

/// Row S2.25 of the requirements.
#[test]
fn the_bits_do_not_depend_on_what_is_evaluated_together() {
    for seed in 0..60 {
        let leaves = leaves(seed);
        let eager = graph(seed, &leaves, |_| true);
        let expected: Vec<_> = eager.iter().map(bits).collect();
        let together = graph(seed, &leaves, |_| false);
        evaluate(&together).unwrap();
        assert_eq!(together.iter().map(bits).collect::<Vec<_>>(), expected);
        let sometimes = graph(seed, &leaves, |i| (i as u64 + seed).is_multiple_of(7));
        let mut rng = Rng(seed + 1);
        for _ in 0..20 {
            let i = rng.below(sometimes.len());
            assert_eq!(bits(&sometimes[i]), expected[i], "seed {seed}, tensor {i}");
        }
        let last = graph(seed, &leaves, |_| false).pop().unwrap();
        assert_eq!(bits(&last), *expected.last().unwrap());
    }
}

#[test]
fn a_gradient_does_not_depend_on_evaluations_inside_the_function() {
    for seed in 0..30 {
        let x = leaves(seed);
        let last = |x: &Vec<Tensor>, eager: bool| {
            let all = graph(seed, x, |i| eager && i % 3 == 0);
            all.iter()
                .skip(3)
                .map(|t| t.sum(..))
                .reduce(|a, b| a + b)
                .unwrap()
        };
        let lazy = grad(|x: &Vec<Tensor>| last(x, false))(&x);
        let eager = grad(|x: &Vec<Tensor>| last(x, true))(&x);
        for (lazy, eager) in lazy.iter().zip(&eager) {
            assert_eq!(bits(lazy), bits(eager), "seed {seed}");
        }
    }
}

#[test]
fn threads_that_evaluate_concurrently_get_the_bits_of_one_thread() {
    let expected: Vec<Vec<Vec<u64>>> = (0..8)
        .map(|seed| {
            graph(seed, &leaves(seed), |_| false)
                .iter()
                .map(bits)
                .collect()
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let expected = &expected;
            scope.spawn(move || {
                for i in 0..8 {
                    let seed = (i + thread) % 8;
                    let all = graph(seed, &leaves(seed), |i| i % 5 == thread as usize);
                    evaluate(&all).unwrap();
                    let found: Vec<_> = all.iter().map(bits).collect();
                    assert_eq!(found, expected[seed as usize]);
                }
            });
        }
    });
}

#[test]
fn a_tensor_can_be_sent_and_shared_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Tensor>();
    check::<gradloom::Pullback<Tensor, Tensor>>();
}
