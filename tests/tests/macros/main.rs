//! Expansions of `#[traced]`: accepted forms, companions, constants, warnings.

// Written as users write first.
#![allow(
    clippy::assign_op_pattern,
    clippy::needless_borrowed_reference,
    clippy::unnecessary_unwrap,
    clippy::useless_vec
)]

mod companions;
mod constants;
mod function_forms;
mod held;
mod local_trees;
mod natural;
mod natural_code;
mod natural_keys;
mod natural_patterns;
mod natural_state;
mod natural_sums;
mod operators;
mod parameters;
mod plain_bodies;
mod returned_trees;
mod traits;
pub mod user_code;
mod warnings;
