//! Maxima, minima and their indices, with NaN and signed zeros.

use crate::backend::cpu::tests::run::run_one;
use crate::backend::cpu::tests::view::{View, array_of};

#[test]
fn extrema_prefer_nan_and_indices_prefer_the_first() {
    let x = View::new(
        vec![1.0, f64::NAN, 3.0, f64::NAN, 3.0, 2.0, 3.0, 2.0],
        &[2, 4],
    );
    let of = |name: &str| {
        let text = format!("(x: f64[2, 4]) {{ y = {name}, keepdims=false] x return y }}");
        format!(
            "{:?}",
            array_of(&run_one(&text, std::slice::from_ref(&x)).unwrap()).data
        )
    };
    assert_eq!(of("max[axes=[1]"), "[NaN, 3.0]");
    assert_eq!(of("min[axes=[1]"), "[NaN, 2.0]");
    assert_eq!(of("max[axes=[0]"), "[3.0, NaN, 3.0, NaN]");
    assert_eq!(of("argmax[axes=1"), "[1.0, 0.0]");
    assert_eq!(of("argmin[axes=1"), "[1.0, 1.0]");
    assert_eq!(of("argmax[axes=0"), "[1.0, 0.0, 0.0, 0.0]");
}

#[test]
fn the_maximum_of_zeros_is_positive_and_the_minimum_negative() {
    for n in [2, 3, 70] {
        for odd in 0..n {
            for rest in [0.0f64, -0.0] {
                let mut zeros = vec![rest; n];
                zeros[odd] = -rest;
                for (op, negative) in [("max", false), ("min", true)] {
                    let along = |shape: [usize; 2], axis: usize| {
                        let [a, b] = shape;
                        let text = format!(
                            "(x: f64[{a}, {b}]) {{ y = {op}[axes=[{axis}], keepdims=false] x return y }}"
                        );
                        let y = run_one(&text, &[View::new(zeros.clone(), &shape)]);
                        y.unwrap().data::<f64>()[0].is_sign_negative()
                    };
                    assert_eq!(along([1, n], 1), negative, "{op} of {zeros:?}");
                    assert_eq!(along([n, 1], 0), negative, "{op} of {zeros:?}");
                }
                let mut wide = vec![rest; 2 * n];
                wide[2 * odd] = -rest;
                for (op, negative) in [("max", false), ("min", true)] {
                    let text = format!(
                        "(x: f64[{n}, 2]) {{ y = {op}[axes=[0], keepdims=false] x return y }}"
                    );
                    let y = run_one(&text, &[View::new(wide.clone(), &[n, 2])]);
                    assert_eq!(y.unwrap().data::<f64>()[0].is_sign_negative(), negative);
                }
            }
        }
    }
}
