//! An epilogue (an elementwise group in the task of a product) gives the bits of one op at a time.

use super::fused::{bits, numbers};
use gradloom::testing::op_by_op;
use gradloom::{DType, Tensor, explain, set_threads};

/// Checks the results computed together and alone, on one to three threads.
fn check(name: &str, results: impl Fn() -> Vec<Tensor>) {
    let want = op_by_op(|| bits(&results()));
    for threads in [1, 2, 3] {
        set_threads(threads);
        assert_eq!(bits(&results()), want, "{name}, {threads} threads");
        for (i, want) in want.iter().enumerate() {
            let one = results().swap_remove(i);
            assert_eq!(bits(&[one])[0], *want, "result {i} of {name}");
        }
    }
}

fn follows(y: &Tensor) -> bool {
    explain(y).contains(", then ")
}

/// Sizes `[m, k, n]` with incomplete blocks, few rows, few columns, and a long inner axis.
///
/// The results are large, because small ones do not get an epilogue.
const SIZES: [[usize; 3]; 5] = [
    [1050, 30, 2010],
    [4100, 300, 520],
    [210_000, 5, 10],
    [30, 40, 70_001],
    [9001, 20, 256],
];

#[test]
fn elementwise_groups_run_as_epilogues_of_a_product() {
    for [m, k, n] in SIZES {
        let (x, w) = (numbers(&[m, k], 1), numbers(&[k, n], 2));
        let (bias, scale) = (numbers(&[n], 3), numbers(&[m, 1], 4));
        let residual = numbers(&[m, n], 5);
        let results = || {
            let z = x.matmul(&w);
            let hidden = (&z + &bias).gelu_tanh();
            vec![
                &hidden * &scale + &residual,
                z,
                hidden.gt(&residual).cast(DType::F32),
            ]
        };
        check(&format!("{m} {k} {n}"), results);
        let y = x.matmul(&w) + &bias;
        assert!(follows(&y), "{}", explain(&y));
    }
}

#[test]
fn sums_in_an_epilogue_equal_sums_of_the_stored_result() {
    for [m, k, n] in SIZES {
        let (x, w) = (numbers(&[m, k], 1), numbers(&[k, n], 2));
        let other = numbers(&[m, n], 3);
        check(&format!("{m} {k} {n}"), || {
            let y = x.matmul(&w) * &other;
            vec![y.sum(..), y.sum(0), y.sum(1)]
        });
        check(&format!("{m} {k} {n}, stored"), || {
            let y = x.matmul(&w) * &other;
            vec![y.sum(0), y]
        });
    }
    let (x, w) = (numbers(&[4000, 3], 1), numbers(&[3, 600], 2));
    let y = x.matmul(&w).tanh().sum(0);
    assert!(follows(&y), "{}", explain(&y));
}

#[test]
fn a_sum_of_products_runs_as_an_epilogue_of_the_last() {
    for [m, k, n] in SIZES {
        let (x, y) = (numbers(&[m, k], 1), numbers(&[k, n], 2));
        let (v, w) = (numbers(&[m, 40], 3), numbers(&[40, n], 4));
        let results = || vec![x.matmul(&y) + v.matmul(&w) + v.matmul(w.tanh())];
        check(&format!("{m} {k} {n}"), results);
        assert!(follows(&results()[0]));
    }
}

#[test]
fn batched_products_and_views_of_products_have_epilogues() {
    for [b, m, k, n] in [[30, 300, 8, 130], [4, 96, 5, 3000], [2, 1100, 300, 600]] {
        let (x, y) = (numbers(&[2, b, m, k], 1), numbers(&[2, b, k, n], 2));
        let (row, mask) = (numbers(&[n], 3), numbers(&[m, n], 4));
        let results = || {
            let z = x.matmul(&y);
            let flat = z.reshape([2 * b * m, n]) + &row;
            vec![
                &z * 0.5 + &mask,
                flat.sum(0),
                flat.square().sum(..),
                flat.swap_axes(0, 1) * 2.0,
                (z.reshape([2, b * m * n]) * 2.0).sum(1),
            ]
        };
        check(&format!("{b} {m} {k} {n}"), results);
    }
    let (x, y) = (numbers(&[4, 512, 8], 1), numbers(&[4, 8, 1024], 2));
    let scores = x.matmul(&y).reshape([2048, 1024]) * 0.5;
    assert!(follows(&scores), "{}", explain(&scores));
}

#[test]
fn epilogues_handle_other_dtypes_and_non_finite_numbers() {
    let (m, n) = (1024, 1100);
    let some = [f64::NAN, -0.0, f64::INFINITY, 1e-310, 2.0, -3.0];
    let x = Tensor::from(some.repeat(m * 2 / 6 + 1)[..m * 2].to_vec()).reshape([m, 2]);
    let w = Tensor::from([1.0, -0.0, 0.0, f64::MIN_POSITIVE].repeat(n / 2)).reshape([2, n]);
    let results = || {
        let z = x.matmul(&w);
        let y = (&z * -1.0).maximum(z.full_like(-0.0));
        vec![y.sum(0), y, z.cast(DType::I32)]
    };
    let want = op_by_op(results);
    for (got, want) in results().iter().zip(&want) {
        if got.dtype() == DType::I32 {
            assert_eq!(got.to_vec::<i32>(), want.to_vec::<i32>());
            continue;
        }
        let bits = |x: &Tensor| {
            let elements = x.to_vec::<f64>();
            elements.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(got), bits(want));
    }
    let ints = Tensor::arange(n as i64, DType::I64).reshape([n, 1]);
    let results = || ints.matmul(ints.swap_axes(0, 1)) + ints.swap_axes(0, 1);
    assert!(follows(&results()), "{}", explain(&results()));
    let want = op_by_op(results).to_vec::<i64>();
    assert_eq!(results().to_vec::<i64>(), want);
}
