//! Comparison of trees: exact, or up to rounding.

use crate::tree::leaves;
use crate::{DType, Error, Tensor, Tree};
use half::{bf16, f16};
use std::fmt;

/// Description of a failed check.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same text as `Display`, because `unwrap` and tests that return `Result` show this one.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Corresponding leaves of two trees, with their paths for messages.
pub(super) struct Pairs {
    pub(super) pairs: Vec<(String, Tensor, Tensor)>,
}

impl Pairs {
    /// Pairs the leaves of two trees. `name` is the name of the tree in messages.
    pub(super) fn new<T: Tree>(name: &str, found: &T, expected: &T) -> Result<Pairs, Failure> {
        let mut paths = Vec::new();
        expected.paths(name, &mut paths);
        let (found, expected) = (leaves(found), leaves(expected));
        if found.len() != expected.len() {
            let (n, m) = (found.len(), expected.len());
            return Err(Failure(format!("`{name}` has {n} leaves, expected {m}")));
        }
        let pairs = paths.into_iter().zip(found).zip(expected);
        let pairs: Vec<_> = pairs.map(|((path, a), b)| (path, a, b)).collect();
        for (path, a, b) in &pairs {
            if a.aval() != b.aval() {
                let (a, b) = (a.aval(), b.aval());
                return Err(Failure(format!("`{path}` is {a}, expected {b}")));
            }
        }
        Ok(Pairs { pairs })
    }
}

/// Fails unless two trees are equal to the last bit. `what` introduces the message.
pub(super) fn same<T: Tree>(
    what: &str,
    name: &str,
    found: &T,
    expected: &T,
) -> Result<(), Failure> {
    for (path, a, b) in Pairs::new(name, found, expected)?.pairs {
        let (bits_a, bits_b) = (bits(&a)?, bits(&b)?);
        if let Some(i) = (0..bits_a.len()).find(|i| bits_a[*i] != bits_b[*i]) {
            let (a, b) = (numbers(&a)?[i], numbers(&b)?[i]);
            return Err(Failure(format!(
                "{what}: element {i} of `{path}` is {a:?}, expected {b:?}"
            )));
        }
    }
    Ok(())
}

/// Fails unless two trees are equal up to rounding. `what` introduces the message.
pub(super) fn close<T: Tree>(
    what: &str,
    name: &str,
    found: &T,
    expected: &T,
    epsilon: f64,
) -> Result<(), Failure> {
    for (path, a, b) in Pairs::new(name, found, expected)?.pairs {
        let (a, b) = (numbers(&a)?, numbers(&b)?);
        let tolerance = ULPS * epsilon * scale(a.iter().chain(&b));
        if let Some(i) = (0..a.len()).find(|i| !is_near(a[*i], b[*i], tolerance)) {
            let (a, b) = (a[i], b[i]);
            return Err(Failure(format!(
                "{what}: element {i} of `{path}` is {a:?}, expected {b:?} within {tolerance:.1e}"
            )));
        }
    }
    Ok(())
}

/// Tolerance between two computations of a derivative, in units in the last place.
///
/// They may add in different orders.
pub(super) const ULPS: f64 = 256.0;

/// Returns the largest magnitude of the finite numbers, and at least 1.
pub(super) fn scale<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    let finite = numbers.into_iter().filter(|x| x.is_finite());
    finite.fold(1.0, |most, x| x.abs().max(most))
}

/// Returns whether two numbers are equal up to `tolerance`. A NaN equals any other NaN.
pub(super) fn is_near(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance
}

/// Returns the machine epsilon of the coarsest float dtype among the leaves.
pub(super) fn epsilon(leaves: &[Tensor]) -> f64 {
    match leaves.iter().any(|x| x.dtype() == DType::F32) {
        true => f64::from(f32::EPSILON),
        false => f64::EPSILON,
    }
}

/// Returns the bits of the elements. All NaNs have the same bits.
fn bits(x: &Tensor) -> Result<Vec<u64>, Failure> {
    Ok(match x.dtype() {
        DType::I64 => x.try_to_vec::<i64>()?.iter().map(|n| *n as u64).collect(),
        // Elements of the other dtypes are exact in `f64`.
        _ => numbers(x)?
            .iter()
            .map(|x| if x.is_nan() { f64::NAN } else { *x }.to_bits())
            .collect(),
    })
}

/// Returns the elements as `f64`.
pub(super) fn numbers(x: &Tensor) -> Result<Vec<f64>, Failure> {
    Ok(match x.dtype() {
        DType::F64 => x.try_to_vec::<f64>()?,
        DType::F32 => each(x.try_to_vec::<f32>()?, f64::from),
        DType::BF16 => each(x.try_to_vec::<bf16>()?, bf16::to_f64),
        DType::F16 => each(x.try_to_vec::<f16>()?, f16::to_f64),
        DType::I8 => each(x.try_to_vec::<i8>()?, f64::from),
        DType::U8 => each(x.try_to_vec::<u8>()?, f64::from),
        DType::I32 => each(x.try_to_vec::<i32>()?, f64::from),
        DType::I64 => each(x.try_to_vec::<i64>()?, |n| n as f64),
        DType::Bool => each(x.try_to_vec::<bool>()?, |b| f64::from(u8::from(b))),
    })
}

fn each<T>(data: Vec<T>, f: impl Fn(T) -> f64) -> Vec<f64> {
    data.into_iter().map(f).collect()
}
