//! Programs with host control flow: their derivatives against closed forms, transforms of closures and differences.

// A slice has no owned form for the gradient.
#![allow(clippy::ptr_arg)]
// Each way of writing a statement is one to differentiate.
#![allow(clippy::assign_op_pattern, clippy::needless_late_init)]
#![allow(clippy::redundant_closure_call)]

mod aliases;
mod forms;
mod iterations;
mod models;
mod second_order;

/// The functions of this test, whose companions hold the loops and branches themselves.
const PROGRAMS: &[(&str, &str)] = &[
    ("square_root", iterations::square_root::PROGRAM),
    ("cubic_root", iterations::cubic_root::PROGRAM),
    ("bisection", iterations::bisection::PROGRAM),
    ("adaptive", iterations::adaptive::PROGRAM),
    ("beam", iterations::beam::PROGRAM),
    ("before_a_loop", aliases::before_a_loop::PROGRAM),
    ("before_a_branch", aliases::before_a_branch::PROGRAM),
    ("turned", aliases::turned::PROGRAM),
    ("keywords", aliases::keywords::PROGRAM),
    ("chosen", aliases::chosen::PROGRAM),
    ("counted_down", forms::counted_down::PROGRAM),
    ("labelled", forms::labelled::PROGRAM),
    ("popped", forms::popped::PROGRAM),
    ("assigned_later", forms::assigned_later::PROGRAM),
    ("by_mode", forms::by_mode::PROGRAM),
    ("chained", forms::chained::PROGRAM),
    ("compound", forms::compound::PROGRAM),
    ("power", forms::power::PROGRAM),
    ("closures", forms::closures::PROGRAM),
    ("early", forms::early::PROGRAM),
    ("rescaled", forms::rescaled::PROGRAM),
    ("powers", second_order::powers::PROGRAM),
    ("net::forward", models::Net::FORWARD_PROGRAM),
    ("rnn::run", models::Rnn::RUN_PROGRAM),
    ("rnn::states", models::Rnn::STATES_PROGRAM),
    ("rnn::paired", models::Rnn::PAIRED_PROGRAM),
    ("rnn::ends", models::Rnn::ENDS_PROGRAM),
];

#[test]
fn loops_branches_and_exits_are_differentiated_at_compile_time() {
    for (name, program) in PROGRAMS {
        assert!(!program.starts_with("recorded"), "{name}: {program}");
    }
}
