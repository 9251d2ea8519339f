//! Unusual programs that must compile, most of them without a warning, and run.
//!
//! `no_std` and `lints_that_a_crate_may_deny` have crates of their own.

#![allow(
    clippy::all,
    unreachable_pub,
    reason = "programs as users may write them"
)]

mod a_recorded_call_that_is_meant;
mod annotations;
mod arguments_of_all_kinds;
mod attributes_are_kept;
mod calls_that_return_numbers;
#[rustfmt::skip]
mod deep;
mod functions_without_derivatives;
mod generics;
mod keys_of_models;
mod long;
mod many;
mod mesh_axes;
mod methods_that_return_trees;
mod names_of_parameters_and_functions;
mod names_of_the_expansion;
mod no_implicit_prelude;
mod no_implicit_prelude_and_control_flow;
mod numbers_in_trees;
mod options_with_closures;
mod places;
mod renamed_dependency;
mod second_order;
mod statements_of_all_kinds;
mod warnings_that_are_allowed;
