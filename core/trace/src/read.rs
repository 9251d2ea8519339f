//! Reading of traces.

use crate::json::{OrderLine, lines};
use crate::write::{LINES, ORDER};
use crate::{Error, Result, TraceRecord, parse_lines};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Number of bytes above which a file is not a record.
const LONGEST: u64 = 1 << 24;

/// A record of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The record.
    pub record: TraceRecord,
    /// File, line and column of the code that it comes from.
    pub source: Option<String>,
    /// File of the elements.
    pub values: Option<PathBuf>,
}

/// Records in the order of execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Folder or file that the records come from.
    pub path: PathBuf,
    /// The records.
    pub entries: Vec<Entry>,
}

/// Reads a folder of `.trace` files, or a file: of JSON lines, or with one record.
///
/// The order is that of `order.jsonl`. Files that it does not list follow in the order in which they
/// were modified, and files of one time in the order of their names, with numbers in them compared
/// as numbers. A folder with a `trace.jsonl` has its records first.
///
/// # Errors
///
/// If a file cannot be read, is not a record, or contradicts itself. A folder without records is
/// not an error.
pub fn read(path: &Path) -> Result<Trace> {
    let entries = match path.is_dir() {
        true => read_folder(path)?,
        false
            if path
                .extension()
                .is_some_and(|e| e == "trace" || e == "json") =>
        {
            vec![read_file(path)?]
        }
        false => parse_lines(&text(path)?, path)?,
    };
    let path = path.to_owned();
    Ok(Trace { path, entries })
}

fn read_folder(dir: &Path) -> Result<Vec<Entry>> {
    let failed = |source| Error::Read {
        path: dir.to_owned(),
        source,
    };
    let (mut files, mut entries) = (BTreeMap::new(), Vec::new());
    for file in fs::read_dir(dir).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.file_name().is_some_and(|name| name == LINES) {
            entries = parse_lines(&text(&path)?, &path)?;
        } else if path.extension().is_some_and(|e| e == "trace") {
            let modified = fs::metadata(&path).and_then(|data| data.modified());
            files.insert(path, modified.unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
    let order = dir.join(ORDER);
    if order.exists() {
        let listed: Vec<(usize, OrderLine)> = lines(&text(&order)?, &order)?;
        // A later process may have written a file again.
        let mut last: BTreeMap<&Path, usize> = BTreeMap::new();
        last.extend(listed.iter().map(|(line, listed)| (&*listed.file, *line)));
        for (line, listed) in &listed {
            if last[&*listed.file] != *line {
                continue;
            }
            let path = dir.join(&listed.file);
            if files.remove(&path).is_none() {
                let file = listed.file.display();
                return Err(Error::Invalid {
                    path: order,
                    line: Some(*line),
                    what: format!("the folder has no file `{file}`"),
                });
            }
            entries.push(Entry {
                source: listed.source.clone(),
                values: listed.values.as_ref().map(|file| dir.join(file)),
                ..read_file(&path)?
            });
        }
    }
    let mut files: Vec<(PathBuf, SystemTime)> = files.into_iter().collect();
    files.sort_by(|(a, at), (b, bt)| at.cmp(bt).then_with(|| natural(a, b)));
    for (path, _) in files {
        entries.push(read_file(&path)?);
    }
    Ok(entries)
}

/// Reads a file with one record.
fn read_file(path: &Path) -> Result<Entry> {
    let found = TraceRecord::from_json(&text(path)?);
    let record = found.map_err(|source| Error::Malformed {
        path: path.to_owned(),
        line: None,
        source,
    })?;
    record.check().map_err(|what| Error::Invalid {
        path: path.to_owned(),
        line: None,
        what,
    })?;
    let values = path.with_extension("safetensors");
    Ok(Entry {
        record,
        source: None,
        values: values.exists().then_some(values),
    })
}

fn text(path: &Path) -> Result<String> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let is_record = path.extension().is_some_and(|e| e == "trace");
    if is_record && fs::metadata(path).map_err(failed)?.len() > LONGEST {
        return Err(Error::Invalid {
            path: path.to_owned(),
            line: None,
            what: format!("a record has at most {LONGEST} bytes"),
        });
    }
    fs::read_to_string(path).map_err(failed)
}

/// Compares names, with runs of digits as numbers: `blk9` before `blk10`.
fn natural(a: &Path, b: &Path) -> Ordering {
    let (a, b) = (a.to_string_lossy(), b.to_string_lossy());
    let (mut x, mut y) = (&*a, &*b);
    loop {
        let (Some(c), Some(d)) = (x.chars().next(), y.chars().next()) else {
            return x.len().cmp(&y.len()).then_with(|| a.cmp(&b));
        };
        let order = if c.is_ascii_digit() && d.is_ascii_digit() {
            let (m, n) = (take_digits(&mut x), take_digits(&mut y));
            m.len().cmp(&n.len()).then_with(|| m.cmp(n))
        } else {
            (x, y) = (&x[c.len_utf8()..], &y[d.len_utf8()..]);
            c.cmp(&d)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Takes the digits at the start of a text, and returns them without leading zeros.
fn take_digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let digits = &text[..end];
    *text = &text[end..];
    digits.trim_start_matches('0')
}
