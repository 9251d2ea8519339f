//! Invariants of the source tree.

use gradloom_ir::Op;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the names in a section of a manifest.
fn section(manifest: &str, name: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|l| l.trim() != format!("[{name}]"))
        .skip(1)
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split_once('=').map(|(k, _)| k.trim().to_owned()))
        .filter(|k| !k.starts_with('#'))
        .collect()
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn packages_depend_only_on_lower_layers() {
    assert_eq!(
        section(&read("core/maths/Cargo.toml"), "dependencies"),
        [""; 0],
        "gradloom-maths has no dependencies"
    );
    assert_eq!(
        section(&read("core/ir/Cargo.toml"), "dependencies"),
        ["gradloom-maths"],
        "gradloom-ir has no other dependency"
    );
    let macros = section(&read("macros/Cargo.toml"), "dependencies");
    assert!(
        !macros.contains(&"gradloom".into()),
        "the macro does not depend on the run time"
    );
    for manifest in ["core/ir/Cargo.toml", "macros/Cargo.toml", "core/Cargo.toml"] {
        for dependency in section(&read(manifest), "dependencies") {
            let upper = ["gradloom-tests", "gradloom-examples"];
            assert!(
                !upper.contains(&dependency.as_str()),
                "{manifest} depends on {dependency}"
            );
        }
    }
}

#[test]
fn each_op_is_one_file_and_one_row_of_the_readme() {
    let shared = ["mod", "shape", "elementwise", "call"];
    let table: BTreeSet<String> = Op::ALL
        .iter()
        .map(|op| op.def().name().to_owned())
        .collect();
    assert_eq!(table.len(), Op::ALL.len(), "two ops have one name");
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(root().join("core/ir/src/op")).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = if path.is_dir() {
            String::new()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        // Helper files, which do not define an op, begin with a module comment.
        if !shared.contains(&stem.as_str()) && !text.starts_with("//!") {
            files.insert(stem);
        }
    }
    assert_eq!(files, table, "core/ir/src/op and `ops!`");
    let readme = read("README.md");
    let rows: BTreeSet<String> = readme
        .lines()
        .skip_while(|l| !l.starts_with("| op |"))
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .map(|l| {
            l.split('|')
                .nth(1)
                .unwrap()
                .trim()
                .trim_matches('`')
                .to_owned()
        })
        .collect();
    assert_eq!(rows, table, "the op table of README.md and `ops!`");
}

#[test]
fn unsafe_code_is_in_the_kernels_only() {
    let mut files = Vec::new();
    for dir in ["core", "macros", "tests", "examples"] {
        rust_files(&root().join(dir), &mut files);
    }
    for file in files {
        let allowed = file.components().any(|c| c.as_os_str() == "kernel")
            || file.ends_with("tests/tests/tidy.rs");
        let text = fs::read_to_string(&file).unwrap();
        let found = text.lines().any(|l| {
            l.contains("unsafe {") || l.contains("unsafe impl") || l.contains("unsafe fn ")
        });
        let mentions_only = file
            .components()
            .any(|c| c.as_os_str() == "macros" || c.as_os_str() == "ui");
        assert!(
            allowed || mentions_only || !found,
            "`unsafe` in {}",
            file.display()
        );
    }
}

#[test]
fn the_examples_of_the_readme_are_the_files_that_run() {
    let readme = read("README.md");
    for name in ["first_gradient", "square_root"] {
        let file = format!("examples/src/bin/{name}.rs");
        let example = read(&file);
        let lines = example.lines().filter(|l| !l.starts_with("//!"));
        let body = lines.collect::<Vec<_>>().join("\n");
        assert!(
            readme.contains(body.trim()),
            "README.md does not hold {file} as it is"
        );
    }
}

#[test]
fn the_ci_script_runs_the_test_command_of_the_readme() {
    assert!(read("README.md").contains("cargo test --workspace"));
    assert!(read(".ci/run").contains("cargo test --workspace"));
}

#[test]
fn no_code_is_unfinished_or_ignored() {
    let mut files = Vec::new();
    for dir in ["core", "macros", "examples"] {
        rust_files(&root().join(dir), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for word in ["todo!(", "unimplemented!(", "#[ignore"] {
            assert!(!text.contains(word), "`{word}` in {}", file.display());
        }
    }
}
