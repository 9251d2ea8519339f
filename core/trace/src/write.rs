//! Writing of records.

use crate::json::{Line, OrderLine};
use crate::name::{hashed_stem, stem};
use crate::{Config, ElementType, Error, Format, Result, TraceRecord, write_values};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Name of the list of the files of a folder, in the order of execution.
pub(crate) const ORDER: &str = "order.jsonl";

/// Name of the file of a trace in JSON lines.
pub(crate) const LINES: &str = "trace.jsonl";

/// Writer of one trace. Threads may share it.
///
/// A record goes to `{name}.trace`, where `/` and `\` are `_`. If that file holds a record of
/// another name, a hash of the name is appended: `a_b-1f2e3d4c.trace`. Later records of the same
/// name in one process get a number: `h~2.trace`. A file appears complete or not at all, because it
/// is renamed to its name. The line in `order.jsonl` for each record has the order of execution.
#[derive(Debug)]
pub struct Writer {
    config: Config,
    names: Mutex<Names>,
}

/// Names that a writer has used.
#[derive(Debug, Default)]
struct Names {
    /// Stem of each name, and the number of its records.
    of: HashMap<String, (String, u64)>,
    /// Name of the records in each file.
    owners: HashMap<String, String>,
}

impl Writer {
    /// Creates a writer. Nothing is written before the first record.
    pub fn new(config: Config) -> Writer {
        let names = Mutex::default();
        Writer { config, names }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Writes a record, with the place in the source that it comes from, and its elements as
    /// little-endian bytes.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created, or a file cannot be written.
    pub fn write(
        &self,
        record: &TraceRecord,
        source: Option<String>,
        values: Option<(ElementType, &[u8])>,
    ) -> Result<()> {
        let dir = &self.config.dir;
        fs::create_dir_all(dir).map_err(|source| Error::Directory {
            path: dir.clone(),
            source,
        })?;
        let stem = self.stem_of(&record.name);
        let values = match values {
            None => None,
            Some((ty, bytes)) => {
                let file = PathBuf::from(format!("{stem}.safetensors"));
                write_values(&dir.join(&file), ty, &record.shape, bytes)?;
                Some(file)
            }
        };
        let json = |source| Error::Serialize {
            name: record.name.clone(),
            source,
        };
        match self.config.format {
            Format::Files => {
                let file = PathBuf::from(format!("{stem}.trace"));
                let text = record.to_json().map_err(json)?;
                whole_file(&dir.join(&file), text.as_bytes())?;
                let line = OrderLine {
                    file,
                    source,
                    values,
                };
                append(
                    &dir.join(ORDER),
                    serde_json::to_string(&line).map_err(json)?,
                )
            }
            Format::Lines => {
                let record = record.clone();
                let line = Line {
                    record,
                    source,
                    values,
                };
                append(
                    &dir.join(LINES),
                    serde_json::to_string(&line).map_err(json)?,
                )
            }
        }
    }

    /// Returns the stem of the file of the next record of this name.
    fn stem_of(&self, name: &str) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Names { of, owners } = &mut *names;
        let (stem, n) = of.entry(name.to_owned()).or_insert_with(|| {
            let taken = |stem: &str| match owners.get(stem) {
                Some(owner) => owner != name,
                None => self.is_of_other(stem, name),
            };
            let stem = Some(stem(name)).filter(|stem| !taken(stem));
            let stem = stem.unwrap_or_else(|| hashed_stem(name));
            owners.insert(stem.clone(), name.to_owned());
            (stem, 0)
        });
        *n += 1;
        if *n == 1 {
            return stem.clone();
        }
        // A name may end in such a number itself.
        let mut numbered = format!("{stem}~{n}");
        if owners.get(&numbered).is_some_and(|owner| owner != name) {
            numbered = format!("{}~{n}", hashed_stem(name));
        }
        owners.insert(numbered.clone(), name.to_owned());
        numbered
    }

    /// Returns whether a file of an earlier process has a record of another name.
    fn is_of_other(&self, stem: &str, name: &str) -> bool {
        if self.config.format == Format::Lines {
            return false;
        }
        let text = fs::read_to_string(self.config.dir.join(format!("{stem}.trace")));
        let record = text
            .ok()
            .and_then(|text| TraceRecord::from_json(&text).ok());
        record.is_some_and(|record| record.name != name)
    }
}

/// Writes a file under a temporary name and renames it, so that no reader sees a part of it.
pub(crate) fn whole_file(path: &Path, bytes: &[u8]) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut hidden = path.to_owned();
    hidden.set_file_name(format!(".{}-{next}.tmp", std::process::id()));
    let written = fs::write(&hidden, bytes).and_then(|()| fs::rename(&hidden, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&hidden);
        Error::Write {
            path: path.to_owned(),
            source,
        }
    })
}

/// Appends a line with one system call, so that lines of several threads do not mix.
fn append(path: &Path, mut line: String) -> Result<()> {
    line.push('\n');
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}
