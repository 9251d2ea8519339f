//! Chains of row kernels and elementwise ops give the same bits as running one op at a time.
//!
//! A chain runs a block of rows through all of its stages.

use super::fused::numbers;
use super::rng::Rng;
use gradloom::testing::op_by_op;
use gradloom::{DType, Tensor, evaluate, explain, grad, set_threads, value_and_grad};

fn bits(results: &[Tensor]) -> Vec<Vec<u64>> {
    evaluate(&results.to_vec()).unwrap();
    // Bits are compared directly: a conversion to `f64` could change the payload of a NaN.
    let of = |x: &Tensor| match x.dtype() {
        DType::F32 => x
            .to_vec::<f32>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::F64 => x.to_vec::<f64>().iter().map(|x| x.to_bits()).collect(),
        other => unreachable!("no test has {other} results"),
    };
    results.iter().map(of).collect()
}

/// Checks the results computed together and alone, on one to three threads.
fn check(name: &str, results: impl Fn() -> Vec<Tensor>) {
    let want = op_by_op(|| bits(&results()));
    for threads in [1, 2, 3] {
        set_threads(threads);
        let text = || format!("{name}, {threads} threads: {}", explain(&results()));
        let got = bits(&results());
        for (i, want) in want.iter().enumerate() {
            assert!(got[i] == *want, "result {i} of {}", text());
            let alone = bits(&results()[i..=i]);
            assert!(alone[0] == *want, "result {i} alone of {}", text());
        }
    }
}

/// Returns the number of tasks in the plan of some results, and its description.
fn tasks(results: &[Tensor]) -> (usize, String) {
    let text = explain(&results.to_vec());
    (text.lines().count() - 1, text)
}

/// Inputs of a graph.
struct Leaves {
    /// Tensors of the full shape.
    whole: Vec<Tensor>,
    /// Tensors that are broadcast: a row, a matrix for the batch, a number for each row, a single
    /// number.
    parts: Vec<Tensor>,
    /// Weight and bias: tensors with one element for each column.
    affine: [Tensor; 2],
    mask: Tensor,
    labels: Tensor,
}

fn leaves(shape: [usize; 3], dtype: DType) -> Leaves {
    let [a, b, cols] = shape;
    let some = |shape: &[usize], seed| numbers(shape, seed).cast(dtype);
    let labels: Vec<i64> = (0..a * b).map(|i| (i * 7 % cols) as i64).collect();
    let leaves = Leaves {
        whole: (1..4).map(|seed| some(&shape, seed)).collect(),
        parts: vec![
            some(&[cols], 4),
            some(&[b, cols], 5),
            some(&[a, b, 1], 6),
            some(&[1], 7),
        ],
        affine: [some(&[cols], 8), some(&[cols], 9)],
        mask: numbers(&[b, cols], 10).gt(-0.7),
        labels: Tensor::from(labels).reshape([a, b]),
    };
    let Leaves {
        whole,
        parts,
        affine,
        mask,
        ..
    } = &leaves;
    evaluate(&(whole.clone(), parts.clone(), affine.to_vec(), mask.clone())).unwrap();
    leaves
}

