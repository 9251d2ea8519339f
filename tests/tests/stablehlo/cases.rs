//! Every op, in every dtype.

use crate::{Scale, all_near, report, samples};
use gradloom::__private::replay;
use gradloom::{DType, Tensor, evaluate};
use gradloom_ir::op::Eval;
use gradloom_ir::{Aval, Builder, Op, Program, Static, ad};
use gradloom_tests::xla::{self, Job};
use gradloom_tests::{float_params, input, noise};

/// A program with arguments and results of gradloom.
struct Case {
    op: Op,
    program: Program,
    args: Vec<Tensor>,
    expected: Vec<Tensor>,
}

impl Case {
    /// Returns a case, if the op does not fail on the arguments.
    fn new(op: Op, program: Program, args: Vec<Tensor>) -> Option<Case> {
        let expected = replay(&program, &args).ok()?;
        evaluate(&expected).ok()?;
        Some(Case {
            op,
            program,
            args,
            expected,
        })
    }
}

/// Returns the number of devices that the ops of a program name.
fn devices(program: &Program) -> usize {
    let of = |value: &Static| match value {
        Static::Mesh(mesh) => mesh.n_devices(),
        Static::Specs(mesh, _) => mesh.n_devices(),
        Static::Sharding(spec) => spec.mesh().n_devices(),
        Static::Programs(programs) => programs.all().iter().map(devices).max().unwrap_or(1),
        _ => 1,
    };
    program.attrs.iter().map(of).max().unwrap_or(1)
}

/// Compares XLA's results of the cases.
fn check(cases: &[Case], by: Scale) {
    let Some(python) = xla::python("comparisons of exported programs with XLA") else {
        return;
    };
    let jobs: Vec<Job> = cases
        .iter()
        .map(|case| Job {
            name: case.op.to_string(),
            text: gradloom_stablehlo::export(&case.program, case.op.def().name())
                .unwrap_or_else(|e| panic!("{}: {e}", case.program)),
            args: case.args.clone(),
            devices: devices(&case.program),
        })
        .collect();
    let found = xla::run(&python, &jobs);
    let results = found.into_iter().zip(cases).map(|(found, case)| {
        let result = found.and_then(|found| all_near(&found, &case.expected, by));
        result.map_err(|e| format!("{} in {}\n{e}", case.op, case.program))
    });
    let failed: Vec<String> = results.filter_map(Result::err).collect();
    report(cases.len(), &failed);
}

fn ops() -> impl Iterator<Item = Op> {
    // A sample of a custom function names host code that does not exist.
    Op::ALL.iter().chain(Op::evaluated_control()).copied()
}

fn arguments(op: Op, program: &Program) -> Vec<Tensor> {
    let laws = op.def().laws();
    let avals = program.params.iter().map(|p| program.aval(*p));
    avals
        .enumerate()
        .map(|(k, aval)| input(aval, &laws, k))
        .collect()
}

#[test]
fn every_op_gives_the_same_results_in_every_dtype() {
    let mut cases = Vec::new();
    for op in ops() {
        for dtype in DType::ALL {
            for program in samples(op, dtype) {
                // A program without `f64` is the same for all dtypes.
                if dtype != DType::F64 && !program.to_string().contains(dtype.name()) {
                    continue;
                }
                let args = arguments(op, &program);
                cases.extend(Case::new(op, program, args));
            }
        }
    }
    check(&cases, Scale::Largest);
}

#[test]
fn every_derivative_gives_the_same_tangents() {
    let mut cases = Vec::new();
    for op in ops() {
        for program in samples(op, DType::F64) {
            let wrt = float_params(&program);
            if wrt.is_empty() || ad::reverse_only(&program).is_some() {
                continue;
            }
            let jvp = ad::jvp(&program, &wrt, ad::Calls::Joint).program;
            let tangents = wrt.iter().enumerate().map(|(k, x)| {
                let shape = program.aval(*x).shape.known().expect("a known shape");
                noise(&shape, 70 + k as u64)
            });
            let args = arguments(op, &program)
                .into_iter()
                .chain(tangents)
                .collect();
            cases.extend(Case::new(op, jvp, args));
        }
    }
    check(&cases, Scale::Largest);
}

