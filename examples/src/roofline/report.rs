//! The cells as text: a summary with the worst ones and a histogram, and a file of all.

use super::cells::{Cell, Measured, Outcome, Size, Table};
use super::formula::Transform;
use super::layout::Layout;
use comfy_table::{CellAlignment, Table as Text, presets::ASCII_MARKDOWN};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Number of cells that the summary names.
const WORST: usize = 40;

/// Returns the cells that are compared with the limits of the machine.
fn limited(cells: &[Cell]) -> impl Iterator<Item = (&Cell, &Measured)> {
    let measured = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.measured()?)));
    measured.filter(|(_, measured)| !measured.is_call())
}

/// Returns the median of numbers, or NaN if there are none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        n => (numbers[(n - 1) / 2] + numbers[n / 2]) / 2.0,
    }
}

/// Returns the summary: the limits, the worst cells, and how many cells reach which fraction.
pub fn summary(table: &Table) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n{}", table.machine, table.limits);
    let _ = writeln!(text, "a call of 16 numbers: {:.0} ns\n", table.call * 1e9);
    let _ = writeln!(text, "{}\n", worst(table));
    let _ = writeln!(text, "{}", histogram(table));
    let _ = writeln!(text, "{}\n", medians(table));
    if let Some(calls) = calls(table) {
        let _ = writeln!(text, "{calls}");
    }
    text.push_str(&missing(table));
    text
}

/// Returns a table of the cells that reach the least of their limits, without the time of a call.
///
/// Of the cells that only differ in layout and size, it has the worst one, and the number of others below a half.
fn worst(table: &Table) -> String {
    let fraction = |measured: &Measured| measured.fraction_without(table.call);
    let mut groups: BTreeMap<_, Vec<(&Cell, &Measured)>> = BTreeMap::new();
    for (cell, measured) in limited(&table.cells) {
        let group = (&cell.name, cell.transform, cell.dtype.name(), cell.axis);
        groups.entry(group).or_default().push((cell, measured));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_by(|a, b| fraction(a.1).total_cmp(&fraction(b.1)));
    }
    groups.sort_by(|a, b| fraction(a[0].1).total_cmp(&fraction(b[0].1)));
    let mut text = Text::new();
    let header = [
        "fraction",
        "bound",
        "op",
        "transform",
        "dtype",
        "axis",
        "layout",
        "size",
        "shapes",
        "us",
        "limit, us",
        "with call",
        "others",
    ];
    text.load_style(ASCII_MARKDOWN).set_header(header);
    for group in groups.iter().take(WORST) {
        let (cell, measured) = group[0];
        let others = group[1..].iter().filter(|(_, other)| fraction(other) < 0.5);
        text.add_row([
            format!("{:.3}", fraction(measured)),
            measured.bound.name().to_owned(),
            cell.name.clone(),
            cell.transform.name().to_owned(),
            cell.dtype.to_string(),
            cell.axis.to_owned(),
            cell.layout_name(),
            cell.size.name().to_owned(),
            cell.shapes.clone(),
            format!("{:.2}", measured.seconds * 1e6),
            format!("{:.2}", measured.least * 1e6),
            format!("{:.3}", measured.fraction()),
            others.count().to_string(),
        ]);
    }
    for i in [0, 9, 10, 11, 12] {
        let column = text.column_mut(i).expect("the header has thirteen columns");
        column.set_cell_alignment(CellAlignment::Right);
    }
    text.to_string()
}

