//! The cases as exported programs, run by XLA: results, gradients, tangents, and lanes.

use crate::case::{Case, Expected};
use crate::check::{Tensors, differences, picked, with_inputs};
use crate::function_of;
use gradloom::trace::trace;
use gradloom::{Tensor, Vmap, jvp, vjp};
use gradloom_tests::xla::{self, Job};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A program of a case, and what it gives.
struct Exported<'a> {
    name: String,
    expected: &'a [Expected],
}

/// Returns zeros of this dtype and shape.
fn zeros(aval: &gradloom_ir::Aval) -> Tensor {
    let dtype = aval.dtype.expect("a trace has known dtypes");
    let shape = aval.shape.known().expect("a trace has known shapes");
    Tensor::zeros(&shape[..], dtype)
}

/// Exports a closure. A closure that reads a value of its argument has no program.
fn job(name: &str, f: impl Fn(&Tensors) -> Tensors, x: &Tensors) -> Result<Job, String> {
    let traced = catch_unwind(AssertUnwindSafe(|| {
        trace(|x: &Tensors| -> gradloom::Result<Tensors> { Ok(f(x)) }, x)
    }));
    let traced = traced.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        text.unwrap_or_default()
    })?;
    let traced = traced.map_err(|e| e.to_string())?;
    let text = gradloom_stablehlo::export(traced.program(), name).map_err(|e| e.to_string())?;
    let mut args = [&x[..], &traced.captured()].concat();
    // The last parameters are values of which only the shape is read.
    let (program, n) = (traced.program(), args.len());
    let shapes = program.params[n..].iter().map(|param| program.aval(*param));
    args.extend(shapes.map(zeros));
    Ok(Job {
        name: name.to_owned(),
        text,
        args,
        devices: 1,
    })
}

/// Runs the cases and returns how many of their programs differ.
pub(crate) fn run(python: &str, cases: &[Case]) -> usize {
    let (mut jobs, mut exported, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for case in cases {
        let Some(function) = function_of(case) else {
            continue;
        };
        let plain = |x: &Tensors| (function.plain)(x);
        let mut add = |what: &str, f: &dyn Fn(&Tensors) -> Tensors, x: Tensors, expected| {
            let name = format!("{}/{} {what}", case.family, case.name);
            match job(&name, f, &x) {
                Ok(job) => {
                    jobs.push(job);
                    exported.push(Exported { name, expected });
                }
                Err(e) => refused.push(format!("{name}: {e}")),
            }
        };
        let n = case.inputs.len();
        let with = |more: &Tensors| [&case.inputs[..], more].concat();
        add("out", &plain, case.inputs.clone(), &case.outputs[..]);
        if let Some((cts, grads)) = &case.vjp {
            let f = |all: &Tensors| {
                let (x, cts) = (all[..n].to_vec(), all[n..].to_vec());
                vjp(with_inputs(case, &x, plain), &picked(case, &x))
                    .1
                    .call(&cts)
            };
            add("vjp", &f, with(cts), &grads[..]);
        }
        if let Some((dx, dy)) = &case.jvp {
            let f = |all: &Tensors| {
                let (x, dx) = (all[..n].to_vec(), all[n..].to_vec());
                jvp(with_inputs(case, &x, plain), &picked(case, &x), &dx).1
            };
            add("jvp", &f, with(dx), &dy[..]);
        }
        if let Some(lanes) = &case.lanes {
            let f = |x: &Tensors| {
                Vmap::new(|x: &Tensors| plain(x))
                    .in_axes(&lanes.in_axes[..])
                    .call(x)
            };
            add("vmap", &f, lanes.inputs.clone(), &lanes.outputs[..]);
        }
    }
    let found = xla::run(python, &jobs);
    let mut n_failed = 0;
    for (found, of) in found.into_iter().zip(&exported) {
        let found: Result<Vec<Tensor>, String> = found;
        let wrong = match found {
            Ok(found) => differences(&found, of.expected),
            Err(e) => vec![e],
        };
        n_failed += usize::from(!wrong.is_empty());
        for line in wrong {
            println!("XLA {}: {line}", of.name);
        }
    }
    for line in &refused {
        println!("no program: {line}");
    }
    println!(
        "XLA: {} of {} programs, {} closures without a program",
        jobs.len() - n_failed,
        jobs.len(),
        refused.len()
    );
    n_failed
}
