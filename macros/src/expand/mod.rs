//! Expands a lowered function to tokens. Its input has been checked, so expansion cannot fail.

/// `quote!` whose locals are hygienic: user code cannot see them, and they do not see the user's.
macro_rules! ours {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

pub(crate) mod annotations;
mod call;
mod check;
mod companions;
mod cost;
mod cx;
mod docs;
mod emit;
mod facts;
mod flow;
mod flow_jvp;
mod flow_reverse;
mod gradients;

mod hidden;
mod jvp;
mod kept;
mod kernels;
mod listing;
mod maybe;
mod names;
pub(crate) mod paths;
mod points;
mod second;
mod segment;
mod staged;
mod staged_reverse;
mod static_call;
mod vjp;
mod wrt;

pub(crate) use check::checks;
pub(crate) use companions::companions;
pub(crate) use second::program as second_order;
pub(crate) use staged::programs;
pub(crate) use static_call::{StaticCall, static_key};
