//! Runs the example of a policy gradient as a user would.

use super::{number, short};

#[test]
fn episodes_become_longer() {
    let text = short(env!("CARGO_BIN_EXE_cart_pole"));
    assert!(number(&text, "steps: ") < 40.0, "{text}");
    assert!(number(&text, "before, ") > 60.0, "{text}");
}
