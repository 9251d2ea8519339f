use crate::{DataError, event_file};
use serde_json::{Map, Value};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the file of lines.
const LINES: &str = "metrics.jsonl";

/// Start of the names of event files, before a number that orders them.
const EVENTS: &str = "events.out.tfevents.";

/// Metrics of a run by names and steps, as lines of JSON and as an event file of TensorBoard.
///
/// ```
/// use gradloom_data::Metrics;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("run");
/// let mut metrics = Metrics::create(&folder)?;
/// for step in 1..=3u64 {
///     let loss = 1.0f32 / step as f32;
///     metrics.log(step, [("train/loss", loss), ("rate", 1e-3)])?;
/// }
/// metrics.log(3, [("test/loss", 0.5)])?;
///
/// let text = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
/// assert_eq!(text.lines().count(), 4);
/// assert!(text.lines().last().unwrap().ends_with(r#""metrics":{"test/loss":0.5}}"#));
/// # Ok::<(), gradloom_data::DataError>(())
/// ```
///
/// The folder has two files:
///
/// - `metrics.jsonl` has a line `{"step":3,"time":1764328277.5,"metrics":{"test/loss":0.5}}` for each call of
///   [`log`](Self::log). The time is in seconds since 1970. JSON has no other numbers than finite ones, so the others are
///   the texts `"NaN"`, `"Infinity"` and `"-Infinity"`.
/// - `events.out.tfevents.*` is read by `tensorboard --logdir FOLDER`, which groups names by the part before a slash. Its
///   values are `f32`, and NaN and infinities are among them. A greater number than those of `f32` becomes infinite.
///
/// Each call hands its record to the system before it returns. So a process that is killed loses none of them, and at
/// most its last record is in one file only. Only one process at a time may write to the folder.
#[derive(Debug)]
pub struct Metrics {
    lines: RecordFile,
    events: RecordFile,
}

impl Metrics {
    /// Begins a run. The folder is made if it is missing.
    ///
    /// # Errors
    ///
    /// [`RunExists`](DataError::RunExists) if the folder has metrics, and [`Write`](DataError::Write) if a file cannot be
    /// written.
    pub fn create(folder: impl AsRef<Path>) -> Result<Metrics, DataError> {
        let folder = folder.as_ref();
        if folder.join(LINES).exists() || last_event_number(folder)?.is_some() {
            return Err(DataError::RunExists {
                folder: folder.to_owned(),
            });
        }
        Metrics::open(folder, None)
    }

    /// Continues a run after a step, such as that of the checkpoint from which the training goes on.
    ///
    /// Metrics of later steps are dropped, because the run writes them again. Their lines are removed. Event files are never
    /// changed: a new one begins with a mark, for which TensorBoard drops them. A line that a crash has cut at the end of
    /// the file is removed as well. Without metrics in the folder, a run begins.
    ///
    /// ```
    /// use gradloom_data::Metrics;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let folder = folder.path();
    /// let mut metrics = Metrics::create(folder)?;
    /// for step in 1..=5 {
    ///     metrics.log(step, [("loss", 1.0)])?;
    /// }
    /// let mut metrics = Metrics::resume(folder, 3)?;
    /// metrics.log(4, [("loss", 2.0)])?;
    /// let text = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    /// assert_eq!(text.lines().count(), 4);
    /// # Ok::<(), gradloom_data::DataError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or [`Format`](DataError::Format) if a line is not one of metrics. Then the
    /// files are as before.
    pub fn resume(folder: impl AsRef<Path>, step: u64) -> Result<Metrics, DataError> {
        let folder = folder.as_ref();
        keep_lines(folder, step)?;
        Metrics::open(folder, Some(step))
    }

    /// Opens the file of lines, and a new event file.
    fn open(folder: &Path, resumed_after: Option<u64>) -> Result<Metrics, DataError> {
        fs::create_dir_all(folder).map_err(write_error(folder))?;
        let time = now();
        // Readers take the files in the order of their names.
        let number = last_event_number(folder)?.map_or(0, |last| last + 1);
        let number = number.max(time as u64);
        let name = format!("{EVENTS}{number:010}.gradloom");
        let mut metrics = Metrics {
            lines: RecordFile::open(folder.join(LINES))?,
            events: RecordFile::open(folder.join(name))?,
        };
        metrics.events.append(&event_file::version_record(time))?;
        if let Some(step) = resumed_after {
            let first = step.saturating_add(1);
            metrics
                .events
                .append(&event_file::restart_record(time, first))?;
        }
        Ok(metrics)
    }

