//! Tests of pooling at each level, against loops over the elements of each window.

use super::{max, max_jvp, max_vjp, sum, sum_t};
use crate::memory::{Data, DataMut};
use crate::simd::level::tests::at_each_level;
use crate::task::Prepared;
use crate::windows::{self, Windows};
use gradloom_ir::DType;
use gradloom_ir::op::windows::WindowAxis;

fn axis(len: usize, window: usize, stride: usize, before: i64) -> WindowAxis {
    windows::tests::axis(len, window, stride, 1, before)
}

/// Planes with sides that fill vectors and that do not, and windows of each kind of loop.
fn cases() -> Vec<Vec<WindowAxis>> {
    let mut cases = Vec::new();
    for side in [5, 6, 13, 14, 28, 33, 67, 130] {
        cases.push(vec![axis(side, 2, 2, 0), axis(side, 2, 2, 0)]);
        cases.push(vec![axis(side, 2, 2, 1), axis(side, 2, 2, 1)]);
        cases.push(vec![axis(side, 3, 1, 1), axis(side, 3, 1, 1)]);
        cases.push(vec![axis(side, 3, 2, 1), axis(side, 3, 2, 1)]);
        cases.push(vec![axis(side, 3, 2, 0), axis(side, 3, 2, 0)]);
        cases.push(vec![axis(6, 2, 1, 0), axis(side, 2, 1, 0)]);
        cases.push(vec![axis(9, 3, 3, 0), axis(side, 3, 3, 0)]);
        cases.push(vec![axis(4, 4, 4, 0), axis(side, 4, 4, 1)]);
        cases.push(vec![axis(7, 1, 2, 0), axis(side, 5, 2, 2)]);
        cases.push(vec![axis(9, 5, 1, 2), axis(side, 1, 2, 0)]);
        cases.push(vec![
            windows::tests::axis(9, 2, 1, 3, 1),
            windows::tests::axis(side, 3, 1, 2, 2),
        ]);
        cases.push(vec![
            windows::tests::axis(9, 2, 2, 2, 0),
            windows::tests::axis(side, 2, 2, 2, 1),
        ]);
        cases.push(vec![axis(side, 2, 1, 4)]);
        cases.push(vec![
            axis(4, 2, 2, 0),
            axis(6, 2, 2, 0),
            axis(side, 2, 2, 0),
        ]);
        cases.push(vec![
            axis(4, 1, 1, 0),
            axis(6, 2, 2, 0),
            axis(side, 2, 2, 0),
        ]);
        cases.push(vec![
            axis(3, 2, 1, 1),
            axis(5, 3, 2, 1),
            axis(side, 3, 1, 1),
        ]);
    }
    cases.push(vec![axis(7, 7, 7, 0), axis(7, 7, 7, 0)]);
    cases.push(vec![axis(600, 3, 1, 1), axis(70, 3, 1, 1)]);
    cases
}

/// Returns the elements of each window of a plane, in row-major order.
fn windows_of(axes: &[WindowAxis]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0]];
    for axis in axes {
        all = (all.iter())
            .flat_map(|outer| {
                (0..axis.count).map(|i| {
                    let inner = |at: &usize| {
                        let at = *at;
                        let taps = (0..axis.window).filter_map(move |tap| axis.position(i, tap));
                        taps.map(move |tap| at * axis.len + tap)
                    };
                    outer.iter().flat_map(inner).collect()
                })
            })
            .collect();
    }
    all
}

