//! Comparison of elements.

use crate::values::Elements;
use serde::Serialize;

/// Comparison of the elements of two tensors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueDifference {
    /// Cosine of the angle between them: 1 if they point in one direction. It is 1 for two tensors
    /// of zeros, 0 if one of them is, and NaN if an element is NaN or infinite.
    pub cosine_similarity: f64,
    /// Greatest absolute difference. NaN differs from a number infinitely, and not from NaN.
    pub max_difference: f64,
    /// Index of the element with the greatest difference.
    pub max_index: Vec<usize>,
    /// Mean absolute difference.
    pub mean_difference: f64,
}

/// Result of a comparison of elements.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) values: ValueDifference,
    /// True if no element differs. It is decided without rounding.
    pub(crate) is_exact: bool,
}

/// Compares as many elements as `shape` has.
pub(crate) fn compare_elements(shape: &[usize], a: &Elements, b: &Elements) -> Comparison {
    let differences = differences(a, b);
    let (mut most, mut at, mut is_exact) = (0.0, 0, true);
    for (i, difference) in differences.iter().enumerate() {
        let Some(difference) = *difference else {
            continue;
        };
        is_exact = false;
        if difference > most {
            (most, at) = (difference, i);
        }
    }
    // The sum of the differences themselves may overflow.
    let parts = differences
        .iter()
        .flatten()
        .map(|difference| difference / most);
    let mean_difference = match most == 0.0 || most.is_infinite() {
        true => most,
        false => most * (parts.sum::<f64>() / differences.len() as f64),
    };
    let mut max_index = vec![0; shape.len()];
    for (index, len) in max_index.iter_mut().zip(shape).rev() {
        *index = at % (*len).max(1);
        at /= (*len).max(1);
    }
    let values = ValueDifference {
        cosine_similarity: cosine_similarity(a, b),
        max_difference: most,
        max_index,
        mean_difference,
    };
    Comparison { values, is_exact }
}

/// Returns the absolute difference of each pair of elements, or `None` for a pair that is equal.
fn differences(a: &Elements, b: &Elements) -> Vec<Option<f64>> {
    match (a, b) {
        (Elements::Floats(a), Elements::Floats(b)) => pairs(a, b, of_floats),
        (Elements::Integers(a), Elements::Integers(b)) => pairs(a, b, |x, y| {
            let differs = x != y;
            differs.then(|| x.abs_diff(y) as f64)
        }),
        (Elements::Integers(a), Elements::Floats(b)) => pairs(a, b, of_mixed),
        (Elements::Floats(a), Elements::Integers(b)) => pairs(a, b, |x, y| of_mixed(y, x)),
    }
}

fn pairs<A: Copy, B: Copy>(
    a: &[A],
    b: &[B],
    difference: impl Fn(A, B) -> Option<f64>,
) -> Vec<Option<f64>> {
    let pairs = a.iter().zip(b);
    pairs.map(|(x, y)| difference(*x, *y)).collect()
}

fn of_floats(x: f64, y: f64) -> Option<f64> {
    match (x.is_nan(), y.is_nan()) {
        (true, true) => None,
        (true, false) | (false, true) => Some(f64::INFINITY),
        // The difference of equal infinities is NaN.
        _ if x == y => None,
        _ => Some((x - y).abs()),
    }
}

fn of_mixed(x: i64, y: f64) -> Option<f64> {
    // A float of this size without a fraction fits in an `i128`. One with a fraction is below 2^53, where
    // integers are exact as floats, so it equals none of them.
    match y.fract() == 0.0 && y.abs() < 1e30 {
        true => {
            let (x, y) = (i128::from(x), y as i128);
            (x != y).then(|| x.abs_diff(y) as f64)
        }
        false => of_floats(x as f64, y),
    }
}

fn cosine_similarity(a: &Elements, b: &Elements) -> f64 {
    let (Some(most_a), Some(most_b)) = (greatest(a), greatest(b)) else {
        return f64::NAN;
    };
    match (most_a == 0.0, most_b == 0.0) {
        (true, true) => return 1.0,
        (true, false) | (false, true) => return 0.0,
        (false, false) => {}
    }
    // The squares of elements that are not scaled may overflow, or be 0.
    let (mut dot, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.floats().zip(b.floats()) {
        let (x, y) = (x / most_a, y / most_b);
        dot += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    (dot / (of_a.sqrt() * of_b.sqrt())).clamp(-1.0, 1.0)
}

/// Returns the greatest magnitude, or `None` if an element is not finite.
fn greatest(x: &Elements) -> Option<f64> {
    let mut floats = x.floats();
    floats.try_fold(0.0f64, |most, x| x.is_finite().then(|| most.max(x.abs())))
}
