//! Elementary functions as scalar code that rustc vectorises, and loops for each CPU level.
//!
//! A [`Level`] is a set of vector instructions, and a loop has one [version](versions!) for each
//! level. A scalar function instead has a type parameter [`Arith`], which tells whether it uses a
//! fused multiply-add. The bits of its result depend only on that, not on the level or on the
//! position of an element in a loop.
//!
//! Every function, and every function that it calls, is `#[inline(always)]`: code that is not
//! inlined would be compiled for the baseline level. For the same reason the functions take no
//! closures.
//!
//! The functions have no branches; they select between values. Only [`polygamma()`] of `f32`, and the
//! reduction of huge arguments of `sin`, `cos` and `tan`, use a table. NaN, infinities, signed zeros
//! and denormal numbers are handled as IEEE 754 recommends.
//!
//! The incomplete gamma and beta functions, [`zeta()`] and [`expn()`], and their derivatives are the exception. They
//! loop until they converge, so a level would gain nothing: they are compiled once, with [`Plain`]
//! arithmetic, and have the same bits for both. [`gammainc()`], [`gammaincc()`] and [`zeta()`] of `f32`
//! do not loop.
//!
//! # Accuracy
//!
//! The table lists the greatest errors found, in units of the last place (ulp) of the exact result.
//! The `f32` functions of one argument were tested at every argument (see `tests/f32_errors.rs`), and
//! the others and the `f64` functions at random arguments.
//!
//! | function | `f32`, fused | `f32`, plain | `f64`, fused | `f64`, plain |
//! | --- | ---: | ---: | ---: | ---: |
//! | `exp` | 1.05 | 1.02 | 0.93 | 0.90 |
//! | `expm1` | 1.46 | 1.53 | 1.60 | 1.71 |
//! | `log` | 0.90 | 0.96 | 0.72 | 0.72 |
//! | `log1p` | 0.90 | 0.98 | 0.74 | 0.78 |
//! | `tanh` | 1.80 | 1.82 | 1.02 | 0.98 |
//! | `softplus` | 1.91 | 1.96 | 1.37 | 1.48 |
//! | `erf` | 1.40 | 1.76 | 1.15 | 1.17 |
//! | `erfc` | 1.91 | 1.60 | 1.91 | 1.69 |
//! | `gelu` | 1.90 | 1.94 | 1.58 | 1.36 |
//! | `gelu_tanh` | 1.85 | 1.85 | 1.41 | 1.41 |
//! | `sigmoid` | 1.75 | 1.77 | 1.48 | 1.48 |
//! | `sin`, `cos` | 0.50 | 0.50 | 0.68 | 0.68 |
//! | `tan` | 0.50 | 0.50 | 1.63 | 1.63 |
//! | `pow` | 0.50 | 0.50 | 0.79 | 0.85 |
//! | `asin`, `acos` | 0.50 | 0.50 | 0.51 | 0.51 |
//! | `atan`, `atan2` | 0.50 | 0.50 | 1.28 | 1.28 |
//! | `sinh`, `cosh` | 0.50 | 0.50 | 1.02 | 1.02 |
//! | `asinh`, `acosh`, `atanh` | 0.50 | 0.50 | 0.64 | 0.64 |
//! | `cbrt` | 0.50 | 0.50 | 0.50 | 0.50 |
//! | `hypot` | 0.50 | 0.50 | 0.79 | 0.79 |
//! | `exp2` | 0.50 | 0.50 | 0.61 | 0.64 |
//! | `log2` | 0.50 | 0.50 | 0.80 | 0.80 |
//! | `log10` | 0.50 | 0.50 | 1.06 | 1.06 |
//! | `logaddexp` | 0.50 | 0.50 | 0.69 | 0.69 |
//! | `erf_inv` | 1.28 | 1.92 | 2.61 | 3.60 |
//! | `ndtri` | 1.68 | 2.00 | 2.35 | 2.85 |
//! | `erfcx` | 3.22 | 3.22 | 1.86 | 1.86 |
//! | `lgamma`, `digamma` for `x > 0` | 0.50 | 0.50 | 1.35 | 1.29 |
//! | `polygamma` for `x > 0` | 0.53 | 0.53 | 5.51 | 5.51 |
//! | `i0`, `i0e` | 0.51 | 0.51 | 3 | 3 |
//! | `i1`, `i1e` | 0.51 | 0.51 | 6 | 6 |
//! | `exp1` | 0.50 | 0.50 | 2.42 | 2.57 |
//! | `expi`, not near its root | 0.50 | 0.50 | 2.27 | 2.27 |
//! | `spence` | 0.50 | 0.50 | 1.57 | 1.57 |
//! | `expn` | 0.50 | 0.50 | 11 | 11 |
//! | `zeta` for `q > 0` | 0.53 | 0.53 | 3 | 3 |
//! | `gammainc`, `gammaincc`, above 1e-30 | 0.80 | 0.80 | 170 | 170 |
//! | `gammainc`, `gammaincc`, the least results | 0.80 | 0.80 | 1900 | 1900 |
//! | `betainc`, above 1e-30 | 0.50 | 0.50 | 140 | 140 |
//! | `betainc`, the least results | 0.50 | 0.50 | 1000 | 1000 |

