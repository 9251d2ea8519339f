//! A human-readable table of results.

use super::Row;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// Formats a table with one line for each row.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    let header = ["row", "unit", "median", "best", "CPU", "calls", "check"];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let optional = |x: Option<f64>, f: fn(f64) -> String| x.map(f).unwrap_or_default();
    for row in rows {
        table.add_row([
            row.workload.clone(),
            row.unit.clone(),
            three_digits(row.value),
            three_digits(row.best),
            optional(row.cpu, three_digits),
            row.n.to_string(),
            optional(row.check, |c| format!("{c:.6e}")),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Formats a number with three significant digits.
fn three_digits(x: f64) -> String {
    let before_point = x.abs().log10().floor().clamp(0.0, 2.0) as usize;
    format!("{x:.*}", 2 - before_point)
}
