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

/// Loops and branches in each other, which read operands of the outer ones.
#[test]
fn loops_and_branches_give_the_same_results() {
    let vector = |x: [f64; 2]| Tensor::from(x);
    let index = |i: i32| Tensor::scalar(i);
    let rows = || Tensor::from_vec(vec![0.5, -1.0, 2.0, 0.25, 1.5, -0.75], [3, 2]);
    let mut cases = Vec::new();
    let mut add = |text: &str, args: Vec<Tensor>| {
        let program: Program = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(gradloom_ir::verify(&program).is_empty(), "{program}");
        let model = export(&program, "loops", &[]).unwrap();
        let expected = expected(&program, &args).expect("the program is valid");
        cases.push((job(program.to_string(), &model, args), expected));
    };
    // The slices and the stacked results of a reversed loop are reversed, and a state is a result twice.
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let text = "(w: f64[2], c: f64[2], xs: f64[3, 2]) { h, a, ys, zs = scan[body=<(w: f64[2], c: f64[2], d: f64[2], x: f64[2]) { a = mul w, c h = add a, x return h, c, h, x }>, turns=3, consts=1, carry=2, reverse=true] w, c, c, xs return h, a, ys, zs }";
        let args = [vector([0.5, 2.0]), vector([1.0, -1.5]), rows()];
        add(
            &text.replace("f64", dtype.name()),
            args.map(|x| x.cast(dtype)).into(),
        );
    }
    // Only the number of turns is known.
    add(
        "(w: f64[2], c: f64[2]) { h, ys = scan[body=<(w: f64[2], c: f64[2]) { a = mul w, c return a, w }>, turns=4, consts=1, carry=1, reverse=false] w, c return h, ys }",
        vec![vector([0.5, 2.0]), vector([1.0, -1.5])],
    );
    // A condition that is false at once, and one that holds for some turns.
    for n in [-1, 5] {
        add(
            "(n: i32[], x: f64[2]) { m, y = while[cond_body=<(n: i32[], x: f64[2]) { zero = full[shape=[], value=0, dtype=i32] c = gt n, zero return c } | (n: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one y = sin x return m, y }>, consts=0] n, x return m, y }",
            vec![index(n), vector([0.5, 2.0])],
        );
    }
    // An index out of range takes the nearest branch. A branch has a loop, whose body reads values of both outer programs.
    for i in [-5, 0, 1, 2, 9] {
        add(
            "(i: i32[], w: f64[2], xs: f64[3, 2]) { y, z = switch[branches=<(w: f64[2], xs: f64[3, 2]) { return w, w } | (w: f64[2], xs: f64[3, 2]) { u = exp w y, z = scan[body=<(u: f64[2], w: f64[2], c: f64[2], x: f64[2]) { n = full[shape=[], value=3, dtype=i32] m, d = while[cond_body=<(w: f64[2], n: i32[], c: f64[2]) { zero = full[shape=[], value=0, dtype=i32] g = gt n, zero return g } | (w: f64[2], n: i32[], c: f64[2]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one e = mul c, w return m, e }>, consts=1] w, n, c a = mul d, x b = add a, u return b, d }>, turns=3, consts=2, carry=1, reverse=false] u, w, w, xs q = sum[axes=[0], keepdims=false] z, like z return y, q } | (w: f64[2], xs: f64[3, 2]) { y = sin w z = mul w, y return y, z }>] i, w, xs return y, z }",
            vec![index(i), vector([0.5, 2.0]), rows()],
        );
    }
    check(cases, Scale::Largest);
}
