//! Runs the example of a policy gradient as a user would.

use std::process::Command;

fn run(args: &[&str]) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_cart_pole"))
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
fn episodes_become_longer() {
    let (success, text, errors) = run(&["--short"]);
    assert!(success, "{text}{errors}");
    assert!(number(&text, "steps: ") < 40.0, "{text}");
    assert!(number(&text, "before, ") > 60.0, "{text}");
}

#[test]
fn an_unknown_option_is_an_error() {
    let (success, _, errors) = run(&["--shrt"]);
    assert!(!success);
    assert!(errors.contains("give `--short`"), "{errors}");
}
