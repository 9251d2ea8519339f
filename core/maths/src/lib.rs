//! Elementary functions as scalar code that rustc vectorises, and loops compiled for each *level* of the CPU.
//!
//! A [`Level`] is a set of vector instructions; a loop has one [version](versions!) for each. A scalar function has a
//! type parameter [`Arith`] in place of the level: whether there is a fused multiply-add. So its bits depend on
//! that alone, and not on the level or on where an element stands in a loop.

mod arith;
mod float;
mod level;

pub use arith::{Arith, Base, Fused, Plain};
pub use float::Float;
pub use level::{Level, Versions};
