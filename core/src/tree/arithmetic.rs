//! Arithmetic on whole trees: corresponding leaves of two trees, sums over all leaves.
//!
//! Functions that return a tensor are traced, so a traced body may call them. The others take
//! closures or return trees: a traced body that calls one is recorded.

use super::{frozen, leaves};
use crate::raise::{expect, raise};
use crate::{Aval, DType, Error, Operand, Result, Tensor, Tree};
use gradloom_macros::traced;
use std::fmt::Debug;

/// Returns the tree of `f(left, right)` for each pair of corresponding leaves.
///
/// The result has the structure and the skipped fields of `left`.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let slow = vec![Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32])];
/// let fast = vec![Tensor::from([3.0f32, 4.0]), Tensor::from([5.0f32])];
/// let mean = tree::map2(&slow, &fast, |slow, fast| slow * 0.5 + fast * 0.5);
/// assert_eq!(mean[0].to_vec::<f32>(), [2.0, 3.0]);
/// ```
///
/// # Panics
///
/// If the trees have different structures.
#[track_caller]
pub fn map2<T: Tree>(left: &T, right: &T, f: impl FnMut(&Tensor, &Tensor) -> Tensor) -> T {
    zip(
        expect(pairs("tree::map2", left, right, Leaves::Any)),
        left,
        f,
    )
}

/// Returns the sum of two trees, leaf by leaf. Frozen leaves are those of `left`.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
/// let step = tree::scale(&x, -0.5);
/// assert_eq!(tree::add(&x, &step).0.to_vec::<f32>(), [0.5, 1.0]);
/// ```
///
/// # Panics
///
/// If the trees have different structures, or corresponding leaves different shapes or dtypes.
#[track_caller]
pub fn add<T: Tree>(left: &T, right: &T) -> T {
    let pairs = expect(pairs("tree::add", left, right, Leaves::Equal));
    zip(pairs, left, free(left, |x, y| x + y))
}

/// Returns the difference of two trees, leaf by leaf. Frozen leaves are those of `left`.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let [x, y] = [[3.0f64, 4.0], [1.0, 1.0]].map(|x| vec![Tensor::from(x)]);
/// assert_eq!(tree::sub(&x, &y)[0].to_vec::<f64>(), [2.0, 3.0]);
/// ```
///
/// # Panics
///
/// As for [`add`].
#[track_caller]
pub fn sub<T: Tree>(left: &T, right: &T) -> T {
    let pairs = expect(pairs("tree::sub", left, right, Leaves::Equal));
    zip(pairs, left, free(left, |x, y| x - y))
}

/// Returns the tree with each leaf multiplied by a number or a tensor of rank 0.
///
/// A tensor is cast to the dtype of each leaf. Frozen leaves are kept.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = (Tensor::from([3.0f32]), Tensor::from([4.0f64]));
/// let unit = tree::scale(&x, &(1.0 / tree::norm(&x)));
/// assert!((tree::norm(&unit).item::<f64>() - 1.0).abs() < 1e-7);
/// assert_eq!(tree::scale(&x, 2.0).0.to_vec::<f32>(), [6.0]);
/// ```
///
/// # Panics
///
/// If the factor has a rank other than 0, or is a number that does not fit the dtype of a leaf.
#[track_caller]
pub fn scale<T: Tree>(tree: &T, factor: impl Operand + Copy) -> T {
    let (mut i, frozen) = (0, frozen(tree));
    tree.map(&mut |leaf| {
        if frozen[i] {
            i += 1;
            return leaf.clone();
        }
        let factor = factor.in_dtype_of(leaf);
        if factor.rank() != 0 {
            raise(Error::Mismatch {
                what: "factor",
                path: paths(tree, "tree").swap_remove(i),
                found: Box::new(factor.aval().clone()),
                expected: Box::new(Aval::new(leaf.dtype(), [])),
            });
        }
        i += 1;
        leaf * factor
    })
}

/// Returns the sum of the products of corresponding elements, as a tensor of rank 0.
///
/// Its dtype is that of the leaves, `f32` for floats of 16 bits, or `f64` if these differ. Frozen leaves do not
/// count.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
/// assert_eq!(tree::dot(&x, &x).item::<f32>(), 14.0);
/// ```
///
/// # Panics
///
/// As for [`add`].
#[traced(pure, record)]
#[track_caller]
pub fn dot<T: Tree>(left: &T, right: &T) -> Tensor {
    products("tree::dot", left, right)
}

/// Returns the Euclidean norm of all elements, as a tensor of rank 0.
///
/// Its dtype is that of [`dot()`]. Frozen leaves do not count. Its gradient at zero is NaN, as that of a square root.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let gradients = vec![Tensor::from([3.0f32]), Tensor::from([0.0f32, 4.0])];
/// assert_eq!(tree::norm(&gradients).item::<f32>(), 5.0);
/// ```
///
/// Leaves with a batch prefix have a norm for each element of the prefix.
///
/// # Panics
///
/// If a leaf is not a float.
#[traced(pure, record)]
#[track_caller]
pub fn norm<T: Tree>(tree: &T) -> Tensor {
    products("tree::norm", tree, tree).sqrt()
}

