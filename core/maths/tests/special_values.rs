//! The values at NaN, infinities, zeros and denormals that IEEE 754 and C specify.
//!
//! The reference is the standard library.

use gradloom_maths::tables::ZETA_2;
use gradloom_maths::{self as maths, Fused, Plain};
use std::f64::consts::LN_2;

macro_rules! tests {
    ($t:ident) => {
        mod $t {
            use super::*;

            fn numbers() -> Vec<$t> {
                let tiny = $t::from_bits(1);
                let positive = [
                    0.0,
                    tiny,
                    5.0 * tiny,
                    $t::MIN_POSITIVE,
                    0.5,
                    1.0 - $t::EPSILON / 2.0,
                    1.0,
                    1.0 + $t::EPSILON,
                    2.0,
                    2.5,
                    3.0,
                    1024.0,
                    1e30,
                    1.0 / $t::EPSILON,
                    1.0 / $t::EPSILON + 1.0,
                    2.0 / $t::EPSILON,
                    2.0 / $t::EPSILON - 1.0,
                    $t::MAX,
                    $t::INFINITY,
                    $t::NAN,
                ];
                positive.iter().flat_map(|&x| [x, -x]).collect()
            }

            /// Returns whether both are NaN, both the same zero or infinity, or both close numbers.
            fn alike(a: $t, b: $t) -> bool {
                if a.is_nan() || b.is_nan() {
                    return a.is_nan() && b.is_nan();
                }
                if a == 0.0 || b == 0.0 || a.is_infinite() || b.is_infinite() {
                    return a.to_bits() == b.to_bits();
                }
                a.to_bits().abs_diff(b.to_bits()) <= 3
            }

            fn check(name: &str, fs: [fn($t) -> $t; 2], exact: fn($t) -> $t) {
                for x in numbers() {
                    for f in fs {
                        assert!(alike(f(x), exact(x)), "{name}({x:e}) is {:e}, and should be {:e}", f(x), exact(x));
                    }
                }
            }

            #[test]
            fn special_values_agree_with_the_standard_library() {
                macro_rules! check_one {
                    ($name:ident $exact:expr) => {
                        check(stringify!($name), [maths::$name::<Plain, $t>, maths::$name::<Fused, $t>], $exact);
                    };
                }
                check_one!(exp $t::exp);
                check_one!(expm1 $t::exp_m1);
                check_one!(log $t::ln);
                check_one!(log1p $t::ln_1p);
                check_one!(tanh $t::tanh);
                check_one!(sin $t::sin);
                check_one!(cos $t::cos);
                check_one!(tan $t::tan);
                check_one!(asin $t::asin);
                check_one!(acos $t::acos);
                check_one!(atan $t::atan);
                check_one!(sinh $t::sinh);
                check_one!(cosh $t::cosh);
                // The standard library overflows for huge arguments.
 check_one!(asinh |x: $t| if x.abs() > 1e9 && x.is_finite() { (x.abs().ln() + LN_2 as $t).copysign(x) } else { x.asinh() });
                check_one!(acosh |x| match x {
                    _ if x < 1.0 => $t::NAN,
                    _ if x > 1e9 && x.is_finite() => x.ln() + LN_2 as $t,
                    _ if x == $t::INFINITY => x,
                    _ => (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p(),
                });
                check_one!(atanh |x| (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x));
                check_one!(cbrt $t::cbrt);
                check_one!(log2 $t::log2);
                check_one!(log10 $t::log10);
                check_one!(exp2 $t::exp2);
                check_one!(sigmoid |x| 1.0 / (1.0 + (-x).exp()));
                check_one!(softplus |x| if x > 30.0 { x } else { x.exp().ln_1p() });
            }

            #[test]
            fn the_error_function_and_gelu_have_their_limits() {
                let inf = $t::INFINITY;
                macro_rules! check_both {
                    ($name:ident) => {
                        for f in [maths::$name::<Plain, $t>, maths::$name::<Fused, $t>] {
                            assert!(f($t::NAN).is_nan());
                            let bits = |x: $t| f(x).to_bits();
                            let (low, zero, high, steep) = match stringify!($name) {
                                "erf" => (-1.0, 0.0, 1.0, 2.0),
                                "erfc" => (2.0, 1.0, 0.0, 0.0),
                                _ => (-0.0, 0.0, inf, 1.0),
                            };
                            let low: $t = low;
                            let zero: $t = zero;
                            let high: $t = high;
                            for x in [-inf, -$t::MAX, -1e30, -100.0] {
                                assert_eq!(bits(x), low.to_bits(), "{} of {x}", stringify!($name));
                            }
                            for x in [inf, $t::MAX] {
                                let limit = if high == inf { x } else { high };
                                assert_eq!(bits(x), limit.to_bits(), "{} of {x}", stringify!($name));
                            }
                            assert_eq!(bits(0.0), zero.to_bits());
                            if zero == 0.0 {
                                assert_eq!(bits(-0.0), (-zero).to_bits());
                                // A multiple of the least denormal, so that half of it is a number
                                // too.
                                let x = 1000.0 * $t::from_bits(1);
                                let slope = f(x) / x;
                                assert!((slope - 0.56 * steep).abs() < 0.1 * steep, "{slope}");
                            }
                        }
                    };
                }
                check_both!(erf);
                check_both!(erfc);
                check_both!(gelu);
                check_both!(gelu_tanh);
            }

            #[test]
            fn angles_and_lengths_of_special_values_agree_with_the_standard_library() {
                for x in numbers() {
                    for y in numbers() {
                        for (f, exact) in [
                            (maths::atan2::<Plain, $t> as fn($t, $t) -> $t, x.atan2(y)),
                            (maths::atan2::<Fused, $t>, x.atan2(y)),
                            (maths::hypot::<Plain, $t>, x.hypot(y)),
                            (maths::hypot::<Fused, $t>, x.hypot(y)),
                        ] {
                            assert!(alike(f(x, y), exact), "{x:e}, {y:e}: {:e} and not {exact:e}", f(x, y));
                        }
                    }
                }
            }

            #[test]
            fn the_gamma_function_and_the_inverse_error_function_have_their_limits() {
                let (inf, nan) = ($t::INFINITY, $t::NAN);
                let all = [
                    (maths::lgamma::<Fused, $t> as fn($t) -> $t, [inf, inf, inf, 0.0, 0.0, inf, inf, nan]),
                    (maths::digamma::<Fused, $t>, [nan, nan, -inf, nan, nan, inf, nan, nan]),
                    (maths::erf_inv::<Fused, $t>, [nan, -inf, 0.0, inf, nan, nan, nan, nan]),
                    (maths::ndtri::<Fused, $t>, [nan, nan, -inf, inf, nan, nan, nan, nan]),
                ];
                for (x, y) in [(0.0, 1.0), (inf, 0.0), (-inf, inf), (nan, nan)] {
                    assert!(alike(maths::erfcx::<Fused, $t>(x), y), "{x}");
                }
                for (f, expected) in all {
                    for (x, y) in [-2.0, -1.0, 0.0, 1.0, 2.0, inf, -inf, nan].into_iter().zip(expected) {
                        // Where `y` is NaN, and `f` is `digamma`, only a finite value is excluded.
                        let found = f(x);
                        assert!(alike(found, y) || (y.is_nan() && !found.is_infinite() && x >= 1.0), "{x}: {found}, {y}");
                    }
                }
            }

            #[test]
            fn incomplete_functions_have_the_limits_of_scipy() {
                let (inf, nan) = ($t::INFINITY, $t::NAN);
                // First operand, and the values at 0, 1, infinity, -1 and NaN.
                let lower = [
                    (0.0, [nan, 1.0, 1.0, nan, nan]),
                    (inf, [0.0, 0.0, nan, nan, nan]),
                    (-1.0, [nan; 5]),
                    (nan, [nan; 5]),
                ];
                let upper = [
                    (0.0, [nan, 0.0, 0.0, nan, nan]),
                    (inf, [1.0, 1.0, nan, nan, nan]),
                    (-1.0, [nan; 5]),
                    (nan, [nan; 5]),
                ];
                // SciPy gives NaN at (infinity, 2), and infinity at (1, NaN).
                let zeta = [
                    (-1.0, [nan; 5]),
                    (0.5, [nan; 5]),
                    (1.0, [inf, inf, inf, inf, nan]),
                    (2.0, [inf, ZETA_2 as $t, 0.0, inf, nan]),
                    (inf, [inf, 1.0, 0.0, inf, nan]),
                    (nan, [nan; 5]),
                ];
                let all: [(fn($t, $t) -> $t, &[($t, [$t; 5])]); 3] = [
                    (maths::gammainc::<Fused, $t>, &lower),
                    (maths::gammaincc::<Fused, $t>, &upper),
                    (maths::zeta::<Fused, $t>, &zeta),
                ];
                for (f, rows) in all {
                    for (a, expected) in rows {
                        for (x, y) in [0.0, 1.0, inf, -1.0, nan].into_iter().zip(expected) {
                            assert!(alike(f(*a, x), *y), "{a}, {x}: {} instead of {y}", f(*a, x));
                        }
                    }
                }
                // Parameters, and the values at 0, 1/2, 1, -1/10 and NaN.
                for (a, b, expected) in [
                    (0.0, 0.0, [nan; 5]),
                    (0.0, 1.0, [0.0, 1.0, 1.0, nan, nan]),
                    (1.0, 0.0, [0.0, 0.0, 1.0, nan, nan]),
                    (1.0, 1.0, [0.0, 0.5, 1.0, nan, nan]),
                    (2.0, inf, [0.0, 1.0, 1.0, nan, nan]),
                    (inf, 2.0, [0.0, 0.0, 1.0, nan, nan]),
                    (inf, inf, [nan; 5]),
                    (-1.0, 2.0, [nan; 5]),
                    (nan, 2.0, [nan; 5]),
                ] {
                    for (x, y) in [0.0, 0.5, 1.0, -0.1, nan].into_iter().zip(expected) {
                        let found = maths::betainc::<Fused, $t>(a, b, x);
                        assert!(alike(found, y), "{a}, {b}, {x}: {found} instead of {y}");
                    }
                }
                for (x, n, y) in [
                    (0.0, 0.0, inf),
                    (0.0, 1.0, inf),
                    (0.0, 3.0, 0.5),
                    (inf, 2.0, 0.0),
                    (-1.0, 2.0, nan),
                    (nan, 2.0, nan),
                ] {
                    assert!(alike(maths::expn::<Fused, $t>(x, n), y), "{x}, {n}");
                }
                // A power of a number near 0 overflows, and that of infinity vanishes.
                for n in [1.0, 2.0, 3.0] {
                    assert_eq!(maths::zeta_ds::<Fused, $t>(80.0, 1e-20, n), inf);
                    assert_eq!(maths::polygamma::<Fused, $t>(inf, n), 0.0);
                }
                // Orders of derivatives beyond the last are not known.
                for found in [
                    maths::gammainc_da::<Fused, $t>(2.0, 1.0, 5.0),
                    maths::gamma_density::<Fused, $t>(2.0, 1.0, -1.0),
                    maths::zeta_ds::<Fused, $t>(2.0, 1.0, 5.0),
                    maths::betainc_dab::<Fused, $t>(2.0, 1.0, 0.5, 4.0),
                    maths::betainc_dab::<Fused, $t>(2.0, 1.0, 0.5, 1027.0),
                    maths::beta_density::<Fused, $t>(2.0, 1.0, 0.5, 4.0 * 1024.0),
                ] {
                    assert!(found.is_nan(), "{found}");
                }
            }

            #[test]
            fn powers_of_special_values_agree_with_the_standard_library() {
                for x in numbers() {
                    for y in numbers() {
                        for f in [maths::pow::<Plain, $t>, maths::pow::<Fused, $t>] {
                            assert!(
                                alike(f(x, y), x.powf(y)),
                                "{x:e} to the {y:e} is {:e}, and should be {:e}",
                                f(x, y),
                                x.powf(y)
                            );
                        }
                    }
                }
            }
        }
    };
}

tests!(f32);
tests!(f64);

/// The fraction of a whole order ends early, and its derivatives do not.
#[test]
fn derivatives_of_gammainc_at_whole_orders_are_those_beside_them() {
    let at = |a: f64, x: f64, order: f64| maths::gammainc_da::<Plain, f64>(a, x, order);
    for (a, x) in [
        (1.0, 1.5),
        (1.0, 1.50000015),
        (2.0, 2.1),
        (3.0, 3.01),
        (9.0, 12.5),
    ] {
        for order in [1.0, 2.0, 3.0, 4.0] {
            let found = at(a, x, order);
            let beside = (at(a - 1e-5, x, order) + at(a + 1e-5, x, order)) / 2.0;
            let scale = beside.abs().max(1e-3);
            assert!(
                (found - beside).abs() < 1e-8 * scale,
                "{a} {x} {order}: {found} {beside}"
            );
        }
    }
}

/// By 50 digits of mpmath: the density, integrated over parts of two standard deviations.
#[test]
fn betainc_of_large_parameters_is_the_normal_limit() {
    const VALUES: [(f64, f64, f64, f64); 24] = [
        (1e10, 1e10, 0.4999681801948466, 1.128588313487455e-19),
        (1e10, 1e10, 0.4999929289321881, 0.02275013194371913),
        (1e10, 1e10, 0.4999996464466094, 0.4601721627205066),
        (1e10, 1e10, 0.5000053033008589, 0.9331927987344081),
        (1e10, 1e14, 9.998100234973128e-05, 1.1258506850249822e-19),
        (1e10, 1e14, 9.998800129986253e-05, 0.02274959211743841),
        (1e10, 1e14, 9.998990101489814e-05, 0.4601734724733074),
        (1e10, 1e14, 9.999150077492814e-05, 0.9331922591631016),
        (1e12, 1e12, 0.49999681801948465, 1.1285884045960282e-19),
        (1e12, 1e12, 0.4999992928932188, 0.022750131948575666),
        (1e12, 1e12, 0.49999996464466095, 0.46017216273871786),
        (1e12, 1e12, 0.5000005303300858, 0.9331927987151345),
        (1e13, 7e13, 0.1249996672205122, 1.128518903979142e-19),
        (1e13, 7e13, 0.12499992604900272, 0.022750118265701925),
        (1e13, 7e13, 0.12499999630245014, 0.46017219594602343),
        (1e13, 7e13, 0.12500005546324797, 0.9331927850483906),
        (1e14, 1e18, 9.998991101339833e-05, 1.1285610012328017e-19),
        (1e14, 1e18, 9.998998100289964e-05, 0.022750126552484796),
        (1e14, 1e18, 9.999000000004999e-05, 0.4601721758378723),
        (1e14, 1e18, 9.999001599765029e-05, 0.9331927933221458),
        (3e18, 1e16, 0.9966777405652811, 1.128586261637063e-19),
        (3e18, 1e16, 0.9966777407974526, 0.022750099246653322),
        (3e18, 1e16, 0.9966777408604706, 0.4601712374069497),
        (3e18, 1e16, 0.9966777409135384, 0.9331929271252767),
    ];
    for (a, b, x, expected) in VALUES {
        let y = maths::betainc::<Plain, f64>(a, b, x);
        let error = (y / expected - 1.0).abs();
        assert!(error < 1e-13, "betainc({a}, {b}, {x}) = {y}: {error:e}");
    }
}

/// The least terms of the continued fraction would underflow.
#[test]
fn betainc_of_one_large_parameter_is_the_gamma_distribution() {
    for (a, b) in [
        (83.2, 5.3e275),
        (1.4, 1.2e256),
        (0.3, 1e60),
        (3e11, 1e60),
        (2.0, 1e307),
    ] {
        for t in [0.1, 0.7, 1.0, 1.1, 3.0] {
            let x = a * t / b;
            let y = maths::betainc::<Plain, f64>(a, b, x);
            let expected = maths::gammainc::<Plain, f64>(a, b * x);
            assert!(
                (y - expected).abs() <= 1e-15 * expected,
                "{a} {b} {x}: {y} {expected}"
            );
        }
    }
    assert_eq!(maths::betainc::<Plain, f64>(1e60, 2.0, 0.999), 0.0);
}

/// The slope in `x` of a uniform distribution is 1, also where the reciprocal of `x` overflows.
#[test]
fn the_slope_of_betainc_is_finite_at_denormal_numbers() {
    for x in [1e-310, 1e-300, 0.5] {
        let slope = maths::beta_density::<Plain, f64>(1.0, 1.0, x, 0.0);
        assert!((slope - 1.0).abs() < 1e-13, "{x}: {slope}");
    }
}
