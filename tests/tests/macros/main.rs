//! What `#[traced]` emits: forms that it takes, constants, warnings.

mod costs;
pub mod forms;
mod smoke;
mod traced;
mod warnings;