macro_rules! tests {
    ($module:ident, $t:ident, $variant:ident, $special:expr) => {
        mod $module {
            use super::*;

            const PLANES: usize = 3;

            fn run(kernel: &Prepared, args: &[&[$t]], n: usize) -> Vec<$t> {
                let args: Vec<Data<'_>> = args.iter().map(|x| Data::$variant(x)).collect();
                let mut out = vec![77 as $t; n];
                kernel(&args, &mut [DataMut::$variant(&mut out)]).unwrap();
                out
            }

            /// Returns integers that vary, so that all sums are exact.
            fn numbers(n: usize) -> Vec<$t> {
                (0..n)
                    .map(|i| (i * 7919 % 1009 % 23) as $t - 11 as $t)
                    .collect()
            }

            /// Returns numbers of which many are equal, among them special ones.
            fn extremes(n: usize) -> Vec<$t> {
                let special = $special;
                let number = |i: usize| special[i * 7919 % 1009 % special.len()];
                (0..n).map(number).collect()
            }

            /// Returns whether a number differs from itself, as NaN does.
            fn is_nan(x: $t) -> bool {
                x != x
            }

            #[track_caller]
            fn check(found: &[$t], want: &[$t], what: &str) {
                assert_eq!(found.len(), want.len());
                for (i, (x, y)) in found.iter().zip(want).enumerate() {
                    assert!(
                        x == y || is_nan(*x) && is_nan(*y),
                        "{what} at {i}: {x} and not {y}"
                    );
                }
            }

            #[test]
            fn each_window_has_the_sum_and_the_maximum_of_its_elements() {
                for axes in cases() {
                    let windows = Windows::new(&axes);
                    let [n, m] = [windows.n_elements(), windows.n_windows()];
                    let all = windows_of(&axes);
                    let (xs, vs, most) = (
                        numbers(PLANES * n),
                        numbers(PLANES * m),
                        extremes(PLANES * n),
                    );
                    let mut sums = vec![0 as $t; PLANES * m];
                    let mut spread = vec![0 as $t; PLANES * n];
                    let mut greatest = vec![$t::MIN; PLANES * m];
                    let mut chosen = vec![0 as $t; PLANES * m];
                    let mut added = vec![0 as $t; PLANES * n];
                    for plane in 0..PLANES {
                        for (i, window) in all.iter().enumerate() {
                            let i = plane * m + i;
                            let mut best = None;
                            for at in window.iter().map(|at| plane * n + at) {
                                sums[i] += xs[at];
                                spread[at] += vs[i];
                                let wins = |best: usize| {
                                    most[at] > most[best] || is_nan(most[at]) && !is_nan(most[best])
                                };
                                best = Some(
                                    best.map_or(at, |best| if wins(best) { at } else { best }),
                                );
                            }
                            match best {
                                Some(best) => {
                                    greatest[i] = most[best];
                                    chosen[i] = xs[best];
                                    added[best] += vs[i];
                                }
                                None => greatest[i] = f64::NEG_INFINITY as $t,
                            }
                        }
                    }
                    let dtype = DType::$variant;
                    let mut bits: Option<Vec<String>> = None;
                    at_each_level(|level| {
                        let what = |op: &str| format!("{op} of {axes:?} at {level:?}");
                        check(
                            &run(&sum(dtype, windows, None), &[&xs], PLANES * m),
                            &sums,
                            &what("sum"),
                        );
                        check(
                            &run(&sum_t(dtype, windows, None), &[&vs], PLANES * n),
                            &spread,
                            &what("sum_t"),
                        );
                        let found = run(&max(dtype, windows), &[&most], PLANES * m);
                        check(&found, &greatest, &what("max"));
                        // Text tells the signs of zeros, and not those of NaN.
                        let texts: Vec<String> = found.iter().map(|x| format!("{x:?}")).collect();
                        assert_eq!(*bits.get_or_insert(texts.clone()), texts, "{}", what("max"));
                        let found = run(&max_jvp(dtype, windows), &[&xs, &most], PLANES * m);
                        check(&found, &chosen, &what("max_jvp"));
                        let found = run(&max_vjp(dtype, windows), &[&vs, &most], PLANES * n);
                        check(&found, &added, &what("max_vjp"));
                    });
                }
            }
        }
    };
}

tests!(
    floats_of_32_bits,
    f32,
    F32,
    [
        1.0,
        2.0,
        2.0,
        -0.0,
        0.0,
        -1.0,
        f32::NAN,
        2.0,
        -0.0,
        f32::NEG_INFINITY,
        -3.0
    ]
);
tests!(
    floats_of_64_bits,
    f64,
    F64,
    [
        1.0,
        2.0,
        2.0,
        -0.0,
        0.0,
        -1.0,
        f64::NAN,
        2.0,
        -0.0,
        f64::NEG_INFINITY,
        -3.0
    ]
);
tests!(
    integers_of_32_bits,
    i32,
    I32,
    [1, 2, 2, 0, -1, i32::MIN, 2, i32::MAX, -3]
);
tests!(
    integers_of_64_bits,
    i64,
    I64,
    [1, 2, 2, 0, -1, i64::MIN, 2, i64::MAX, -3]
);
