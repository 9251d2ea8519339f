//! Exported programs give the results of gradloom when XLA runs them.
//!
//! `GRADLOOM_PYTHON=python-with-jax cargo test --workspace --test stablehlo` runs all tests; without the variable,
//! only those that need no XLA. `GRADLOOM_PROGRAMS=5000` tests more random programs.

mod cases;
mod errors;
mod partition;
mod random;
mod table;

use gradloom::{DType, Tensor};
use gradloom_ir::{Op, Program};
use gradloom_tests::{sample_programs, scale};

/// Returns the sample programs of an op with another dtype in place of `f64`, as far as the op takes it.
fn samples(op: Op, dtype: DType) -> Vec<Program> {
    let of_dtype = |program: Program| -> Option<Program> {
        if dtype == DType::F64 {
            return Some(program);
        }
        let text = program.to_string().replace("f64", dtype.name());
        let program: Program = text.parse().ok()?;
        let known = |v| {
            let aval = program.aval(v);
            aval.dtype.is_some() && aval.shape.known().is_some()
        };
        let all = program.eqns.iter().flat_map(|eqn| &eqn.outs);
        let valid = gradloom_ir::verify(&program).is_empty();
        (valid && all.into_iter().all(|v| known(*v))).then_some(program)
    };
    sample_programs(op)
        .into_iter()
        .filter_map(of_dtype)
        .collect()
}

/// Largest difference by rounding, relative to the largest element.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2e-5,
        _ => 1e-11,
    }
}

/// The size that a difference is compared with.
#[derive(Clone, Copy)]
enum Scale {
    /// The largest element: elements of a sum share their rounding.
    Largest,
    /// The element itself, or this number if it is smaller. Functions have absolute errors near their zeros.
    OwnOr(f64),
}

/// Compares tensors.
///
/// # Errors
///
/// Describes the first difference that rounding does not explain.
fn near(found: &Tensor, expected: &Tensor, by: Scale) -> Result<(), String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Err(format!("{}, expected {}", found.aval(), expected.aval()));
    }
    if !expected.dtype().is_float() {
        let integers = |x: &Tensor| x.cast(DType::I64).to_vec::<i64>();
        return match integers(found) == integers(expected) {
            true => Ok(()),
            false => Err(format!("{found}, expected {expected}")),
        };
    }
    let numbers = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
    let (found, numbers) = (numbers(found), numbers(expected));
    let finite: Vec<f64> = numbers.iter().copied().filter(|x| x.is_finite()).collect();
    let rounding = rounding(expected.dtype());
    let largest = scale(&finite);
    for (i, (x, y)) in found.iter().zip(&numbers).enumerate() {
        let tolerance = match by {
            Scale::Largest => rounding * largest,
            // Numbers that are almost denormal have absolute errors, too.
            Scale::OwnOr(least) => rounding * y.abs().max(least) + 1e-37,
        };
        let equal = x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance;
        if !equal {
            return Err(format!("element {i} is {x:e}, expected {y:e}"));
        }
    }
    Ok(())
}

/// Compares lists of tensors.
fn all_near(found: &[Tensor], expected: &[Tensor], by: Scale) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!(
            "{} results, expected {}",
            found.len(),
            expected.len()
        ));
    }
    let mut pairs = found.iter().zip(expected).enumerate();
    pairs.try_for_each(|(i, (x, y))| near(x, y, by).map_err(|e| format!("result {i}: {e}")))
}

/// Panics with the messages of cases that failed.
fn report(n: usize, failed: &[String]) {
    let shown: Vec<&str> = failed.iter().take(40).map(String::as_str).collect();
    println!("{} of {n} agree", n - failed.len());
    assert!(
        failed.is_empty(),
        "{} of {n} differ\n{}",
        failed.len(),
        shown.join("\n\n")
    );
}
