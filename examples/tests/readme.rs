//! The README and the book show the real output of the examples.

use std::process::Command;

#[track_caller]
fn shows(page: &str, program: &str) {
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success());
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        page.contains(&format!("```text\n{}\n```", text.trim_end())),
        "the page does not show\n{text}"
    );
}

#[test]
fn the_readme_shows_the_output_of_first_gradient() {
    let readme = include_str!("../../README.md");
    shows(readme, env!("CARGO_BIN_EXE_first_gradient"));
}

#[test]
fn the_book_shows_the_output_of_both_modes() {
    let chapter = include_str!("../../docs/book/src/derivatives.md");
    shows(chapter, env!("CARGO_BIN_EXE_both_modes"));
}

#[test]
fn the_book_shows_the_output_of_square_root() {
    let chapter = include_str!("../../docs/book/src/control-flow.md");
    shows(chapter, env!("CARGO_BIN_EXE_square_root"));
}
