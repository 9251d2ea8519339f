//! The tests of the ONNX standard: models of one node and small networks, with inputs and outputs.
//!
//! A few of them are in `tests/onnx_nodes`. `GRADLOOM_ONNX_NODES=folder cargo test --workspace --test onnx_nodes --
//! --nocapture` runs all that are in a folder, and prints a table by op.

use gradloom::prelude::*;
use gradloom_onnx::{ImportError, Model, read_tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, panic};

/// Tolerances of the runner of the standard, `onnx.backend.test.runner`.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// Tests whose expected outputs have rounding errors above the tolerance: 1.9e-7 in the place of 0 for `dft`, and one or two
/// roundings of 16 bits for the others. They count as failed.
const INEXACT: [&str; 14] = [
    "test_attention_3d_causal_bf16",
    "test_attention_3d_causal_bf16_expanded",
    "test_attention_4d_attn_mask_causal_bf16",
    "test_attention_4d_attn_mask_causal_bf16_expanded",
    "test_attention_4d_causal_bf16",
    "test_attention_4d_causal_bf16_expanded",
    "test_attention_4d_causal_fp16_expanded",
    "test_attention_4d_causal_padded_kv_bf16",
    "test_attention_4d_causal_padded_kv_bf16_expanded",
    "test_attention_4d_padded_kv_bf16",
    "test_attention_4d_padded_kv_bf16_expanded",
    "test_dft_inverse",
    "test_dft_inverse_opset19",
    "test_linear_attention_fp16",
];

enum Outcome {
    Passed,
    Failed(String),
    Unsupported(String),
}

/// Returns the folders below a folder that have a model.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("model.onnx").exists() {
            found.push(folder);
            continue;
        }
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        open.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_dir()),
        );
    }
    found.sort();
    found
}

/// Reads the tensors `input_0.pb`, `input_1.pb`, .. of a folder.
fn tensors(folder: &Path, kind: &str) -> Result<Vec<(String, Tensor)>, ImportError> {
    let paths = (0..)
        .map(|i| folder.join(format!("{kind}_{i}.pb")))
        .take_while(|path| path.exists());
    paths
        .map(|path| read_tensor(&fs::read(path).unwrap()))
        .collect()
}

fn compare(found: &Tensor, expected: &Tensor) -> Result<(), String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Err(format!(
            "found {}, expected {}",
            found.aval(),
            expected.aval()
        ));
    }
    if found.dtype() == DType::I64 {
        let equal =
            found.try_to_vec::<i64>().map_err(|e| e.to_string())? == expected.to_vec::<i64>();
        return if equal {
            Ok(())
        } else {
            Err(format!("found {found}, expected {expected}"))
        };
    }
    let elements = |x: &Tensor| {
        x.cast(DType::F64)
            .try_to_vec::<f64>()
            .map_err(|e| e.to_string())
    };
    for (x, y) in elements(found)?.into_iter().zip(elements(expected)?) {
        let is_near =
            x == y || (x - y).abs() <= ABSOLUTE + RELATIVE * y.abs() || x.is_nan() && y.is_nan();
        if !is_near {
            return Err(format!("found {x}, expected {y}"));
        }
    }
    Ok(())
}

fn run(folder: &Path) -> Result<(), ImportError> {
    let fault = |reason: String| ImportError::Value {
        name: "result".to_owned(),
        reason,
    };
    let model = Model::load(folder.join("model.onnx"))?;
    for set in (0..)
        .map(|i| folder.join(format!("test_data_set_{i}")))
        .take_while(|set| set.exists())
    {
        let inputs = tensors(&set, "input")?;
        let by_place = model.inputs().iter().zip(&inputs);
        let by_place: Vec<(&str, &Tensor)> =
            by_place.map(|(port, (_, x))| (&*port.name, x)).collect();
        let found = model.run(&by_place)?;
        let expected = tensors(&set, "output")?;
        if found.len() != expected.len() {
            return Err(fault(format!(
                "found {} outputs, expected {}",
                found.len(),
                expected.len()
            )));
        }
        for (found, (_, expected)) in found.iter().zip(&expected) {
            compare(found, expected).map_err(fault)?;
        }
    }
    Ok(())
}

