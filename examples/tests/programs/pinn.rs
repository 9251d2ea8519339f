//! Runs the example of a differential equation as a user would.

use super::{number, short};

#[test]
fn the_network_is_near_the_exact_solution() {
    let text = short(env!("CARGO_BIN_EXE_pinn"));
    assert!(
        number(&text, "largest error of the solution: ") < 0.05,
        "{text}"
    );
}
