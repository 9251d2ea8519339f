//! The cells as a picture: a row for each op, a column for each transform, layout and size.

use super::cells::{Cell, Size, Table};
use super::formula::Transform;
use super::layout::Layout;
use crate::chart;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Column of the picture.
type Column = (Layout, Transform, Size);

/// Draws the least fraction of the limit of each op in each column: its dtypes, axes and operands are one square.
///
/// # Errors
///
/// If the file cannot be written.
pub fn heat_map(path: &Path, table: &Table) -> Result<(), Box<dyn Error>> {
    let column = |cell: &Cell| (cell.layout, cell.transform, cell.size);
    let mut least: BTreeMap<(&str, Column), f64> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    for cell in table.cells.iter().filter(|cell| cell.size != Size::Few) {
        let Some(measured) = cell.measured().filter(|measured| !measured.is_call()) else {
            continue;
        };
        if names.last() != Some(&cell.name.as_str()) {
            names.push(&cell.name);
        }
        columns.push(column(cell));
        let fraction = least
            .entry((&cell.name, column(cell)))
            .or_insert(f64::INFINITY);
        *fraction = fraction.min(measured.fraction_without(table.call));
    }
    columns.sort_unstable();
    columns.dedup();
    let title = |(layout, transform, size): &Column| {
        format!("{} {} {}", layout.name(), transform.name(), size.name())
    };
    let rows: Vec<(&str, Vec<Option<f64>>)> = names
        .into_iter()
        .map(|name| {
            (
                name,
                columns
                    .iter()
                    .map(|c| least.get(&(name, *c)).copied())
                    .collect(),
            )
        })
        .collect();
    let columns: Vec<String> = columns.iter().map(title).collect();
    chart::heat_map(
        path,
        "least fraction of the limit, without the time of a call",
        &columns,
        &rows,
    )
}
