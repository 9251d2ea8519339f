//! Metrics of a run, read back from both files by other code than that which writes them.

use gradloom_data::{DataError, Metrics};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What an event says.
#[derive(Debug, PartialEq)]
enum Event {
    Version(String),
    Restart {
        step: u64,
    },
    Metrics {
        step: u64,
        values: Vec<(String, f32)>,
    },
}

/// CRC-32C bit by bit: the reflected polynomial 0x1edc6f41.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

fn masked(bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A field of a message.
enum Field<'a> {
    Int(u64),
    Fixed(&'a [u8]),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut n = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a varint has an end");
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    n
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let n = match tag & 7 {
            0 => {
                all.push((tag >> 3, Field::Int(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            kind => panic!("wire type {kind}"),
        };
        let (field, rest) = bytes.split_at(n);
        bytes = rest;
        let field = match tag & 7 {
            2 => Field::Bytes(field),
            _ => Field::Fixed(field),
        };
        all.push((tag >> 3, field));
    }
    all
}

fn value(message: &[u8]) -> (String, f32) {
    let (mut name, mut x) = (String::new(), None);
    for field in fields(message) {
        match field {
            (1, Field::Bytes(text)) => name = String::from_utf8(text.to_vec()).unwrap(),
            (2, Field::Fixed(bytes)) => x = Some(f32::from_le_bytes(bytes.try_into().unwrap())),
            (field, _) => panic!("field {field} of a value"),
        }
    }
    (name, x.unwrap())
}

fn event(message: &[u8]) -> Event {
    let (mut step, mut found, mut time) = (0, None, None);
    for field in fields(message) {
        match field {
            (1, Field::Fixed(bytes)) => time = Some(f64::from_le_bytes(bytes.try_into().unwrap())),
            (2, Field::Int(n)) => step = n,
            (3, Field::Bytes(text)) => {
                found = Some(Event::Version(String::from_utf8(text.to_vec()).unwrap()));
            }
            (5, Field::Bytes(summary)) => {
                let values = fields(summary).into_iter().map(|field| match field {
                    (1, Field::Bytes(message)) => value(message),
                    (field, _) => panic!("field {field} of a summary"),
                });
                let values = values.collect();
                found = Some(Event::Metrics { step: 0, values });
            }
            (7, Field::Bytes(session)) => {
                assert_eq!(session, [1 << 3, 1], "the status is `START`");
                found = Some(Event::Restart { step: 0 });
            }
            (field, _) => panic!("field {field} of an event"),
        }
    }
    assert!(time.unwrap() > 1.7e9);
    match found.unwrap() {
        Event::Metrics { values, .. } => Event::Metrics { step, values },
        Event::Restart { .. } => Event::Restart { step },
        version => version,
    }
}

/// Reads an event file and checks all its checksums.
fn events(path: &Path) -> Vec<Event> {
    let bytes = fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let (head, tail) = rest.split_at(12);
        assert_eq!(number(&head[8..]), masked(&head[..8]));
        let n = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
        let (data, tail) = tail.split_at(n);
        let (crc, tail) = tail.split_at(4);
        assert_eq!(number(crc), masked(data));
        all.push(event(data));
        rest = tail;
    }
    all
}

/// Returns the event files of a folder, in the order in which readers take them.
fn event_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| path.to_str().unwrap().contains("events.out.tfevents."))
        .collect();
    paths.sort();
    paths
}

/// Returns the lines without their times.
fn lines(folder: &Path) -> Vec<(u64, Value)> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        assert!(line["time"].as_f64().unwrap() > 1.7e9);
        (line["step"].as_u64().unwrap(), line["metrics"].take())
    };
    text.lines().map(line).collect()
}

fn metrics(step: u64, values: &[(&str, f32)]) -> Event {
    let values = values.iter().map(|(name, x)| (name.to_string(), *x));
    Event::Metrics {
        step,
        values: values.collect(),
    }
}

fn version() -> Event {
    Event::Version("brain.Event:2".to_owned())
}

#[test]
fn the_checksum_of_the_tests_is_that_of_the_standard() {
    // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn both_files_have_the_numbers_that_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("new/run");
    let mut written = Metrics::create(&run).unwrap();
    written
        .log(1, [("train/loss", 0.1), ("rate", 1e-3)])
        .unwrap();
    written
        .log(300, [("a \"name\"\nin ünicode", 2.5f32)])
        .unwrap();
    let long = "x".repeat(300);
    written.log(1 << 40, [(long.clone(), 7)]).unwrap();
    written.log(5, [("", 1u8); 0]).unwrap();

    let [path] = &event_files(&run)[..] else {
        panic!("one event file")
    };
    let expected = [
        version(),
        metrics(1, &[("train/loss", 0.1), ("rate", 1e-3)]),
        metrics(300, &[("a \"name\"\nin ünicode", 2.5)]),
        metrics(1 << 40, &[(&long, 7.0)]),
        metrics(5, &[]),
    ];
    assert_eq!(events(path), expected);
    let lines = lines(&run);
    let steps: Vec<u64> = lines.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 300, 1 << 40, 5]);
    // The lines have all 64 bits.
    assert_eq!(lines[0].1["train/loss"], 0.1);
    assert_eq!(lines[0].1["rate"], 1e-3);
    assert_eq!(lines[1].1["a \"name\"\nin ünicode"], 2.5);
    assert_eq!(lines[2].1[&long], 7.0);
}

