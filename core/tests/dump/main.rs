//! Tracing to disk: records, trace points, and what tracing must not change.
#![cfg(feature = "trace")]

mod environment;
mod points;
mod records;
mod transformer;
mod transforms;

use gradloom::dump::{TraceRecord, read};
use std::path::Path;

/// Returns the records of a folder, in the order of execution.
fn records_of(folder: &Path) -> Vec<TraceRecord> {
    let trace = read(folder).unwrap();
    trace
        .entries
        .into_iter()
        .map(|entry| entry.record)
        .collect()
}

fn names_of(folder: &Path) -> Vec<String> {
    let records = records_of(folder).into_iter();
    records.map(|record| record.name).collect()
}
