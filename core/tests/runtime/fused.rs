//! A fused loop gives the same bits as running one op at a time.

use gradloom::testing::op_by_op;
use gradloom::{DType, Tensor, evaluate, grad, set_threads, traced};

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
fn axes_that_change_places_give_the_bits_of_a_copy() {
    let orders: [(&[usize], &[i64]); 8] = [
        (&[70, 130], &[1, 0]),
        (&[1030, 33], &[1, 0]),
        (&[33, 17, 40], &[2, 0, 1]),
        (&[33, 17, 40], &[2, 1, 0]),
        (&[4, 64, 48], &[0, 2, 1]),
        (&[5, 18, 3, 50], &[3, 2, 1, 0]),
        (&[5, 18, 3, 50], &[0, 3, 1, 2]),
        (&[2, 70, 65, 4], &[2, 0, 3, 1]),
    ];
    for (shape, order) in orders {
        let x = numbers(shape, 1);
        let moved = x.permute(order.to_vec());
        let copy = Tensor::from(moved.to_vec::<f32>()).reshape(moved.shape());
        let results = |x: &Tensor| {
            // The result may be in the memory of this operand.
            let other = numbers(x.shape(), 2);
            evaluate(&other).unwrap();
            let y = x * 1.5 + &other;
            let last = order.len() as i64 - 1;
            let sums = vec![x.sum(last), x.sum(0), y.sum(last), y.sum(0), y.sum(..)];
            drop(other);
            [vec![y], sums].concat()
        };
        for threads in [1, 2] {
            set_threads(threads);
            assert_eq!(
                bits(&results(&x.permute(order.to_vec()))),
                bits(&results(&copy)),
                "{shape:?}"
            );
            assert_eq!(
                bits(&results(&x.permute(order.to_vec()))[..1]),
                bits(&results(&copy)[..1])
            );
        }
    }
}

#[test]
fn an_operand_that_is_also_read_transposed_is_not_overwritten() {
    let results = |copies: bool| {
        let x = numbers(&[200, 200], 4);
        evaluate(&x).unwrap();
        let t = match copies {
            true => Tensor::from(x.transpose().to_vec::<f32>()).reshape([200, 200]),
            false => x.transpose(),
        };
        let y = (&t - &x * 0.5).exp() + t;
        drop(x);
        bits(&[y])
    };
    assert_eq!(results(false), results(true));
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

/// Returns a tensor that is stored as a whole.
fn stored(x: &Tensor) -> Tensor {
    let x = Tensor::from(x.to_vec::<f32>()).reshape(x.shape());
    evaluate(&x).unwrap();
    x
}

#[test]
fn rows_of_any_length_are_repeated_and_cut() {
    for len in [
        1, 2, 3, 7, 60, 64, 100, 256, 257, 300, 500, 512, 513, 700, 999, 1000, 1023, 1024, 1025,
        1030, 1500, 2047, 2048, 2049, 3000, 9001,
    ] {
        for (planes, rows) in [(1, 5), (3, 2), (2, 40_000 / len + 1)] {
            let shape = [planes, rows, len];
            let x = numbers(&[planes, rows, len + 2], 1);
            let (row, column) = (numbers(&[len], 2), numbers(&[rows, 1], 3));
            let plane = numbers(&[planes, 1, 1], 4);
            let cut = |first: usize| x.i((.., .., first..first + len));
            let operands = [cut(0), cut(1), cut(2), row, column, plane];
            let whole: Vec<Tensor> = operands
                .iter()
                .map(|x| stored(&x.broadcast_to(shape)))
                .collect();
            let results = |of: &[Tensor]| {
                let [a, b, c, row, column, plane] = of else {
                    unreachable!("six operands")
                };
                let mut all = vec![
                    b - a,
                    (a * row + column) * plane - c,
                    (a + row).tanh(),
                    b * column,
                ];
                all.extend([row + column, plane * row].map(|y| y.broadcast_to(shape)));
                all
            };
            for threads in [1, 2] {
                set_threads(threads);
                let (found, want) = (bits(&results(&operands)), bits(&results(&whole)));
                assert!(found == want, "{shape:?}, {threads} threads");
            }
        }
    }
}

#[traced]
fn square(x: &Tensor) -> Tensor {
    x.pow(2.0)
}

#[traced]
fn cube(x: &Tensor) -> Tensor {
    x.pow(3.0)
}

#[traced]
fn any_power(x: &Tensor, n: f64) -> Tensor {
    x.pow(n)
}

#[test]
fn powers_with_small_exponents_are_products() {
    let mut xs = numbers(&[997], 1).to_vec::<f32>();
    xs.extend([
        0.0,
        -0.0,
        1e-30,
        -3e20,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1.0,
        -1.0,
    ]);
    let x = Tensor::from(xs);
    let exponent = |n: f32| Tensor::full(x.shape(), n, DType::F32);
    for n in [1.0f32, 2.0, 3.0] {
        let product = match n {
            1.0 => x.clone(),
            2.0 => &x * &x,
            _ => &x * &x * &x,
        };
        let many = stored(&exponent(n));
        let found = [
            product,
            x.pow(f64::from(n)),
            x.pow(&many),
            any_power(&x, f64::from(n)),
        ];
        let found = bits(&found);
        assert!(found.iter().all(|y| *y == found[0]), "to the {n}");
        // The slopes of equal powers are equal, whether the exponent is known or not.
        let slope = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| f(x).sum(..))(&x);
        let n = f64::from(n);
        let slopes = [
            slope(&|x| x.pow(n)),
            slope(&|x| x.pow(&many)),
            slope(&|x| any_power(x, n)),
        ];
        let want = bits(&[(n * x.pow(exponent(n as f32 - 1.0))).cast(DType::F32)]);
        for slopes in slopes {
            let near = |(x, y): (&f32, &f32)| (x - y).abs() <= 3e-7 * y.abs() || x == y;
            let (found, want) = (
                slopes.to_vec::<f32>(),
                want[0]
                    .iter()
                    .map(|y| f32::from_bits(*y))
                    .collect::<Vec<_>>(),
            );
            assert!(found.iter().zip(&want).all(near), "to the {n}");
        }
    }
    // A plan keeps 2 and 3 as constants after it has seen several exponents.
    for n in [1.5, 2.0, 3.0, 2.5, 3.0, 2.0] {
        let found = gradloom::explain(&x.pow(n));
        let power = found.contains("pow");
        assert_eq!(power, n == 1.5 || n == 2.5, "to the {n}: {found}");
        evaluate(&x.pow(n)).unwrap();
    }
    let slope = |f: fn(&Tensor) -> Tensor| bits(&[grad(|x: &Tensor| f(x).sum(..))(&x)]);
    assert_eq!(
        bits(&[square(&x), cube(&x)]),
        bits(&[x.pow(2.0), x.pow(3.0)])
    );
    assert_eq!(slope(square), slope(|x| x.square()));
    assert_eq!(slope(|x| x.pow(2.0)), slope(|x| x.square()));
    assert_eq!(slope(cube), slope(|x| x.pow(3.0)));
    // In small dtypes, a power is rounded once.
    for dtype in [DType::BF16, DType::F16] {
        let x = x.cast(dtype);
        for n in [2.0, 3.0] {
            let many = stored(&Tensor::full(x.shape(), n as f32, DType::F32)).cast(dtype);
            let [found, want] = [x.pow(n), x.pow(many)].map(|y| y.cast(DType::F32));
            assert_eq!(bits(&[found]), bits(&[want]), "{dtype} to the {n}");
        }
    }
}
