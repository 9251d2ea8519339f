//! Runs examples in their short form, as a user would.

mod black_scholes;
mod bundle_adjustment;
mod cart_pole;
mod char_gpt;
mod fine_tune;
mod hmc;
mod mnist_cnn;
mod neural_ode;
mod pinn;
mod vae;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program in a folder. Returns whether it succeeds, and what it prints to the output and as errors.
fn run(program: &str, args: &[&str], folder: &Path) -> (bool, String, String) {
    let run = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let [text, errors] = [run.stdout, run.stderr].map(|s| String::from_utf8(s).unwrap());
    (run.status.success(), text, errors)
}

/// Runs the short form of a program, which has to succeed, in a folder. Returns what it prints.
#[track_caller]
fn short_in(folder: &Path, program: &str) -> String {
    let (success, text, errors) = run(program, &["--short"], folder);
    assert!(success, "{text}{errors}");
    text
}

/// Runs the short form of a program, of which only the output matters.
#[track_caller]
fn short(program: &str) -> String {
    short_in(env!("CARGO_TARGET_TMPDIR").as_ref(), program)
}

/// Returns a new folder for what a program writes.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gradloom-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the number that follows `label` in the text.
#[track_caller]
fn number(text: &str, label: &str) -> f64 {
    let (_, rest) = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no `{label}` in\n{text}"));
    let end = |c: char| !c.is_ascii_digit() && !"+-.e".contains(c);
    let found = rest.trim_start().split(end).next().unwrap();
    found
        .parse()
        .unwrap_or_else(|_| panic!("no number after `{label}` in\n{text}"))
}

#[test]
fn an_unknown_option_is_an_error() {
    let folder = folder("options");
    for program in [
        env!("CARGO_BIN_EXE_black_scholes"),
        env!("CARGO_BIN_EXE_bundle_adjustment"),
        env!("CARGO_BIN_EXE_cart_pole"),
        env!("CARGO_BIN_EXE_char_gpt"),
        env!("CARGO_BIN_EXE_hmc"),
        env!("CARGO_BIN_EXE_neural_ode"),
        env!("CARGO_BIN_EXE_pinn"),
        env!("CARGO_BIN_EXE_vae"),
    ] {
        let (success, _, errors) = run(program, &["--shrt"], &folder);
        assert!(!success);
        assert!(errors.contains("give `--short`"), "{errors}");
    }
    fs::remove_dir_all(folder).unwrap();
}
