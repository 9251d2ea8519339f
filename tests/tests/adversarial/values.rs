//! Values at the limits of their types, through every op.

use gradloom::{DType, Element, Tensor, evaluate, grad, jvp};
use gradloom_ir::op::Eval;
use gradloom_ir::{Aval, Builder, Op};
use gradloom_tests::graphs::bits;

const F64: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    710.0,
    -746.0,
    1e-310,
    f64::MIN_POSITIVE,
    f64::EPSILON,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];
const I64: [i64; 10] = [0, 1, -1, 2, -3, 63, 64, i64::MAX, i64::MIN, i64::MIN + 1];
const I32: [i32; 10] = [0, 1, -1, 2, -3, 31, 32, i32::MAX, i32::MIN, i32::MIN + 1];

fn f32s() -> Vec<f32> {
    let own = [
        89.0,
        -104.0,
        1e-40,
        f32::MIN_POSITIVE,
        f32::EPSILON,
        f32::MAX,
        f32::MIN,
    ];
    F64.iter().map(|x| *x as f32).chain(own).collect()
}

/// Applies an elementwise op, or returns `None` if it does not accept the dtype.
fn elementwise(op: Op, args: &[&Tensor]) -> Option<Tensor> {
    let mut b = Builder::new();
    let params: Vec<_> = args
        .iter()
        .map(|x| b.param(Aval::new(x.dtype(), x.shape())))
        .collect();
    let y = b.try_emit(op, &[], &params, 1).ok()?;
    let args: Vec<Tensor> = args.iter().map(|x| (*x).clone()).collect();
    Some(
        gradloom::__private::replay(&b.finish(params, y), &args)
            .unwrap()
            .remove(0),
    )
}

/// Checks that an op on an array gives each element the bits that it has when computed alone.
///
/// The array holds all values, or all pairs of values. No value may cause a panic. Returns the number
/// of ops checked.
fn check<T: Element + Copy>(values: &[T]) -> usize {
    let n = values.len();
    let x = Tensor::from_vec(values.to_vec(), n);
    let (left, right) = (x.reshape([n, 1]), x.reshape([1, n]));
    let ones: Vec<Tensor> = values.iter().map(|v| Tensor::scalar(*v)).collect();
    let mut n_ops = 0;
    for &op in Op::ALL {
        match op.def().eval() {
            Eval::Unary(_) | Eval::Test(_) => {
                let Some(y) = elementwise(op, &[&x]) else {
                    continue;
                };
                let alone: Vec<Tensor> = ones
                    .iter()
                    .map(|v| elementwise(op, &[v]).unwrap())
                    .collect();
                evaluate(&alone).unwrap();
                let alone: Vec<u64> = alone.iter().flat_map(bits).collect();
                assert_eq!(bits(&y), alone, "`{op}` of {}", x.dtype());
            }
            Eval::Binary(_) | Eval::Compare(_) => {
                let Some(y) = elementwise(op, &[&left, &right]) else {
                    continue;
                };
                // Some values are 0, so an integer division fails.
                if let Err(error) = evaluate(&y) {
                    assert!(
                        matches!(error, gradloom::Error::DivisionByZero { .. }),
                        "{error}"
                    );
                    continue;
                }
                let pairs = ones.iter().flat_map(|a| ones.iter().map(move |b| (a, b)));
                let alone: Vec<Tensor> = pairs
                    .map(|(a, b)| elementwise(op, &[a, b]).unwrap())
                    .collect();
                evaluate(&alone).unwrap();
                let alone: Vec<u64> = alone.iter().flat_map(bits).collect();
                assert_eq!(bits(&y), alone, "`{op}` of {}", x.dtype());
            }
            _ => continue,
        }
        n_ops += 1;
    }
    n_ops
}

#[test]
fn elementwise_ops_give_the_same_bits_on_vectors_as_on_single_elements() {
    assert!(check(&F64) > 30);
    assert!(check(&f32s()) > 30);
    assert!(check(&I64) > 10);
    assert!(check(&I32) > 10);
    assert!(check(&[false, true]) > 1);
}

#[test]
fn integers_wrap_and_a_division_by_zero_is_an_error() {
    let x = Tensor::from([i32::MIN, i32::MIN, i32::MAX, 7, -7]);
    assert_eq!(
        (&x / &Tensor::from([-1i32, 1, -1, -2, 2])).to_vec::<i32>(),
        [i32::MIN, i32::MIN, -i32::MAX, -3, -3]
    );
    let by_zero = evaluate(&(&x / &Tensor::from([1i32, 1, 0, 1, 1]))).unwrap_err();
    assert!(
        by_zero
            .to_string()
            .contains("integer division by 0 at element 2"),
        "{by_zero}"
    );
    assert_eq!(
        x.abs().to_vec::<i32>(),
        [i32::MIN, i32::MIN, i32::MAX, 7, 7]
    );
    assert_eq!(
        (-&x).to_vec::<i32>(),
        [i32::MIN, i32::MIN, -i32::MAX, -7, 7]
    );
    assert_eq!(
        (&x + 1).to_vec::<i32>(),
        [i32::MIN + 1, i32::MIN + 1, i32::MIN, 8, -6]
    );
    assert_eq!((&x * &x).to_vec::<i32>(), [0, 0, 1, 49, 49]);
    assert_eq!(x.square().to_vec::<i32>(), [0, 0, 1, 49, 49]);
    assert_eq!(
        Tensor::from([i64::MIN, 1]).sum(..).item::<i64>(),
        i64::MIN + 1
    );
    assert_eq!(Tensor::from([i64::MIN, -1]).sum(..).item::<i64>(), i64::MAX);
    let (a, b) = (Tensor::from([i64::MAX, 2]), Tensor::from([2i64, 3]));
    assert_eq!(
        a.matmul(&b).item::<i64>(),
        i64::MAX.wrapping_mul(2).wrapping_add(6)
    );
    assert_eq!(
        Tensor::from([2i32, 0, -1, 5])
            .pow(Tensor::from([-1i32, 1, i32::MIN, 0]))
            .to_vec::<i32>(),
        [0, 0, 1, 1]
    );
}

