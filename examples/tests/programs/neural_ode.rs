//! Runs the example of a neural differential equation as a user would.

use super::{number, short};

#[test]
fn training_brings_the_solution_close_to_the_spiral() {
    let text = short(env!("CARGO_BIN_EXE_neural_ode"));
    let before = number(&text, "from the whole spiral: ");
    let after = number(&text, "before, ");
    assert!(after < before / 3.0, "{text}");
}