fn outcome(folder: &Path) -> Outcome {
    match panic::catch_unwind(|| run(folder)) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => {
            let text = error.to_string();
            let is_type = text.contains("has the dtype") && text.contains("expected `float`")
                || text.contains("is not a tensor");
            match error {
                ImportError::Unsupported { .. } => Outcome::Unsupported(text),
                _ if is_type => Outcome::Unsupported(text),
                _ => Outcome::Failed(text),
            }
        }
        Err(_) => Outcome::Failed("panic".to_owned()),
    }
}

/// Returns the op that a test is for, by its name, and whether the model is the definition of the op by other ops.
fn op_of(folder: &Path) -> (String, bool) {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let name = name.strip_prefix("test_").unwrap_or(&name).to_owned();
    let is_expanded = name.contains("_expanded");
    (name.split('_').next().unwrap_or("").to_owned(), is_expanded)
}

/// Numbers of tests: passed, failed, not supported.
type Counts = [usize; 3];

#[test]
fn models_of_the_standard_give_their_outputs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx_nodes");
    let cases = cases(&folder);
    assert!(
        cases.len() >= 20,
        "{} tests in {}",
        cases.len(),
        folder.display()
    );
    for case in cases {
        match outcome(&case) {
            Outcome::Passed => {}
            Outcome::Failed(reason) | Outcome::Unsupported(reason) => {
                panic!("{}: {reason}", case.display())
            }
        }
    }
}

#[test]
fn the_suite_of_the_standard() {
    let Ok(folder) = std::env::var("GRADLOOM_ONNX_NODES") else {
        println!(
            "the suite of ONNX is skipped: `GRADLOOM_ONNX_NODES=folder cargo test --workspace --test onnx_nodes -- \
             --nocapture` runs it; the chapter of the book says how to make the folder"
        );
        return;
    };
    let mut by_op: BTreeMap<(String, bool), Counts> = BTreeMap::new();
    let mut by_kind: BTreeMap<String, Counts> = BTreeMap::new();
    let (mut all, mut own): (Counts, Counts) = ([0; 3], [0; 3]);
    let mut reasons = BTreeSet::new();
    let mut wrong = BTreeSet::new();
    let foreign = [
        "`string`",
        "`float16`",
        "`bfloat16`",
        "`complex",
        "type number",
        "is not a tensor",
    ];
    for case in cases(Path::new(&folder)) {
        let (kind, text) = match outcome(&case) {
            Outcome::Passed => (0, String::new()),
            Outcome::Failed(text) => (1, text),
            Outcome::Unsupported(text) => (2, text),
        };
        if kind > 0 {
            let name = case.file_name().unwrap().to_string_lossy().into_owned();
            reasons.insert(format!(
                "{}{name}: {text}",
                if kind == 1 { "FAILED " } else { "" }
            ));
        }
        if kind == 1 {
            wrong.insert(case.file_name().unwrap().to_string_lossy().into_owned());
        }
        let group = case
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        by_op.entry(op_of(&case)).or_default()[kind] += 1;
        by_kind.entry(group).or_default()[kind] += 1;
        all[kind] += 1;
        if !(kind == 2 && foreign.iter().any(|word| text.contains(word))) {
            own[kind] += 1;
        }
    }
    println!("{}", reasons.into_iter().collect::<Vec<_>>().join("\n"));
    for ((op, is_expanded), [passed, failed, unsupported]) in by_op {
        let op = if is_expanded {
            format!("{op} (expanded)")
        } else {
            op
        };
        println!("{op}: {passed} passed, {failed} failed, {unsupported} not supported");
    }
    for (kind, counts) in by_kind {
        println!(
            "onnx {kind}: {} of {}",
            counts[0],
            counts.iter().sum::<usize>()
        );
    }
    println!(
        "onnx without strings, halves and sequences: {} of {}",
        own[0],
        own.iter().sum::<usize>()
    );
    println!("onnx: {} of {}", all[0], all.iter().sum::<usize>());
    wrong.retain(|name| !INEXACT.contains(&&**name));
    assert!(
        wrong.is_empty(),
        "supported models do not give their outputs: {wrong:?}"
    );
}
