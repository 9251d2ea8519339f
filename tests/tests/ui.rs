//! What must not compile, and what it says; and unusual programs that must compile, and run.

use std::process::Command;

/// Parts of the expected texts are rustc's, and its words and line drawings change with each release.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn mistakes_are_named_where_they_stand() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("rustc tells its version");
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(COMPILER) {
        println!("skipped: the expected texts are those of {COMPILER}*, and this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    let topics = [
        "attribute",
        "call",
        "expression",
        "key",
        "shape",
        "signature",
        "statement",
        "static_args",
        "tree",
    ];
    for topic in topics {
        cases.compile_fail(format!("ui/{topic}/*.rs"));
    }
}
