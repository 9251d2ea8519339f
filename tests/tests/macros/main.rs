//! Expansions of `#[traced]`: accepted forms, companions, constants, warnings.

mod companions;
mod constants;
mod function_forms;
pub mod user_code;
mod warnings;