mod arith;
mod bessel;
mod erf;
mod erf_inv;
mod exp;
mod expn;
mod float;
mod gamma;
mod hyperbolic;
mod incomplete_beta;
mod incomplete_gamma;
mod integrals;
mod inverse;
mod jet;
mod level;
mod log;
mod pi;
mod pow;
pub mod remainder;
mod roots;
mod short_gamma;
mod sigmoid;
mod trig;
mod zeta;

pub use arith::{Arith, Base, Fused, Plain};
pub use bessel::{i0, i0e, i1, i1e};
pub use erf::{erf, erfc, erfcx, gelu};
pub use erf_inv::{erf_inv, ndtri};
pub use exp::{exp, exp_of, exp2, expm1};
pub use expn::expn;
pub use float::Float;
pub use gamma::{digamma, lgamma, polygamma};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use incomplete_beta::{BETA_ORDER_STEP, BETA_ORDERS, beta_density, betainc, betainc_dab};
pub use incomplete_gamma::{GAMMA_ORDERS, gamma_density, gammainc, gammainc_da, gammaincc};
pub use integrals::{exp1, expi, spence};
pub use inverse::{acos, asin, atan, atan2};
pub use level::{Level, Versions};
pub use log::{log, log1p, log2, log10, softplus};
pub use pow::pow;
pub use roots::{cbrt, hypot, logaddexp};
pub use sigmoid::{gelu_tanh, mish, sigmoid, tanh};
pub use trig::{cos, fast_cos, fast_sin, fast_tan, in_fast_range, sin, tan};
pub use zeta::{ZETA_ORDERS, zeta, zeta_ds};

/// Coefficients, for code that evaluates the functions elsewhere.
pub mod tables {
    pub use crate::bessel::{
        LARGE_0 as BESSEL_I0_LARGE, LARGE_1 as BESSEL_I1_LARGE, SMALL_0 as BESSEL_I0_SMALL,
        SMALL_1 as BESSEL_I1_SMALL,
    };
    pub use crate::erf_inv::{
        CENTRE as QUANTILE_CENTRE, END as QUANTILE_END, TAIL as QUANTILE_TAIL,
    };
    pub use crate::gamma::{NEAR_1 as LGAMMA_NEAR_1, STIRLING};
    pub use crate::incomplete_gamma::{CORRECTIONS as GAMMA_CORRECTIONS, ETA as GAMMA_ETA};
    pub use crate::integrals::{
        DILOGARITHM, ENTIRE as EXPI_ENTIRE, EULER, NEGATIVE as EXPI_NEGATIVE,
        POSITIVE as EXPI_POSITIVE, ZETA_2,
    };
    pub use crate::zeta::BERNOULLI as ZETA_BERNOULLI;
}