/// Computes a different value of the full shape from the previous ones.
fn step(rng: &mut Rng, leaves: &Leaves, values: &[Tensor]) -> Tensor {
    let x = rng.of(values);
    let y = rng.of(values);
    let part = rng.of(&leaves.parts);
    let [w, b] = &leaves.affine;
    match rng.below(34) {
        0 => x + y,
        1 => x * 0.3,
        2 => x + part,
        3 => x * part,
        4 => x.maximum(y),
        5 => leaves.mask.select(x, f64::NEG_INFINITY).softmax(-1),
        6 => (x * 0.7).tanh() - y,
        7 | 8 => x.softmax(-1),
        9 => x.log_softmax(-1),
        10 => x.layer_norm(w, b, 1e-5),
        11 => x.rms_norm(w, 1e-6),
        12 => x.normalize(-1, 1e-5),
        13 => x - x.sum_keepdims(-1) * 0.01,
        14 => x.normalize([1, 2], 1e-5),
        15 => x.softmax(1),
        16 => x * x.cross_entropy(&leaves.labels),
        17 => leaves.mask.select(x, y),
        18 => grad(|x: &Tensor| (x.softmax(-1) * y).sum(..))(&(x * part)),
        19 => x - x.max_keepdims(-1),
        20 => x * x.min_keepdims([1, 2]) + y,
        21 => x / (x.var_keepdims(-1, 1) + 1.0),
        22 => (x - x.mean_keepdims(-1)) * (y * 0.1).prod_keepdims(-1),
        23 => x.cumsum(-1) * 0.01 - y,
        24 => (x * 0.01 + 1.0).cumprod(-1),
        25 => x.cummax(-1) + y.cumsum_reverse(-1),
        26 => x.eq(x.max_keepdims(-1)).select(x, y),
        27 => x.gt(0.9).any_keepdims(-1).select(y, x) + x.argmax_keepdims(-1).cast(x.dtype()),
        28 => grad(|x: &Tensor| (x.max(-1) * y.min(-1)).sum(..))(x),
        29 => grad(|x: &Tensor| (x.var(-1, 0) * y.sum(-1)).sum(..))(x),
        30 => grad(|x: &Tensor| (x * 0.01 + 1.0).prod(-1).sum(..))(x),
        31 => grad(|x: &Tensor| (x.cummax(-1) * y).sum(..))(x),
        32 => grad(|x: &Tensor| (x - x.sum_keepdims(-1)).square().mean(-1).sqrt().sum(..))(x),
        _ => {
            let loss = |x: &Tensor| (x.layer_norm(w, b, 1e-5) * y).square().sum(..);
            grad(loss)(x)
        }
    }
}

fn graph(seed: u64, leaves: &Leaves) -> Vec<Tensor> {
    let mut rng = Rng(seed);
    let values = |rng: &mut Rng, x: &Tensor| {
        let mut values = leaves.whole.clone();
        values[0] = x.clone();
        for _ in 0..2 + rng.below(6) {
            let next = step(rng, leaves, &values);
            values.push(next);
        }
        values.split_off(leaves.whole.len())
    };
    let made = values(&mut rng, &leaves.whole[0]);
    // The results are some of the values, sums of others, and sometimes the gradient of all.
    let mut results: Vec<Tensor> = Vec::new();
    for x in &made {
        match rng.below(6) {
            0 | 1 => results.push(x.clone()),
            2 => results.push(x.sum(0)),
            3 => results.push(x.sum(..)),
            _ => {}
        }
    }
    results.extend(made.last().cloned());
    if rng.below(3) == 0 {
        let state = rng.0;
        let loss = |x: &Tensor| {
            let made = values(&mut Rng(state), x);
            made.iter().fold(x.sum(..), |sum, y| sum + y.sum(..))
        };
        let (loss, grad) = value_and_grad(loss)(&leaves.whole[0]);
        results.extend([loss, grad]);
    }
    results
}

/// Row counts that are not multiples of a block, long rows and short rows.
///
/// In the last shape, results are large enough for non-temporal stores.
const SHAPES: [[usize; 3]; 5] = [
    [7, 70, 257],
    [3, 33, 1024],
    [2, 20, 2500],
    [9, 1100, 12],
    [8, 300, 1024],
];

#[test]
fn random_graphs_have_the_bits_of_single_ops() {
    let mut chains = 0;
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for dtype in [DType::F32, DType::F64] {
            let leaves = leaves(shape, dtype);
            let graphs = if i + 1 < SHAPES.len() { 16 } else { 2 };
            for seed in 0..graphs {
                let seed = seed + 100 * i as u64;
                let results = || graph(seed, &leaves);
                check(&format!("graph {seed} of {dtype} {shape:?}"), results);
                chains += usize::from(tasks(&results()).1.contains("rows of"));
            }
        }
    }
    assert!(chains > 30, "{chains} graphs have chains");
}