#[test]
fn every_pullback_gives_the_same_cotangents() {
    let mut cases = Vec::new();
    for op in ops() {
        for program in samples(op, DType::F64) {
            let wrt = float_params(&program);
            if wrt.is_empty() || ad::irreversible(&program).is_some() {
                continue;
            }
            let vjp = ad::vjp(&program, &wrt);
            let outs =
                replay(&vjp.primal, &arguments(op, &program)).expect("the samples are valid");
            let (outs, residuals) = outs.split_at(vjp.n_outs);
            let active = outs.iter().zip(&vjp.active).filter(|(_, active)| **active);
            let cts = active
                .enumerate()
                .map(|(i, (y, _))| noise(y.shape(), 90 + i as u64));
            let args = residuals.iter().cloned().chain(cts).collect();
            cases.extend(Case::new(op, vjp.pullback, args));
        }
    }
    check(&cases, Scale::Largest);
}

const FLOATS: [f64; 22] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1e-20,
    -1e-20,
    1e20,
    -1e20,
    2.5,
    -2.5,
    7.3,
    -7.3,
    30.0,
    -30.0,
    100.0,
    -100.0,
    3.0,
];

const INTEGERS: [i64; 14] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -8,
    31,
    32,
    63,
    64,
    i32::MIN as i64,
    i32::MAX as i64,
];

fn numbers(dtype: DType) -> Tensor {
    match dtype {
        DType::Bool => Tensor::from([true, false]),
        dtype if dtype.is_float() => Tensor::from(FLOATS).cast(dtype),
        dtype => Tensor::from(INTEGERS).cast(dtype),
    }
}

#[test]
fn elementwise_ops_give_the_same_special_values() {
    let mut cases = Vec::new();
    for op in Op::ALL.iter().copied() {
        let n = match op.def().eval() {
            Eval::Unary(_) | Eval::Test(_) => 1,
            Eval::Bits(fns) => fns.n_operands(),
            Eval::Binary(_) | Eval::Compare(_) => 2,
            _ => continue,
        };
        for dtype in DType::ALL {
            if op.elementwise(n, dtype).is_none() {
                continue;
            }
            let x = numbers(dtype);
            let len = x.shape()[0];
            let args = match n {
                1 => vec![x],
                // All pairs. Integers have no quotient by 0.
                _ => vec![
                    x.reshape([len, 1]).broadcast_to([len, len]),
                    x.reshape([1, len]),
                ],
            };
            let mut b = Builder::new();
            let params: Vec<_> = args
                .iter()
                .map(|x| b.param(Aval::new(dtype, x.shape())))
                .collect();
            let out = b.emit(op, &[], &params);
            let program = b.finish(params, vec![out]);
            match Case::new(op, program.clone(), args.clone()) {
                Some(case) => cases.push(case),
                None => {
                    // Divisors and powers from 1.
                    let y = Tensor::from([1i64, 2, 3, 7])
                        .cast(args[0].dtype())
                        .reshape([1, 4]);
                    let x = args[0].slice([0, 0], [len as i64, 1], [1, 1]);
                    let mut b = Builder::new();
                    let params = [&x, &y].map(|x| b.param(Aval::new(dtype, x.shape())));
                    let out = b.emit(op, &[], &params);
                    let program = b.finish(params.to_vec(), vec![out]);
                    cases.extend(Case::new(op, program, vec![x, y]));
                }
            }
        }
    }
    // XLA's log-gamma has an error of 5e-7 at 1 and 2.
    let (lgamma, others): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.op == Op::Lgamma);
    check(&lgamma, Scale::OwnOr(0.1));
    check(&others, Scale::OwnOr(1e-3));
}
