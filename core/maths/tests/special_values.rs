//! The values at NaN, infinities, zeros and denormals that IEEE 754 and C specify.
//!
//! The reference is the standard library.

use gradloom_maths::{self as maths, Fused, Plain};

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
