//! Runs the example of bundle adjustment as a user would.

use super::{number, short};

#[test]
fn the_residual_falls_to_the_noise() {
    let text = short(env!("CARGO_BIN_EXE_bundle_adjustment"));
    let (level, deviation) = (
        number(&text, "noise from the residuals: "),
        number(&text, "(deviation "),
    );
    assert!((level - 0.5).abs() < 4.0 * deviation, "{text}");
}
