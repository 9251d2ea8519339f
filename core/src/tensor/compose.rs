//! Lengths, axes and indices for methods that consist of other ops, and tensors that depend on
//! nothing.

use super::Tensor;
use super::contract::paired;
use crate::raise::raise;
use crate::{Aval, DType, Error, IntoStatic};
use gradloom_ir::Static;
use std::f64::consts::TAU;
use std::ops::Range;

#[track_caller]
fn refuse(call: &str, reason: String) -> ! {
    let call = call.to_owned();
    raise(Error::Arguments { call, reason })
}

#[track_caller]
fn expect_float(call: &str, dtype: DType) {
    if !dtype.is_float() {
        refuse(call, format!("the dtype is {dtype}, expected a float"));
    }
}

/// Returns a list of counts.
pub fn counts(list: impl AsRef<[usize]>) -> Vec<usize> {
    list.as_ref().to_vec()
}

/// Returns lists of axes of two tensors.
pub fn pairs((left, right): (&[i64], &[i64])) -> [Vec<i64>; 2] {
    [left.to_vec(), right.to_vec()]
}

/// Returns the shapes of a tiled tensor: with an axis of length 1 before each of its axes, with
/// these repeated, and joined.
pub fn tile_lens(shape: &[usize], counts: &[usize]) -> [Vec<usize>; 3] {
    let rank = shape.len().max(counts.len());
    let at = |list: &[usize], i: usize| (i + list.len()).checked_sub(rank).map_or(1, |i| list[i]);
    let pair = |i: usize| [at(counts, i), at(shape, i)];
    let split = (0..rank).flat_map(|i| [1, at(shape, i)]).collect();
    let wide = (0..rank).flat_map(pair).collect();
    let whole = (0..rank).map(|i| pair(i)[0].saturating_mul(pair(i)[1]));
    [split, wide, whole.collect()]
}

/// Returns an axis counted from the left.
#[track_caller]
fn axis_of(x: &Aval, axis: i64) -> usize {
    let rank = x.shape().len() as i64;
    let at = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&at) {
        let (axis, aval) = (axis as isize, x.clone());
        raise(Error::NoAxis { axis, aval });
    }
    at as usize
}

/// Returns the axis of the vectors of a cross product, if it has length 3 in both operands.
#[track_caller]
pub fn vector_axis(x: &Aval, y: &Aval, axis: impl IntoStatic) -> i64 {
    let call = "cross";
    let axis = axis.into_static();
    let Some(axis) = axis.int() else {
        refuse(call, format!("the axis is {axis}, expected an integer"));
    };
    for x in [x, y] {
        let len = x.shape()[axis_of(x, axis)];
        if len != 3 {
            refuse(
                call,
                format!("axis {axis} of {x} has length {len}, expected 3"),
            );
        }
    }
    axis
}

/// Returns the fraction `q`, if an axis of floats has an element there.
#[track_caller]
pub fn fraction(call: &str, x: &Aval, q: f64, axis: i64) -> f64 {
    if x.shape()[axis_of(x, axis)] == 0 {
        refuse(call, format!("axis {axis} has length 0"));
    }
    if !(0.0..=1.0).contains(&q) {
        refuse(call, format!("{q} is not from 0 to 1"));
    }
    expect_float(call, x.dtype());
    q
}

/// Returns the length of an axis along which there is a slope.
#[track_caller]
pub fn slope_len(x: &Aval, axis: i64) -> usize {
    let n = x.shape()[axis_of(x, axis)];
    if n < 2 {
        let reason = format!("axis {axis} of {x} has length {n}, expected at least 2");
        refuse("gradient", reason);
    }
    n
}

/// Returns an index of an axis counted from the left, if it is less than `end`.
#[track_caller]
fn place(call: &str, x: &Aval, at: i64, axis: i64, end: usize) -> usize {
    let n = x.shape()[axis_of(x, axis)];
    let place = if at < 0 { at + n as i64 } else { at };
    if !(0..end as i64).contains(&place) {
        let reason = format!("the index {at} is out of range for axis {axis} of {x}");
        refuse(call, reason);
    }
    place as usize
}

