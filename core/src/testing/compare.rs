//! Whether two trees are the same, to the last bit or nearly.

use crate::tree::leaves;
use crate::{DType, Error, Tensor, Tree};
use std::fmt;

/// What a check has found to be wrong.
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

/// The same text as `Display`: it is what `unwrap` and a test that returns `Result` show.
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

/// Two trees of one structure, and where their leaves stand in messages.
pub(super) struct Pairs {
    pub(super) pairs: Vec<(String, Tensor, Tensor)>,
}

impl Pairs {
    /// The leaves of both, each with its path. `name` is what the tree is called.
    pub(super) fn new<T: Tree>(name: &str, found: &T, expected: &T) -> Result<Pairs, Failure> {
        let mut paths = Vec::new();
        expected.paths(name, &mut paths);
        let (found, expected) = (leaves(found), leaves(expected));
        if found.len() != expected.len() {
            let (n, m) = (found.len(), expected.len());
            return Err(Failure(format!(
                "`{name}` has {n} leaves, and has to have {m}"
            )));
        }
        let pairs = paths.into_iter().zip(found).zip(expected);
        let pairs: Vec<_> = pairs.map(|((path, a), b)| (path, a, b)).collect();
        for (path, a, b) in &pairs {
            if a.aval() != b.aval() {
                let (a, b) = (a.aval(), b.aval());
                return Err(Failure(format!("`{path}` is {a}, and has to be {b}")));
            }
        }
        Ok(Pairs { pairs })
    }
}

/// Fails unless the two are equal to the last bit. `what` they are stands in the message.
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
                "{what}: element {i} of `{path}` is {a:?}, and has to be {b:?}"
            )));
        }
    }
    Ok(())
}

/// Fails unless the two are equal up to rounding. `what` they are stands in the message.
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
                "{what}: element {i} of `{path}` is {a:?}, and has to be {b:?} within {tolerance:.1e}"
            )));
        }
    }
    Ok(())
}

/// By how many units in the last place two ways to one derivative may differ: they add in different orders.
pub(super) const ULPS: f64 = 256.0;

/// The largest magnitude of finite numbers, at least 1.
pub(super) fn scale<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    let finite = numbers.into_iter().filter(|x| x.is_finite());
    finite.fold(1.0, |most, x| x.abs().max(most))
}

/// Whether two numbers differ by no more than `tolerance`, or are the same infinity, or both NaN.
pub(super) fn is_near(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance
}

/// The distance from 1 to the next number in the coarsest float dtype of the leaves.
pub(super) fn epsilon(leaves: &[Tensor]) -> f64 {
    match leaves.iter().any(|x| x.dtype() == DType::F32) {
        true => f64::from(f32::EPSILON),
        false => f64::EPSILON,
    }
}

/// The bits of the elements. Every NaN has the same.
fn bits(x: &Tensor) -> Result<Vec<u64>, Failure> {
    Ok(match x.dtype() {
        DType::I64 => x.try_to_vec::<i64>()?.iter().map(|n| *n as u64).collect(),
        // What the other dtypes hold is exact in `f64`.
        _ => numbers(x)?
            .iter()
            .map(|x| if x.is_nan() { f64::NAN } else { *x }.to_bits())
            .collect(),
    })
}

/// The elements as `f64`.
pub(super) fn numbers(x: &Tensor) -> Result<Vec<f64>, Failure> {
    Ok(match x.dtype() {
        DType::F64 => x.try_to_vec::<f64>()?,
        DType::F32 => each(x.try_to_vec::<f32>()?, f64::from),
        DType::I32 => each(x.try_to_vec::<i32>()?, f64::from),
        DType::I64 => each(x.try_to_vec::<i64>()?, |n| n as f64),
        DType::Bool => each(x.try_to_vec::<bool>()?, |b| f64::from(u8::from(b))),
    })
}

fn each<T>(data: Vec<T>, f: impl Fn(T) -> f64) -> Vec<f64> {
    data.into_iter().map(f).collect()
}
