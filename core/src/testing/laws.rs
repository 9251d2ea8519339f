//! Laws that a function and its derivatives obey.

use super::compare::{Failure, Pairs, ULPS, close, epsilon, is_near, numbers, same, scale};
use super::{Source, op_by_op};
use crate::observe::TraceContext;
use crate::tree::{frozen, leaves};
use crate::{DType, Outcome, Tensor, Tree, check, evaluate};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Checks the derivatives of a closure by the adjoint identity and finite differences.
///
/// The derivatives are those of [`crate::vjp`] and [`crate::jvp`]. Every leaf of `x` has to be a
/// float.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::gradcheck;
///
/// gradcheck(|x: &Tensor| x.sin() * x, &Tensor::from([0.5f64, 2.0]))?;
/// // At a kink the two sides have no common slope.
/// assert!(gradcheck(|x: &Tensor| x.abs() + x, &Tensor::from([0.0f64])).is_ok());
/// assert!(gradcheck(|x: &Tensor| x.relu(), &Tensor::from([0.0f64])).is_err());
/// # Ok::<(), gradloom::testing::Failure>(())
/// ```
///
/// # Errors
///
/// If a law does not hold, the closure returns `Err`, or a leaf is neither a float nor frozen.
pub fn gradcheck<X: Tree, R: Outcome>(f: impl Fn(&X) -> R, x: &X) -> Result<(), Failure> {
    check::floats(x, "argument")?;
    // The first run reports errors of the closure itself.
    R::run(|| f(x))?;
    let run = |x: &X| unwrap(R::run(|| f(x)));
    let forward = |x: &X, dx: &X| crate::jvp(run, x, dx);
    let reverse = |x: &X, ct: &R::Tree| {
        let (y, pullback) = crate::vjp(run, x);
        (y, pullback.call(ct))
    };
    adjoint_identity(reverse, forward, x)?;
    finite_differences(run, forward, x)
}

#[track_caller]
pub(super) fn unwrap<T>(result: crate::Result<T>) -> T {
    crate::raise::expect(result)
}

/// Checks that the result of `f` has the same bits when evaluated as one graph, [`op_by_op`], and while a
/// [`TraceContext`](crate::trace::TraceContext) is open.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::lazy_equals_op_by_op;
///
/// let x = Tensor::from([0.5f32, 2.0]);
/// lazy_equals_op_by_op(|| (x.exp() + 1.0).log())?;
/// # Ok::<(), gradloom::testing::Failure>(())
/// ```
///
/// # Errors
///
/// If the bits differ, or `f` returns `Err`.
pub fn lazy_equals_op_by_op<R: Outcome>(f: impl Fn() -> R) -> Result<(), Failure> {
    let lazy = R::run(&f)?;
    evaluate(&lazy)?;
    let single = R::run(|| op_by_op(&f))?;
    same(
        "evaluated as one graph, compared with op by op",
        "result",
        &lazy,
        &single,
    )?;
    let traced = R::run(|| {
        let _trace = TraceContext::new();
        f()
    })?;
    same(
        "evaluated while a trace is open, compared with op by op",
        "result",
        &traced,
        &single,
    )
}

