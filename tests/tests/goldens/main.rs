//! Values and derivatives compared with reference results. `tests/goldens/README.md` describes
//! the cases, and how to add a function.
//!
//! `cargo test -p gradloom-tests --test goldens -- conv` checks the cases whose name or family contains "conv".

mod ad_semantics;
mod broadcasting;
mod case;
mod check;
mod control_flow;
mod conv_pool;
mod dtype;
mod elementwise_binary;
mod elementwise_unary;
mod function;
mod indexing;
mod matmul;
mod models;
mod more;
mod movement;
mod nn;
mod reduction;
mod xla;

use case::Case;
use check::{FIELDS, Report};
use function::Function;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Functions by family. Another family is one more line.
const FAMILIES: &[(&str, &[Function])] = &[
    ("ad_semantics", ad_semantics::FUNCTIONS),
    ("broadcasting", broadcasting::FUNCTIONS),
    ("control_flow", control_flow::FUNCTIONS),
    ("conv_pool", conv_pool::FUNCTIONS),
    ("dtype", dtype::FUNCTIONS),
    ("elementwise_binary", elementwise_binary::FUNCTIONS),
    ("elementwise_unary", elementwise_unary::FUNCTIONS),
    ("indexing", indexing::FUNCTIONS),
    ("matmul", matmul::FUNCTIONS),
    ("models", models::FUNCTIONS),
    ("movement", movement::FUNCTIONS),
    ("nn", nn::FUNCTIONS),
    ("reduction", reduction::FUNCTIONS),
];

/// Passed and existing fields of a family, and its cases.
#[derive(Default)]
struct Row {
    fields: [(usize, usize); FIELDS.len()],
    cases: (usize, usize),
    traced: usize,
}

fn main() -> ExitCode {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let sets = match std::env::var_os("GRADLOOM_GOLDENS") {
        Some(folder) => vec![("goldens", from_workspace(PathBuf::from(folder)))],
        None => vec![("more goldens", own.join("more")), ("goldens", own)],
    };
    let filter = filter(std::env::args().skip(1));
    // Panics are reported with their case.
    std::panic::set_hook(Box::new(|_| {}));
    let python = gradloom_tests::xla::python("conformance cases in XLA");
    let (mut n_failed, mut n_all) = (0, 0);
    for (name, folder) in sets {
        let selected = selected(&folder, filter.as_deref().unwrap_or_default());
        let (cases, malformed) = match selected {
            Ok(selected) => selected,
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        };
        let (passed, n) = run(&cases, &malformed);
        println!("{name}: {passed} of {n}");
        if let Some(python) = &python {
            n_failed += xla::run(python, &cases);
        }
        n_failed += n - passed;
        n_all += n;
    }
    // A filter of other tests of the crate may fit no case.
    match n_failed == 0 && (n_all > 0 || filter.is_some()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Returns a folder that is relative to the current folder, or else to that of the workspace: cargo runs
/// the tests of a crate in the folder of the crate.
fn from_workspace(folder: PathBuf) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = crate_folder.parent().unwrap_or(crate_folder);
    match folder.exists() {
        true => folder,
        false => workspace.join(folder),
    }
}

/// Returns the first argument that is neither an option of a test program nor its value.
fn filter(mut args: impl Iterator<Item = String>) -> Option<String> {
    const WITH_VALUE: [&str; 6] = [
        "--test-threads",
        "--skip",
        "--format",
        "--color",
        "--logfile",
        "-Z",
    ];
    while let Some(arg) = args.next() {
        if WITH_VALUE.contains(&&*arg) {
            args.next();
        } else if !arg.starts_with('-') {
            return Some(arg);
        }
    }
    None
}

/// Returns the cases of a folder whose name or family contains `filter`, and the names of malformed ones.
fn selected(folder: &Path, filter: &str) -> Result<(Vec<Case>, Vec<String>), String> {
    let (mut cases, mut malformed) = case::read_folder(folder)?;
    cases.retain(|case| case.name.contains(filter) || case.family.contains(filter));
    malformed.retain(|name| name.contains(filter));
    Ok((cases, malformed))
}

/// Runs cases, and prints their table. Returns the numbers of passed and of all cases.
fn run(cases: &[Case], malformed: &[String]) -> (usize, usize) {
    let mut table: BTreeMap<&str, Row> = BTreeMap::new();
    for case in cases {
        let row = table.entry(&case.family).or_default();
        let function = function_of(case);
        let reports = match function {
            Some(function) => check::check(case, function),
            None => {
                println!(
                    "{}/{}: no function computes\n{}",
                    case.family, case.name, case.source
                );
                all_missing(case)
            }
        };
        row.traced += usize::from(function.is_some_and(|f| f.traced.is_some()));
        add(row, &reports);
        if function.is_none() {
            continue;
        }
        for line in reports.iter().flat_map(|report| &report.differences) {
            println!("{}/{}: {line}", case.family, case.name);
        }
    }
    for name in malformed {
        println!("{name}: the file does not describe a case as `tests/goldens/README.md` does");
    }
    let (passed, n) = print(&table);
    (passed, n + malformed.len())
}

/// Returns the function with the name of the case, of its own family if several have the name.
fn function_of(case: &Case) -> Option<&'static Function> {
    let named = |function: &&Function| function.name.trim_start_matches("r#") == case.name;
    let mut families = [FAMILIES, more::FAMILIES].concat();
    families.sort_by_key(|(name, _)| *name != case.family);
    let mut functions = families.into_iter().flat_map(|(_, functions)| functions);
    functions.find(named)
}

