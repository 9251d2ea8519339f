//! The variables of the environment, in processes of their own.

use gradloom::dump::{dump_trace, read};
use gradloom::prelude::*;
use std::path::Path;
use std::process::Command;

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    let h = x * 2.0;
    h.tanh()
}

/// Runs the test `in_a_child` of this program with these variables. Returns what it prints on
/// standard error.
fn child(vars: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "environment::in_a_child", "--nocapture"]);
    command.env("DUMP_CHILD", "1").envs(vars.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Traces, if another test asks for it.
#[test]
fn in_a_child() {
    if std::env::var_os("DUMP_CHILD").is_some() {
        let x = Tensor::from([1.0f32, 2.0]);
        let y = scaled(&x);
        dump_trace("result", &y).unwrap();
        dump_trace("other", &y).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    super::names_of(folder)
}

/// S3.18, S3.24, S3.25: unset, empty and a path; the pattern selects points and calls.
///
/// Row S3.40 of the requirements.
#[test]
fn the_environment_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = |name: &str| folder.path().join(name).display().to_string();
    child(&[]);
    child(&[("GRADLOOM_TRACE_DIR", "")]);
    let hint = child(&[("GRADLOOM_TRACE", "*")]);
    assert!(
        hint.contains("`GRADLOOM_TRACE` is set without `GRADLOOM_TRACE_DIR`"),
        "{hint}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    child(&[("GRADLOOM_TRACE_DIR", &dir("calls"))]);
    assert_eq!(names(&folder.path().join("calls")), ["result", "other"]);
    child(&[
        ("GRADLOOM_TRACE_DIR", &dir("all")),
        ("GRADLOOM_TRACE", "*"),
        ("GRADLOOM_TRACE_VALUES", "1"),
    ]);
    assert_eq!(
        names(&folder.path().join("all")),
        ["scaled/h", "result", "other"]
    );
    assert!(folder.path().join("all/scaled_h.safetensors").exists());
    child(&[
        ("GRADLOOM_TRACE_DIR", &dir("some")),
        ("GRADLOOM_TRACE", "*/h,result"),
        ("GRADLOOM_TRACE_FORMAT", "jsonl"),
    ]);
    assert_eq!(
        names(&folder.path().join("some/trace.jsonl")),
        ["scaled/h", "result"]
    );
    let source = read(&folder.path().join("some")).unwrap().entries[0]
        .source
        .clone()
        .unwrap();
    assert!(source.ends_with("environment.rs:10:9"), "{source}");
}