/// Returns the sum of all elements, as a tensor of rank 0.
///
/// Its dtype is that of [`dot()`].
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = (Tensor::from([1.0f32, 2.0]), Tensor::from([[3.0f32]]));
/// assert_eq!(tree::sum(&x).item::<f32>(), 6.0);
/// ```
#[traced(pure, record)]
#[track_caller]
pub fn sum<T: Tree>(tree: &T) -> Tensor {
    total(leaves(tree))
}

/// Returns whether corresponding elements differ by at most `tolerance`.
///
/// The tolerance is absolute for elements up to 1, and relative to the larger one above. Elements
/// that are not floats are compared exactly. A NaN equals any other NaN.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = vec![Tensor::from([1.0f64, 1000.0])];
/// assert!(tree::is_close(&x, &tree::scale(&x, 1.0 + 1e-9), 1e-8));
/// assert!(!tree::is_close(&x, &tree::scale(&x, 1.0 + 1e-7), 1e-8));
/// ```
///
/// # Panics
///
/// As for [`add`], and if computing a leaf fails.
#[track_caller]
pub fn is_close<T: Tree>(left: &T, right: &T, tolerance: f64) -> bool {
    expect(difference("tree::is_close", left, right, tolerance)).is_none()
}

/// Panics unless corresponding elements differ by at most `tolerance`, as [`is_close`] has it.
///
/// ```should_panic
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let x = vec![Tensor::from([1.0f64, 1000.0])];
/// // element 0 of the leaf `left[0]` is 1.0, and that of `right[0]` is 2.0
/// tree::assert_close(&x, &tree::scale(&x, 2.0), 1e-8);
/// ```
///
/// # Panics
///
/// As for [`is_close`]; the message has the path of the first leaf that differs.
#[track_caller]
pub fn assert_close<T: Tree>(left: &T, right: &T, tolerance: f64) {
    if let Some(message) = expect(difference("tree::assert_close", left, right, tolerance)) {
        panic!("{message}, more than the tolerance {tolerance:e}");
    }
}

/// Returns the leaves with their paths, such as `layers[0].w`, in order.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// let pair = (Tensor::from([1.0f32]), vec![Tensor::from(2.0f32)]);
/// let found = tree::leaves_with_paths(&pair);
/// assert_eq!(found[1].0, "1[0]");
/// assert_eq!(found[1].1.item::<f32>(), 2.0);
/// ```
pub fn leaves_with_paths<T: Tree>(tree: &T) -> Vec<(String, Tensor)> {
    paths(tree, "").into_iter().zip(leaves(tree)).collect()
}

/// Which leaves of two trees are a pair.
#[derive(PartialEq)]
enum Leaves {
    /// Leaves with equal paths.
    Any,
    /// Leaves with equal paths, shapes and dtypes.
    Equal,
}

/// Returns the paths of the leaves. Without a name, they begin with the first field.
pub(crate) fn paths(tree: &impl Tree, name: &str) -> Vec<String> {
    let mut paths = Vec::new();
    tree.paths(name, &mut paths);
    if name.is_empty() {
        for path in &mut paths {
            if path.starts_with('.') {
                path.remove(0);
            }
        }
    }
    paths
}

/// Pairs the leaves of two trees, which are `left` and `right` in messages.
///
/// # Errors
///
/// If two leaves with the same index are not a pair, or a leaf has no counterpart.
fn pairs<T: Tree>(
    function: &'static str,
    left: &T,
    right: &T,
    which: Leaves,
) -> Result<Vec<(Tensor, Tensor)>> {
    const NAMES: [&str; 2] = ["left", "right"];
    let leaves = [leaves(left), leaves(right)];
    let paths = [paths(left, NAMES[0]), paths(right, NAMES[1])];
    let described = |side: usize, leaf: usize| {
        let path: &String = paths[side].get(leaf)?;
        let aval = (which == Leaves::Equal).then(|| leaves[side][leaf].aval());
        Some((&path[NAMES[side].len()..], aval))
    };
    let mut all = 0..paths[0].len().max(paths[1].len());
    if let Some(leaf) = all.find(|leaf| described(0, *leaf) != described(1, *leaf)) {
        let [left, right] = [0, 1].map(|side| match paths[side].get(leaf) {
            Some(path) => format!("`{path}` is {}", leaves[side][leaf].aval()).into(),
            None => format!("`{}` has no such leaf", NAMES[side]).into(),
        });
        return Err(Error::Trees {
            function,
            leaf,
            left,
            right,
        });
    }
    let [xs, ys] = leaves;
    Ok(xs.into_iter().zip(ys).collect())
}

