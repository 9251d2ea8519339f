//! Runs the character model as a user would.

use super::{folder, number, short_in};
use std::fs;

#[test]
fn char_gpt_learns_and_writes_by_one_plan_for_all_lengths() {
    let folder = folder("char-gpt");
    let text = short_in(&folder, env!("CARGO_BIN_EXE_char_gpt"));
    let drawn = fs::read_to_string(folder.join("target/char_gpt_short.svg")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(drawn.contains("held out"));

    assert!(number(&text, "loss of the model:") < number(&text, "table of single characters:"));
    assert_eq!(number(&text, "plans of the first step:"), 1.0, "{text}");
    assert_eq!(number(&text, "of all steps:"), 1.0, "{text}");
    assert_eq!(text.matches("--- sample\nA tensor ").count(), 3, "{text}");
}
