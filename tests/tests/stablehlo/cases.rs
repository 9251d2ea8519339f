//! Every op, in every dtype.

use gradloom::__private::replay;
use gradloom::sharding::{
    Mesh, Reduction, ShardingSpec, all_gather, all_reduce, all_to_all, axis_index, broadcast,
    ppermute, reduce_scatter, shard_map, sharded,
};
use gradloom::trace::trace;
use gradloom::{DType, Tensor, checkpoint, grad};
use gradloom_ir::{Op, Program, Static, Var, ad};
use gradloom_stablehlo::ExportError;
use gradloom_tests::exported::{
    Scale, all_near, arguments, expected, report, samples, special_cases,
};
use gradloom_tests::xla::{self, Job};
use gradloom_tests::{float_params, noise};
use std::sync::Arc;

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
        let expected = expected(&program, &args)?;
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

/// Returns whether StableHLO has the op.
fn has_form(op: Op) -> bool {
    samples(op, DType::F64).iter().all(|program| {
        let exported = gradloom_stablehlo::export(program, "f");
        !matches!(exported, Err(ExportError::NoForm { .. }))
    })
}

/// Returns the parameters for which a derivative exports: those of distributions have no slopes.
fn with_slopes(mut wrt: Vec<Var>, derivative: &dyn Fn(&[Var]) -> Program) -> Vec<Var> {
    let exports = |wrt: &[Var]| {
        let exported = gradloom_stablehlo::export(&derivative(wrt), "f");
        !matches!(exported, Err(ExportError::NoForm { .. }))
    };
    if !exports(&wrt) {
        wrt.retain(|x| exports(&[*x]));
    }
    assert!(!wrt.is_empty());
    wrt
}

fn ops() -> impl Iterator<Item = Op> {
    // A sample of a custom function names host code that does not exist.
    let all = Op::ALL.iter().chain(Op::evaluated_control()).copied();
    all.filter(|op| has_form(*op))
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
            let of = |wrt: &[Var]| ad::jvp(&program, wrt, ad::Calls::Joint).program;
            let wrt = with_slopes(wrt, &of);
            let jvp = of(&wrt);
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
            let wrt = with_slopes(wrt, &|wrt| ad::vjp(&program, wrt).primal);
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

#[test]
fn elementwise_ops_give_the_same_special_values() {
    let cases = special_cases().into_iter().filter(|(op, ..)| has_form(*op));
    let cases = cases.filter_map(|(op, program, args)| Case::new(op, program, args));
    // XLA's log-gamma has an error of 5e-7 at 1 and 2.
    let (lgamma, others): (Vec<Case>, Vec<Case>) = cases.partition(|case| case.op == Op::Lgamma);
    check(&lgamma, Scale::OwnOr(0.1));
    check(&others, Scale::OwnOr(1e-3));
}

/// Returns a case of `f64` arguments, whose combinations are the elements.
fn grid(text: &str, numbers: &[&[f64]]) -> Case {
    let n: usize = numbers.iter().map(|all| all.len()).product();
    let mut inner = n;
    let args = numbers.iter().map(|all| {
        inner /= all.len();
        let element = |i: usize| all[i / inner % all.len()];
        Tensor::from_vec((0..n).map(element).collect(), [n])
    });
    let args = args.collect();
    let program: Program = text.replace("[n]", &format!("[{n}]")).parse().unwrap();
    Case::new(program.eqns[program.eqns.len() - 1].op, program, args).expect("the op is total")
}

/// Ends of domains, and numbers on both sides of each change of the formula.
#[test]
fn functions_that_loop_give_the_same_values_in_every_region() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let a = [
        NAN, -1.0, 0.0, 1e-20, 1e-3, 0.3, 0.9, 1.0, 1.3, 3.0, 7.9, 8.0, 55.0, 900.0, 9e3, 2e4, 1e8,
        INF,
    ];
    let x = [
        NAN, -1.0, 0.0, 1e-300, 1e-20, 0.02, 0.7, 1.0, 1.4, 1.6, 3.1, 9.0, 50.0, 880.0, 9.1e3,
        1.98e4, 2.02e4, 1.0001e8, INF,
    ];
    let shapes = [
        NAN, -1.0, 0.0, 1e-20, 1e-3, 0.2, 1.0, 1.5, 7.5, 9.0, 150.0, 3e5, 2e10, 1e15, 1e40, INF,
    ];
    // XLA takes the least numbers as 0.
    let parts = [
        NAN, -0.5, 0.0, 1e-280, 1e-15, 1e-5, 0.03, 0.3, 0.5, 0.500001, 0.8, 0.99, 0.99999999, 1.0,
        1.5,
    ];
    let orders = [
        NAN, -INF, -1e9, -40.0, -3.0, -0.9, 0.0, 0.6, 1.0, 2.0, 3.5, 17.0, 300.0, 1e6, 1e20, INF,
    ];
    let powers = [
        NAN, -1.0, 0.0, 0.5, 1.0, 1.000001, 1.5, 2.0, 3.0, 12.5, 80.0, 1e3, 1e20, INF,
    ];
    let starts = [
        NAN, -INF, -1e3, -7.25, -3.0, -0.6, 0.0, 1e-20, 0.4, 1.0, 2.7, 90.0, 1e10, 1e200, INF,
    ];
    let of_two = |op: &str| format!("(a: f64[n], x: f64[n]) {{ y = {op} a, x return y }}");
    let cases = [
        grid(&of_two("gammainc"), &[&a, &x]),
        grid(&of_two("gammaincc"), &[&a, &x]),
        grid(&of_two("expn"), &[&x, &orders]),
        grid(&of_two("zeta"), &[&powers, &starts]),
        grid(
            "(s: f64[n], q: f64[n], n: f64[n]) { y = zeta_ds s, q, n return y }",
            &[&powers, &starts, &[NAN, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]],
        ),
        grid(
            "(a: f64[n], x: f64[n]) { z = scalar[value=0.0] like x y = gamma_density a, x, z return y }",
            &[&a, &x],
        ),
        grid(
            "(a: f64[n], b: f64[n], x: f64[n]) { y = betainc a, b, x return y }",
            &[&shapes, &shapes, &parts],
        ),
        grid(
            "(a: f64[n], b: f64[n], x: f64[n]) { z = scalar[value=0.0] like x y = beta_density a, b, x, z return y }",
            &[&shapes, &shapes, &parts],
        ),
    ];
    check(&cases, Scale::OwnOr(0.0));
}

