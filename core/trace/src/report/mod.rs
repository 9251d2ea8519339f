//! Reports of a comparison: text, Markdown, JSON and HTML.

mod html;

use crate::{Diff, Item, Status};
use std::fmt::Write;

pub use html::html;

/// Number of digits of a hash in a report.
const DIGITS: usize = 12;

/// Returns one line for each record that differs, after the first divergence.
pub fn text(diff: &Diff) -> String {
    let mut text = format!(
        "a: {}\nb: {}\n{}\n",
        diff.a.display(),
        diff.b.display(),
        counts(diff)
    );
    let Some(first) = diff.first() else {
        return text + "no difference\n";
    };
    let _ = write!(text, "\nfirst divergence: {}\n", title(first));
    for line in details(first) {
        let _ = writeln!(text, "  {line}");
    }
    let rest: Vec<&Item> = changed(diff).skip(1).collect();
    if !rest.is_empty() {
        text.push_str("\nlater differences:\n");
    }
    for item in rest {
        let _ = writeln!(text, "  {}: {}", title(item), details(item).join("; "));
    }
    text
}

/// Returns a Markdown document with a table of all records that differ.
pub fn markdown(diff: &Diff) -> String {
    let (a, b) = (diff.a.display().to_string(), diff.b.display().to_string());
    let mut text = format!(
        "# Comparison of two traces\n\n- a: {}\n- b: {}\n- {}\n",
        code(&a),
        code(&b),
        counts(diff)
    );
    let Some(first) = diff.first() else {
        return text + "\nNo difference.\n";
    };
    let _ = write!(text, "\n## First divergence\n\n{}\n\n", cell(&title(first)));
    for line in details(first) {
        let _ = writeln!(text, "- {}", cell(&line));
    }
    text.push_str(
        "\n## All differences\n\n| record | layer | source | difference |\n|---|---|---|---|\n",
    );
    for item in changed(diff) {
        let layer = item
            .layer
            .map_or_else(String::new, |layer| layer.to_string());
        let source = item.source.clone().unwrap_or_default();
        let cells = [name(item), layer, source, details(item).join("; ")];
        let cells = cells.map(|text| cell(&text));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Returns a JSON object: the fields of [`Diff`], with `equal` and `first_divergence`.
pub fn json(diff: &Diff) -> String {
    let report = serde_json::json!({
        "equal": diff.is_equal(),
        "records": diff.items.len(),
        "first_divergence": diff.first(),
        "a": diff.a,
        "b": diff.b,
        "tolerance": diff.tolerance,
        "items": diff.items,
    });
    format!("{report:#}\n")
}

fn changed(diff: &Diff) -> impl Iterator<Item = &Item> {
    diff.items
        .iter()
        .filter(|item| item.status != Status::Equal)
}

/// Returns the numbers of records as words.
fn counts(diff: &Diff) -> String {
    let count = |status| diff.count(status);
    format!(
        "{} records: {} equal, {} different, {} missing in b, {} extra in b",
        diff.items.len(),
        count(Status::Equal),
        count(Status::Different),
        count(Status::Missing),
        count(Status::Extra)
    )
}

/// Returns the name of a record, with its number among those of the name if it is not the first.
fn name(item: &Item) -> String {
    match item.occurrence {
        1 => item.name.clone(),
        n => format!("{} (number {n})", item.name),
    }
}

/// Returns the name with layer, step and place in the source.
fn title(item: &Item) -> String {
    let mut title = name(item);
    let mut facts = Vec::new();
    facts.extend(item.layer.map(|layer| format!("layer {layer}")));
    facts.extend(item.sequence.map(|step| format!("step {step}")));
    facts.extend(item.stage.as_ref().map(|stage| format!("stage {stage}")));
    if !facts.is_empty() {
        let _ = write!(title, " ({})", facts.join(", "));
    }
    if let Some(source) = &item.source {
        let _ = write!(title, " at {source}");
    }
    title
}

/// Returns the facts that differ, as short texts.
fn details(item: &Item) -> Vec<String> {
    let mut lines = Vec::new();
    match item.status {
        Status::Missing => lines.push("only in a".to_owned()),
        Status::Extra => lines.push("only in b".to_owned()),
        Status::Equal | Status::Different => {}
    }
    for difference in &item.differences {
        let field = difference.field;
        let short = |text: &str| match field {
            "blake3" => text.chars().take(DIGITS).collect(),
            _ => text.to_owned(),
        };
        let (a, b) = (short(&difference.a), short(&difference.b));
        let mut line = format!("{field} {a} -> {b}");
        match (field, item.rms_difference) {
            ("rms", Some(relative)) => {
                let _ = write!(line, " (relative difference {relative:.3e})");
            }
            ("rms", None) => line.push_str(" (rms is not finite, so no tolerance applies)"),
            _ => {}
        }
        lines.push(line);
    }
    if let Some(values) = &item.values {
        lines.push(match values.cosine_similarity.is_nan() {
            true => "cosine similarity undefined, because an element is not finite".to_owned(),
            false => format!("cosine similarity {:.9}", values.cosine_similarity),
        });
        lines.push(format!(
            "greatest difference {:.6e} at {:?}, mean difference {:.6e}",
            values.max_difference, values.max_index, values.mean_difference
        ));
    }
    lines
}

/// Returns a number with all digits that it needs. A large or small one has an exponent.
pub(crate) fn number(x: f64) -> String {
    match x == 0.0 || !x.is_finite() || (1e-5..1e16).contains(&x.abs()) {
        true => x.to_string(),
        false => format!("{x:e}"),
    }
}

/// Returns a text as a cell of a Markdown table.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' => cell.extend(['\\', c]),
            c if c.is_control() => cell.push(' '),
            c => cell.push(c),
        }
    }
    cell
}

/// Returns a text as Markdown code.
fn code(text: &str) -> String {
    match text.contains('`') {
        true => cell(text),
        false => format!("`{text}`"),
    }
}
