//! Runs the example of option prices as a user would.

use super::{number, short};

#[test]
fn prices_and_derivatives_agree_with_the_closed_forms() {
    let text = short(env!("CARGO_BIN_EXE_black_scholes"));
    for name in [
        "price", "delta", "gamma", "vega", "theta", "rho", "vanna", "volga", "implied",
    ] {
        let error = number(&text, &format!("largest error of {name}: "));
        assert!(error <= 1e-10, "{name}: {error}");
    }
    assert!(number(&text, "slope of the implied volatility: ") <= 1e-8);
}
