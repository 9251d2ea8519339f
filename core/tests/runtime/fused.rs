//! A fused loop gives the same bits as running one op at a time.

use gradloom::testing::op_by_op;
use gradloom::{Tensor, evaluate, set_threads};

/// Returns pseudo-random numbers that are the same in every run.
pub(super) fn numbers(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let data: Vec<f32> = std::iter::repeat_with(next).take(n).collect();
    Tensor::from(data).reshape(shape)
}

pub(super) fn bits(results: &[Tensor]) -> Vec<Vec<u32>> {
    evaluate(&results.to_vec()).unwrap();
    let bits = |x: &Tensor| x.to_vec::<f32>().iter().map(|x| x.to_bits()).collect();
    results.iter().map(bits).collect()
}

#[test]
fn sums_in_a_fused_loop_equal_sums_of_the_stored_values() {
    let shapes: [&[usize]; 12] = [
        &[1],
        &[1000],
        &[1024],
        &[70_001],
        &[70, 30],
        &[33, 1024],
        &[100, 1500],
        &[300, 1030],
        &[5, 2000],
        &[4099, 7],
        &[2000, 10, 3],
        &[3, 1, 700, 2],
    ];
    for shape in shapes {
        let (x, row) = (numbers(shape, 1), numbers(&shape[shape.len() - 1..], 2));
        let results = || {
            let y = (&x * 1.5).tanh() + &row;
            let z = &y * &x;
            let last = shape.len() as i64 - 1;
            vec![
                y.sum(..),
                z.sum(0),
                y.square().sum(0),
                y.sum(last),
                z,
                y.mean(last),
            ]
        };
        let one_by_one = op_by_op(|| bits(&results()));
        for threads in [1, 2, 3] {
            set_threads(threads);
            assert_eq!(bits(&results()), one_by_one, "{shape:?}, {threads} threads");
            // A sum that is computed alone determines the tiles itself.
            for (i, bits_of) in one_by_one.iter().enumerate() {
                assert_eq!(
                    bits(&results()[i..=i])[0],
                    *bits_of,
                    "result {i} of {shape:?}"
                );
            }
        }
    }
}

#[test]
fn operands_may_have_any_strides() {
    let x = numbers(&[60, 40], 3);
    let results = || {
        let part = x.slice([5, 0], [45, 40], [1, 1]);
        let y = (part.transpose() + &part).exp() * x.slice([0, 3], [40, 4], [1, 1]);
        vec![y.sum(0), y.sum(1), y.sum(..), y]
    };
    assert_eq!(bits(&results()), op_by_op(|| bits(&results())));
}

#[test]
fn empty_tensors_can_be_mixed_with_others() {
    let shapes: [[usize; 3]; 4] = [[0, 3, 5], [4, 0, 5], [4, 3, 0], [0, 0, 0]];
    for [rows, inner, columns] in shapes {
        let results = || {
            let (x, w) = (numbers(&[rows, inner], 4), numbers(&[inner, columns], 5));
            let full = numbers(&[6, 7], 6);
            let y = (x.matmul(&w) + 1.0).tanh();
            let total = y.sum(..) + full.exp().sum(..);
            let halves = [y.slice([0, 0], [0, columns as i64], [1, 1]), y.clone()];
            let z = halves[0].sum(0) + &halves[1].sum(0) * 2.0;
            vec![total, y, z, x.sum(-1), &full * 2.0]
        };
        let shape = [rows, inner, columns];
        assert_eq!(bits(&results()), op_by_op(|| bits(&results())), "{shape:?}");
    }
}
