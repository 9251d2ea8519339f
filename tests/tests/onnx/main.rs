//! Exported ONNX models are valid, and give the results of gradloom in ONNX Runtime.
//!
//! `GRADLOOM_PYTHON` names a Python with the packages `onnx` and `onnxruntime`, as `.ci/outside` installs it. Without the
//! variable, only the tests that need no Python run.

mod errors;
mod table;

use gradloom::prelude::*;
use gradloom::trace::trace;
use gradloom_ir::{Op, Program};
use gradloom_onnx::{Elements, ExportError, export};
use gradloom_tests::exported::{
    Scale, all_near, arguments, expected, report, samples, special_cases,
};
use gradloom_tests::xla::{self, Job, run_script};
use std::fmt::Write;

/// Returns the Python that runs models, or `None` after a line that says that the tests are skipped.
fn python() -> Option<String> {
    xla::python("comparisons of exported models with ONNX Runtime")
}

fn job(name: String, model: &[u8], args: Vec<Tensor>) -> Job {
    let mut text = String::with_capacity(2 * model.len() + 1);
    model.iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text.push('\n');
    Job {
        name,
        text,
        args,
        devices: 1,
    }
}

/// Runs models, and compares their results with those that are expected.
fn check(cases: Vec<(Job, Vec<Tensor>)>, by: Scale) {
    let Some(python) = python() else {
        return;
    };
    let (jobs, expected): (Vec<Job>, Vec<Vec<Tensor>>) = cases.into_iter().unzip();
    let found = run_script(&python, "onnx_run.py", &jobs);
    let results = found.into_iter().zip(&expected).zip(&jobs);
    let results = results.map(|((found, expected), job)| {
        let result = found.and_then(|found| all_near(&found, expected, by));
        result.map_err(|e| format!("{}\n{e}", job.name))
    });
    let failed: Vec<String> = results.filter_map(Result::err).collect();
    report(jobs.len(), &failed);
}

fn ops() -> impl Iterator<Item = Op> {
    Op::ALL.iter().chain(Op::evaluated_control()).copied()
}

/// Returns the model of a sample, if the op has an ONNX form.
fn model(program: &Program) -> Option<Vec<u8>> {
    match export(program, "sample", &[]) {
        Ok(model) => Some(model),
        Err(ExportError::NoForm { .. }) => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Returns whether the program has a transposed convolution of `f64` with groups. ONNX Runtime has no kernel for it, and
/// the reference implementation takes no groups. The same model of `f32` runs.
fn has_grouped_transpose(program: &Program) -> bool {
    let text = program.to_string();
    let is_transposed = text.contains("conv_input_t") || text.contains("conv_transpose");
    is_transposed && text.contains("f64") && !text.contains("groups=1")
}

#[test]
fn every_op_gives_the_same_results_in_every_dtype() {
    let mut cases = Vec::new();
    for op in ops() {
        // NumPy has no `bf16`.
        for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::BF16) {
            for program in samples(op, dtype) {
                // A program without `f64` is the same for all dtypes.
                if dtype != DType::F64 && !program.to_string().contains(dtype.name()) {
                    continue;
                }
                let Some(model) = model(&program).filter(|_| !has_grouped_transpose(&program))
                else {
                    continue;
                };
                let args = arguments(op, &program);
                if let Some(expected) = expected(&program, &args) {
                    let name = format!("{op} in {program}");
                    cases.push((job(name, &model, args), expected));
                }
            }
        }
    }
    assert!(cases.len() > 500, "{}", cases.len());
    check(cases, Scale::Largest);
}

#[test]
fn a_model_with_weights_as_constants_gives_the_same_results() {
    let key = |i: u64| Key::new(i);
    let normal = |i: u64, shape: &[usize]| key(i).normal(shape, DType::F32) * 0.3;
    let (conv, dense) = (normal(1, &[4, 1, 3, 3]), normal(2, &[100, 16]));
    let (w, b) = (normal(3, &[16]) + 1.0, normal(4, &[16]));
    let attended = normal(5, &[16, 16]);
    let x = normal(6, &[2, 1, 10, 10]);
    let network = |x: &Tensor| {
        let x = x.conv_same(&conv, 1).relu().max_pool([2, 2], 2, 0);
        let x = x
            .reshape([2, 100])
            .matmul(&dense)
            .layer_norm(&w, &b, 1e-5)
            .gelu();
        let rows = x.reshape([2, 4, 4]);
        let mixed = rows.attention(&rows, &rows).reshape([2, 16]);
        (x + mixed).matmul(&attended).softmax(-1)
    };
    let traced = trace(network, &x);
    let program = traced.program();
    // The parameters after the captured tensors are values of which only the shape is read.
    let mut weights: Vec<Vec<f32>> = traced.captured().iter().map(Tensor::to_vec).collect();
    weights.extend(program.params[1 + weights.len()..].iter().map(|param| {
        let shape = program.aval(*param).shape.known().unwrap();
        vec![0.0; shape.iter().product()]
    }));
    let constants = weights.iter().enumerate();
    let constants: Vec<_> = constants.map(|(i, x)| (i + 1, Elements::F32(x))).collect();
    let model = export(program, "network", &constants).unwrap();
    let y = network(&x);
    let job = job("network".to_owned(), &model, vec![x]);
    check(vec![(job, vec![y])], Scale::Largest);
}

#[test]
fn elementwise_ops_give_the_same_special_values() {
    let mut cases = Vec::new();
    for (op, program, args) in special_cases() {
        if args[0].dtype() == DType::BF16 {
            continue;
        }
        let (Some(model), Some(expected)) = (model(&program), expected(&program, &args)) else {
            continue;
        };
        cases.push((job(format!("{op} in {program}"), &model, args), expected));
    }
    check(cases, Scale::OwnOr(1e-3));
}