    /// Writes the values of metrics at a step.
    ///
    /// Steps may repeat, for metrics that are computed at different times.
    ///
    /// # Errors
    ///
    /// [`MetricTwice`](DataError::MetricTwice) if two of them have the same name, and [`Write`](DataError::Write) if a file
    /// cannot be written. A part of a record does not stay in a file.
    pub fn log<N: Into<String>, X: Into<f64>>(
        &mut self,
        step: u64,
        metrics: impl IntoIterator<Item = (N, X)>,
    ) -> Result<(), DataError> {
        let metrics: Vec<(String, f64)> = metrics
            .into_iter()
            .map(|(name, x)| (name.into(), x.into()))
            .collect();
        let mut values = Map::new();
        for (name, x) in &metrics {
            if values.insert(name.clone(), json(*x)).is_some() {
                return Err(DataError::MetricTwice {
                    step,
                    name: name.clone(),
                });
            }
        }
        let time = now();
        let line = format!(
            "{{\"step\":{step},\"time\":{time:.3},\"metrics\":{}}}\n",
            Value::Object(values)
        );
        self.lines.append(line.as_bytes())?;
        self.events
            .append(&event_file::metrics_record(time, step, &metrics))
    }
}

/// Returns a number in JSON, or its name if it is not finite.
fn json(x: f64) -> Value {
    let name = match x {
        _ if x.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return x.into(),
    };
    name.into()
}

/// Returns the seconds since 1970.
fn now() -> f64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Returns the greatest number in the names of the event files of a folder.
fn last_event_number(folder: &Path) -> Result<Option<u64>, DataError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(read_error(folder))?,
    };
    let mut last = None;
    for entry in entries {
        let name = entry.map_err(read_error(folder))?.file_name();
        let name = name.to_string_lossy();
        let Some(rest) = name.strip_prefix(EVENTS) else {
            continue;
        };
        let number = rest.split('.').next().and_then(|text| text.parse().ok());
        last = last.max(Some(number.unwrap_or(0)));
    }
    Ok(last)
}

/// Removes the lines of steps after this one, and a line without an end.
fn keep_lines(folder: &Path, step: u64) -> Result<(), DataError> {
    let path = folder.join(LINES);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(read_error(&path))?,
    };
    let mut kept = Vec::new();
    for (i, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let found = serde_json::from_slice::<Value>(line).ok();
        let found = found.and_then(|line| line.get("step")?.as_u64());
        let found = found.ok_or_else(|| DataError::Format {
            file: path.display().to_string(),
            format: "metrics",
            reason: format!("line {} is not an object with a step", i + 1),
        })?;
        if found <= step {
            kept.extend(line);
        }
    }
    let replace = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&kept)?;
        file.as_file().sync_all()?;
        // A temporary file is private, and one of metrics is not.
        file.as_file()
            .set_permissions(fs::metadata(&path)?.permissions())?;
        file.persist(&path)?;
        Ok(())
    };
    replace().map_err(write_error(&path))
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> DataError {
    move |source| DataError::Read {
        path: path.to_owned(),
        source,
    }
}

fn write_error(path: &Path) -> impl Fn(io::Error) -> DataError {
    move |source| DataError::Write {
        path: path.to_owned(),
        source,
    }
}

/// A file to which whole records are appended.
#[derive(Debug)]
struct RecordFile {
    file: File,
    path: PathBuf,
    /// Length of the whole records.
    len: u64,
}

impl RecordFile {
    fn open(path: PathBuf) -> Result<RecordFile, DataError> {
        let open = || {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(write_error(&path))?;
        Ok(RecordFile { file, path, len })
    }

    /// Appends a record. It is in the file when this returns, because nothing is buffered here.
    fn append(&mut self, record: &[u8]) -> Result<(), DataError> {
        match self.file.write_all(record) {
            Ok(()) => {
                self.len += record.len() as u64;
                Ok(())
            }
            Err(source) => {
                // The record after a part of one could not be read. If this fails as well, its error is the lesser one.
                let _ = self.file.set_len(self.len);
                Err(write_error(&self.path)(source))
            }
        }
    }
}