#[test]
fn programs_for_a_mesh_of_one_device_run() {
    let mesh = Arc::new(Mesh::new("m", &[("a", 1), ("b", 1)]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["a"]]).unwrap();
    let x = noise(&[4, 3], 1);
    let body = |x: &Tensor| {
        let sum = all_reduce(x, ["a", "b"], Reduction::Sum) + all_reduce(x, "a", Reduction::Max);
        let moved = all_gather(&all_to_all(x, "a", 0, 1), "b", 0) + reduce_scatter(x, "a", 1);
        let sent = ppermute(x, "a", &[(0, 0)]) + ppermute(x, "a", &[]) + broadcast(x, "b", 0);
        sum * moved + sent + axis_index("a").cast(DType::F64)
    };
    let map = |x: &Tensor| shard_map(body, &mesh, &rows, &rows)(x);
    let again = |x: &Tensor| shard_map(checkpoint(body), &mesh, &rows, &rows)(x);
    let slope_again = |x: &Tensor| grad(|x: &Tensor| again(x).square().sum(..))(x);
    let divided = |x: &Tensor| sharded(|x: &Tensor| x.sin().sum(0), &mesh, &rows, None)(x);
    let slope = |x: &Tensor| grad(|x: &Tensor| map(x).square().sum(..))(x);
    let case = |op: Op, f: &dyn Fn(&Tensor) -> Tensor| {
        let trace = trace(f, &x);
        let program = trace.program().clone();
        let mut args = vec![x.clone()];
        args.extend(trace.captured());
        // The others give shapes only.
        for param in &program.params[args.len()..] {
            let shape = program.aval(*param).shape.known().expect("a known shape");
            args.push(Tensor::zeros(shape, DType::F64));
        }
        Case::new(op, program, args).expect("the program is valid")
    };
    let cases = [
        case(Op::ShardMap, &map),
        case(Op::Sharded, &divided),
        case(Op::ShardMap, &slope),
        case(Op::ShardMap, &again),
        case(Op::ShardMap, &slope_again),
    ];
    check(&cases, Scale::Largest);
}
