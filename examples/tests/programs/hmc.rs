//! Runs the example of Hamiltonian Monte Carlo as a user would.

use std::process::Command;

fn run(args: &[&str]) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_hmc"))
        .args(args)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let [text, errors] = [run.stdout, run.stderr].map(|s| String::from_utf8(s).unwrap());
    (run.status.success(), text, errors)
}

/// Returns the number that follows `label` in the text.
#[track_caller]
fn number(text: &str, label: &str) -> f64 {
    let (_, rest) = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no `{label}` in\n{text}"));
    rest.split([' ', '\n', ')'])
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn the_draws_have_the_moments_of_the_density() {
    let (success, text, errors) = run(&["--short"]);
    assert!(success, "{text}{errors}");
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

#[test]
fn an_unknown_option_is_an_error() {
    let (success, _, errors) = run(&["--shrt"]);
    assert!(!success);
    assert!(errors.contains("give `--short`"), "{errors}");
}
