//! Records that are malformed: each has an exact error, or parses as documented.
//!
//! The last test mutates records at random. By default it makes a bounded number of mutations. This
//! command runs it for ten minutes:
//!
//! ```sh
//! GRADLOOM_FUZZ_SECONDS=600 cargo test --release -p gradloom-trace --test malformed -- --nocapture mutated
//! ```

use gradloom_trace::{Error, TraceRecord, digest_f32, parse_lines, read};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn record() -> TraceRecord {
    TraceRecord {
        seq_index: Some(4),
        layer_idx: Some(0),
        stage: Some("attention \"é\"".to_owned()),
        ..digest_f32(&[3.0, 4.0]).record("t4/blk0/attn_norm", &[1, 2], "F32")
    }
}

/// Reads a text as the file of a record.
fn read_text(text: &[u8]) -> Result<TraceRecord, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.trace");
    fs::write(&file, text).unwrap();
    let name = file.display().to_string();
    let trace = read(&file).map_err(|error| error.to_string().replace(&name, "x.trace"))?;
    Ok(trace.entries[0].record.clone())
}

/// S3.8, S3.15
#[test]
fn a_record_that_is_cut_at_any_byte_is_an_error() {
    let text = record().to_json().unwrap().into_bytes();
    for end in 0..text.len() {
        let error = read_text(&text[..end]).unwrap_err();
        let cut_in_char = std::str::from_utf8(&text[..end]).is_err();
        match cut_in_char {
            true => assert_eq!(
                error,
                "cannot read `x.trace`: stream did not contain valid UTF-8"
            ),
            false => assert!(
                error.starts_with("`x.trace`: EOF while parsing"),
                "at {end}: {error}"
            ),
        }
    }
    assert_eq!(read_text(&text).unwrap(), record());
    assert_eq!(read_text(&[&text, &b" \n"[..]].concat()).unwrap(), record());
}

/// S3.8, S3.15
#[test]
fn a_flipped_bit_is_an_error_or_another_record() {
    let text = record().to_json().unwrap().into_bytes();
    let (mut errors, mut others) = (0, 0);
    for i in 0..text.len() {
        for bit in 0..8 {
            let mut flipped = text.clone();
            flipped[i] ^= 1 << bit;
            match std::str::from_utf8(&flipped)
                .ok()
                .map(TraceRecord::from_json)
            {
                Some(Ok(found)) => {
                    others += 1;
                    let again = TraceRecord::from_json(&found.to_json().unwrap()).unwrap();
                    assert_eq!(again, found);
                }
                _ => errors += 1,
            }
        }
    }
    assert!(
        errors > 0 && others > 0,
        "{errors} errors, {others} other records"
    );
}

