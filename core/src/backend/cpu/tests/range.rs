//! Numbers at the limits of a dtype.

use crate::backend::cpu::tests::run::run_one;
use crate::backend::cpu::tests::view::{View, array_of};

#[test]
fn integers_wrap_and_casts_saturate() {
    let x = View::new(vec![i32::MAX, 1], &[2]);
    let sum = run_one(
        "(x: i32[2]) { y = sum[axes=all, keepdims=false] x, like x return y }",
        &[x],
    );
    assert_eq!(sum.unwrap().data::<i32>(), [i32::MIN]);
    let x = View::new(vec![f64::NAN, 1e300, -2.9, f64::NEG_INFINITY], &[4]);
    let cast = run_one(
        "(x: f64[4]) { y = cast[dtype=i32] x, like x return y }",
        &[x],
    );
    assert_eq!(cast.unwrap().data::<i32>(), [0, i32::MAX, -2, i32::MIN]);
}

#[test]
fn log_sum_exp_handles_large_and_infinite_elements() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = View::new(vec![1e3, 1e3, -inf, -inf, inf, 0.0, nan, 0.0], &[4, 2]);
    let y = run_one(
        "(x: f64[4, 2]) { y = logsumexp[axes=[1], keepdims=false] x return y }",
        &[x],
    );
    let y = array_of(&y.unwrap()).data;
    assert_eq!(y[0], 1e3 + 2f64.ln());
    assert_eq!(y[1..3], [-inf, inf]);
    assert!(y[3].is_nan());
}
