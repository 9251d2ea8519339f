//! Elementary functions as scalar code that rustc vectorises, and loops compiled for each *level* of the CPU.
//!
//! A [`Level`] is a set of vector instructions; a loop has one [version](versions!) for each. A scalar function has a
//! type parameter [`Arith`] in place of the level: whether there is a fused multiply-add. So its bits depend on
//! that alone, and not on the level or on where an element stands in a loop.
//!
//! All of them, and what they call, are `#[inline(always)]`: a function that is not inlined is compiled for the baseline.
//! So they take no closures.
//!
//! The functions have no branches: cases are selects between values. Only the reduction of huge arguments of `sin`, `cos` and
//! `tan` looks something up. `NaN`, infinities, signed zeros and denormal numbers are as IEEE 754 recommends.
//!
//! The greatest errors that were found, in units of the last place of the exact result: `f32` at every 61st number
//! (`tests/f32_errors.rs`), `f64` at some thousands of random arguments of each function.
//!
//! | function | `f32`, fused | `f32`, plain | `f64`, fused | `f64`, plain |
//! | --- | ---: | ---: | ---: | ---: |
//! | `exp` | 1.01 | 0.99 | 0.96 | 0.92 |
//! | `expm1` | 1.41 | 1.42 | 1.75 | 1.70 |
//! | `log` | 0.83 | 0.83 | 0.75 | 0.75 |
//! | `log1p` | 0.89 | 0.89 | 0.77 | 0.77 |
//! | `tanh` | 1.47 | 1.46 | 1.29 | 1.29 |
//! | `sigmoid` | 1.48 | 1.47 | 1.16 | 1.16 |
//! | `softplus` | 1.92 | 1.92 | 1.35 | 1.35 |
//! | `sin`, `cos` | 0.50 | 0.50 | 0.73 | 0.73 |
//! | `tan` | 0.50 | 0.50 | 1.85 | 1.85 |
//! | `erf` | 1.38 | 1.38 | 1.13 | 1.13 |
//! | `erfc` | 1.96 | 2.20 | 1.68 | 1.70 |
//! | `gelu` | 1.82 | 1.75 | 1.79 | 1.95 |
//! | `gelu_tanh` | 1.73 | 1.73 | 1.20 | 1.20 |
//! | `pow` | 0.50 | 0.50 | 1.09 | 0.99 |

mod arith;
mod erf;
mod exp;
mod float;
mod level;
mod log;
mod pi;
mod pow;
mod sigmoid;
mod trig;

pub use arith::{Arith, Base, Fused, Plain};
pub use erf::{erf, erfc, gelu};
pub use exp::{exp, expm1};
pub use float::Float;
pub use level::{Level, Versions};
pub use log::{log, log1p, softplus};
pub use pow::pow;
pub use sigmoid::{gelu_tanh, sigmoid, tanh};
pub use trig::{cos, moderate, moderate_cos, moderate_sin, moderate_tan, sin, tan};