/// Returns the index before which a slice is inserted.
#[track_caller]
pub fn insert_place(x: &Aval, at: i64, axis: i64) -> usize {
    place("insert_slice", x, at, axis, x.shape()[axis_of(x, axis)] + 1)
}

/// Returns the index of a slice that is deleted.
#[track_caller]
pub fn delete_place(x: &Aval, at: i64, axis: i64) -> usize {
    place("delete_slice", x, at, axis, x.shape()[axis_of(x, axis)])
}

/// Returns the shape of a slice of an axis.
#[track_caller]
pub fn slice_lens(x: &Aval, axis: i64) -> Vec<usize> {
    let mut lens = x.shape().to_vec();
    lens.remove(axis_of(x, axis));
    lens
}

/// Returns the numbers of rows and columns of matrices.
#[track_caller]
pub fn matrix_lens(call: &str, x: &Aval) -> [usize; 2] {
    match x.shape() {
        [.., m, n] => [*m, *n],
        _ => refuse(call, format!("{x} has less than two axes")),
    }
}

/// Returns the bound of a range of floats around 0.
#[track_caller]
pub fn shrink_bound(call: &str, x: &Aval, bound: f64) -> f64 {
    expect_float(call, x.dtype());
    if bound.is_nan() || bound < 0.0 {
        let reason = format!("the bound is {bound}, expected a number that is not negative");
        refuse(call, reason);
    }
    bound
}

/// Returns the axes at whose ends elements are added.
#[track_caller]
pub fn padded_axes(call: &str, shape: &[usize], low: &[usize], high: &[usize]) -> Vec<usize> {
    if [low.len(), high.len()] != [shape.len(); 2] {
        let (low, high, rank) = (low.len(), high.len(), shape.len());
        let reason = format!("{low} and {high} numbers are given for {rank} axes");
        refuse(call, reason);
    }
    let is_padded = |axis: &usize| low[*axis] > 0 || high[*axis] > 0;
    (0..shape.len()).filter(is_padded).collect()
}

/// Returns the indices of the elements of a padded axis.
#[track_caller]
pub fn padding(
    call: &str,
    shape: &[usize],
    low: &[usize],
    high: &[usize],
    axis: usize,
) -> Vec<i64> {
    let len = shape[axis] as i64;
    if len == 0 {
        refuse(
            call,
            format!("axis {axis} has length 0, which is too short"),
        );
    }
    let index = |place: i64| match call {
        "pad_edge" => place.clamp(0, len - 1),
        "pad_wrap" => place.rem_euclid(len),
        _ => {
            // A single element is its own mirror image.
            let period = (2 * (len - 1)).max(1);
            let at = place.rem_euclid(period);
            at.min(period - at).min(len - 1)
        }
    };
    (-(low[axis] as i64)..len + high[axis] as i64)
        .map(index)
        .collect()
}

/// Orders of axes and shapes by which a product over pairs of axes is a product of matrices.
pub struct DotPlan {
    /// Orders of the axes of both operands: the batch, then rows and columns.
    pub orders: [Vec<i64>; 2],
    /// Shapes of both operands with rows and columns joined, and of the result.
    pub lens: [Vec<usize>; 3],
}

