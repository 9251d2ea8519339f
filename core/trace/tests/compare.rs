//! Comparison of traces, and `trace-diff`.

use gradloom_trace::{
    Config, Diff, ElementType, Error, Format, Status, Trace, TraceRecord, Writer, diff, digest_f32,
    read, report, write_values,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A record to write: name, elements, layer.
type Row<'a> = (&'a str, &'a [f32], Option<usize>);

struct Traces(TempDir);

impl Traces {
    fn new() -> Traces {
        Traces(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, config: impl Fn(Config) -> Config, rows: &[Row<'_>]) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        let writer = Writer::new(config(Config::new(&dir)));
        let stores = writer.config().values;
        for (i, (name, x, layer)) in rows.iter().enumerate() {
            let mut record = digest_f32(x).record(name, &[x.len()], "F32");
            record.layer_idx = *layer;
            record.stage = layer.map(|_| "forward".to_owned());
            let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            let values = stores.then_some((ElementType::F32, &bytes[..]));
            writer
                .write(&record, Some(format!("src/model.rs:{}:9", i + 1)), values)
                .unwrap();
        }
        dir
    }

    /// Returns the reports without the name of the temporary folder.
    fn clean(&self, text: &str) -> String {
        text.replace(&self.0.path().display().to_string(), "DIR")
    }
}

const A: [Row<'_>; 4] = [
    ("t0/embeddings", &[1.0, 2.0], None),
    ("t0/blk0/h", &[3.0, 4.0], Some(0)),
    ("t0/blk1/h", &[0.5, -0.5], Some(1)),
    ("t0/logits", &[1.0, 1.0], None),
];

const B: [Row<'_>; 4] = [
    ("t0/embeddings", &[1.0, 2.0], None),
    ("t0/blk0/h", &[3.0, 4.0], Some(0)),
    ("t0/blk1/h", &[0.5, 0.0], Some(1)),
    ("t0/logits", &[2.0, 1.0], None),
];

fn trace_diff(args: &[&str], a: &Path, b: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-diff"));
    command.args(args).arg(a).arg(b).output().unwrap()
}

/// S3.42, S3.43: by name, in the order of execution, with the first divergence and its place.
#[test]
fn the_first_divergence_has_its_layer_and_its_line() {
    let traces = Traces::new();
    for (config, name) in [(Format::Files, "files"), (Format::Lines, "lines")] {
        let with = |c: Config| c.format(config);
        let (a, b) = (
            traces.write(&format!("{name}-a"), with, &A),
            traces.write(&format!("{name}-b"), with, &B),
        );
        let diff = diff(&read(&a).unwrap(), &read(&b).unwrap(), 0.0).unwrap();
        let first = diff.first().unwrap();
        assert_eq!(
            (&*first.name, first.layer, first.source.as_deref()),
            ("t0/blk1/h", Some(1), Some("src/model.rs:3:9"))
        );
        assert_eq!(diff.count(Status::Different), 2);
    }
}

/// S3.43: the four reports.
#[test]
fn reports_show_hashes_and_values() {
    let traces = Traces::new();
    let (a, b) = (
        traces.write("a", Config::with_values, &A),
        traces.write(
            "b",
            Config::with_values,
            &[B[0], B[1], B[2], ("t0/<extra|`row`>", &[0.0], None)],
        ),
    );
    let diff = diff(&read(&a).unwrap(), &read(&b).unwrap(), 0.0).unwrap();
    insta::assert_snapshot!("text", traces.clean(&report::text(&diff)));
    insta::assert_snapshot!("markdown", traces.clean(&report::markdown(&diff)));
    insta::assert_snapshot!("json", traces.clean(&report::json(&diff)));
    insta::assert_snapshot!("html", traces.clean(&report::html(&diff)));
    let values = diff.items[2].values.as_ref().unwrap();
    assert_eq!(
        (
            values.max_difference,
            &values.max_index[..],
            values.mean_difference
        ),
        (0.5, &[1][..], 0.25)
    );
    assert!((values.cosine_similarity - 0.5f64.sqrt()).abs() < 1e-12);
}

/// S3.43: 0 if equal, 1 if different, 2 after an error.
#[test]
fn trace_diff_has_three_exit_codes() {
    let traces = Traces::new();
    let plain = |c| c;
    let (a, b) = (traces.write("a", plain, &A), traces.write("b", plain, &B));
    let lines = traces.write("lines", |c| c.format(Format::Lines), &A);
    let code = |args: &[&str], a: &Path, b: &Path| trace_diff(args, a, b).status.code();
    assert_eq!(code(&[], &a, &a), Some(0));
    assert_eq!(
        code(&[], &a, &lines),
        Some(0),
        "the form of a trace does not count"
    );
    assert_eq!(code(&[], &a, &lines.join("trace.jsonl")), Some(0));
    assert_eq!(code(&[], &a, &b), Some(1));
    for format in ["text", "markdown", "json", "html"] {
        assert_eq!(code(&["--format", format], &a, &b), Some(1));
    }
    assert_eq!(code(&[], &a, &traces.path("none")), Some(2));
    for args in [
        &["--format", "xml"][..],
        &["--tolerance", "-1"],
        &["--tolerance", "x"],
        &["--fast"],
        &["one more"],
        &["--output"],
    ] {
        assert_eq!(code(args, &a, &b), Some(2), "{args:?}");
    }
    let file = traces.path("report.html");
    let output = trace_diff(
        &["--format", "html", "--output", file.to_str().unwrap()],
        &a,
        &b,
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "first divergence: t0/blk1/h\n"
    );
    assert!(
        fs::read_to_string(file)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
}

/// S3.43: nothing to compare is an error, never equal.
#[test]
fn nothing_to_compare_is_an_error() {
    let traces = Traces::new();
    let plain = |c| c;
    let (a, empty) = (
        traces.write("a", plain, &A),
        traces.write("empty", plain, &[]),
    );
    let other = traces.write("other", plain, &[("x", &[1.0], None)]);
    for (a, b) in [(&a, &empty), (&empty, &a), (&empty, &empty), (&a, &other)] {
        let output = trace_diff(&[], a, b);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
    }
    let read = |path| read(path).unwrap();
    let error = diff(&read(&a), &read(&empty), 0.0).unwrap_err();
    assert!(matches!(error, Error::Empty { .. }));
    assert_eq!(
        traces.clean(&error.to_string()),
        "`DIR/empty` has no records, so there is nothing to compare"
    );
    let error = diff(&read(&a), &read(&other), 0.0).unwrap_err();
    assert_eq!(
        traces.clean(&error.to_string()),
        "no record of `DIR/a` has the name of a record of `DIR/other`, so there is nothing to compare"
    );
}

/// S3.43: records without a partner are differences, in their place.
#[test]
fn missing_and_extra_records_are_differences() {
    let traces = Traces::new();
    let plain = |c| c;
    let (all, some) = (
        traces.write("all", plain, &A),
        traces.write("some", plain, &[A[0], A[3]]),
    );
    let statuses = |a: &Path, b: &Path| {
        let diff = diff(&read(a).unwrap(), &read(b).unwrap(), 0.0).unwrap();
        Vec::from_iter(diff.items.into_iter().map(|item| (item.name, item.status)))
    };
    let wanted = |status| {
        [
            ("t0/embeddings", Status::Equal),
            ("t0/blk0/h", status),
            ("t0/blk1/h", status),
            ("t0/logits", Status::Equal),
        ]
        .map(|(name, status)| (name.to_owned(), status))
    };
    assert_eq!(statuses(&all, &some), wanted(Status::Missing));
    assert_eq!(statuses(&some, &all), wanted(Status::Extra));
    assert_eq!(trace_diff(&[], &all, &some).status.code(), Some(1));
    let twice = traces.write("twice", plain, &[A[0], A[0]]);
    let once = traces.write("once", plain, &[A[0]]);
    assert_eq!(
        statuses(&twice, &once)[1].1,
        Status::Missing,
        "records of one name are counted"
    );
}

/// S3.43: a tolerance, for another implementation with other sums.
#[test]
fn a_tolerance_compares_values_or_else_root_mean_squares() {
    let traces = Traces::new();
    let near: [Row<'_>; 1] = [("h", &[3.0, 4.001], None)];
    let far: [Row<'_>; 1] = [("h", &[3.0, 4.0], None)];
    for (form, tolerance, equal) in [
        (false, 1e-3, true),
        (false, 1e-5, false),
        (true, 1e-3, true),
        (true, 1e-5, false),
        (true, 0.0, false),
    ] {
        let config = |c: Config| if form { c.with_values() } else { c };
        let name = format!("{form}-{tolerance}");
        let (a, b) = (
            traces.write(&(name.clone() + "a"), config, &near),
            traces.write(&(name + "b"), config, &far),
        );
        let diff = diff(&read(&a).unwrap(), &read(&b).unwrap(), tolerance).unwrap();
        assert_eq!(diff.is_equal(), equal, "{form} {tolerance}");
    }
    // The root mean squares are equal, and the elements are not.
    let (a, b) = (
        traces.write("swap-a", Config::with_values, &[("h", &[3.0, 4.0], None)]),
        traces.write("swap-b", Config::with_values, &[("h", &[4.0, 3.0], None)]),
    );
    assert!(
        !diff(&read(&a).unwrap(), &read(&b).unwrap(), 1e-3)
            .unwrap()
            .is_equal()
    );
}

/// S3.1, S3.30, S3.42: files of the Rust program of the document, with six and with nine fields.
#[test]
fn traces_of_bitnet_trace_are_read() {
    let traces = Traces::new();
    let (old, new) = (traces.path("old"), traces.path("new"));
    for (dir, rest) in [
        (&old, ""),
        (
            &new,
            ",\n  \"seq_index\": 0,\n  \"layer_idx\": 3,\n  \"stage\": \"attention\"",
        ),
    ] {
        fs::create_dir(dir).unwrap();
        for (name, file) in [
            ("t0/embeddings", "t0_embeddings"),
            ("t0/blk3/q_proj", "t0_blk3_q_proj"),
        ] {
            let hash = blake3::hash(name.as_bytes()).to_hex();
            let text = format!(
                "{{\n  \"name\": \"{name}\",\n  \"shape\": [\n    1,\n    2560\n  ],\n  \"dtype\": \"BF16\",\n  \"blake3\": \"{hash}\",\n  \"rms\": 0.9982,\n  \"num_elements\": 2560{rest}\n}}"
            );
            fs::write(dir.join(format!("{file}.trace")), text).unwrap();
        }
    }
    assert_eq!(trace_diff(&[], &old, &new).status.code(), Some(0));
    let record = &read(&new).unwrap().entries[0].record;
    assert_eq!((record.layer_idx, &*record.dtype), (Some(3), "BF16"));
}

/// S3.43: each fact that differs is named.
#[test]
fn every_fact_is_compared() {
    let traces = Traces::new();
    let base = TraceRecord {
        seq_index: Some(1),
        layer_idx: Some(2),
        stage: Some("forward".to_owned()),
        ..digest_f32(&[1.0, 2.0]).record("h", &[2], "F32")
    };
    let changed = [
        (
            "shape",
            TraceRecord {
                shape: vec![1, 2],
                ..base.clone()
            },
        ),
        (
            "dtype",
            TraceRecord {
                dtype: "F64".to_owned(),
                ..base.clone()
            },
        ),
        (
            "blake3",
            TraceRecord {
                blake3: "0".repeat(64),
                ..base.clone()
            },
        ),
        (
            "seq_index",
            TraceRecord {
                seq_index: Some(3),
                ..base.clone()
            },
        ),
        (
            "layer_idx",
            TraceRecord {
                layer_idx: Some(3),
                ..base.clone()
            },
        ),
        (
            "stage",
            TraceRecord {
                stage: Some("backward".to_owned()),
                ..base.clone()
            },
        ),
    ];
    let write = |name: &str, record: &TraceRecord| {
        let dir = traces.path(name);
        Writer::new(Config::new(&dir))
            .write(record, None, None)
            .unwrap();
        read(&dir).unwrap()
    };
    let a = write("a", &base);
    for (field, record) in changed {
        let diff = diff(&a, &write(field, &record), 0.0).unwrap();
        let fields: Vec<_> = diff.items[0].differences.iter().map(|d| d.field).collect();
        assert_eq!(fields, [field]);
    }
    let absent = TraceRecord {
        seq_index: None,
        layer_idx: None,
        stage: None,
        ..base
    };
    assert!(
        diff(&a, &write("absent", &absent), 0.0).unwrap().is_equal(),
        "old records have no context"
    );
}

/// NaN and infinities in stored values.
#[test]
fn values_that_are_no_numbers_are_compared() {
    let traces = Traces::new();
    let row = |x: &'static [f32]| -> [Row<'static>; 1] { [("h", x, None)] };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let a = traces.write(
        "a",
        Config::with_values,
        &row(Box::leak(Box::new([nan, inf, 1.0]))),
    );
    let b = traces.write(
        "b",
        Config::with_values,
        &row(Box::leak(Box::new([nan, inf, nan]))),
    );
    let diff = |a, b| diff(&read(a).unwrap(), &read(b).unwrap(), 1e-3).unwrap();
    assert!(diff(&a, &a).is_equal());
    let found = diff(&a, &b);
    let values = found.items[0].values.as_ref().unwrap();
    assert_eq!(
        (values.max_difference, &values.max_index[..]),
        (f64::INFINITY, &[2][..])
    );
    assert!(!found.is_equal());
    assert!(report::json(&found).contains("\"equal\": false"));
}

#[test]
fn elements_that_a_hash_rounds_away_are_compared() {
    let traces = Traces::new();
    let write = |name: &str, x: f64| {
        let dir = traces.path(name);
        fs::create_dir_all(&dir).unwrap();
        let writer = Writer::new(Config::new(&dir).with_values());
        let record = digest_f32(&[x as f32]).record("t0/x", &[1], "F64");
        let bytes = x.to_le_bytes();
        let values = Some((ElementType::F64, &bytes[..]));
        writer.write(&record, None, values).unwrap();
        read(&dir).unwrap()
    };
    let (a, b) = (write("a", 1.0), write("b", 1.0 + 1e-9));
    assert!(diff(&a, &a, 0.0).unwrap().is_equal());
    assert!(!diff(&a, &b, 0.0).unwrap().is_equal());
    assert!(diff(&a, &b, 1e-8).unwrap().is_equal());
}

/// The names of another implementation, by rules. A rule without use is an error, and so is one without the same
/// wildcards.
#[test]
fn records_of_the_second_trace_are_renamed() {
    let traces = Traces::new();
    let plain = |c| c;
    let other: Vec<_> = A
        .iter()
        .map(|(name, x, layer)| (name.replace("t0/blk", "layers."), *x, *layer))
        .collect();
    let other: Vec<_> = other
        .iter()
        .map(|(name, x, layer)| (&**name, *x, *layer))
        .collect();
    let (a, b) = (
        traces.write("a", plain, &A),
        traces.write("b", plain, &other),
    );
    let run = |rules: &[&str]| {
        let args: Vec<&str> = rules.iter().flat_map(|rule| ["--rename", rule]).collect();
        let output = trace_diff(&args, &a, &b);
        let error = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), traces.clean(&error))
    };
    assert_eq!(run(&[]).0, Some(1));
    assert_eq!(run(&["layers.*/*=t0/blk*/*"]), (Some(0), String::new()));
    assert_eq!(run(&["layers.?/h=t0/blk?/h", "layers.*=t0/x*"]).0, Some(2));
    insta::assert_snapshot!(run(&["layers.*/*=t0/blk*/*", "*.weight=*.w"]).1, @"trace-diff: the rule `*.weight=*.w` fits no record of `DIR/b`");
    insta::assert_snapshot!(run(&["layers.*=t0/blk?"]).1, @"trace-diff: `layers.*` and `t0/blk?` must have the same wildcards in the same order");
    insta::assert_snapshot!(run(&["layers"]).1, @"trace-diff: `layers` is not a rule; give `FROM=TO`");
}

/// Writes a trace with one record `h`, and returns what is read back.
fn write_record(
    traces: &Traces,
    name: &str,
    record: &TraceRecord,
    values: Option<(ElementType, &[u8])>,
) -> Trace {
    let dir = traces.path(name);
    fs::create_dir_all(&dir).unwrap();
    let writer = Writer::new(Config::new(&dir));
    writer.write(record, None, values).unwrap();
    read(&dir).unwrap()
}

/// Law: if the hashes differ and an RMS is not finite, no tolerance makes the records equal, and
/// each report gives the reason.
#[test]
fn no_tolerance_applies_to_an_rms_that_is_not_finite() {
    let traces = Traces::new();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows = [
        [1.0, 1.0],
        [2.0, 1.0],
        [inf, 1.0],
        [-inf, 1.0],
        [1.0, inf],
        [nan, 1.0],
        [f32::from_bits(nan.to_bits() ^ 1), 1.0],
    ];
    for stores in [false, true] {
        let all: Vec<(TraceRecord, Trace)> = (0..)
            .zip(&rows)
            .map(|(i, x)| {
                let record = digest_f32(x).record("h", &[2], "F32");
                let bytes = x.map(f32::to_le_bytes);
                let values = stores.then_some((ElementType::F32, bytes.as_flattened()));
                let trace = write_record(&traces, &format!("{stores}-{i}"), &record, values);
                (record, trace)
            })
            .collect();
        for ((x, a), (y, b)) in all.iter().flat_map(|p| all.iter().map(move |q| (p, q))) {
            for tolerance in [0.0, 0.1, 1e300] {
                let found = diff(a, b, tolerance).unwrap();
                let case = format!("{:?} {:?} {tolerance}", a.path, b.path);
                if x.blake3 == y.blake3 {
                    assert!(found.is_equal(), "{case}");
                } else if !x.rms.is_finite() || !y.rms.is_finite() {
                    assert!(!found.is_equal(), "{case}");
                    for report in [report::text, report::markdown, report::html] {
                        let report = report(&found);
                        assert!(report.contains("rms is not finite"), "{case}: {report}");
                    }
                    assert_eq!(found.items[0].rms_difference, None);
                }
            }
        }
    }
    let (a, b) = (traces.path("false-2"), traces.path("false-3"));
    let output = trace_diff(&["--tolerance", "0.1"], &a, &b);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("  rms NaN -> NaN (rms is not finite, so no tolerance applies)\n"),
        "{text}"
    );
}

/// Records with the same hash: their RMS must agree, up to rounding or the tolerance.
#[test]
fn the_rms_of_records_with_one_hash_is_compared() {
    let traces = Traces::new();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let table = [
        (nan, nan, 0.0, true),
        (nan, inf, 0.1, true),
        (nan, 1.0, 0.0, false),
        (nan, 1.0, 0.1, false),
        (nan, 0.0, 0.1, false),
        (0.0, 0.0, 0.0, true),
        (1.0, 1.0 + 1e-9, 0.0, true),
        (1.0, 1.0 + 1e-5, 0.0, false),
        (1.0, 1.0 + 1e-5, 1e-4, true),
        (0.0, 1.0, 0.1, false),
        (1.0, 2.0, 0.1, false),
    ];
    for stores in [false, true] {
        let bytes = 1f32.to_le_bytes();
        let values = stores.then_some((ElementType::F32, &bytes[..]));
        for (x, y, tolerance, equal) in table {
            let [a, b] = [("a", x), ("b", y)].map(|(name, rms)| {
                let record = TraceRecord {
                    rms,
                    ..digest_f32(&[1.0]).record("h", &[1], "F32")
                };
                write_record(&traces, name, &record, values)
            });
            for (a, b) in [(&a, &b), (&b, &a)] {
                let found = diff(a, b, tolerance).unwrap();
                assert_eq!(found.is_equal(), equal, "{x} {y} {tolerance} {stores}");
                let fields: Vec<_> = found.items[0].differences.iter().collect();
                let fields: Vec<_> = fields.iter().map(|d| d.field).collect();
                let wanted: &[&str] = if equal { &[] } else { &["rms"] };
                assert_eq!(fields, wanted, "{x} {y} {tolerance} {stores}");
            }
        }
    }
}

/// Elements of one type, as little-endian bytes.
fn bytes_of<T: Copy, const N: usize>(x: &[T], to_bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    x.iter().flat_map(|x| to_bytes(*x)).collect()
}

/// Compares two tensors whose records differ only in the stored values.
fn diff_values(a: (ElementType, &[u8]), b: (ElementType, &[u8]), n: usize) -> Diff {
    let traces = Traces::new();
    let [a, b] = [("a", a), ("b", b)].map(|(name, values)| {
        let record = digest_f32(&vec![1.0; n]).record("h", &[n], "foreign");
        write_record(&traces, name, &record, Some(values))
    });
    diff(&a, &b, 0.0).unwrap()
}

/// Law: integers are equal if and only if they are the same. Rounding to `f64` decides nothing.
#[test]
fn integers_are_compared_exactly() {
    let large = 1i64 << 60;
    let of_i64 = [
        i64::MIN,
        i64::MIN + 1,
        -large - 1,
        -large,
        -1,
        0,
        1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        large,
        large + 1,
        i64::MAX - 1,
        i64::MAX,
    ];
    for (x, y) in of_i64.iter().flat_map(|x| of_i64.map(|y| (*x, y))) {
        let [a, b] = [x, y].map(|x| bytes_of(&[7, x], i64::to_le_bytes));
        let found = diff_values((ElementType::I64, &a), (ElementType::I64, &b), 2);
        assert_eq!(found.is_equal(), x == y, "{x} {y}");
        let values = found.items[0].values.as_ref().unwrap();
        assert_eq!(values.max_difference, x.abs_diff(y) as f64, "{x} {y}");
        assert_eq!(values.max_index, [usize::from(x != y)]);

        // An integer equals a float of the same value only, and not one that it is rounded to.
        let b = bytes_of(&[7.0, y as f64], f64::to_le_bytes);
        let found = diff_values((ElementType::I64, &a), (ElementType::F64, &b), 2);
        let same = i128::from(x) == (y as f64) as i128;
        assert_eq!(found.is_equal(), same, "{x} {y} as f64");
        let found = diff_values((ElementType::F64, &b), (ElementType::I64, &a), 2);
        assert_eq!(found.is_equal(), same, "{y} as f64, {x}");
    }
    let of_i32 = [i32::MIN, -1, 0, 1, i32::MAX - 1, i32::MAX];
    for (x, y) in of_i32.iter().flat_map(|x| of_i32.map(|y| (*x, y))) {
        let [a, b] = [x, y].map(|x| bytes_of(&[x], i32::to_le_bytes));
        let found = diff_values((ElementType::I32, &a), (ElementType::I32, &b), 1);
        assert_eq!(found.is_equal(), x == y, "{x} {y}");
    }
    for (x, y) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let found = diff_values((ElementType::Bool, &[x]), (ElementType::Bool, &[y]), 1);
        assert_eq!(found.is_equal(), x == y, "{x} {y}");
    }
}

/// Laws of the comparison of floats over the whole range: equality, finite statistics for finite
/// elements, symmetry, and short numbers in the reports.
#[test]
fn floats_are_compared_over_the_whole_range() {
    let tiny = f64::from_bits(1);
    let elements = [
        0.0,
        -0.0,
        tiny,
        f64::MIN_POSITIVE,
        1e-300,
        1e-170,
        0.5,
        -1.0,
        1.0 + f64::EPSILON,
        1e200,
        1e300,
        2e300,
        f64::MAX,
        -f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for (x, y) in elements.iter().flat_map(|x| elements.map(|y| (*x, y))) {
        let [a, b] = [x, y].map(|x| bytes_of(&[x, x, x], f64::to_le_bytes));
        let (a, b) = ((ElementType::F64, &a[..]), (ElementType::F64, &b[..]));
        let found = diff_values(a, b, 3);
        let case = format!("{x:e} {y:e}");
        let same = x == y || x.is_nan() && y.is_nan();
        assert_eq!(found.is_equal(), same, "{case}");

        let values = found.items[0].values.as_ref().unwrap();
        assert_eq!(values.max_difference == 0.0, same, "{case}");
        let (most, mean) = (values.max_difference, values.mean_difference);
        assert!(
            most == mean || (mean / most - 1.0).abs() < 1e-15,
            "{case}: {values:?}"
        );
        let cosine = match (x == 0.0, y == 0.0) {
            _ if !x.is_finite() || !y.is_finite() => f64::NAN,
            (true, true) => 1.0,
            (false, false) => x.signum() * y.signum(),
            _ => 0.0,
        };
        let close = (values.cosine_similarity - cosine).abs() < 1e-12;
        assert!(
            close || cosine.is_nan() && values.cosine_similarity.is_nan(),
            "{case}: {values:?}"
        );
        let swapped = diff_values(b, a, 3);
        let swapped = swapped.items[0].values.as_ref().unwrap();
        assert_eq!(swapped.max_difference, values.max_difference, "{case}");

        for report in [report::text, report::markdown, report::json, report::html] {
            let report = report(&found);
            let mut numbers = report.split(|c: char| !c.is_ascii_digit());
            // Hashes of 64 digits are the longest words.
            assert!(numbers.all(|n| n.len() <= 64), "{report}");
            // A part of the random name of the folder may be this word.
            let mut words = report.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(words.all(|word| word != "NaN"), "{report}");
        }
    }
}

/// The sums of the mean and of the squares overflow, and no single difference does.
#[test]
fn large_values_have_a_short_report() {
    let [a, b] = [[1e300, 1.5e308, 1.5e308], [2e300, 1.0, 1.0]];
    let [a, b] = [a, b].map(|x| bytes_of(&x, f64::to_le_bytes));
    let found = diff_values((ElementType::F64, &a), (ElementType::F64, &b), 3);
    let report = report::text(&found);
    let lines: Vec<&str> = report.lines().skip(4).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    first divergence: h (stage h)
      elements 0 -> 1.5e308
      cosine similarity 0.000000005
      greatest difference 1.500000e308 at [1], mean difference 1.000000e308
    ");
    let [a, b] = [1e300, 2e300].map(|x| bytes_of(&[x], f64::to_le_bytes));
    let found = diff_values((ElementType::F64, &a), (ElementType::F64, &b), 1);
    assert!(report::text(&found).contains("  cosine similarity 1.000000000\n"));

    let traces = Traces::new();
    let [a, b] = [("a", 1e300), ("b", 2e-300)].map(|(name, rms)| {
        let record = TraceRecord {
            rms,
            blake3: blake3::hash(name.as_bytes()).to_hex().to_string(),
            ..digest_f32(&[1.0]).record("h", &[1], "F64")
        };
        write_record(&traces, name, &record, None)
    });
    let report = report::text(&diff(&a, &b, 0.1).unwrap());
    let line = "  rms 1e300 -> 2e-300 (relative difference 1.000e0)\n";
    assert!(report.contains(line), "{report}");
}

/// Shape and dtype of a record; type, shape and bytes of its file; and the expected and the found
/// part of the message, separated by `|`, if they contradict each other.
type Fit<'a> = (
    &'a [usize],
    &'a str,
    ElementType,
    &'a [usize],
    &'a [u8],
    Option<&'a str>,
);

/// A file of elements must fit its record, in either trace and either form of a trace.
#[test]
fn a_file_of_elements_that_contradicts_its_record_is_an_error() {
    let [of_2, of_3, of_2_wide]: [Vec<u8>; 3] = [vec![0; 8], vec![0; 12], vec![0; 16]];
    use ElementType::{F32, F64, I32};
    let table: [Fit<'_>; 7] = [
        (
            &[2],
            "F32",
            F32,
            &[3],
            &of_3,
            Some("the shape [2]|the shape [3]"),
        ),
        (
            &[2],
            "F32",
            F32,
            &[2, 1],
            &of_2,
            Some("the shape [2]|the shape [2, 1]"),
        ),
        (
            &[2],
            "F32",
            F32,
            &[0],
            &[],
            Some("the shape [2]|the shape [0]"),
        ),
        (
            &[2],
            "F32",
            I32,
            &[2],
            &of_2,
            Some("the dtype F32|the dtype I32"),
        ),
        (
            &[2],
            "I64",
            F64,
            &[2],
            &of_2_wide,
            Some("the dtype I64|the dtype F64"),
        ),
        (&[2], "BF16", F32, &[2], &of_2, None),
        (&[2], "F32", F32, &[2], &of_2, None),
    ];
    for (shape, dtype, ty, of_file, bytes, wanted) in table {
        for format in [Format::Files, Format::Lines] {
            let traces = Traces::new();
            let write = |name: &str, shape: &[usize]| {
                let dir = traces.path(name);
                let writer = Writer::new(Config::new(&dir).format(format));
                let record = digest_f32(&vec![0.0; shape.iter().product()]);
                let record = record.record("blk0/h", shape, dtype);
                let zeros = vec![0; 8 * record.num_elements];
                let (of_record, size) = match dtype {
                    "I64" => (ElementType::I64, 8),
                    _ => (F32, 4),
                };
                let values = (of_record, &zeros[..size * record.num_elements]);
                writer.write(&record, None, Some(values)).unwrap();
                dir
            };
            // The other trace fits its own file, and may have another shape.
            let (wrong, right, other) = (
                write("wrong", shape),
                write("right", shape),
                write("other", &[4]),
            );
            let file = wrong.join("blk0_h.safetensors");
            write_values(&file, ty, of_file, bytes).unwrap();
            for (a, b) in [
                (&wrong, &right),
                (&right, &wrong),
                (&wrong, &other),
                (&wrong, &wrong),
            ] {
                let output = trace_diff(&["--tolerance", "0.1"], a, b);
                let error = traces.clean(&String::from_utf8(output.stderr).unwrap());
                let Some((expected, found)) = wanted.map(|w| w.split_once('|').unwrap()) else {
                    assert_eq!(error, "");
                    continue;
                };
                assert_eq!(
                    error,
                    format!(
                        "trace-diff: `DIR/wrong/blk0_h.safetensors`: expected {expected} of the record `blk0/h`, found {found}\n"
                    )
                );
                assert_eq!((output.status.code(), output.stdout), (Some(2), vec![]));
                let error = diff(&read(a).unwrap(), &read(b).unwrap(), 0.0).unwrap_err();
                assert!(matches!(error, Error::Contradiction { path, .. } if path == file));
            }
        }
    }
}
