//! The passes. Each is `Program -> Program` and changes no bit of any result.

mod cse;
mod dce;
mod residuals;

pub use cse::cse;
pub use dce::dce;
pub use residuals::choose_residuals;