/// Checks the companions of a function against the derivatives that the transforms compute.
///
/// `vjp` returns the result and the cotangents of `x` for a cotangent of the result. `jvp` returns
/// the result and its tangent for a tangent of `x`. Both are compared with [`crate::vjp`] and
/// [`crate::jvp`] of `f`, up to the order of sums.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::companions_equal_run_time_derivatives as agree;
///
/// let f = |x: &Tensor| x.square();
/// let vjp = |x: &Tensor, ct: &Tensor| (x.square(), ct * x * 2.0);
/// let x = Tensor::from([1.0f64, 3.0]);
/// assert!(agree(f, vjp, |x: &Tensor, dx: &Tensor| (x.square(), dx * x * 2.0), &x).is_ok());
/// assert!(agree(f, vjp, |x: &Tensor, dx: &Tensor| (x.square(), dx * x), &x).is_err());
/// ```
///
/// # Errors
///
/// If they differ.
pub fn companions_equal_run_time_derivatives<X: Tree, Y: Tree>(
    f: impl Fn(&X) -> Y,
    vjp: impl Fn(&X, &Y) -> (Y, X),
    jvp: impl Fn(&X, &X) -> (Y, Y),
    x: &X,
) -> Result<(), Failure> {
    let mut source = Source::new(1);
    let dx = source.like(x);
    let (run_time, pullback) = crate::vjp(&f, x);
    let ct = source.like(&run_time);
    let epsilon = epsilon(&[leaves(x), leaves(&run_time)].concat());
    let (y, ct_x) = vjp(x, &ct);
    close("the value of `vjp`", "result", &y, &run_time, epsilon)?;
    close(
        "the cotangents of `vjp` against those of the run time",
        "argument",
        &ct_x,
        &pullback.call(&ct),
        epsilon,
    )?;
    let (y, dy) = jvp(x, &dx);
    let (run_time, run_time_dy) = crate::jvp(&f, x, &dx);
    close("the value of `jvp`", "result", &y, &run_time, epsilon)?;
    close(
        "the tangent of `jvp` against that of the run time",
        "result",
        &dy,
        &run_time_dy,
        epsilon,
    )
}

/// Checks that `value_and_grad` agrees with `vjp` for the cotangent 1.
pub(crate) fn gradients_equal<X: Tree, Y: Tree>(
    found: &(Y, X),
    expected: &(Y, X),
) -> Result<(), Failure> {
    let ((y, ct), (expected_y, expected_ct)) = (found, expected);
    let epsilon = epsilon(&[leaves(ct), leaves(y)].concat());
    close(
        "the value of `value_and_grad`",
        "result",
        y,
        expected_y,
        epsilon,
    )?;
    close(
        "the gradients of `value_and_grad` against those of `vjp`",
        "argument",
        ct,
        expected_ct,
        epsilon,
    )
}

/// Checks `<ct, jvp(dx)> = <vjp(ct), dx>`: reverse mode is the adjoint of forward mode.
///
/// The closures are those of [`companions_equal_run_time_derivatives`]. The identity also holds if
/// both modes are wrong in the same way; [`finite_differences`] detects that.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::adjoint_identity;
///
/// let x = Tensor::from([1.0f64, 3.0]);
/// let vjp = |x: &Tensor, ct: &Tensor| (x.square(), ct * x * 2.0);
/// let jvp = |x: &Tensor, dx: &Tensor| (x.square(), dx * x * 2.0);
/// adjoint_identity(vjp, jvp, &x)?;
/// # Ok::<(), gradloom::testing::Failure>(())
/// ```
///
/// # Errors
///
/// If the two sides differ.
pub fn adjoint_identity<X: Tree, Y: Tree>(
    vjp: impl Fn(&X, &Y) -> (Y, X),
    jvp: impl Fn(&X, &X) -> (Y, Y),
    x: &X,
) -> Result<(), Failure> {
    let mut source = Source::new(2);
    let dx = source.like(x);
    let (y, dy) = jvp(x, &dx);
    let ct = source.like(&y);
    let (_, ct_x) = vjp(x, &ct);
    let (left, left_size) = dot("result", &ct, &dy)?;
    let (right, right_size) = dot("argument", &ct_x, &dx)?;
    let epsilon = epsilon(&[leaves(x), leaves(&y)].concat());
    let tolerance = ULPS * epsilon * left_size.max(right_size).max(1.0);
    match is_near(left, right, tolerance) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "<ct, jvp(dx)> is {left:?} and <vjp(ct), dx> is {right:?}; they have to be equal within {tolerance:.1e}"
        ))),
    }
}

