//! The README shows the output that its examples print.

use std::process::Command;

#[track_caller]
fn shows(program: &str) {
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success());
    let text = String::from_utf8(run.stdout).unwrap();
    let readme = include_str!("../../README.md");
    assert!(
        readme.contains(&format!("```text\n{}\n```", text.trim_end())),
        "README.md does not show\n{text}"
    );
}

#[test]
fn the_readme_shows_what_first_gradient_prints() {
    shows(env!("CARGO_BIN_EXE_first_gradient"));
}

#[test]
fn the_readme_shows_what_square_root_prints() {
    shows(env!("CARGO_BIN_EXE_square_root"));
}