#[test]
fn a_cast_to_an_integer_saturates_and_maps_nan_to_zero() {
    let x = Tensor::from([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.9, 2.9]);
    assert_eq!(
        x.cast(DType::I32).to_vec::<i32>(),
        [0, i32::MAX, i32::MIN, i32::MAX, 0, 2]
    );
    assert_eq!(
        x.cast(DType::I64).to_vec::<i64>(),
        [0, i64::MAX, i64::MIN, i64::MAX, 0, 2]
    );
    assert_eq!(
        x.cast(DType::F32).to_vec::<f32>()[1..4],
        [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY]
    );
    let big = Tensor::from([(1i64 << 53) + 1, i64::MAX]);
    assert_eq!((&big + 0).to_vec::<i64>(), [(1 << 53) + 1, i64::MAX]);
    assert_eq!(big.max(..).item::<i64>(), i64::MAX);
}

#[test]
fn nan_and_infinities_in_a_row_do_not_affect_other_rows() {
    let inf = f64::INFINITY;
    let x = Tensor::from([
        [-inf, -inf, -inf],
        [1.0, 2.0, 3.0],
        [inf, 0.0, 1.0],
        [f64::NAN, 0.0, 1.0],
        [-inf, 0.0, -inf],
    ]);
    let good = Tensor::from([[1.0f64, 2.0, 3.0]]);
    let row = |t: &Tensor, i: usize| t.to_vec::<f64>()[3 * i..][..3].to_vec();
    for f in [
        |x: &Tensor| x.softmax(-1),
        |x: &Tensor| x.log_softmax(-1),
        |x: &Tensor| x.normalize(-1, 1e-5),
    ] {
        let y = f(&x);
        assert_eq!(row(&y, 1), f(&good).to_vec::<f64>());
        assert!(row(&y, 0).iter().all(|y| y.is_nan()));
        assert!(row(&y, 3).iter().all(|y| y.is_nan()));
    }
    assert_eq!(row(&x.softmax(-1), 4), [0.0, 1.0, 0.0]);
    assert_eq!(row(&x.log_softmax(-1), 4), [-inf, 0.0, -inf]);
    let lse = x.logsumexp(-1).to_vec::<f64>();
    assert_eq!((lse[0], lse[2], lse[4]), (-inf, inf, 0.0));
    assert!(lse[3].is_nan());
    let max = x.max(-1).to_vec::<f64>();
    assert_eq!((max[0], max[2]), (-inf, inf));
    assert!(max[3].is_nan() && x.min(-1).to_vec::<f64>()[3].is_nan());
    assert_eq!(x.argmax(-1).to_vec::<i64>(), [0, 2, 0, 0, 1]);
    // A single element has variance 0.
    assert_eq!(
        Tensor::from([[5.0f64]]).normalize(-1, 1e-5).to_vec::<f64>(),
        [0.0]
    );
}

#[test]
fn derivatives_at_kinks_and_poles_follow_the_conventions() {
    let at = |f: fn(&Tensor) -> Tensor, x: &[f64]| {
        let x = Tensor::from(x.to_vec());
        grad(|x: &Tensor| f(x).sum(..))(&x).to_vec::<f64>()
    };
    assert_eq!(at(|x| x.abs(), &[0.0, -0.0, -2.0]), [0.0, 0.0, -1.0]);
    assert_eq!(at(|x| x.relu(), &[0.0, -0.0, 2.0]), [0.0, 0.0, 1.0]);
    assert_eq!(at(|x| x.max(..), &[3.0, 1.0, 3.0]), [0.5, 0.0, 0.5]);
    assert_eq!(at(|x| x.maximum(0.0), &[0.0, 1.0]), [0.5, 1.0]);
    assert_eq!(at(|x| x.sqrt(), &[0.0, 0.25]), [f64::INFINITY, 1.0]);
    assert_eq!(at(|x| x.log(), &[0.0]), [f64::INFINITY]);
    assert_eq!(at(|x| x.pow(0.0), &[0.0, 2.0]), [0.0, 0.0]);
    assert_eq!(at(|x| x.pow(2.0), &[0.0, 3.0]), [0.0, 6.0]);
}

/// A branch that is not taken gets the cotangent 0. Its derivative may still turn that into NaN, so
/// its argument must be guarded, not only its result.
#[test]
fn a_guarded_argument_keeps_an_untaken_branch_out_of_the_derivative() {
    let x = Tensor::from([4.0f64, -1.0]);
    let guarded = |x: &Tensor| {
        let inside = x.gt(0.0);
        let safe = inside.select(x, x.ones_like());
        inside.select(safe.sqrt(), x * 2.0)
    };
    let gradient = grad(|x: &Tensor| guarded(x).sum(..))(&x);
    assert_eq!(gradient.to_vec::<f64>(), [0.25, 2.0]);
    let open = |x: &Tensor| x.gt(0.0).select(x.sqrt(), x * 2.0);
    let (_, tangent) = jvp(open, &x, &x.ones_like());
    assert_eq!(tangent.to_vec::<f64>(), [0.25, 2.0]);
    assert!(grad(|x: &Tensor| open(x).sum(..))(&x).to_vec::<f64>()[1].is_nan());
}