/// Returns how `dot_general` multiplies tensors of these shapes.
#[track_caller]
pub fn dot_plan(
    x: &[usize],
    y: &[usize],
    summed: &[Vec<i64>; 2],
    batch: &[Vec<i64>; 2],
) -> DotPlan {
    let call = "dot_general";
    let paired = paired([x.len(), y.len()], summed, batch);
    let [batch, summed] = paired.unwrap_or_else(|reason| refuse(call, reason));
    for (pairs, what) in [(&summed, "summed"), (&batch, "batch")] {
        for [i, j] in pairs {
            let (m, n) = (x[*i], y[*j]);
            if m != n {
                let places =
                    format!("axis {i} on the left is {m}, and axis {j} on the right is {n}");
                refuse(call, format!("the {what} {places}"));
            }
        }
    }
    let side = |pairs: &[[usize; 2]], side: usize| -> Vec<usize> {
        pairs.iter().map(|pair| pair[side]).collect()
    };
    let free = |shape: &[usize], at: usize| -> Vec<usize> {
        let used = [side(&batch, at), side(&summed, at)].concat();
        (0..shape.len())
            .filter(|axis| !used.contains(axis))
            .collect()
    };
    let lens = |shape: &[usize], axes: &[usize]| -> Vec<usize> {
        axes.iter().map(|axis| shape[*axis]).collect()
    };
    let (left, right) = (free(x, 0), free(y, 1));
    let order = |parts: [&[usize]; 3]| parts.concat().iter().map(|axis| *axis as i64).collect();
    let batch_lens = lens(x, &side(&batch, 0));
    let joined = |groups: [Vec<usize>; 2]| {
        let joined = groups.map(|group| group.iter().product());
        [&batch_lens[..], &joined].concat()
    };
    let (inner_x, inner_y) = (side(&summed, 0), side(&summed, 1));
    DotPlan {
        orders: [
            order([&side(&batch, 0), &left, &inner_x]),
            order([&side(&batch, 1), &inner_y, &right]),
        ],
        lens: [
            joined([lens(x, &left), lens(x, &inner_x)]),
            joined([lens(y, &inner_y), lens(y, &right)]),
            [batch_lens.clone(), lens(x, &left), lens(y, &right)].concat(),
        ],
    }
}

/// Returns the shapes of two tensors as factors of their Kronecker product, and its own shape.
pub fn kron_lens(x: &[usize], y: &[usize]) -> [Vec<usize>; 3] {
    let rank = x.len().max(y.len());
    let at = |list: &[usize], i: usize| (i + list.len()).checked_sub(rank).map_or(1, |i| list[i]);
    let pairs = || (0..rank).map(|i| (at(x, i), at(y, i)));
    let left = pairs().flat_map(|(m, _)| [m, 1]).collect();
    let right = pairs().flat_map(|(_, n)| [1, n]).collect();
    let whole = pairs().map(|(m, n)| m.saturating_mul(n)).collect();
    [left, right, whole]
}