/// Returns the inner product of two trees over their floats.
///
/// The second number is the sum of the magnitudes of its terms.
fn dot<T: Tree>(name: &str, a: &T, b: &T) -> Result<(f64, f64), Failure> {
    let (mut sum, mut size) = (0.0, 0.0);
    for (_, a, b) in Pairs::new(name, a, b)?.pairs {
        if !a.dtype().is_float() {
            continue;
        }
        for (a, b) in numbers(&a)?.iter().zip(&numbers(&b)?) {
            sum += a * b;
            size += (a * b).abs();
        }
    }
    Ok((sum, size))
}

/// Checks the tangent of `jvp` by finite differences: of 4th order, central, in random directions.
///
/// The slope is `(8 (f(x + h dx) - f(x - h dx)) - (f(x + 2h dx) - f(x - 2h dx))) / 12h`. Each
/// element of the result has to agree for one of several `h`. A small enough `h` does not reach a
/// kink that is not at `x` itself. `f32` arguments are converted to `f64` if `f` accepts those.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::finite_differences;
///
/// let x = Tensor::from([1.0f64, 3.0]);
/// let f = |x: &Tensor| x.square();
/// assert!(finite_differences(f, |x: &Tensor, dx: &Tensor| (x.square(), dx * x * 2.0), &x).is_ok());
/// assert!(finite_differences(f, |x: &Tensor, dx: &Tensor| (x.square(), dx * x), &x).is_err());
/// ```
///
/// # Errors
///
/// If they disagree, or the result is not finite.
pub fn finite_differences<X: Tree, Y: Tree>(
    f: impl Fn(&X) -> Y,
    jvp: impl Fn(&X, &X) -> (Y, Y),
    x: &X,
) -> Result<(), Failure> {
    let wide = in_f64(x);
    let x = match is_single(&leaves(x)) && takes(&f, &wide) {
        true => &wide,
        false => x,
    };
    let mut source = Source::new(3);
    for _ in 0..N_DIRECTIONS {
        let dx = source.like(x);
        differences_along(&f, &jvp, x, &dx)?;
    }
    Ok(())
}

const N_DIRECTIONS: usize = 2;

/// Step sizes and the tolerance of finite differences.
///
/// The first size balances truncation and rounding; the others are smaller.
pub(super) struct Steps {
    pub(super) sizes: [f64; 4],
    pub(super) tolerance: f64,
}

const DOUBLE: Steps = Steps {
    sizes: [1e-3, 1e-4, 1e-5, 1e-6],
    tolerance: 1e-7,
};

const SINGLE: Steps = Steps {
    sizes: [1e-1, 3e-2, 1e-2, 1e-3],
    tolerance: 4e-3,
};

/// Returns the steps for arguments of these dtypes.
pub(super) fn steps_of(leaves: &[Tensor]) -> Steps {
    match is_single(leaves) {
        true => SINGLE,
        false => DOUBLE,
    }
}

pub(super) fn is_single(leaves: &[Tensor]) -> bool {
    leaves.iter().any(|x| x.dtype() == DType::F32)
}

/// Converts the `f32` leaves of a tree to `f64`.
pub(super) fn in_f64<X: Tree>(x: &X) -> X {
    x.map(&mut |leaf| match leaf.dtype() {
        DType::F32 => leaf.cast(DType::F64),
        _ => leaf.clone(),
    })
}

/// Returns whether `f` computes in `f64` throughout.
pub(super) fn takes<X: Tree, Y: Tree>(f: impl Fn(&X) -> Y, x: &X) -> bool {
    let run = || crate::raise::catch(|| Ok(f(x)));
    // A function may assert its dtype.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(y)) => !is_single(&leaves(&y)) && evaluate(&y).is_ok(),
        _ => false,
    }
}

