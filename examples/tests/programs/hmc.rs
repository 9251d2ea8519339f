//! Runs the example of Hamiltonian Monte Carlo as a user would.

use super::{number, short};

#[test]
fn the_draws_have_the_moments_of_the_density() {
    let text = short(env!("CARGO_BIN_EXE_hmc"));
    let rate = number(&text, "accepted proposals: ");
    assert!((0.6..1.0).contains(&rate), "{text}");
    // Columns: quantity, exact, found, standard error, R-hat, effective draws.
    let rows = text
        .lines()
        .map(|l| l.split('|').filter_map(|c| c.trim().parse().ok()).collect());
    let rows: Vec<Vec<f64>> = rows.filter(|r: &Vec<f64>| r.len() == 5).collect();
    assert_eq!(rows.len(), 4, "{text}");
    for row in rows {
        assert!((row[1] - row[0]).abs() < 4.0 * row[2], "{text}");
        assert!(row[3] < 1.05, "{text}");
    }
}
