//! The table of the book: which ONNX ops the export makes of each op, in each dtype.

use gradloom_ir::{DType, Op, Program};
use gradloom_onnx::export;
use gradloom_tests::exported::samples;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Returns the fields of a message with their contents, as `onnx.proto3` numbers them.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let mut n = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a varint ends");
            *bytes = rest;
            n |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        n
    };
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let len = match key & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            5 => 4,
            _ => varint(&mut bytes) as usize,
        };
        let (content, rest) = bytes.split_at(len);
        all.push((key >> 3, content));
        bytes = rest;
    }
    all
}

/// Returns the contents of the fields of a message with this number.
fn contents(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let of_number = move |field: &(u64, &[u8])| field.0 == number;
    fields(message).into_iter().filter(of_number).map(|f| f.1)
}

/// Adds the ONNX ops of a graph and of the graphs in its nodes, without the copies of the results.
fn add_ops(graph: &[u8], ops: &mut BTreeSet<String>) {
    for node in contents(graph, 1) {
        let names = contents(node, 4);
        let names = names.map(|name| String::from_utf8(name.to_vec()).expect("a name"));
        ops.extend(names.filter(|name| name != "Identity"));
        let graphs = contents(node, 5).flat_map(|attribute| contents(attribute, 6));
        graphs.for_each(|graph| add_ops(graph, ops));
    }
}

/// Returns the ONNX ops of a model.
fn ops_of(model: &[u8]) -> BTreeSet<String> {
    let mut ops = BTreeSet::new();
    contents(model, 7).for_each(|graph| add_ops(graph, &mut ops));
    ops
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

/// Returns whether no result has elements: such a program is a constant.
fn has_no_elements(program: &Program) -> bool {
    let is_empty = |out| {
        let shape = program.aval(out).shape.known();
        shape.is_some_and(|shape| shape.contains(&0))
    };
    program.outs.iter().all(|out| is_empty(*out))
}

/// Returns the rows of an op: dtypes with the same ONNX ops share one.
fn rows(op: Op) -> String {
    let mut entries: Vec<(BTreeSet<String>, Vec<&str>)> = Vec::new();
    let mut errors: Vec<(String, Vec<&str>)> = Vec::new();
    // The others are cast to these before the export.
    for dtype in DType::ALL
        .into_iter()
        .filter(|dtype| dtype.computed() == *dtype)
    {
        let mut ops: Option<BTreeSet<String>> = None;
        for program in programs(op, dtype) {
            let of_dtype = program.to_string().contains(dtype.name());
            if !of_dtype || has_no_elements(&program) {
                continue;
            }
            match export(&program, "f", &[]) {
                Ok(model) => ops.get_or_insert_default().extend(ops_of(&model)),
                Err(error) => {
                    let error = error.to_string();
                    match errors.iter_mut().find(|(other, _)| *other == error) {
                        Some((_, dtypes)) if dtypes.contains(&dtype.name()) => {}
                        Some((_, dtypes)) => dtypes.push(dtype.name()),
                        None => errors.push((error, vec![dtype.name()])),
                    }
                }
            }
        }
        let Some(ops) = ops else {
            continue;
        };
        match entries.iter_mut().find(|(other, _)| *other == ops) {
            Some((_, dtypes)) => dtypes.push(dtype.name()),
            None => entries.push((ops, vec![dtype.name()])),
        }
    }
    let mut text = String::new();
    for (ops, dtypes) in entries {
        let ops: Vec<String> = ops.iter().map(|op| format!("`{op}`")).collect();
        let ops = match ops.is_empty() {
            true => "the operand or a constant".to_owned(),
            false => ops.join(", "),
        };
        let _ = writeln!(text, "| `{op}` | {} | {ops} |", dtypes.join(", "));
    }
    for (error, dtypes) in errors {
        let _ = writeln!(text, "| `{op}` | {} | error: {error} |", dtypes.join(", "));
    }
    text
}

fn table() -> String {
    let mut text = "| op | dtypes | ONNX |\n|---|---|---|\n".to_owned();
    for op in Op::ALL.iter().chain(Op::CONTROL) {
        let rows = rows(*op);
        assert!(
            !rows.is_empty(),
            "`{op}` has no sample that exports, and no error"
        );
        text += &rows;
    }
    text
}

/// `BLESS=1` writes the table.
#[test]
fn the_book_has_the_table_of_exported_ops() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/onnx.md");
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
