//! Elementary functions as scalar code that rustc vectorises, and loops compiled for each *level* of the CPU.
//!
//! A [`Level`] is a set of vector instructions; a loop has one [version](versions!) for each. A scalar function has a
//! type parameter [`Arith`] in place of the level: whether there is a fused multiply-add. So its bits depend on
//! that alone, and not on the level or on where an element stands in a loop.
//!
//! All of them, and what they call, are `#[inline(always)]`: a function that is not inlined is compiled for the baseline.
//! So they take no closures.
//!
//! The functions have no branches and look nothing up: cases are selects between values. The errors are in units of
//! the last place of the exact result, found by the tests; `NaN`, infinities, signed zeros and denormal numbers are as
//! IEEE 754 recommends.

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
