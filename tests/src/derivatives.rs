//! Derivatives computed in three ways: companions, transforms of closures, and finite differences.

use crate::noise;
use gradloom::{Tree, jvp, tree, vjp};

/// Returns the elements of all leaves as `f64`.
pub fn entries(tree: &impl Tree) -> Vec<f64> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.extend(leaf.to_vec::<f64>()));
    out
}

/// Returns numbers in (-1, 1) with the structure of a tree.
pub fn noise_like<T: Tree>(tree: &T, seed: u64) -> T {
    let mut seeds = seed * 1_000..;
    tree.map(&mut |leaf| noise(leaf.shape(), seeds.next().expect("the range is infinite")))
}

/// Returns `x + by * dx`.
pub fn moved<T: Tree>(x: &T, dx: &T, by: f64) -> T {
    tree::add(x, &tree::scale(dx, by))
}

/// Returns the derivative of `f` at `x` in the direction `dx`, by fourth-order differences with
/// step `h`.
pub fn differences<X: Tree, Y: Tree>(f: &dyn Fn(&X) -> Y, x: &X, dx: &X, h: f64) -> Vec<f64> {
    let at = |by: f64| entries(&f(&moved(x, dx, by * h)));
    let (near, far) = ([at(1.0), at(-1.0)], [at(2.0), at(-2.0)]);
    (0..near[0].len())
        .map(|i| (8.0 * (near[0][i] - near[1][i]) - (far[0][i] - far[1][i])) / (12.0 * h))
        .collect()
}

/// Checks that two lists of numbers agree within `tolerance`, relative to the largest expected
/// number.
///
/// # Errors
///
/// If numbers differ by more, or are NaN.
pub fn near(what: &str, got: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{what}: {} numbers, expected {}",
            got.len(),
            expected.len()
        ));
    }
    // Arguments are of order 1, so a small result may have lost digits to cancellation. The scale
    // therefore has a lower bound.
    let largest = expected.iter().fold(1e-2, |m: f64, x| x.abs().max(m));
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        let within = (a - b).abs() <= tolerance * largest;
        if !within {
            return Err(format!(
                "{what}: entry {i} is {a:e}, expected {b:e}, the largest is {largest:e}"
            ));
        }
    }
    Ok(())
}

/// A traced function and its companions, as functions of a tree of all arguments.
pub struct Companions<'a, X, Y> {
    /// The function.
    pub call: &'a dyn Fn(&X) -> Y,
    /// Returns the result, and the cotangents of the arguments for a cotangent of the result.
    pub vjp: &'a dyn Fn(&X, &Y) -> (Y, X),
    /// Returns the result, and its tangent for tangents of the arguments.
    pub jvp: &'a dyn Fn(&X, &X) -> (Y, Y),
}

/// Tolerance between derivatives that use the same rules but may add in another order.
const SAME_RULES: f64 = 1e-12;

/// Tolerance for finite differences.
const DIFFERENCES: f64 = 1e-6;

impl<X: Tree, Y: Tree> Companions<'_, X, Y> {
    /// Compares the companions with the transforms of the closure `plain`, which computes the same
    /// values.
    ///
    /// # Errors
    ///
    /// Describes the first difference.
    pub fn agree_with_transforms(&self, plain: &dyn Fn(&X) -> Y, x: &X) -> Result<(), String> {
        let value = plain(x);
        let expected = entries(&value);
        let equal = |what: &str, y: &Y| {
            let bits = |xs: &[f64]| xs.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
            let got = entries(y);
            if bits(&got) == bits(&expected) {
                return Ok(());
            }
            Err(format!(
                "{what}: the value is {got:?}, expected {expected:?}"
            ))
        };
        equal("the function", &(self.call)(x))?;
        let (ct, dx) = (noise_like(&value, 71), noise_like(x, 72));
        let (y, ct_x) = (self.vjp)(x, &ct);
        equal("vjp", &y)?;
        let (_, pullback) = vjp(plain, x);
        let reference = pullback.call(&ct);
        near("vjp", &entries(&ct_x), &entries(&reference), SAME_RULES)?;
        let (y, dy) = (self.jvp)(x, &dx);
        equal("jvp", &y)?;
        let (_, reference) = jvp(plain, x, &dx);
        near("jvp", &entries(&dy), &entries(&reference), SAME_RULES)
    }

    /// Compares the companions with finite differences of `plain`.
    ///
    /// # Errors
    ///
    /// Describes the first difference.
    pub fn agree_with_differences(&self, plain: &dyn Fn(&X) -> Y, x: &X) -> Result<(), String> {
        let dx = noise_like(x, 73);
        let (value, dy) = (self.jvp)(x, &dx);
        let dy = entries(&dy);
        // Large higher derivatives need a small step.
        let steps = [1e-3, 2e-4, 4e-5];
        let tries = steps.map(|h| near("jvp", &dy, &differences(plain, x, &dx, h), DIFFERENCES));
        if tries.iter().all(Result::is_err) {
            return tries
                .into_iter()
                .last()
                .expect("at least one step is tried");
        }
        // <ct, dy> = <ct_x, dx>
        let ct = noise_like(&value, 74);
        let (_, ct_x) = (self.vjp)(x, &ct);
        let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (
            inner(&entries(&ct), &dy),
            inner(&entries(&ct_x), &entries(&dx)),
        );
        near("vjp against jvp", &[right], &[left], 1e-9)
    }

    /// Compares the companions with the transforms of the function itself, and with differences.
    ///
    /// # Panics
    ///
    /// If they differ.
    #[track_caller]
    pub fn check(&self, x: &X) {
        let found = self.agree_with_transforms(self.call, x);
        let found = found.and_then(|()| self.agree_with_differences(self.call, x));
        if let Err(what) = found {
            panic!("{what}");
        }
    }
}