#[test]
fn numbers_that_are_not_finite_are_texts_in_lines_and_values_of_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Metrics::create(folder.path()).unwrap();
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e-60];
    let names = ["a", "b", "c", "d", "e"];
    written.log(0, names.into_iter().zip(values)).unwrap();

    let line = &lines(folder.path())[0].1;
    assert_eq!(line["a"], "NaN");
    assert_eq!(line["b"], "Infinity");
    assert_eq!(line["c"], "-Infinity");
    assert_eq!(line["d"], 1e300);
    let text = fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    assert!(text.contains("\"e\":-1e-60}"), "{text}");
    let events = events(&event_files(folder.path())[0]);
    let Event::Metrics { values, .. } = &events[1] else {
        panic!("{events:?}")
    };
    assert!(values[0].1.is_nan());
    let rest: Vec<f32> = values[1..].iter().map(|(_, x)| *x).collect();
    assert_eq!(rest, [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, 0.0]);
}

#[test]
fn a_resumed_run_drops_later_steps_and_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let mut written = Metrics::create(folder.path()).unwrap();
    for step in 1..=4u32 {
        written.log(step.into(), [("loss", step)]).unwrap();
    }
    let mut torn = fs::read(&path).unwrap();
    torn.extend(b"{\"step\":5,\"ti");
    fs::write(&path, torn).unwrap();

    let mut resumed = Metrics::resume(folder.path(), 2).unwrap();
    resumed.log(3, [("loss", 30)]).unwrap();
    let found = lines(folder.path());
    let steps: Vec<u64> = found.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 2, 3]);
    assert_eq!(found[2].1["loss"], 30.0);

    // Each run has a file of its own, also within one second.
    let _again = Metrics::resume(folder.path(), 7).unwrap();
    let paths = event_files(folder.path());
    assert_eq!(paths.len(), 3);
    let second = [
        version(),
        Event::Restart { step: 3 },
        metrics(3, &[("loss", 30.0)]),
    ];
    assert_eq!(events(&paths[1]), second);
    assert_eq!(events(&paths[2]), [version(), Event::Restart { step: 8 }]);
}

#[test]
fn a_run_without_metrics_is_resumed_from_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut written = Metrics::resume(&run, 9).unwrap();
    written.log(10, [("loss", 1.0)]).unwrap();
    assert_eq!(lines(&run).len(), 1);
}

#[test]
fn errors_are_named_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let mut written = Metrics::create(folder.path()).unwrap();
    let error = written.log(3, [("a", 1.0), ("b", 2.0), ("a", 3.0)]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the metrics of step 3 have the name `a` twice"
    );
    assert!(lines(folder.path()).is_empty());
    assert_eq!(events(&event_files(folder.path())[0]), [version()]);

    let error = Metrics::create(folder.path()).unwrap_err();
    assert!(matches!(error, DataError::RunExists { .. }), "{error}");

    let text = "{\"step\":1}\nfalse\n{\"step\":9}\n";
    fs::write(&path, text).unwrap();
    let error = Metrics::resume(folder.path(), 1).unwrap_err().to_string();
    assert!(
        error.contains("is not a whole metrics file: line 2 is not"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    let error = Metrics::resume(path.join("below"), 1).unwrap_err();
    assert!(matches!(error, DataError::Read { .. }), "{error}");
    let other = folder.path().join("other");
    fs::create_dir_all(other.join("metrics.jsonl")).unwrap();
    let error = Metrics::resume(&other, 1).unwrap_err();
    assert!(matches!(error, DataError::Read { .. }), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Metrics::create(&file).unwrap_err().to_string();
    assert!(error.contains("file`"), "{error}");
}

/// The process is killed, so nothing runs when it ends. Both files have all records that were acknowledged.
#[test]
fn a_process_that_is_killed_loses_no_record() {
    const FOLDER: &str = "GRADLOOM_TEST_METRICS_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut written = Metrics::create(&folder).unwrap();
        for step in 0.. {
            written.log(step, [("loss", 0.5)]).unwrap();
            let acknowledged = Path::new(&folder).join("acknowledged");
            fs::write(acknowledged, step.to_string()).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_process_that_is_killed_loses_no_record", "--exact"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let acknowledged = folder.path().join("acknowledged");
    let last = || {
        let text = fs::read_to_string(&acknowledged).ok()?;
        text.parse::<u64>().ok()
    };
    // The file is empty for a moment each time that the child writes it.
    let acknowledged = loop {
        assert!(child.try_wait().unwrap().is_none(), "the child has ended");
        match last() {
            Some(step) if step >= 50 => break step,
            _ => std::thread::yield_now(),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();

    let n = lines(folder.path()).len() as u64;
    assert!(n > acknowledged, "{n} lines, {acknowledged} acknowledged");
    let found = events(&event_files(folder.path())[0]);
    assert!(found.len() as u64 > acknowledged + 1);
}
