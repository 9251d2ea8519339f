//! Runs the example of bundle adjustment as a user would.

use std::process::Command;

fn run(args: &[&str]) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_bundle_adjustment"))
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
fn the_residual_falls_to_the_noise() {
    let (success, text, errors) = run(&["--short"]);
    assert!(success, "{text}{errors}");
    let (level, deviation) = (
        number(&text, "noise from the residuals: "),
        number(&text, "(deviation "),
    );
    assert!((level - 0.5).abs() < 4.0 * deviation, "{text}");
}

#[test]
fn an_unknown_option_is_an_error() {
    let (success, _, errors) = run(&["--shrt"]);
    assert!(!success);
    assert!(errors.contains("give `--short`"), "{errors}");
}
