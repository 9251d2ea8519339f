//! Expansions of `#[traced]`: accepted forms, companions, constants, warnings.

mod companions;
mod constants;
mod function_forms;
mod natural_code;
mod plain_bodies;
mod traits;
pub mod user_code;
mod warnings;