fn differences_along<X: Tree, Y: Tree>(
    f: impl Fn(&X) -> Y,
    jvp: impl Fn(&X, &X) -> (Y, Y),
    x: &X,
    dx: &X,
) -> Result<(), Failure> {
    let (y, dy) = jvp(x, dx);
    let steps = steps_of(&[leaves(x), leaves(&y)].concat());
    // Elements for which no step has agreed yet.
    let mut open: Vec<Open> = Vec::new();
    let tangents = Pairs::new("result", &dy, &y)?.pairs;
    for (leaf, (path, dy, y)) in tangents.iter().enumerate() {
        if !y.dtype().is_float() {
            continue;
        }
        let (y, dy) = (numbers(y)?, numbers(dy)?);
        if let Some(i) = y.iter().position(|y| !y.is_finite()) {
            return Err(Failure::new(format!(
                "element {i} of `{path}` is {:?}, so finite differences do not exist; sample arguments for which it is finite, as in `check(range(x = 0.5..2.0))`",
                y[i]
            )));
        }
        let size = scale(y.iter().chain(&dy));
        open.extend(dy.iter().enumerate().map(|(i, dy)| Open {
            leaf,
            i,
            dy: *dy,
            size,
            slope: None,
        }));
    }
    for h in steps.sizes {
        if open.is_empty() {
            break;
        }
        let at = |step: f64| -> Result<Vec<Vec<f64>>, Failure> {
            let moved = step_along(x, dx, step * h)?;
            leaves(&f(&moved)).iter().map(numbers).collect()
        };
        let [far_up, up, down, far_down] = [at(2.0)?, at(1.0)?, at(-1.0)?, at(-2.0)?];
        let slope = |leaf: usize, i: usize| {
            let get =
                |values: &Vec<Vec<f64>>| values.get(leaf).and_then(|leaf| leaf.get(i)).copied();
            let [a, b, c, d] = [get(&far_up)?, get(&up)?, get(&down)?, get(&far_down)?];
            Some((8.0 * (b - c) - (a - d)) / (12.0 * h))
        };
        open.retain_mut(|open| {
            let found = slope(open.leaf, open.i).unwrap_or(f64::NAN);
            open.slope.get_or_insert(found);
            let agrees = (found - open.dy).abs() <= steps.tolerance * open.size;
            !agrees
        });
    }
    let Some(open) = open.first() else {
        return Ok(());
    };
    let (path, i, dy) = (&tangents[open.leaf].0, open.i, open.dy);
    let (slope, tolerance) = (open.slope.unwrap_or(f64::NAN), steps.tolerance * open.size);
    Err(Failure::new(format!(
        "the tangent of element {i} of `{path}` is {dy:?}, and differences give {slope:?}; they have to be equal within {tolerance:.1e}"
    )))
}

/// An element of the result for which no step has agreed yet, with the slope of the first step.
struct Open {
    leaf: usize,
    i: usize,
    dy: f64,
    /// Largest magnitude in the tensor of the element.
    size: f64,
    slope: Option<f64>,
}

/// Computes `x + t dx`, as data.
fn step_along<X: Tree>(x: &X, dx: &X, t: f64) -> Result<X, Failure> {
    let failure = RefCell::new(None);
    let mut directions = leaves(dx).into_iter().zip(frozen(x));
    let moved = x.map(&mut |leaf| {
        let (direction, frozen) = directions
            .next()
            .expect("a tangent has the structure of its argument");
        if frozen {
            return leaf.clone();
        }
        let moved = numbers(leaf).and_then(|x| Ok((x, numbers(&direction)?)));
        let (x, dx) = match moved {
            Ok(both) => both,
            Err(error) => {
                failure.replace(Some(error));
                return leaf.clone();
            }
        };
        let data: Vec<f64> = x.iter().zip(&dx).map(|(x, dx)| x + t * dx).collect();
        Tensor::from_vec(data, leaf.shape()).cast(leaf.dtype())
    });
    match failure.into_inner() {
        Some(error) => Err(error),
        None => Ok(moved),
    }
}
