//! Scans with an associative function, in a logarithmic number of steps.

use super::Outcome;
use super::control::turns;
use super::outcome::TransformSite;
use crate::raise::catch;
use crate::tree::leaves;
use crate::{Result, Tensor, Tree, check};

/// Returns the results of an associative function up to each slice of the leaves of `xs` along axis 0.
///
/// Result `i` is `f(f(x[0], x[1]), .., x[i])`. The function takes several slices at once: its operands
/// are trees like `xs` with less slices, and result `i` depends on slice `i` of both. Elementwise
/// functions and products of batches are of this form, and [`vmap`](crate::vmap) makes it of any other.
/// `f` runs about `2 log2(n)` times for `n` slices and is applied to less than `2 n` pairs of slices, as
/// in `jax.lax.associative_scan`. The ops that it records are those of the caller, so all derivatives
/// follow.
///
/// ```
/// # use gradloom::{Tensor, associative_scan};
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// let products = associative_scan(|a: &Tensor, b: &Tensor| a * b, &x);
/// assert_eq!(products.to_vec::<f32>(), [1.0, 2.0, 6.0, 24.0]);
///
/// // A linear recurrence: h = a h + b, from h = 0.
/// let steps = (Tensor::from([0.5f32, 0.5, 2.0]), Tensor::from([1.0f32, 3.0, 0.0]));
/// let (_, h) = associative_scan(
///     |(a, b): &(Tensor, Tensor), (c, d): &(Tensor, Tensor)| (a * c, c * b + d),
///     &steps,
/// );
/// assert_eq!(h.to_vec::<f32>(), [1.0, 3.5, 7.0]);
/// ```
///
/// # Panics
///
/// If the leaves of `xs` have different lengths along axis 0, or if `f` changes a shape or dtype. If
/// `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn associative_scan<X, R, F>(f: F, xs: &X) -> R::Wrap<X>
where
    X: Tree,
    R: Outcome<Tree = X>,
    F: Fn(&X, &X) -> R,
{
    AssociativeScan::new(f).call(xs)
}

/// A scan with an associative function, with a choice of axis and direction: see [`associative_scan`].
///
/// ```
/// # use gradloom::{AssociativeScan, Tensor};
/// let x = Tensor::from([[1.0f32, 2.0, 3.0]]);
/// let sums = AssociativeScan::new(|a: &Tensor, b: &Tensor| a + b).axis(1).reverse();
/// assert_eq!(sums.call(&x).to_vec::<f32>(), [6.0, 5.0, 3.0]);
/// ```
#[derive(Clone, Debug)]
pub struct AssociativeScan<F> {
    f: F,
    axis: isize,
    reverse: bool,
    made: TransformSite,
}

impl<F> AssociativeScan<F> {
    /// Returns the scan along axis 0 that starts with the first slices.
    #[track_caller]
    pub fn new(f: F) -> AssociativeScan<F> {
        AssociativeScan {
            f,
            axis: 0,
            reverse: false,
            made: TransformSite::by("associative_scan"),
        }
    }

    /// Scans along this axis of each leaf. Negative axes count from the right.
    ///
    /// The function takes this axis as axis 0.
    pub fn axis(mut self, axis: isize) -> AssociativeScan<F> {
        self.axis = axis;
        self
    }

    /// Starts with the last slices: the first operand of the function is from the later slices.
    pub fn reverse(mut self) -> AssociativeScan<F> {
        self.reverse = true;
        self
    }

    /// Returns the result up to each slice.
    ///
    /// # Panics
    ///
    /// As for [`associative_scan`], or if the axis is out of range.
    pub fn call<X, R>(self, xs: &X) -> R::Wrap<X>
    where
        X: Tree,
        R: Outcome<Tree = X>,
        F: Fn(&X, &X) -> R,
    {
        let made = self.made;
        R::wrap_made(self.try_call(xs), made)
    }

    fn try_call<X, R>(self, xs: &X) -> Result<X>
    where
        X: Tree,
        R: Outcome<Tree = X>,
        F: Fn(&X, &X) -> R,
    {
        let axis = self.axis;
        let xs = map(xs, |x| match axis {
            0 => x.clone(),
            axis => x.moveaxis(axis, 0),
        })?;
        let n = turns("associative_scan", &xs, None)?;
        let flipped = |xs: X| match self.reverse {
            true => map(&xs, |x| x.flip(0)),
            false => Ok(xs),
        };
        let ys = flipped(up_to_each(&self.f, flipped(xs)?, n)?)?;
        map(&ys, |y| match axis {
            0 => y.clone(),
            axis => y.moveaxis(0, axis),
        })
    }
}

/// Returns the results up to each of `n` slices along axis 0.
///
/// The results of pairs give those up to each odd slice, and one more step those up to the others.
fn up_to_each<X, R>(f: &impl Fn(&X, &X) -> R, xs: X, n: usize) -> Result<X>
where
    X: Tree,
    R: Outcome<Tree = X>,
{
    if n < 2 {
        return Ok(xs);
    }
    let n_odd = n / 2;
    let pairs = joined(
        f,
        &part(&xs, [0, 2 * n_odd - 1, 2])?,
        &part(&xs, [1, n, 2])?,
    )?;
    let odd = up_to_each(f, pairs, n_odd)?;
    let first = part(&xs, [0, 1, 1])?;
    let even = match n {
        2 => first,
        n => {
            let before = part(&odd, [0, (n - 1) / 2, 1])?;
            let rest = joined(f, &before, &part(&xs, [2, n, 2])?)?;
            combined(&first, &rest, |first, rest| {
                Tensor::concat(&[first, rest], 0)
            })?
        }
    };
    combined(&even, &odd, interleaved)
}

/// Returns the function of two trees, if the result has the shapes and dtypes of the operands.
fn joined<X, R>(f: &impl Fn(&X, &X) -> R, left: &X, right: &X) -> Result<X>
where
    X: Tree,
    R: Outcome<Tree = X>,
{
    let y = R::run(|| f(left, right))?;
    let expected = leaves(left);
    check::beside("result", left, "xs", &leaves(&y), check::avals(&expected))?;
    Ok(y)
}

/// Returns the slices from a start to a stop, with a step, of each leaf along axis 0.
fn part<X: Tree>(xs: &X, [start, stop, step]: [usize; 3]) -> Result<X> {
    map(xs, |x| x.slice([start], [stop], [step]))
}

/// Returns slices of two tensors along axis 0 in turn. The first one may have one more.
fn interleaved(even: &Tensor, odd: &Tensor) -> Tensor {
    let n = odd.shape()[0];
    let mut shape = odd.shape().to_vec();
    shape[0] = 2 * n;
    let pairs = Tensor::stack(&[&even.slice([0], [n], [1]), odd], 1).reshape(shape);
    match even.shape()[0] {
        m if m > n => Tensor::concat(&[&pairs, &even.slice([n], [m], [1])], 0),
        _ => pairs,
    }
}

/// Returns the tree of a function of each leaf.
fn map<X: Tree>(xs: &X, f: impl Fn(&Tensor) -> Tensor) -> Result<X> {
    catch(|| Ok(xs.map(&mut |x| f(x))))
}

/// Returns the tree of a function of each pair of leaves.
fn combined<X: Tree>(left: &X, right: &X, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Result<X> {
    let right = leaves(right);
    let mut right = right.iter();
    let mut pair = |x: &Tensor| f(x, right.next().expect("as many leaves"));
    catch(|| Ok(left.map(&mut pair)))
}
