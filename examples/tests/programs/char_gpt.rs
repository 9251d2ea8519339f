//! Runs the character model as a user would.

use std::fs;
use std::process::Command;

#[test]
fn char_gpt_learns_and_writes_by_one_plan_for_all_lengths() {
    let folder = std::env::temp_dir().join(format!("gradloom-char-gpt-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_char_gpt"))
        .arg("--short")
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{text}{errors}");
    let drawn = fs::read_to_string(folder.join("target/char_gpt_short.svg")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(drawn.contains("held out"));

    let number = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        let end = |c: char| !c.is_ascii_digit() && c != '.';
        let rest = rest.trim_start();
        let found = rest.split(end).next().unwrap();
        found.parse::<f64>().unwrap()
    };
    assert!(number("loss of the model:") < number("table of single characters:"));
    assert_eq!(number("plans of the first step:"), 1.0, "{text}");
    assert_eq!(number("of all steps:"), 1.0, "{text}");
    assert_eq!(text.matches("--- sample\nA tensor ").count(), 3, "{text}");
}