/// S3.8, S3.10, S3.14: wrong types, numbers that do not fit, and contradictions.
#[test]
fn wrong_fields_have_exact_errors() {
    let hash = "0".repeat(64);
    let text = |name: &str, shape: &str, rms: &str, n: &str, rest: &str| {
        format!(
            r#"{{"name":{name},"shape":{shape},"dtype":"F32","blake3":"{hash}","rms":{rms},"num_elements":{n}{rest}}}"#
        )
    };
    let error = |text: String| read_text(text.as_bytes()).unwrap_err();
    let mut found = Vec::new();
    for (shape, rms, n) in [
        ("[-1]", "1", "1"),
        ("[1.5]", "1", "1"),
        ("[99999999999999999999999]", "1", "1"),
        ("\"1\"", "1", "1"),
        ("[1]", "\"1\"", "1"),
        ("[1]", "1e999", "1"),
        ("[1]", "NaN", "1"),
        ("[1]", "-1.5", "1"),
        ("[1]", "-1", "1"),
        ("[1]", "-5e-324", "1"),
        ("[1]", "-1e999", "1"),
        ("[1]", "1", "1e3"),
        ("[2]", "1", "1"),
        ("[18446744073709551615,2]", "1", "1"),
        ("[18446744073709551615,2,0]", "1", "1"),
    ] {
        found.push(error(text("\"x\"", shape, rms, n, "")));
    }
    found.push(error(text("7", "[1]", "1", "1", "")));
    found.push(error(text("\"x\"", "[1]", "1", "1", r#","layer_idx":"3""#)));
    found.push(error(text("\"x\"", "[1]", "1", "1", r#","rms":2"#)));
    found.push(error(
        text("\"x\"", "[1]", "1", "1", "").replace(&hash, "xyz"),
    ));
    found.push(error(text("\"x\"", "[1]", "1", "1", "") + "x"));
    found.push(error("[]".to_owned()));
    found.push(error("{}".to_owned()));
    found.push(error("[".repeat(100_000)));
    insta::assert_snapshot!(found.join("\n"));

    let unknown = text(
        "\"x\"",
        "[1]",
        "1",
        "1",
        r#","values":[{"deep":[[1,{}]]}],"layer_idx":null"#,
    );
    assert_eq!(read_text(unknown.as_bytes()).unwrap().name, "x");
    let empty = text("\"\"", "[18446744073709551615,2,0]", "0", "0", "");
    assert_eq!(read_text(empty.as_bytes()).unwrap().num_elements, 0);
    for (rms, found) in [
        ("null", None),
        ("0", Some(0.0)),
        ("-0.0", Some(0.0)),
        ("5e-324", Some(5e-324)),
    ] {
        let record = read_text(text("\"x\"", "[1]", rms, "1", "").as_bytes()).unwrap();
        assert_eq!(Some(record.rms).filter(|rms| !rms.is_nan()), found, "{rms}");
    }
}

/// S3.36
#[test]
fn an_error_in_a_file_of_lines_has_the_line() {
    let line = serde_json::to_string(&record()).unwrap();
    let path = Path::new("trace.jsonl");
    let error = parse_lines(&format!("{line}\n\n{}", &line[..20]), path).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`trace.jsonl`, line 3: EOF while parsing a string at line 1 column 20"
    );
    let wrong = line.replace("\"num_elements\":2", "\"num_elements\":3");
    let error = parse_lines(&format!("{line}\n{wrong}\n"), path).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`trace.jsonl`, line 2: `num_elements` is 3, and the shape [1, 2] has 2"
    );
    assert!(matches!(error, Error::Invalid { line: Some(2), .. }));
    let mut negative: serde_json::Value = serde_json::from_str(&line).unwrap();
    negative["rms"] = (-2.0).into();
    let error = parse_lines(&format!("{line}\n{negative}\n"), path).unwrap_err();
    insta::assert_snapshot!(error, @"`trace.jsonl`, line 2: invalid value: floating point `-2.0`, expected an `rms` of at least 0, or null at line 1 column 215");
    assert!(matches!(error, Error::Malformed { line: Some(2), .. }));
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// Parts of JSON that the parser treats specially.
const PARTS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-",
    "0",
    "1e999",
    "1e-999",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\"name\":",
    "\"shape\":[",
    "\"rms\":",
    "\"layer_idx\":",
    "\u{feff}",
    "\r\n",
    "9007199254740993",
    "-0.0",
];

fn mutate(text: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(text.len() + 1);
    match random.below(7) {
        0 if at < text.len() => text[at] ^= 1 << random.below(8),
        1 if at < text.len() => {
            text.remove(at);
        }
        2 => text.truncate(at),
        3 => text.insert(at, random.below(256) as u8),
        4 => {
            let part = PARTS[random.below(PARTS.len())].bytes();
            text.splice(at..at, part);
        }
        5 => {
            let end = (at + random.below(30)).min(text.len());
            let copy = text[at..end].to_vec();
            let to = random.below(text.len() + 1);
            text.splice(to..to, copy);
        }
        _ => {
            let end = (at + random.below(12)).min(text.len());
            text.drain(at..end);
        }
    }
}

/// S3.44: no text makes the parser panic, and what it accepts is read back from its own JSON.
#[test]
fn mutated_records_are_errors_or_records() {
    let seconds = std::env::var("GRADLOOM_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let seed = match end {
        None => 0x5EED,
        Some(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
    };
    let mut random = Random(seed);
    let line = serde_json::to_string(&record()).unwrap();
    let seeds = [record().to_json().unwrap(), format!("{line}\n{line}\n")];
    let (mut n, mut accepted) = (0u64, 0u64);
    loop {
        let mut text = seeds[random.below(2)].clone().into_bytes();
        for _ in 0..=random.below(6) {
            mutate(&mut text, &mut random);
        }
        n += 1;
        if let Ok(text) = std::str::from_utf8(&text) {
            let path = Path::new("x");
            let found = TraceRecord::from_json(text).into_iter();
            let of_lines = parse_lines(text, path).into_iter().flatten();
            for record in found.chain(of_lines.map(|entry| entry.record)) {
                accepted += 1;
                let json = record.to_json().unwrap();
                let again = TraceRecord::from_json(&json)
                    .unwrap_or_else(|e| panic!("{text:?} became {json}: {e}"));
                let same = again == record || record.rms.is_nan() && again.rms.is_nan();
                assert!(same, "{text:?} (seed {seed}, number {n})");
                let _ = (
                    record.check(),
                    record.parse_layer_index(),
                    record.parse_sequence_index(),
                    record.parse_stage(),
                );
            }
        }
        let done = match end {
            None => n == 50_000,
            Some(end) => n % 1024 == 0 && Instant::now() > end,
        };
        if done {
            break;
        }
    }
    println!("{n} mutations from seed {seed}, {accepted} records accepted");
    assert!(accepted > n / 100);
}
