//! Helpers shared by the tests: single-op programs, inputs, finite differences, inner products.

pub mod adversary;
pub mod derivatives;
pub mod exported;
pub mod graphs;
pub mod growth;
pub mod observe;
pub mod panics;
pub mod rng;
pub mod steady;
pub mod xla;

use gradloom::{DType, Tensor};
use gradloom_ir::{
    Aval, Op, Program, Static, Var,
    op::{Laws, Operands, indices},
};

/// Returns programs that test the laws of an op: the op's own samples, or default ones for an
/// elementwise op.
pub fn sample_programs(op: Op) -> Vec<Program> {
    let samples = op.def().laws().samples;
    let name = op.def().name();
    let own: Vec<String> = match (samples.is_empty(), op.def().operands()) {
        (false, _) => samples.iter().map(|s| s.to_string()).collect(),
        (true, Operands::Fixed(1, 0)) => ["[2, 3]", "[]", "[0, 2]"]
            .iter()
            .map(|s| format!("(x: f64{s}) {{ y = {name} x return y }}"))
            .collect(),
        (true, Operands::Fixed(2, 0)) => [
            ("[2, 3]", "[2, 3]"),
            ("[2, 3]", "[3]"),
            ("[2, 1]", "[1, 3]"),
            ("[]", "[2, 2]"),
            ("[0, 2]", "[1, 2]"),
        ]
        .iter()
        .map(|(a, b)| format!("(x: f64{a}, y: f64{b}) {{ z = {name} x, y return z }}"))
        .collect(),
        (true, operands) => panic!("`{name}` has {operands:?} operands and no samples"),
    };
    own.iter()
        .map(|text| {
            text.parse()
                .unwrap_or_else(|e| panic!("{name}: {text}: {e}"))
        })
        .collect()
}

/// Returns the input at position `k`: distinct, evenly spaced values in shuffled order, away from
/// 0.
pub fn input(aval: &Aval, laws: &Laws, k: usize) -> Tensor {
    let shape = aval.shape.known().expect("samples have known shapes");
    let n: usize = shape.iter().product();
    match aval.dtype.expect("samples have known dtypes") {
        DType::I64 => Tensor::from_vec(
            (0..n).map(|i| ((i * 5 + k) % 3) as i64).collect(),
            &shape[..],
        ),
        DType::I32 => Tensor::from_vec(
            (0..n).map(|i| ((i * 5 + k) % 3) as i32).collect(),
            &shape[..],
        ),
        DType::Bool => Tensor::from_vec(
            (0..n)
                .map(|i| (i + k).is_multiple_of(2))
                .collect::<Vec<bool>>(),
            &shape[..],
        ),
        dtype => {
            let places = indices(&shape);
            let numbers = spaced(n, laws.domain, k).into_iter().zip(places);
            let numbers: Vec<f64> = numbers.map(|(x, at)| x + laws.added(&at)).collect();
            Tensor::from_vec(numbers, &shape[..]).cast(dtype)
        }
    }
}

/// Returns `n` distinct numbers of an interval, in neither rising nor falling order.
fn spaced(n: usize, (lo, hi): (f64, f64), k: usize) -> Vec<f64> {
    // A step coprime to `n` visits every index once.
    let step = [7, 5, 3, 11, 13, 1]
        .into_iter()
        .find(|s| !n.is_multiple_of(*s) || *s == 1)
        .unwrap_or(1);
    let width = (hi - lo) / (n as f64 + 1.0);
    (0..n)
        .map(|i| lo + width * (((i * step + k) % n) as f64 + 0.61 + 0.17 * k as f64))
        .collect()
}

/// Returns pseudorandom numbers in (-1, 1), which depend only on shape and seed.
pub fn noise(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mut state = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(0x1234_5678);
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    Tensor::from_vec((0..n).map(next).collect::<Vec<f64>>(), shape)
}

/// Returns the inner product of two lists of tensors.
pub fn dot(a: &[Tensor], b: &[Tensor]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a
        .iter()
        .zip(b)
        .flat_map(|(a, b)| a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>()));
    pairs.map(|(a, b)| a * b).sum()
}

/// Magnitude to which the error of an element is relative.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// That of the expected element.
    Element,
    /// The largest of all expected elements.
    Largest,
}

/// Checks that a tensor has these elements to 12 digits.
///
/// A magnitude below `1e-3` counts as `1e-3`. NaN equals NaN.
pub fn check_elements(name: &str, found: &Tensor, expected: &[f64], scale: Scale) {
    let found = found.to_vec::<f64>();
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(1e-3f64, |m, x| m.max(x.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let magnitude = match scale {
            Scale::Element => expected.abs().max(1e-3),
            Scale::Largest => largest,
        };
        let near = (found - expected).abs() <= 1e-12 * magnitude;
        let same = found == expected || found.is_nan() && expected.is_nan();
        assert!(near || same, "{name} {i}: {found}, expected {expected}");
    }
}

/// Returns the float parameters of a program.
pub fn float_params(program: &Program) -> Vec<Var> {
    let is_float = |v: &&Var| program.aval(**v).dtype.is_some_and(DType::is_float);
    program.params.iter().filter(is_float).copied().collect()
}

/// Returns a copy of `x` with `by` added to element `i`.
pub fn nudged(x: &Tensor, i: usize, by: f64) -> Tensor {
    let mut data = x.to_vec::<f64>();
    data[i] += by;
    Tensor::from_vec(data, x.shape())
}

/// Returns the largest magnitude, at least 1.
pub fn scale(xs: &[f64]) -> f64 {
    xs.iter().fold(1.0, |m, x| x.abs().max(m))
}

/// Formats the static arguments of an equation for messages.
pub fn statics_of(program: &Program) -> String {
    program
        .attrs
        .iter()
        .map(Static::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
