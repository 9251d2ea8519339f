//! The table of the book: which StableHLO ops the export makes of each op, in each dtype.

use gradloom_ir::{DType, Op, Program};
use gradloom_tests::exported::samples;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Returns the names of the StableHLO ops in a text, without those that every program may have.
fn ops_of(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let words = text.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
    let names = words.filter(|word| word.starts_with("stablehlo.") || word.starts_with("chlo."));
    for name in names {
        let name = name.strip_prefix("stablehlo.").unwrap_or(name).to_owned();
        let hidden = ["return", "constant", "gather<offset_dims"].contains(&name.as_str());
        if !hidden && !found.contains(&name) {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// Returns the sample programs of an op with a dtype.
fn programs(op: Op, dtype: DType) -> Vec<Program> {
    // A kernel of the user has no sample, because it has no name before it exists.
    match op == Op::HostKernel {
        true => {
            let text = "(x: f64[2]) { y = host_kernel[code=`kernel`, lanes=[]] x return y }";
            vec![text.parse().expect("the text is a program")]
        }
        false => samples(op, dtype),
    }
}

/// Returns the row of an op.
fn row(op: Op) -> String {
    // Dtypes with the same StableHLO ops share an entry.
    let mut entries: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    let mut error = None;
    // The others are cast to these before the export.
    for dtype in DType::ALL
        .into_iter()
        .filter(|dtype| dtype.computed() == *dtype)
    {
        let mut ops: BTreeMap<String, ()> = BTreeMap::new();
        let mut is_taken = false;
        for program in programs(op, dtype) {
            if !program.to_string().contains(dtype.name()) {
                continue;
            }
            match gradloom_stablehlo::export(&program, "f") {
                Ok(text) => {
                    is_taken = true;
                    ops.extend(ops_of(&text).into_iter().map(|op| (op, ())));
                }
                Err(e) => error = Some(e.to_string()),
            }
        }
        if !is_taken {
            continue;
        }
        let ops: Vec<String> = ops.into_keys().collect();
        match entries.iter_mut().find(|(of, _)| *of == ops) {
            Some((_, dtypes)) => dtypes.push(dtype.name()),
            None => entries.push((ops, vec![dtype.name()])),
        }
    }
    let mut text = String::new();
    if let Some(error) = error {
        let _ = writeln!(text, "| `{op}` | | error: {error} |");
    }
    for (ops, dtypes) in entries {
        let ops: Vec<String> = ops.iter().map(|op| format!("`{op}`")).collect();
        let ops = match ops.is_empty() {
            true => "the operand or a constant".to_owned(),
            false => ops.join(", "),
        };
        let _ = writeln!(text, "| `{op}` | {} | {ops} |", dtypes.join(", "));
    }
    text
}

fn table() -> String {
    let mut text = "| op | dtypes | StableHLO |\n|---|---|---|\n".to_owned();
    for op in Op::ALL.iter().chain(Op::CONTROL) {
        let row = row(*op);
        match row.is_empty() {
            true => panic!("`{op}` has no sample that exports, and no error"),
            false => text += &row,
        }
    }
    text
}

/// `BLESS=1` writes the table.
#[test]
fn the_book_has_the_table_of_exported_ops() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/stablehlo.md");
    let text = std::fs::read_to_string(&path).expect("the chapter exists");
    let (begin, end) = (
        "<!-- table of exported ops -->\n",
        "<!-- end of the table -->\n",
    );
    let (before, rest) = text
        .split_once(begin)
        .expect("the chapter has a place for the table");
    let (found, after) = rest.split_once(end).expect("the table has an end");
    let expected = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, [before, begin, &expected, end, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, expected, "`BLESS=1` writes the table");
}