/// Returns how many cells of each size reach which tenth of their limit.
fn histogram(table: &Table) -> String {
    const BINS: usize = 11;
    let mut text = "fraction of the limit, number of cells\n        ".to_owned();
    let sizes: Vec<Size> = Size::ALL
        .into_iter()
        .filter(|size| *size != Size::Few)
        .collect();
    for size in &sizes {
        let _ = write!(text, "{:>8}", size.name());
    }
    text.push_str("     all\n");
    let mut counts = [[0usize; BINS]; 5];
    let [mut fractions, mut without]: [[Vec<f64>; 5]; 2] = Default::default();
    for (cell, measured) in limited(&table.cells) {
        let fraction = measured.fraction();
        let bin = ((fraction * 10.0) as usize).min(BINS - 1);
        let at = sizes.iter().position(|size| *size == cell.size);
        for column in at.into_iter().chain([sizes.len()]) {
            counts[column][bin] += 1;
            fractions[column].push(fraction);
            without[column].push(measured.fraction_without(table.call));
        }
    }
    let all = fractions[sizes.len()].len().max(1);
    for bin in 0..BINS {
        let name = match bin {
            10 => "above 1".to_owned(),
            bin => format!("{:.1}-{:.1}", bin as f64 / 10.0, (bin + 1) as f64 / 10.0),
        };
        let _ = write!(text, "{name:8}");
        counts
            .iter()
            .for_each(|column| _ = write!(text, "{:8}", column[bin]));
        let bar = "#".repeat(counts[sizes.len()][bin] * 40 / all);
        let _ = writeln!(text, "  {bar}");
    }
    let below = |all: &[f64]| all.iter().filter(|x| **x < 0.5).count().to_string();
    let middle = |all: &[f64]| format!("{:.2}", median(all.to_vec()));
    let mut line = |name: &str, columns: &[Vec<f64>; 5], of: &dyn Fn(&[f64]) -> String| {
        let _ = write!(text, "{name:8}");
        columns
            .iter()
            .for_each(|column| _ = write!(text, "{:>8}", of(column)));
        text.push('\n');
    };
    line("median", &fractions, &middle);
    line("< 0.5", &fractions, &below);
    line("without the time of a call", &Default::default(), &|_| {
        String::new()
    });
    line("median", &without, &middle);
    line("< 0.5", &without, &below);
    text
}

/// Returns the medians of the cells of each layout and transform, without the time of a call.
fn medians(table: &Table) -> String {
    let mut text = "median without the time of a call:".to_owned();
    let mut line = |name: &str, fits: &dyn Fn(&Cell) -> bool| {
        let cells = limited(&table.cells).filter(|(cell, _)| fits(cell));
        let all: Vec<f64> = cells.map(|(_, m)| m.fraction_without(table.call)).collect();
        let _ = write!(
            text,
            " {name} {:.2} of {} cells;",
            median(all.clone()),
            all.len()
        );
    };
    for layout in Layout::ALL {
        line(layout.name(), &|cell| cell.layout == layout);
    }
    for transform in Transform::ALL {
        line(transform.name(), &|cell| cell.transform == transform);
    }
    text
}

/// Returns the times of cells that are calls, without those of their functions, relative to the cheapest one.
fn calls(table: &Table) -> Option<String> {
    let measured = table
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.measured()?)));
    let calls = measured.filter(|(_, measured)| measured.is_call());
    let calls: Vec<(&Cell, &Measured)> = calls.collect();
    let by_time =
        |a: &&(&Cell, &Measured), b: &&(&Cell, &Measured)| a.1.seconds.total_cmp(&b.1.seconds);
    let &(cheapest, Measured { seconds: least, .. }) = calls.iter().min_by(by_time)?;
    let ratio = |measured: &Measured| ((measured.seconds - measured.least) / least).max(1.0);
    let mut calls: Vec<(&Cell, f64)> = calls.iter().map(|(cell, m)| (*cell, ratio(m))).collect();
    calls.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ratios: Vec<f64> = calls.iter().map(|(_, ratio)| *ratio).collect();
    let within = ratios.iter().filter(|ratio| **ratio <= 2.0).count();
    let mut text = format!(
        "calls that move less than 4 KiB: {} cells, the cheapest is {} with {:.0} ns; median ratio {:.2}, {within} \
         within 2; the worst:\n",
        calls.len(),
        cheapest.name,
        least * 1e9,
        median(ratios)
    );
    let mut seen = BTreeSet::new();
    let distinct = calls
        .iter()
        .filter(|(cell, _)| seen.insert((&cell.name, cell.transform)));
    for (cell, ratio) in distinct.take(20) {
        let _ = writeln!(
            text,
            "  {ratio:.1}  {} {} {} {} {} {}",
            cell.name,
            cell.transform.name(),
            cell.dtype,
            cell.axis,
            cell.layout_name(),
            cell.shapes
        );
    }
    Some(text)
}

