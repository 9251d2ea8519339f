//! Samples of ops for exports, and the comparison of their results with those of gradloom.

use crate::{input, sample_programs, scale};
use gradloom::__private::replay;
use gradloom::{DType, Tensor};
use gradloom_ir::op::Eval;
use gradloom_ir::{Aval, Builder, Op, Program};

/// Returns the arguments of a sample program of an op.
pub fn arguments(op: Op, program: &Program) -> Vec<Tensor> {
    let laws = op.def().laws();
    let avals = program.params.iter().map(|p| program.aval(*p));
    avals
        .enumerate()
        .map(|(k, aval)| input(aval, &laws, k))
        .collect()
}

/// Returns the sample programs of an op with another dtype in place of `f64`, as far as the op takes it.
pub fn samples(op: Op, dtype: DType) -> Vec<Program> {
    let of_dtype = |program: Program| -> Option<Program> {
        if dtype == DType::F64 {
            return Some(program);
        }
        // Sums of small integers are those of `i64`, whose cast is an equation of its own.
        if dtype.is_integer() && op.cast_to([dtype]) == Some(DType::I64) {
            return None;
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
        // One unit in the last place: another rounding in `f32` may decide a tie.
        DType::BF16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        _ => 1e-11,
    }
}

/// The size that a difference is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
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
///
/// # Errors
///
/// Describes the first difference that rounding does not explain.
pub fn all_near(found: &[Tensor], expected: &[Tensor], by: Scale) -> Result<(), String> {
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

/// Prints how many of `n` cases agree.
///
/// # Panics
///
/// With the messages of the cases that failed, if there are any.
pub fn report(n: usize, failed: &[String]) {
    let shown: Vec<&str> = failed.iter().take(40).map(String::as_str).collect();
    println!("{} of {n} agree", n - failed.len());
    assert!(
        failed.is_empty(),
        "{} of {n} differ\n{}",
        failed.len(),
        shown.join("\n\n")
    );
}

/// Returns the results of a program, if no op fails on the arguments.
pub fn expected(program: &Program, args: &[Tensor]) -> Option<Vec<Tensor>> {
    let expected = replay(program, args).ok()?;
    gradloom::evaluate(&expected).ok()?;
    Some(expected)
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

/// Returns programs of elementwise ops, with arguments at which functions are special: zeros, infinities, NaN, ends of
/// ranges.
pub fn special_cases() -> Vec<(Op, Program, Vec<Tensor>)> {
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
            match expected(&program, &args) {
                Some(_) => cases.push((op, program, args)),
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
                    cases.push((op, program, vec![x, y]));
                }
            }
        }
    }
    cases
}
