//! Runs the training example as a user would.

use std::fs;
use std::process::Command;

#[test]
fn digits_learns_and_plans_once_per_shape_and_draws_its_curve() {
    let folder = std::env::temp_dir().join(format!("gradloom-digits-{}", std::process::id()));
    let svg = folder.join("loss.svg");
    let run = Command::new(env!("CARGO_BIN_EXE_digits"))
        .arg("--out")
        .arg(&svg)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{text}{errors}");
    assert_eq!(errors, "", "the progress bar is silent in a pipe");

    let drawn = fs::read_to_string(&svg).unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(drawn.contains("training") && drawn.contains("test"));

    let (_, accuracy) = text.trim_end().rsplit_once("test accuracy: ").unwrap();
    assert!(accuracy.parse::<f32>().unwrap() >= 0.970, "{text}");

    // Columns: epoch, two losses, accuracy, plans, hits. An epoch has 44 full batches and one of 30
    // images. A step is a gradient, with one plan for each batch length, and an update, with one
    // plan. Nothing else is planned.
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|l| l.split(['|', '┆', '│']).map(str::trim).collect::<Vec<_>>())
        .filter(|r| r.get(1).is_some_and(|epoch| epoch.parse::<usize>().is_ok()))
        .collect();
    let counts: Vec<[&str; 2]> = rows.iter().map(|r| [r[5], r[6]]).collect();
    assert_eq!(counts[0], ["3", "87"], "{text}");
    assert_eq!(counts[1..], [["0", "90"]; 29], "{text}");
}

#[test]
fn a_wrong_option_is_named() {
    let run = Command::new(env!("CARGO_BIN_EXE_digits"))
        .arg("--epoch")
        .output()
        .unwrap();
    assert!(!run.status.success());
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(
        errors.contains("unknown option `--epoch`; give `--epochs`"),
        "{errors}"
    );
}
