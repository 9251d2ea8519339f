//! The scripts of `examples/stablehlo` run what `export_stablehlo` writes.
//!
//! `GRADLOOM_PYTHON` names a Python with the package `jax`. Without it, only the export is tested.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stablehlo");

fn export(folder: &Path, devices: &str) {
    let made = Command::new(env!("CARGO_BIN_EXE_export_stablehlo"))
        .arg(folder)
        .arg(devices)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{errors}");
}

/// Returns the losses that a process printed.
fn losses(process: std::process::Child) -> Vec<f64> {
    let ran = process.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    let loss = |line: &str| line.split_once(": loss ")?.1.parse().ok();
    printed.lines().filter_map(loss).collect()
}

#[test]
fn one_process_and_two_train_alike() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [one, two] = ["one", "two"].map(|name| folder.join(name));
    export(&one, "1");
    export(&two, "2");
    let text = std::fs::read_to_string(two.join("step.mlir")).unwrap();
    assert!(text.contains("sdy.mesh"), "the step has shardings");
    let arguments = std::fs::read_to_string(two.join("arguments.txt")).unwrap();
    let divided = arguments.lines().filter(|line| line.starts_with("rows "));
    assert_eq!(divided.count(), 2, "images and labels are divided");

    let Ok(python) = std::env::var("GRADLOOM_PYTHON") else {
        // The harness shows the line although the test passes.
        let _ = writeln!(
            std::io::stderr(),
            "the steps of an exported program in Python are skipped: `.ci/outside` runs them"
        );
        return;
    };
    let train = |folder: &Path, options: &[&str]| {
        Command::new(&python)
            .arg(format!("{SCRIPTS}/train.py"))
            .arg(folder)
            .args(["--steps", "5"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let alone = losses(train(&one, &[]));
    let first = train(&two, &["--processes", "2", "--process", "0"]);
    let second = train(&two, &["--processes", "2", "--process", "1"]);
    let together = losses(first);
    losses(second);
    assert_eq!(alone.len(), 5);
    assert!(alone[4] < alone[0], "the loss falls: {alone:?}");
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5;
    assert!(
        alone.len() == together.len() && alone.iter().zip(&together).all(near),
        "{alone:?} and {together:?}"
    );

    let bytecode = folder.join("step.mlirbc");
    let convert = |source: &Path| {
        Command::new(&python)
            .arg(format!("{SCRIPTS}/bytecode.py"))
            .arg(source.join("step.mlir"))
            .arg(&bytecode)
            .output()
            .unwrap()
    };
    assert!(convert(&one).status.success());
    assert_eq!(&std::fs::read(&bytecode).unwrap()[..4], b"ML\xefR");
    let refused = convert(&two);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has shardings"));
}