/// Returns which cells were not measured, and why.
fn missing(table: &Table) -> String {
    let mut text = String::new();
    let mut slow = 0;
    let mut failed = Vec::new();
    for cell in &table.cells {
        match &cell.outcome {
            Outcome::Measured(_) => {}
            Outcome::TooSlow(_) => slow += 1,
            Outcome::Failed(reason) => failed.push(format!(
                "  {} {} {} {} {}: {reason}",
                cell.name,
                cell.transform.name(),
                cell.dtype,
                cell.axis,
                cell.size.name()
            )),
        }
    }
    let _ = writeln!(
        text,
        "{} cells; {slow} too slow to be measured, {} failed",
        table.cells.len(),
        failed.len()
    );
    for line in failed.iter().take(WORST) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns all cells, one in a line, with tabs between the columns. Lines that start with `#` are the limits.
pub fn tab_separated(table: &Table) -> String {
    let mut text = format!(
        "# {}\n# {}\n# call {:.1} ns\n",
        table.machine,
        table.limits,
        table.call * 1e9
    );
    text.push_str(
        "op\ttransform\tdtype\taxis\tlayout\toperand\tsize\tshapes\tread\twritten\toperations\t\
         seconds\tlimit\tbound\tfraction\tfraction_without_call\tnote\n",
    );
    for cell in &table.cells {
        let _ = write!(
            text,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            cell.name,
            cell.transform.name(),
            cell.dtype,
            cell.axis,
            cell.layout.name(),
            cell.operand,
            cell.size.name(),
            cell.shapes
        );
        let _ = match &cell.outcome {
            Outcome::Measured(m) => writeln!(
                text,
                "\t{}\t{}\t{}\t{:.4e}\t{:.4e}\t{}\t{:.4}\t{:.4}\t",
                m.bytes[0],
                m.bytes[1],
                m.operations,
                m.seconds,
                m.least,
                m.bound.name(),
                m.fraction(),
                m.fraction_without(table.call)
            ),
            Outcome::TooSlow(seconds) => {
                writeln!(text, "{}too slow: about {seconds:.1} s", "\t".repeat(9))
            }
            Outcome::Failed(reason) => {
                let line = reason.replace(['\n', '\t'], " ");
                writeln!(text, "{}{line}", "\t".repeat(9))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::limits::{Bandwidth, Limits, Machine, Place};
    use crate::roofline::work::Bound;
    use gradloom::DType;
    use gradloom_maths::Level;

    fn cell(name: &str, size: Size, outcome: Outcome) -> Cell {
        Cell {
            name: name.to_owned(),
            transform: Transform::Forward,
            dtype: DType::F32,
            axis: "last",
            layout: Layout::Contiguous,
            operand: 0,
            size,
            shapes: "4x4".to_owned(),
            outcome,
        }
    }

    fn measured(seconds: f64, bytes: f64) -> Outcome {
        Outcome::Measured(Measured {
            seconds,
            least: 1e-6,
            bound: Bound::Bytes(Place::L2),
            bytes: [bytes, 64.0],
            operations: 16.0,
        })
    }

    fn table() -> Table {
        let bandwidth = Bandwidth {
            read: 1e9,
            write: 1e9,
            copy: 1e9,
        };
        Table {
            machine: Machine {
                cpu: "a CPU".to_owned(),
                cpus: 2,
                threads_per_core: Some(1),
                level: Level::Avx2,
                caches: [32 << 10, 1 << 20, 16 << 20],
                load: Some(0.5),
            },
            limits: Limits {
                threads: 1,
                bandwidths: [bandwidth; 4],
                peak_f32: 1e9,
                peak_f64: 1e9,
            },
            call: 1e-7,
            cells: vec![
                cell("good", Size::In(Place::L2), measured(1.25e-6, 1e5)),
                cell("bad", Size::In(Place::L2), measured(1e-5, 1e5)),
                cell("tiny", Size::Few, measured(2e-6, 64.0)),
                cell("slow", Size::In(Place::L3), Outcome::TooSlow(3.0)),
                cell(
                    "broken",
                    Size::In(Place::L3),
                    Outcome::Failed("no\nway".to_owned()),
                ),
            ],
        }
    }

    #[test]
    fn the_summary_has_the_worst_cells_first() {
        let text = summary(&table());
        let [bad, good] = ["| bad", "| good"].map(|name| text.find(name).expect(name));
        assert!(bad < good, "{text}");
        assert!(!text.contains("| tiny"), "{text}");
        assert!(
            text.contains("1 too slow to be measured, 1 failed"),
            "{text}"
        );
    }

    #[test]
    fn each_line_of_the_file_has_all_columns() {
        let text = tab_separated(&table());
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        assert!(
            lines.clone().all(|line| line.split('\t').count() == 17),
            "{text}"
        );
        assert_eq!(lines.count(), 6);
    }
}
