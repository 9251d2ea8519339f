//! Files of a trace: names, folders, order, settings.

use gradloom_trace::{Config, Error, Filter, Format, TraceRecord, Writer, digest_f32, read};
use std::fs;
use std::path::Path;

fn record(name: &str, x: f32) -> TraceRecord {
    digest_f32(&[x]).record(name, &[1], "F32")
}

fn files(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn names(folder: &Path) -> Vec<String> {
    let trace = read(folder).unwrap();
    trace
        .entries
        .into_iter()
        .map(|entry| entry.record.name)
        .collect()
}

/// S3.16, S3.17, S3.19: the layout of the document, in a folder that did not exist.
#[test]
fn each_record_is_a_file_and_the_folder_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep/er");
    let writer = Writer::new(Config::new(&dir));
    for name in ["blk0/embeddings", "blk0/attn_norm", "blk1/q_proj", "logits"] {
        writer.write(&record(name, 1.0), None, None).unwrap();
    }
    assert_eq!(
        files(&dir),
        [
            "blk0_attn_norm.trace",
            "blk0_embeddings.trace",
            "blk1_q_proj.trace",
            "logits.trace",
            "order.jsonl"
        ]
    );
    assert_eq!(
        names(&dir),
        ["blk0/embeddings", "blk0/attn_norm", "blk1/q_proj", "logits"]
    );
}

/// S3.16: names with one file name are told apart, in one process and in two.
#[test]
fn colliding_names_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for _ in 0..2 {
        let writer = Writer::new(Config::new(dir));
        for name in ["a_b", "a/b", "a\\b"] {
            writer.write(&record(name, 1.0), None, None).unwrap();
        }
    }
    let found = files(dir);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(names(dir), ["a_b", "a/b", "a\\b"]);
    let other = Writer::new(Config::new(dir));
    other.write(&record("a/b", 2.0), None, None).unwrap();
    assert_eq!(
        files(dir),
        found,
        "another process finds the file of its name"
    );
}

/// S3.16, S3.29: later records of a name have a number.
#[test]
fn records_of_one_name_have_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(Config::new(folder.path()));
    for (name, x) in [("h", 1.0), ("h", 2.0), ("h~2", 3.0), ("h", 4.0)] {
        writer.write(&record(name, x), None, None).unwrap();
    }
    let trace = read(folder.path()).unwrap();
    let found: Vec<_> = trace
        .entries
        .iter()
        .map(|e| (&*e.record.name, e.record.rms))
        .collect();
    assert_eq!(found, [("h", 1.0), ("h", 2.0), ("h~2", 3.0), ("h", 4.0)]);
}

/// S3.16: names that a file system does not take.
#[test]
fn long_and_odd_names_have_files() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(Config::new(folder.path()));
    let long = "é/".repeat(300);
    for name in [&*long, &(long.clone() + "x"), "", ".", "..", "a\0b", "\n"] {
        writer.write(&record(name, 1.0), None, None).unwrap();
        writer.write(&record(name, 1.0), None, None).unwrap();
    }
    assert_eq!(read(folder.path()).unwrap().entries.len(), 14);
}

/// S3.7: threads write at once, and no file is partial.
#[test]
fn threads_share_a_writer() {
    for format in [Format::Files, Format::Lines] {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::new(Config::new(folder.path()).format(format));
        std::thread::scope(|threads| {
            for t in 0..4 {
                let writer = &writer;
                threads.spawn(move || {
                    for i in 0..50 {
                        writer
                            .write(&record(&format!("t{t}/x"), i as f32), None, None)
                            .unwrap();
                        writer
                            .write(&record("shared", i as f32), None, None)
                            .unwrap();
                    }
                });
            }
        });
        let trace = read(folder.path()).unwrap();
        assert_eq!(trace.entries.len(), 400);
        assert!(
            !files(folder.path())
                .iter()
                .any(|file| file.ends_with(".tmp"))
        );
    }
}

/// S3.36: one file for a long run.
#[test]
fn lines_go_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(Config::new(folder.path()).format(Format::Lines));
    for i in 0..3 {
        writer
            .write(
                &record("a/b", i as f32),
                Some("src/lib.rs:1:2".to_owned()),
                None,
            )
            .unwrap();
    }
    assert_eq!(files(folder.path()), ["trace.jsonl"]);
    let text = fs::read_to_string(folder.path().join("trace.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(
        text.starts_with("{\"name\":\"a/b\",\"shape\":[1],\"dtype\":\"F32\","),
        "{text}"
    );
    let trace = read(&folder.path().join("trace.jsonl")).unwrap();
    assert_eq!(trace.entries[2].source.as_deref(), Some("src/lib.rs:1:2"));
}