/// Returns the largest finite number of a dtype.
pub fn largest(x: &Aval) -> f64 {
    match x.dtype() {
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// Returns a shape with other lengths in place of its last `n`.
pub fn with_last(shape: &[usize], n: usize, lens: &[usize]) -> Vec<usize> {
    [&shape[..shape.len() - n], lens].concat()
}

/// Returns the shapes of rows, with the axes of `ids` joined, of a row for each segment, and of one row.
#[track_caller]
pub fn segment_lens(call: &str, x: &[usize], ids: &[usize], segments: usize) -> [Vec<usize>; 3] {
    let Some(rest) = x.strip_prefix(ids) else {
        let reason =
            format!("the axes of the segments are {ids:?}, which {x:?} does not start with");
        refuse(call, reason);
    };
    [ids.iter().product(), segments, 1].map(|n| [&[n], rest].concat())
}

/// Returns the powers of two below `n`.
pub fn doubling_steps(n: usize) -> Vec<usize> {
    std::iter::successors(Some(1usize), |step| step.checked_mul(2))
        .take_while(|step| *step < n)
        .collect()
}

/// Returns the shape of a number for each row after the first `step`, beside rows of this shape.
pub fn column(rows: &[usize], step: usize) -> Vec<usize> {
    let first = rows[0] - step;
    [&[first], &vec![1; rows.len() - 1][..]].concat()
}

/// Returns the axis that the indices replace, if the updates have the shape of the slices.
#[track_caller]
pub fn update_axis(x: &Aval, indices: &Aval, updates: &Aval, axis: i64) -> usize {
    let at = axis_of(x, axis);
    let shape = x.shape();
    let expected = [&shape[..at], indices.shape(), &shape[at + 1..]].concat();
    if updates.shape() != expected {
        let reason = format!("the updates are {updates}, expected the shape {expected:?}");
        refuse("scatter_mul", reason);
    }
    at
}

/// Returns a shape with `n` axes from `at` on joined to one.
pub fn joined_axes(shape: &[usize], at: usize, n: usize) -> Vec<usize> {
    let joined = shape[at..at + n].iter().product();
    [&shape[..at], &[joined], &shape[at + n..]].concat()
}

/// Returns the lowest number of a dtype.
pub fn lowest(x: &Aval) -> Static {
    match x.dtype() {
        DType::I32 => Static::Int(i32::MIN.into()),
        DType::I8 => Static::Int(i8::MIN.into()),
        DType::U8 => Static::Int(0),
        DType::I64 => Static::Int(i64::MIN),
        _ => Static::Float(f64::NEG_INFINITY),
    }
}

/// Returns the highest number of a dtype.
pub fn highest(x: &Aval) -> Static {
    match x.dtype() {
        DType::I32 => Static::Int(i32::MAX.into()),
        DType::I8 => Static::Int(i8::MAX.into()),
        DType::U8 => Static::Int(u8::MAX.into()),
        DType::I64 => Static::Int(i64::MAX),
        _ => Static::Float(f64::INFINITY),
    }
}

/// Returns the lengths of two vectors that are convolved.
#[track_caller]
pub fn convolved(call: &str, x: &[usize], y: &[usize]) -> [usize; 2] {
    match (x, y) {
        ([m, ..], [n, ..]) if x.len() == 1 && y.len() == 1 && *m > 0 && *n > 0 => [*m, *n],
        _ => refuse(
            call,
            format!("the shapes are {x:?} and {y:?}, expected two vectors with elements"),
        ),
    }
}

/// Returns the number of points of an interpolation.
#[track_caller]
pub fn n_points(points: &[usize], values: &[usize]) -> i64 {
    match points {
        [n] if *n > 0 && points == values => *n as i64,
        _ => refuse(
            "interp",
            format!(
                "the shapes of points and values are {points:?} and {values:?}, expected two vectors of one length"
            ),
        ),
    }
}

/// Returns the bits of a dtype of integers as those of an `i64`.
#[track_caller]
pub fn bit_mask(call: &str, x: &Aval) -> i64 {
    match x.dtype() {
        DType::I32 => u32::MAX.into(),
        DType::I8 | DType::U8 => u8::MAX.into(),
        DType::I64 => -1,
        found => refuse(call, format!("the dtype is {found}, expected an integer")),
    }
}

/// Returns the number of rows of square matrices.
#[track_caller]
pub fn square_len(call: &str, x: &Aval) -> usize {
    match x.shape() {
        [.., m, n] if m == n => *n,
        _ => refuse(call, format!("{x} does not consist of square matrices")),
    }
}

/// Returns the bits of the magnitude of an exponent after the first one, from the highest.
pub fn exponent_bits(n: i64) -> Vec<bool> {
    let n = n.unsigned_abs();
    let count = n.checked_ilog2().unwrap_or(0);
    (0..count).rev().map(|i| n >> i & 1 == 1).collect()
}

/// Returns a window of `count` numbers, a function of `i / (count - 1)`.
#[track_caller]
fn window(call: &str, count: usize, dtype: DType, of: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    expect_float(call, dtype);
    match count {
        1 => Tensor::ones([1], dtype),
        _ => of(&Tensor::linspace(0.0, 1.0, count, DType::F64)).cast(dtype),
    }
}

/// Returns the number of elements of a row up to a diagonal.
fn end_of_row(row: usize, columns: usize, diagonal: i64) -> usize {
    let end = (row as i64).saturating_add(diagonal).saturating_add(1);
    end.clamp(0, columns as i64) as usize
}

/// Returns the rows and columns of elements of a matrix, given the columns for each row.
#[track_caller]
fn matrix_indices(rows: usize, columns: impl Fn(usize) -> Range<usize>) -> Tensor {
    let each = |part: fn((usize, usize)) -> usize| {
        let places = (0..rows).flat_map(|row| columns(row).map(move |column| (row, column)));
        let part: Vec<i64> = places.map(|place| part(place) as i64).collect();
        Tensor::from(part)
    };
    Tensor::stack(&[each(|place| place.0), each(|place| place.1)], 0)
}

/// Tensors with numbers in a regular order.
impl Tensor {
    /// Returns `count` evenly spaced numbers from `start` to `stop`, including both.
    ///
    /// A single number is `start`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3, DType::F32).to_vec::<f32>(), [0.0, 0.5, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        expect_float("linspace", dtype);
        let steps = count.max(2) - 1;
        let t = Tensor::arange(count as i64, DType::F64) / steps as f64;
        ((1.0 - &t) * start + t * stop).cast(dtype)
    }

    /// Returns `count` powers of 10, whose exponents are evenly spaced from `start` to `stop`,
    /// including both.
    ///
    /// A single number is `10^start`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::logspace(0.0, 2.0, 3, DType::F64).to_vec::<f64>(), [1.0, 10.0, 100.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn logspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        expect_float("logspace", dtype);
        let exponents = Tensor::linspace(start, stop, count, DType::F64);
        Tensor::scalar(10.0f64).pow(exponents).cast(dtype)
    }

    /// Returns `count` numbers from `start` to `stop`, including both, with a constant ratio.
    ///
    /// Both are positive, or both are negative. A single number is `start`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::geomspace(1.0, 16.0, 3, DType::F64);
    /// assert_eq!(x.to_vec::<f64>(), [1.0, 4.0, 16.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `start` or `stop` is 0 or not finite, their signs differ, the dtype is not a float, or there
    /// are too many numbers.
    #[track_caller]
    pub fn geomspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        let call = "geomspace";
        expect_float(call, dtype);
        for (name, x) in [("start", start), ("stop", stop)] {
            if x == 0.0 || !x.is_finite() {
                let reason = format!("`{name}` is {x}, expected a finite number other than 0");
                refuse(call, reason);
            }
        }
        if start.signum() != stop.signum() {
            let reason = format!("`start` is {start} and `stop` is {stop}, expected one sign");
            refuse(call, reason);
        }
        let t = Tensor::linspace(0.0, 1.0, count, DType::F64);
        let first = Tensor::scalar(start.abs()).pow(1.0 - &t);
        (first * Tensor::scalar(stop.abs()).pow(t) * start.signum()).cast(dtype)
    }

    /// Returns a Hann window of `count` numbers: `(1 - cos(2 pi i / (count - 1))) / 2`.
    ///
    /// It is symmetric, as `jax.numpy.hanning`. A single number is 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::hann(3, DType::F64).to_vec::<f64>(), [0.0, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn hann(count: usize, dtype: DType) -> Tensor {
        window("hann", count, dtype, |t| (1.0 - (t * TAU).cos()) * 0.5)
    }

    /// Returns a Hamming window of `count` numbers: `0.54 - 0.46 cos(2 pi i / (count - 1))`.
    ///
    /// It is symmetric, as `jax.numpy.hamming`. A single number is 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::hamming(3, DType::F32).to_vec::<f32>(), [0.08, 1.0, 0.08]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn hamming(count: usize, dtype: DType) -> Tensor {
        window("hamming", count, dtype, |t| 0.54 - (t * TAU).cos() * 0.46)
    }

    /// Returns a Blackman window of `count` numbers: `0.42 - 0.5 cos(t) + 0.08 cos(2 t)` for
    /// `t = 2 pi i / (count - 1)`.
    ///
    /// It is symmetric, as `jax.numpy.blackman`. A single number is 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::blackman(5, DType::F32).to_vec::<f32>();
    /// assert_eq!((x[1], x[2]), (0.34, 1.0));
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn blackman(count: usize, dtype: DType) -> Tensor {
        window("blackman", count, dtype, |t| {
            0.42 - (t * TAU).cos() * 0.5 + (t * (2.0 * TAU)).cos() * 0.08
        })
    }

    /// Returns a Bartlett window of `count` numbers, a triangle: `1 - |2 i / (count - 1) - 1|`.
    ///
    /// It is symmetric, as `jax.numpy.bartlett`. A single number is 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::bartlett(5, DType::F64).to_vec::<f64>(), [0.0, 0.5, 1.0, 0.5, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is not a float, or there are too many numbers.
    #[track_caller]
    pub fn bartlett(count: usize, dtype: DType) -> Tensor {
        window("bartlett", count, dtype, |t| 1.0 - (t * 2.0 - 1.0).abs())
    }

    /// Returns the matrix of shape `[rows, columns]` with 1 up to a diagonal and 0 above.
    ///
    /// `diagonal` is 0 for the main one and positive above it.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::tri(2, 3, 0, DType::F32);
    /// assert_eq!(x.to_vec::<f32>(), [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the matrix is too large.
    #[track_caller]
    pub fn tri(rows: usize, columns: usize, diagonal: i64, dtype: DType) -> Tensor {
        Tensor::ones([rows, columns], dtype).tril(diagonal)
    }

    /// Returns the indices of the elements of a matrix up to a diagonal, in row-major order.
    ///
    /// The result is `i64[2, n]`, as in PyTorch: the rows, then the columns. `diagonal` is 0 for the
    /// main one and positive above it.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let [rows, columns] = Tensor::tril_indices(2, 3, 0).unbind(0);
    /// assert_eq!(rows.to_vec::<i64>(), [0, 1, 1]);
    /// assert_eq!(columns.to_vec::<i64>(), [0, 0, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the result is too large.
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, diagonal: i64) -> Tensor {
        matrix_indices(rows, |row| 0..end_of_row(row, columns, diagonal))
    }

    /// Returns the indices of the elements of a matrix from a diagonal on, in row-major order.
    ///
    /// The result is `i64[2, n]`, as in PyTorch: the rows, then the columns. `diagonal` is 0 for the
    /// main one and positive above it.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let [rows, columns] = Tensor::triu_indices(2, 3, 1).unbind(0);
    /// assert_eq!(rows.to_vec::<i64>(), [0, 0, 1]);
    /// assert_eq!(columns.to_vec::<i64>(), [1, 2, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the result is too large.
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, diagonal: i64) -> Tensor {
        let before = diagonal.saturating_sub(1);
        matrix_indices(rows, |row| end_of_row(row, columns, before)..columns)
    }

    /// Returns each of these vectors repeated to the shape of their lengths, along its own axis.
    ///
    /// The first vector varies along the first axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let grid = Tensor::meshgrid(&[Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 4.0])]);
    /// assert_eq!(grid[0].to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0]);
    /// assert_eq!(grid[1].to_vec::<f32>(), [3.0, 4.0, 3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the result is too large.
    #[track_caller]
    pub fn meshgrid<T: AsRef<Tensor>>(tensors: &[T]) -> Vec<Tensor> {
        let whole: Vec<i64> = tensors.iter().map(|x| x.as_ref().numel() as i64).collect();
        let along = |(axis, x): (usize, &T)| {
            let mut shape = vec![1; whole.len()];
            shape[axis] = whole[axis];
            x.as_ref().reshape(shape).broadcast_to(whole.clone())
        };
        tensors.iter().enumerate().map(along).collect()
    }
}
