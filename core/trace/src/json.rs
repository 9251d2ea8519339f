//! JSON of records: numbers that JSON lacks, and lines.

use crate::{Entry, Error, Result, TraceRecord};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// `f64` of at least 0, in which NaN and the infinities are `null`.
pub(crate) mod not_negative_or_null {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match x.is_finite() {
            true => serializer.serialize_f64(*x),
            false => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
        let x = Option::deserialize(source)?.unwrap_or(f64::NAN);
        match x < 0.0 {
            true => Err(Error::invalid_value(
                Unexpected::Float(x),
                &"an `rms` of at least 0, or null",
            )),
            false => Ok(x),
        }
    }
}

/// A record as a line of JSON, with the facts that a `.trace` file does not have.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(flatten)]
    pub(crate) record: TraceRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<PathBuf>,
}

/// A line of the list of the files of a folder, in the order of execution.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderLine {
    pub(crate) file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<PathBuf>,
}

/// Parses the lines of a file that have text, each as one value. `path` is for messages.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(
    text: &str,
    path: &Path,
) -> Result<Vec<(usize, T)>> {
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty());
    let values = lines.map(|(line, text)| match serde_json::from_str(text) {
        Ok(value) => Ok((line, value)),
        Err(source) => Err(Error::Malformed {
            path: path.to_owned(),
            line: Some(line),
            source,
        }),
    });
    values.collect()
}

/// Parses and checks records from JSON lines. `path` is for messages, and is where value files are
/// looked for.
///
/// ```
/// use gradloom_trace::{digest_f32, parse_lines};
/// use std::path::Path;
///
/// let record = digest_f32(&[1.0]).record("h", &[1], "F32");
/// let line = serde_json::to_string(&record)?;
/// let entries = parse_lines(&format!("{line}\n{line}\n"), Path::new("trace.jsonl"))?;
/// assert_eq!(entries[1].record, record);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a line is not a record, or a record contradicts itself. The message has the number of the
/// line.
pub fn parse_lines(text: &str, path: &Path) -> Result<Vec<Entry>> {
    let lines = lines::<Line>(text, path)?;
    let entries = lines.into_iter().map(|(line, found)| {
        let Line {
            record,
            source,
            values,
        } = found;
        record.check().map_err(|what| Error::Invalid {
            path: path.to_owned(),
            line: Some(line),
            what,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let values = values.map(|file| folder.join(file));
        Ok(Entry {
            record,
            source,
            values,
        })
    });
    entries.collect()
}