/// S3.21: the path is in the message.
#[test]
fn errors_name_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let writer = Writer::new(Config::new(file.join("x")));
    let error = writer.write(&record("h", 1.0), None, None).unwrap_err();
    assert!(matches!(error, Error::Directory { .. }));
    assert!(
        error.to_string().starts_with(&format!(
            "cannot create the folder `{}/x`: ",
            file.display()
        )),
        "{error}"
    );

    let writer = Writer::new(Config::new(folder.path()));
    fs::create_dir(folder.path().join("h.trace")).unwrap();
    let error = writer.write(&record("h", 1.0), None, None).unwrap_err();
    assert!(matches!(error, Error::Write { .. }));
    assert!(error.to_string().contains("h.trace`: "), "{error}");
    let error = read(&folder.path().join("none")).unwrap_err();
    assert!(matches!(error, Error::Read { .. }));
}

/// S3.18, S3.24, S3.25: unset and empty are off, and all variables that count are these four.
#[test]
fn the_environment_says_where_records_go() {
    let config = |vars: &[(&str, &str)]| {
        Config::from_vars(|name| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_owned()))
    };
    assert_eq!(config(&[]), None);
    assert_eq!(config(&[("GRADLOOM_TRACE_DIR", "")]), None);
    assert_eq!(config(&[("GRADLOOM_TRACE", "*")]), None);
    assert_eq!(
        config(&[("GRADLOOM_TRACE_DIR", "/x")]),
        Some(Config::new("/x"))
    );
    let all = config(&[
        ("GRADLOOM_TRACE_DIR", "/x"),
        ("GRADLOOM_TRACE", "a*"),
        ("GRADLOOM_TRACE_FORMAT", "jsonl"),
        ("GRADLOOM_TRACE_VALUES", "1"),
    ]);
    assert_eq!(
        all,
        Some(
            Config::new("/x")
                .points("a*")
                .format(Format::Lines)
                .with_values()
        )
    );
    let wrong = config(&[
        ("GRADLOOM_TRACE_DIR", "/x"),
        ("GRADLOOM_TRACE_FORMAT", "xml"),
        ("GRADLOOM_TRACE_VALUES", "yes"),
    ]);
    assert_eq!(wrong, Some(Config::new("/x")));
}

/// S3.37: patterns select names.
#[test]
fn patterns_select_names() {
    for (patterns, name, taken) in [
        ("", "x", true),
        ("*", "", true),
        ("model/*", "model/blk3/h", true),
        ("model/*", "other/h", false),
        ("*/h", "model/blk3/h", true),
        ("*/h", "model/blk3/hh", false),
        ("blk?/h", "blk3/h", true),
        ("blk?/h", "blk12/h", false),
        ("a,b", "b", true),
        ("!*/w", "a/w", false),
        ("!*/w", "a/h", true),
        ("a*,!*z", "abz", false),
        ("*a*b*c*", "xxaxxbxxcxx", true),
        ("*a*b*c*", "xxaxxcxxbxx", false),
        ("é?", "éa", true),
    ] {
        assert_eq!(
            Filter::new(patterns).takes(name),
            taken,
            "{patterns} and {name}"
        );
    }
    // A pattern with many stars takes no exponential time.
    assert!(!Filter::new(&"*a".repeat(50)).takes(&("a".repeat(2000) + "b")));
}

/// S3.42: without the list of a trace of this library, times and then numbers in names decide.
#[test]
fn files_of_another_program_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for i in [10, 9, 1] {
        let name = format!("blk{i}/h");
        let text = record(&name, 1.0).to_json().unwrap();
        fs::write(folder.path().join(format!("blk{i}_h.trace")), text).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = fs::File::options()
            .write(true)
            .open(file.unwrap().path())
            .unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }
    assert_eq!(names(folder.path()), ["blk1/h", "blk9/h", "blk10/h"]);
    let first = fs::File::options()
        .write(true)
        .open(folder.path().join("blk1_h.trace"))
        .unwrap();
    first.set_modified(std::time::SystemTime::now()).unwrap();
    assert_eq!(names(folder.path()), ["blk9/h", "blk10/h", "blk1/h"]);
}

/// A file that the list names is missing: part of the trace was lost.
#[test]
fn a_listed_file_that_is_missing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(Config::new(folder.path()));
    writer.write(&record("h", 1.0), None, None).unwrap();
    fs::remove_file(folder.path().join("h.trace")).unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("order.jsonl`, line 1: the folder has no file `h.trace`"),
        "{error}"
    );
}
