//! What the README says the first example prints is what it prints.

use std::process::Command;

#[test]
fn the_readme_shows_what_first_gradient_prints() {
    let run = Command::new(env!("CARGO_BIN_EXE_first_gradient"))
        .output()
        .unwrap();
    assert!(run.status.success());
    let text = String::from_utf8(run.stdout).unwrap();
    let readme = include_str!("../../README.md");
    assert!(
        readme.contains(&format!("```text\n{}\n```", text.trim_end())),
        "README.md does not show\n{text}"
    );
}