/// Returns a failed report for each field of a case.
fn all_missing(case: &Case) -> Vec<Report> {
    let present = [
        true,
        case.vjp.is_some(),
        case.jvp.is_some(),
        case.hvp.is_some(),
        case.lanes.is_some(),
    ];
    let fields = (0..FIELDS.len()).filter(|i| present[*i]);
    let missing = |field| Report {
        field,
        differences: vec![format!("{}: no function", FIELDS[field])],
    };
    fields.map(missing).collect()
}

/// Counts a case. A field passes if all its reports do.
fn add(row: &mut Row, reports: &[Report]) {
    for (field, (passed, n)) in row.fields.iter_mut().enumerate() {
        let mut own = reports
            .iter()
            .filter(|report| report.field == field)
            .peekable();
        if own.peek().is_some() {
            *n += 1;
            *passed += usize::from(own.all(|report| report.differences.is_empty()));
        }
    }
    row.cases.1 += 1;
    row.cases.0 += usize::from(reports.iter().all(|report| report.differences.is_empty()));
}

/// Prints the table, and returns the numbers of passed and of all cases.
fn print(table: &BTreeMap<&str, Row>) -> (usize, usize) {
    let of = |(passed, n): (usize, usize)| match n {
        0 => String::new(),
        n => format!("{passed}/{n}"),
    };
    let line = |name: &str, row: &Row| {
        let fields: String = row
            .fields
            .iter()
            .map(|f| format!("{:>9}", of(*f)))
            .collect();
        println!("{name:20}{fields}{:>9}{:>8}", of(row.cases), row.traced);
    };
    let heads: String = FIELDS.iter().map(|name| format!("{name:>9}")).collect();
    println!("{:20}{heads}{:>9}{:>8}", "family", "cases", "traced");
    let mut total = Row::default();
    for (name, row) in table {
        line(name, row);
        let sum = |a: &mut (usize, usize), b: (usize, usize)| *a = (a.0 + b.0, a.1 + b.1);
        sum(&mut total.cases, row.cases);
        total.traced += row.traced;
        for (field, own) in total.fields.iter_mut().zip(row.fields) {
            sum(field, own);
        }
    }
    line("all", &total);
    total.cases
}