/// Returns the tree of `f` of each pair.
fn zip<T: Tree>(
    pairs: Vec<(Tensor, Tensor)>,
    like: &T,
    mut f: impl FnMut(&Tensor, &Tensor) -> Tensor,
) -> T {
    let mut pairs = pairs.into_iter();
    like.map(&mut |_| {
        let (x, y) = pairs.next().expect("a pair for each leaf");
        f(&x, &y)
    })
}

/// Returns `f` for leaves that are not frozen. A frozen leaf of the left tree is kept.
fn free(
    left: &impl Tree,
    mut f: impl FnMut(&Tensor, &Tensor) -> Tensor,
) -> impl FnMut(&Tensor, &Tensor) -> Tensor {
    let mut frozen = frozen(left).into_iter();
    move |x, y| match frozen.next() {
        Some(true) => x.clone(),
        _ => f(x, y),
    }
}

/// Returns the sum of the elements of all products of two leaves that are not frozen.
#[track_caller]
fn products<T: Tree>(function: &'static str, left: &T, right: &T) -> Tensor {
    let pairs = expect(pairs(function, left, right, Leaves::Equal));
    let pairs = pairs.into_iter().zip(frozen(left));
    let free = pairs.filter(|(_, frozen)| !frozen).map(|(pair, _)| pair);
    let free = free.map(|(x, y)| widened(&x) * widened(&y));
    total(free.collect())
}

/// Returns floats of 16 bits as `f32`: the square of a moderate `f16` is infinite.
pub(crate) fn widened(x: &Tensor) -> Tensor {
    match x.dtype().is_float() {
        true => x.cast(x.dtype().computed()),
        false => x.clone(),
    }
}

/// Returns the sum of all elements, in `f64` if the dtypes differ. That of floats of 16 bits is an `f32`.
#[track_caller]
fn total(tensors: Vec<Tensor>) -> Tensor {
    let tensors: Vec<Tensor> = tensors.iter().map(widened).collect();
    let first = tensors.first().map_or(DType::F32, Tensor::dtype);
    let dtype = match tensors.iter().all(|x| x.dtype() == first) {
        true => first,
        false => DType::F64,
    };
    let sums = tensors.iter().map(|x| x.cast(dtype).sum(..));
    let sum = sums.reduce(|sum, x| sum + x);
    sum.unwrap_or_else(|| Tensor::zeros([], dtype))
}

/// Describes the first two elements that differ by more than `tolerance`.
fn difference<T: Tree>(
    function: &'static str,
    left: &T,
    right: &T,
    tolerance: f64,
) -> Result<Option<String>> {
    let pairs = pairs(function, left, right, Leaves::Equal)?;
    for (i, (x, y)) in pairs.iter().enumerate() {
        let found = match x.dtype() {
            dtype if dtype.is_float() => {
                let numbers = |x: &Tensor| x.cast(DType::F64).try_to_vec::<f64>();
                first_difference(numbers(x)?, numbers(y)?, |x, y| is_near(*x, *y, tolerance))
            }
            _ => {
                let numbers = |x: &Tensor| x.cast(DType::I64).try_to_vec::<i64>();
                first_difference(numbers(x)?, numbers(y)?, |x, y| x == y)
            }
        };
        if let Some((element, x, y)) = found {
            let [left, right] = [paths(left, "left"), paths(right, "right")];
            let (left, right) = (&left[i], &right[i]);
            return Ok(Some(format!(
                "element {element} of `{left}` is {x}, and that of `{right}` is {y}"
            )));
        }
    }
    Ok(None)
}

/// Returns the index and the values of the first two elements that are not the same.
fn first_difference<E: Debug>(
    xs: Vec<E>,
    ys: Vec<E>,
    is_same: impl Fn(&E, &E) -> bool,
) -> Option<(usize, String, String)> {
    let mut pairs = xs.iter().zip(&ys).enumerate();
    let (i, (x, y)) = pairs.find(|(_, (x, y))| !is_same(x, y))?;
    Some((i, format!("{x:?}"), format!("{y:?}")))
}

fn is_near(x: f64, y: f64, tolerance: f64) -> bool {
    // An infinite bound would make infinity close to any number.
    let bound = tolerance * x.abs().max(y.abs()).max(1.0);
    x == y || (x.is_nan() && y.is_nan()) || (bound.is_finite() && (x - y).abs() <= bound)
}

/// Makes markers of functions that are not traced but have no effects of their own.
///
/// A recorded body that calls them can be cached, as one that calls traced functions.
macro_rules! marks {
    ($($name:ident)*) => {$(
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        pub enum $name {
            __TRACED,
        }
        impl gradloom::__private::Facts for $name {
            const LEVEL_0: gradloom::__private::Fact =
                <gradloom::__private::NoFacts as gradloom::__private::Facts>::LEVEL_0;
        }
    )*};
}
pub(crate) use marks;
marks! { add map2 scale sub }
