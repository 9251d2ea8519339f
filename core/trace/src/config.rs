//! Settings of a trace.

use crate::Filter;
use std::path::PathBuf;

/// Form of a trace on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A file for each record: `name.trace`, with indented JSON.
    #[default]
    Files,
    /// One line for each record in `trace.jsonl`, for long runs.
    Lines,
}

/// Settings of a trace: where records go, and which ones.
///
/// ```
/// use gradloom_trace::{Config, Format};
///
/// let vars = [("GRADLOOM_TRACE_DIR", "/tmp/run"), ("GRADLOOM_TRACE_FORMAT", "jsonl")];
/// let get = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
/// let config = Config::from_vars(get).unwrap();
/// assert_eq!(config.format, Format::Lines);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Folder of the trace. It is created, with its parents, when the first record is written.
    pub dir: PathBuf,
    /// Names to trace. `None` means all records that code asks for, and no trace point of a traced
    /// function.
    pub filter: Option<Filter>,
    /// Form of the trace.
    pub format: Format,
    /// True if the elements are written too, in a `.safetensors` file beside each record.
    pub values: bool,
}

impl Config {
    /// Creates the settings of a folder: a file for each record that code asks for, without values.
    pub fn new(dir: impl Into<PathBuf>) -> Config {
        Config {
            dir: dir.into(),
            filter: None,
            format: Format::default(),
            values: false,
        }
    }

    /// Sets the names to trace, as `GRADLOOM_TRACE` does: see [`Filter`].
    pub fn points(mut self, patterns: &str) -> Config {
        self.filter = Some(Filter::new(patterns));
        self
    }

    /// Sets the form of the trace.
    pub fn format(mut self, format: Format) -> Config {
        self.format = format;
        self
    }

    /// Writes the elements too.
    pub fn with_values(mut self) -> Config {
        self.values = true;
        self
    }

    /// Reads the settings from the variables `GRADLOOM_TRACE_DIR`, `GRADLOOM_TRACE`,
    /// `GRADLOOM_TRACE_FORMAT` and `GRADLOOM_TRACE_VALUES`, which `get` returns.
    ///
    /// Returns `None` if the folder is not set or empty. A value that means nothing is reported on
    /// standard error and ignored.
    pub fn from_vars(get: impl Fn(&str) -> Option<String>) -> Option<Config> {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let filter = set("GRADLOOM_TRACE");
        let Some(dir) = set("GRADLOOM_TRACE_DIR") else {
            if filter.is_some() {
                eprintln!(
                    "gradloom: `GRADLOOM_TRACE` is set without `GRADLOOM_TRACE_DIR`, so nothing is traced"
                );
            }
            return None;
        };
        let mut config = Config::new(dir);
        config.filter = filter.map(|patterns| Filter::new(&patterns));
        match set("GRADLOOM_TRACE_FORMAT").as_deref() {
            None | Some("files") => {}
            Some("jsonl") => config.format = Format::Lines,
            Some(other) => eprintln!(
                "gradloom: `GRADLOOM_TRACE_FORMAT={other}` is neither `files` nor `jsonl`; it is ignored"
            ),
        }
        match set("GRADLOOM_TRACE_VALUES").as_deref() {
            None | Some("0") => {}
            Some("1") => config.values = true,
            Some(other) => eprintln!(
                "gradloom: `GRADLOOM_TRACE_VALUES={other}` is neither `1` nor `0`; it is ignored"
            ),
        }
        Some(config)
    }

    /// Returns whether the record of this name is written, if code asks for it.
    pub fn takes(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.takes(name))
    }

    /// Returns whether a trace point in a traced function is written. A cotangent has the name of its value, too.
    pub fn takes_point(&self, names: &[&str]) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.takes_any(names))
    }
}
