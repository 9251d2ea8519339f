//! Programs with host control flow: their derivatives agree with closed forms, transforms of
//! closures, and finite differences.
#![allow(deprecated)]
// Some functions here are recorded on purpose.

// Every way of writing a statement is a case to differentiate.
#![allow(clippy::assign_op_pattern, clippy::needless_late_init)]
#![allow(clippy::redundant_closure_call, clippy::mut_range_bound)]
#![allow(clippy::while_let_loop, clippy::never_loop)]

/// Checks a traced function of two tensors and a number.
macro_rules! check_two {
    ($f:ident, $counts:expr) => {
        for n in $counts {
            gradloom_tests::derivatives::Companions {
                call: &|(x, y): &(Tensor, Tensor)| $f(x, y, n),
                vjp: &|(x, y), ct| {
                    let (z, pullback) = $f::vjp(x, y, n);
                    (z, pullback(ct))
                },
                jvp: &|(x, y), (dx, dy)| $f::jvp((x, y, n), (dx, dy)),
            }
            .check(&(
                gradloom_tests::noise(&[3], 1),
                gradloom_tests::noise(&[3], 2),
            ));
        }
    };
}

mod aliases;
mod branches_and_loops;
mod checkpoints;
mod forms;
mod host_values;
mod iterations;
mod models;
mod options;
mod second_order;
mod zeros;

/// Functions whose companions contain the loops and branches, with the text of their programs.
const PROGRAMS: &[(&str, &str)] = &[
    ("square_root", iterations::square_root::PROGRAM),
    ("cubic_root", iterations::cubic_root::PROGRAM),
    ("bisection", iterations::bisection::PROGRAM),
    ("adaptive", iterations::adaptive::PROGRAM),
    ("beam", iterations::beam::PROGRAM),
    ("before_a_loop", aliases::before_a_loop::PROGRAM),
    ("before_a_branch", aliases::before_a_branch::PROGRAM),
    ("turned", aliases::turned::PROGRAM),
    ("in_conditions", aliases::in_conditions::PROGRAM),
    ("beside_closures", aliases::beside_closures::PROGRAM),
    ("captured", aliases::captured::PROGRAM),
    ("aliases::numbered", aliases::numbered::PROGRAM),
    ("checkpoints::numbered", checkpoints::numbered::PROGRAM),
    ("layers::copied", host_values::Layers::COPIED_PROGRAM),
    ("pushed", host_values::pushed::PROGRAM),
    ("nested", host_values::nested::PROGRAM),
    ("best_so_far", host_values::best_so_far::PROGRAM),
    ("borrowed", aliases::borrowed::PROGRAM),
    ("aliases::exchanged", aliases::exchanged::PROGRAM),
    ("shaped_later", forms::shaped_later::PROGRAM),
    ("states", host_values::states::PROGRAM),
    ("in_order", host_values::in_order::PROGRAM),
    ("along", host_values::along::PROGRAM),
    ("layers::matched", host_values::Layers::MATCHED_PROGRAM),
    ("layers::carried", host_values::Layers::CARRIED_PROGRAM),
    ("shifted", forms::shifted::PROGRAM),
    ("inner_locals", forms::inner_locals::PROGRAM),
    ("in_tuples", host_values::in_tuples::PROGRAM),
    ("from_a_stack", host_values::from_a_stack::PROGRAM),
    ("of_old_values", host_values::of_old_values::PROGRAM),
    ("exchanged", host_values::exchanged::PROGRAM),
    ("noted", host_values::noted::PROGRAM),
    ("stepped", host_values::stepped::PROGRAM),
    ("shown", host_values::shown::PROGRAM),
    ("while_small", host_values::while_small::PROGRAM),
    ("until_empty", host_values::until_empty::PROGRAM),
    ("layers::counted", host_values::Layers::COUNTED_PROGRAM),
    ("layers::held", host_values::Layers::HELD_PROGRAM),
    ("layers::guarded", host_values::Layers::GUARDED_PROGRAM),
    ("layers::popped", host_values::Layers::POPPED_PROGRAM),
    ("layers::bounded", host_values::Layers::BOUNDED_PROGRAM),
    ("layers::nested", host_values::Layers::NESTED_PROGRAM),
    ("layers::paired", host_values::Layers::PAIRED_PROGRAM),
    ("keywords", aliases::keywords::PROGRAM),
    ("chosen", aliases::chosen::PROGRAM),
    ("counted_down", forms::counted_down::PROGRAM),
    ("labelled", forms::labelled::PROGRAM),
    ("popped", forms::popped::PROGRAM),
    ("assigned_later", forms::assigned_later::PROGRAM),
    ("by_mode", forms::by_mode::PROGRAM),
    ("chained", forms::chained::PROGRAM),
    ("broken_off", forms::broken_off::PROGRAM),
    ("compound", forms::compound::PROGRAM),
    ("power", forms::power::PROGRAM),
    ("closures", forms::closures::PROGRAM),
    ("early", forms::early::PROGRAM),
    ("rescaled", forms::rescaled::PROGRAM),
    ("matched", options::matched::PROGRAM),
    ("or_left", options::or_left::PROGRAM),
    ("options::chosen", options::chosen::PROGRAM),
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