#[test]
fn elementwise_ops_before_and_after_a_row_kernel_run_in_its_chain() {
    for dtype in [DType::F32, DType::F64] {
        let Leaves {
            whole,
            parts,
            affine: [w, b],
            mask,
            labels,
        } = leaves([4, 96, 512], dtype);
        let [x, y, dropped] = &whole[..] else {
            unreachable!("`whole` has three tensors")
        };
        let masked = || vec![(x * 0.125 + &parts[1]).softmax(-1)];
        let selected = || vec![mask.select(x, f64::NEG_INFINITY).softmax(-1) * dropped];
        let residual = || {
            let sum = x + y;
            vec![sum.layer_norm(&w, &b, 1e-5), sum]
        };
        let gradient = || {
            let loss = |x: &Tensor| ((x * 0.125 + &parts[1]).softmax(-1) * y).sum(..);
            vec![grad(loss)(x)]
        };
        let entropy = || {
            let loss = |x: &Tensor| (x * 2.0).cross_entropy(&labels) * 3.0;
            let (loss, grad) = value_and_grad(loss)(x);
            vec![loss, grad]
        };
        type Results<'a> = &'a dyn Fn() -> Vec<Tensor>;
        let all: [(&str, Results<'_>, usize); 5] = [
            ("masked", &masked, 1),
            ("selected", &selected, 1),
            ("residual", &residual, 1),
            ("gradient", &gradient, 1),
            ("entropy", &entropy, 2),
        ];
        for (name, results, n_tasks) in all {
            check(&format!("{name} {dtype}"), results);
            let (n, text) = tasks(&results());
            assert_eq!(n, n_tasks, "{name}: {text}");
            assert!(
                text.contains("intermediate values 0 B") || name == "entropy",
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn a_wrong_label_is_an_error_in_a_chain() {
    let [x, labels] = [
        numbers(&[300, 300], 1),
        Tensor::full([300], 300, DType::I64),
    ];
    let loss = |x: &Tensor| (x * 2.0).cross_entropy(&labels);
    let (_, grad) = value_and_grad(loss)(&x);
    let error = evaluate(&grad).unwrap_err().to_string();
    assert!(error.contains("cross_entropy"), "{error}");
}

#[test]
fn layers_of_a_convolutional_network_are_one_chain() {
    for dtype in [DType::F32, DType::F64] {
        let some = |shape: &[usize], seed| numbers(shape, seed).cast(dtype);
        let (x, w, b) = (
            some(&[9, 2, 30, 29], 1),
            some(&[12, 2, 3, 3], 2),
            some(&[12, 1, 1], 3),
        );
        let second = some(&[10, 12, 3, 3], 4);
        let layer = |x: &Tensor, w: &Tensor| x.conv_same(w, 1);
        let results = || {
            let y = (layer(&x, &w) + &b).relu().max_pool([2, 2], 2, 0);
            vec![layer(&y, &second).avg_pool([3, 3], 2, 1), y]
        };
        check("convolutions", results);
        let loss = |w: &Tensor| {
            let y = (layer(&x, w) + &b).relu().max_pool([2, 2], 2, 0);
            layer(&y, &second).square().sum(..)
        };
        check("gradient of convolutions", || {
            let (value, gradient) = value_and_grad(loss)(&w);
            vec![value, gradient]
        });
    }
    let (x, w) = (numbers(&[16, 4, 64, 64], 1), numbers(&[8, 4, 3, 3], 2));
    let y = x.conv_same(&w, 1).relu().max_pool([2, 2], 2, 0);
    let (n, text) = tasks(&[y]);
    assert!(n <= 2, "{text}");
}
