//! What depends on this crate, and where its use is documented.

use std::fs;
use std::path::Path;
use std::process::Command;

fn tree(features: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "tree",
        "--offline",
        "--locked",
        "--prefix",
        "none",
        "-p",
        "gradloom",
    ]);
    command
        .args(["-e", "normal,no-proc-macro", "--format", "{p}"])
        .args(features);
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// S3.4, S3.41
#[test]
fn gradloom_depends_on_this_crate_with_the_feature_only() {
    let without = tree(&[]);
    let with = tree(&["--features", "trace"]);
    for name in [
        "gradloom-trace ",
        "blake3 ",
        "serde ",
        "serde_json ",
        "safetensors ",
    ] {
        assert!(
            !without.lines().any(|line| line.starts_with(name)),
            "{without}"
        );
        assert!(with.lines().any(|line| line.starts_with(name)), "{with}");
    }
}

/// S3.45
#[test]
fn the_usage_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert!(read("README.md").contains("docs/book/src/tracing-to-disk.md"));
    let chapter = read("docs/book/src/tracing-to-disk.md");
    for name in [
        "GRADLOOM_TRACE_DIR",
        "GRADLOOM_TRACE",
        "GRADLOOM_TRACE_FORMAT",
        "GRADLOOM_TRACE_VALUES",
    ] {
        assert!(chapter.contains(&format!("| `{name}` |")), "{name}");
    }
}
