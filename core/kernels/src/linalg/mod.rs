//! Linear algebra on batches of matrices, with the factorisations of `faer`.

use crate::memory::element::Element;
use crate::task::Prepared;
use crate::threads::for_each_chunks;
use faer::linalg::solvers::{Llt, PartialPivLu, Qr, SelfAdjointEigen, Solve, Svd};
use faer::linalg::triangular_solve;
use faer::traits::RealField;
use faer::{Mat, MatMut, MatRef, Par, Side};
use gradloom_ir::DType;
pub use gradloom_ir::op::Form;
use std::borrow::Cow;
use std::ops::{Div, Sub};

mod small;

use small::Order;

/// Float type of matrices.
trait Float: Element + RealField + Sub<Output = Self> + Div<Output = Self> {
    const NAN: Self;
    const ONE: Self;
    fn of(x: f64) -> Self;
    fn half(self) -> Self;
    fn is_finite(self) -> bool;
    fn is_normal(self) -> bool;
    fn ln(self) -> Self;
    fn abs(self) -> Self;
    fn signum(self) -> Self;
    fn product(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn root(self) -> Self;
}

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Float for $t {
            const NAN: $t = $t::NAN;
            const ONE: $t = 1.0;
            fn of(x: f64) -> $t { x as $t }
            fn half(self) -> $t { self * 0.5 }
            fn is_finite(self) -> bool { self.is_finite() }
            fn is_normal(self) -> bool { self.is_normal() }
            fn ln(self) -> $t { self.ln() }
            fn abs(self) -> $t { self.abs() }
            fn signum(self) -> $t { if self == 0.0 { self } else { self.signum() } }
            fn product(self, other: $t) -> $t { self * other }
            fn plus(self, other: $t) -> $t { self + other }
            fn root(self) -> $t { self.sqrt() }
        }
    )*};
}
floats!(f32 f64);

/// Number of rows up to which a matrix is factorised by the loops of [`small`].
const SMALL: usize = 16;

/// Calls `one` with each matrix of `lens[0]` elements, and the parts of the results for it.
///
/// `lens` are the numbers of elements of a matrix and of its results. A matrix takes about `nanos`.
fn for_each_matrix<T: Float, const N: usize>(
    n_matrices: usize,
    len: usize,
    lens: [usize; N],
    nanos: usize,
    one: impl Fn(&[T], [&mut [T]; N]) + Send + Sync + 'static,
) -> Prepared {
    Box::new(move |args, outs| {
        if lens == [0; N] {
            return Ok(());
        }
        let xs = T::slice(args[0]);
        let mut outs = outs.iter_mut();
        let outs = lens.map(|len| {
            let out = outs.next().expect("a buffer for each result");
            (T::slice_mut(out), len)
        });
        for_each_result(n_matrices, outs, nanos, |i, outs| {
            one(&xs[i * len..][..len], outs);
        });
        Ok(())
    })
}

/// Least time of a task in nanoseconds. Threads whose tasks are shorter write to the same cache lines at the same time.
const TASK_NANOS: usize = 10_000;

/// Calls `one` with each number below `n` and its part of each slice, whose length is given with the slice.
///
/// A call takes about `nanos`.
fn for_each_result<T: Float, const N: usize>(
    n: usize,
    outs: [(&mut [T], usize); N],
    nanos: usize,
    one: impl Fn(usize, [&mut [T]; N]) + Sync,
) {
    let some = (TASK_NANOS / nanos.max(1)).max(1);
    let lens = outs.each_ref().map(|(_, len)| *len);
    for_each_chunks(
        n.div_ceil(some),
        outs.map(|(out, len)| (out, len * some)),
        nanos.saturating_mul(n),
        |task, mut outs| {
            for i in task * some..n.min((task + 1) * some) {
                let mut lens = lens.into_iter();
                let parts = outs.each_mut().map(|out| {
                    let len = lens.next().expect("a length for each slice");
                    out.split_off_mut(..len).expect("a part for each number")
                });
                one(i, parts);
            }
        },
    );
}

/// Returns the estimated time of `n` steps for each of `m` elements.
fn work(m: usize, n: usize) -> usize {
    500usize.saturating_add(m.saturating_mul(n))
}

/// Copies a matrix to row-major order.
fn write<T: Float>(from: MatRef<'_, T>, out: &mut [T]) {
    for (i, row) in out.chunks_exact_mut(from.ncols().max(1)).enumerate() {
        for (j, y) in row.iter_mut().enumerate() {
            *y = from[(i, j)];
        }
    }
}

/// Returns `(x + x^T) / 2`.
fn symmetric<T: Float>(xs: &[T], n: usize) -> Mat<T> {
    Mat::from_fn(n, n, |i, j| xs[i * n + j].plus(xs[j * n + i]).half())
}

/// Writes the lower triangular factor of each symmetric matrix, or NaN.
pub fn cholesky(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        for_each_matrix(
            n_matrices,
            n * n,
            [n * n],
            work(n * n, n),
            move |xs: &[T], [out]| {
                let found = match n <= SMALL {
                    true => small::cholesky(xs, n, out),
                    false => Llt::new(symmetric(xs, n).as_ref(), Side::Lower)
                        .map(|factor| write(factor.L(), out))
                        .is_ok(),
                };
                if !found {
                    for (at, y) in out.iter_mut().enumerate() {
                        *y = if at % n <= at / n {
                            T::NAN
                        } else {
                            T::default()
                        };
                    }
                }
            },
        )
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Writes the inverse of each matrix.
pub fn inverse(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        for_each_matrix(
            n_matrices,
            n * n,
            [n * n],
            work(n * n, n),
            move |xs: &[T], [out]| {
                invert(xs, n, out);
            },
        )
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Writes the inverse of a matrix, which is not finite if the matrix has none. Returns the factors of a large matrix.
fn invert<T: Float>(xs: &[T], n: usize, out: &mut [T]) -> Option<PartialPivLu<T>> {
    out.fill(T::default());
    for y in out.iter_mut().step_by(n + 1) {
        *y = T::ONE;
    }
    if n <= SMALL {
        small::solve(xs, n, Order::Rows, out, n);
        return None;
    }
    let factors = PartialPivLu::new(MatRef::from_row_major_slice(xs, n, n));
    factors.solve_in_place(MatMut::from_row_major_slice_mut(out, n, n));
    Some(factors)
}

/// Returns the pivots of a matrix, and whether an odd number of rows was exchanged.
fn pivots<T: Float>(xs: &[T], n: usize) -> (Vec<T>, bool) {
    if n <= SMALL {
        let mut a = xs.to_vec();
        let is_odd = small::eliminate(&mut a, n, &mut [], 0);
        return (a.into_iter().step_by(n + 1).collect(), is_odd);
    }
    pivots_of(&PartialPivLu::new(MatRef::from_row_major_slice(xs, n, n)))
}

/// As [`pivots`], of a factorised matrix.
fn pivots_of<T: Float>(factors: &PartialPivLu<T>) -> (Vec<T>, bool) {
    let (order, _) = factors.P().arrays();
    let mut order = order.to_vec();
    let mut is_odd = false;
    for i in 0..order.len() {
        while order[i] != i {
            let to = order[i];
            order.swap(i, to);
            is_odd = !is_odd;
        }
    }
    let upper = factors.U();
    ((0..order.len()).map(|i| upper[(i, i)]).collect(), is_odd)
}

/// Returns the determinant of a matrix with these [`pivots`].
fn determinant_of<T: Float>((pivots, is_odd): (Vec<T>, bool)) -> Scaled<T> {
    let Scaled { x, exponent } = Scaled::product_of(pivots);
    Scaled {
        x: if is_odd { -x } else { x },
        exponent,
    }
}

/// Number `x 2^exponent`, for products that may be too large or too small for a float.
#[derive(Clone, Copy)]
struct Scaled<T> {
    x: T,
    exponent: i64,
}

impl<T: Float> Scaled<T> {
    /// The magnitude of `x` is kept between `2^-BITS` and `2^BITS`.
    const BITS: i64 = 16;

    fn new(mut x: T) -> Scaled<T> {
        if !Float::is_finite(x) {
            return Scaled { x, exponent: 0 };
        }
        let [up, down] = [Self::BITS, -Self::BITS].map(power_of_2::<T>);
        let mut exponent = 0;
        while x.abs() >= up {
            (x, exponent) = (x.product(down), exponent + Self::BITS);
        }
        while x.abs() < down && x != T::default() {
            (x, exponent) = (x.product(up), exponent - Self::BITS);
        }
        Scaled { x, exponent }
    }

    fn product_of(factors: impl IntoIterator<Item = T>) -> Scaled<T> {
        let factors = factors.into_iter().map(Scaled::new);
        factors.fold(Scaled::new(T::ONE), Scaled::product)
    }

    fn product(self, other: Scaled<T>) -> Scaled<T> {
        let Scaled { x, exponent } = Scaled::new(self.x.product(other.x));
        Scaled {
            x,
            exponent: self.exponent + other.exponent + exponent,
        }
    }

    /// Returns the number, rounded to 0 or infinity if a float cannot hold it.
    fn value(self) -> T {
        if self.exponent == 0 || self.x == T::default() {
            return self.x;
        }
        // One factor might underflow or overflow although the product does not.
        let half = self.exponent / 2;
        let first = self.x.product(power_of_2(half));
        first.product(power_of_2(self.exponent - half))
    }
}

/// Returns `2^n`, rounded to 0 or infinity if a float cannot hold it.
fn power_of_2<T: Float>(n: i64) -> T {
    T::of(f64::exp2(n as f64))
}

/// Writes the determinant of each matrix.
pub fn determinant(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        for_each_matrix(
            n_matrices,
            n * n,
            [1],
            work(n * n, n),
            move |xs: &[T], [out]| {
                out[0] = determinant_of(pivots(xs, n)).value();
            },
        )
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Writes the derivatives of the determinant of each matrix by its elements.
pub fn cofactors(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        let one = move |xs: &[T], [out]: [&mut [T]; 1]| {
            let mut inverse = vec![T::default(); n * n];
            let pivots = match invert(xs, n, &mut inverse) {
                Some(factors) => pivots_of(&factors),
                None => pivots(xs, n),
            };
            let is_regular = |x: &T| *x != T::default() && Float::is_finite(*x);
            if !pivots.0.iter().all(is_regular) || !all_finite(&inverse) {
                return singular_cofactors(xs, n, out);
            }
            let det = determinant_of(pivots);
            let transposed = |at: usize| inverse[at % n * n + at / n];
            let value = det.value();
            for (at, y) in out.iter_mut().enumerate() {
                *y = match Float::is_normal(value) {
                    true => value.product(transposed(at)),
                    false => det.product(Scaled::new(transposed(at))).value(),
                };
            }
        };
        for_each_matrix(n_matrices, n * n, [n * n], work(n * n, 2 * n), one)
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Writes the derivatives of the determinant of `u s v^T`: of that of `s` by each singular value,
/// between the same vectors.
fn singular_cofactors<T: Float>(xs: &[T], n: usize, out: &mut [T]) {
    let Some((found, size)) = decomposed(xs, [n, n]) else {
        return out.fill(T::NAN);
    };
    let sign = |vectors: MatRef<'_, T>| {
        let mut rows = vec![T::default(); n * n];
        write(vectors, &mut rows);
        let (pivots, is_odd) = pivots(&rows, n);
        let signs = pivots.iter().map(|x| x.signum());
        signs.fold(if is_odd { -T::ONE } else { T::ONE }, T::product)
    };
    let (u, v, values) = (found.U(), found.V(), found.S().column_vector());
    let sign = sign(u).product(sign(v));
    let others = |i: usize| {
        let others = (0..n).filter(|k| *k != i).map(|k| values[k]);
        Scaled::product_of([sign].into_iter().chain(others))
    };
    let slopes: Vec<Scaled<T>> = (0..n).map(others).collect();
    let is_zero = |slope: &&Scaled<T>| slope.x == T::default();
    let exponents = slopes.iter().filter(|slope| !is_zero(slope));
    let most = exponents.map(|slope| slope.exponent).max().unwrap_or(0);
    let relative = |slope: &Scaled<T>| Scaled {
        exponent: slope.exponent - most,
        ..*slope
    };
    let slopes: Vec<T> = slopes.iter().map(|slope| relative(slope).value()).collect();
    // A cofactor is a sum of products of `n - 1` elements.
    let exponent = most + size * (n as i64 - 1);
    for (at, y) in out.iter_mut().enumerate() {
        let terms = (0..n).map(|k| u[(at / n, k)].product(slopes[k]).product(v[(at % n, k)]));
        let x = terms.fold(T::default(), T::plus);
        *y = Scaled { x, exponent }.value();
    }
}

/// Writes the sign of the determinant of each matrix, and the logarithm of its magnitude.
pub fn log_determinant(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        let one = move |xs: &[T], [sign, log]: [&mut [T]; 2]| {
            let (pivots, is_odd) = pivots(xs, n);
            let signs = pivots.iter().map(|x| x.signum());
            let product = signs.fold(T::ONE, T::product);
            sign[0] = if is_odd { -product } else { product };
            let logs = pivots.iter().map(|x| x.abs().ln());
            log[0] = logs.fold(T::default(), T::plus);
        };
        for_each_matrix(n_matrices, n * n, [1, 1], work(n * n, n), one)
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Sizes of systems of equations.
#[derive(Clone, Copy, Debug)]
pub struct Systems {
    /// Number of systems.
    pub count: usize,
    /// Number of equations of a system.
    pub n: usize,
    /// Number of right sides of a system.
    pub k: usize,
    /// True if all systems have the same matrix.
    pub shared: bool,
    /// Elements of the matrix that are read.
    pub form: Form,
    /// True if the matrix is transposed.
    pub transposed: bool,
}

/// Writes the solutions of systems of equations: matrices, then right sides, to solutions.
pub fn solve(dtype: DType, of: Systems) -> Prepared {
    fn typed<T: Float>(of: Systems) -> Prepared {
        let Systems { count, n, k, .. } = of;
        Box::new(move |args, outs| {
            let (a, b) = (T::slice(args[0]), T::slice(args[1]));
            let out = T::slice_mut(&mut outs[0]);
            out.copy_from_slice(b);
            if out.is_empty() {
                return Ok(());
            }
            let matrix = |i: usize| MatRef::from_row_major_slice(&a[i * n * n..][..n * n], n, n);
            let is_general = of.form == Form::General;
            let is_small = n <= SMALL && (k <= SMALL || !of.shared);
            let shared =
                (of.shared && is_general && !is_small).then(|| PartialPivLu::new(matrix(0)));
            for_each_result(count, [(out, n * k)], work(n * n, n + k), |i, [out]| {
                let at = if of.shared { 0 } else { i };
                if is_small {
                    return small::solve_by(&a[at * n * n..][..n * n], of, out);
                }
                let out = MatMut::from_row_major_slice_mut(out, n, k);
                match (&shared, is_general) {
                    (Some(factors), _) => by_factors(factors, of.transposed, out),
                    (None, true) => by_factors(&PartialPivLu::new(matrix(at)), of.transposed, out),
                    (None, false) => by_substitution(matrix(at), of, out),
                }
            });
            Ok(())
        })
    }
    on_float!(dtype, typed(of))
}

fn by_factors<T: Float>(factors: &PartialPivLu<T>, transposed: bool, out: MatMut<'_, T>) {
    match transposed {
        true => factors.solve_transpose_in_place(out),
        false => factors.solve_in_place(out),
    }
}

fn by_substitution<T: Float>(a: MatRef<'_, T>, of: Systems, out: MatMut<'_, T>) {
    use triangular_solve::{
        solve_lower_triangular_in_place, solve_unit_lower_triangular_in_place,
        solve_unit_upper_triangular_in_place, solve_upper_triangular_in_place,
    };
    let (a, is_lower) = match of.transposed {
        true => (
            a.transpose(),
            matches!(of.form, Form::Upper | Form::UnitUpper),
        ),
        false => (a, matches!(of.form, Form::Lower | Form::UnitLower)),
    };
    let is_unit = matches!(of.form, Form::UnitLower | Form::UnitUpper);
    let solve = match (is_lower, is_unit) {
        (true, false) => solve_lower_triangular_in_place,
        (true, true) => solve_unit_lower_triangular_in_place,
        (false, false) => solve_upper_triangular_in_place,
        (false, true) => solve_unit_upper_triangular_in_place,
    };
    solve(a, out, Par::Seq);
}

/// Writes the factors `q` and `r` of each matrix of `m` rows and `n` columns.
pub fn qr(dtype: DType, n_matrices: usize, [m, n]: [usize; 2]) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, m: usize, n: usize) -> Prepared {
        let one = move |xs: &[T], [q, r]: [&mut [T]; 2]| {
            let factors = Qr::new(MatRef::from_row_major_slice(xs, m, n));
            write(factors.compute_thin_Q().as_ref(), q);
            write(factors.thin_R(), r);
        };
        let k = m.min(n);
        for_each_matrix(n_matrices, m * n, [m * k, k * n], work(m * n, 4 * k), one)
    }
    on_float!(dtype, typed(n_matrices, m, n))
}

/// Returns the largest magnitude.
fn largest<T: Float>(xs: impl Iterator<Item = T>) -> T {
    let larger = |x: T, y: T| if y > x { y } else { x };
    xs.map(T::abs).fold(T::default(), larger)
}

/// Returns whether a vector is to be negated: the first element of at least half the largest
/// magnitude is to be positive.
fn is_negative<T: Float>(v: impl Iterator<Item = T> + Clone) -> bool {
    let largest = largest(v.clone());
    v.into_iter()
        .find(|x| x.abs() >= largest.half())
        .is_some_and(|x| x < T::default())
}

/// Writes the eigenvalues of each symmetric matrix, ascending, and its eigenvectors as columns.
pub fn eigen(dtype: DType, n_matrices: usize, n: usize) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, n: usize) -> Prepared {
        let one = move |xs: &[T], [w, v]: [&mut [T]; 2]| {
            let found = with_scale(xs).and_then(|(xs, exponent)| {
                let x = symmetric(&xs, n);
                let found = SelfAdjointEigen::new(x.as_ref(), Side::Lower).ok()?;
                Some((found, exponent))
            });
            let Some((found, exponent)) = found else {
                w.fill(T::NAN);
                v.fill(T::NAN);
                return;
            };
            let values = found.S().column_vector();
            for (y, x) in w.iter_mut().zip(values.iter()) {
                *y = Scaled { x: *x, exponent }.value();
            }
            let vectors = found.U();
            write(vectors, v);
            for j in 0..n {
                if is_negative((0..n).map(|i| vectors[(i, j)])) {
                    for i in 0..n {
                        v[i * n + j] = -v[i * n + j];
                    }
                }
            }
        };
        for_each_matrix(n_matrices, n * n, [n, n * n], work(n * n, 10 * n), one)
    }
    on_float!(dtype, typed(n_matrices, n))
}

/// Returns `x` and `n` such that a matrix is `x 2^n`, and no square of an element of `x` overflows, nor does that of the
/// largest one underflow. Returns `None` if an element is NaN or infinite.
fn with_scale<T: Float>(xs: &[T]) -> Option<(Cow<'_, [T]>, i64)> {
    if !all_finite(xs) {
        return None;
    }
    let n = Scaled::new(largest(xs.iter().copied())).exponent;
    if n == 0 {
        return Some((xs.into(), 0));
    }
    let scaled = |x: &T| {
        Scaled {
            x: *x,
            exponent: -n,
        }
        .value()
    };
    Some((xs.iter().map(scaled).collect(), n))
}

/// Returns the singular values and vectors of a matrix of `m` rows and `n` columns, and the `n` of a factor `2^n` of the
/// values. Returns `None` if an element is NaN or infinite.
fn decomposed<T: Float>(xs: &[T], [m, n]: [usize; 2]) -> Option<(Svd<T>, i64)> {
    let (xs, exponent) = with_scale(xs)?;
    let found = Svd::new_thin(MatRef::from_row_major_slice(&xs, m, n)).ok()?;
    Some((found, exponent))
}

/// Writes the factors `u`, `s` and `v^T` of each matrix of `m` rows and `n` columns.
pub fn svd(dtype: DType, n_matrices: usize, [m, n]: [usize; 2]) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, m: usize, n: usize) -> Prepared {
        let k = m.min(n);
        let one = move |xs: &[T], [u, s, vt]: [&mut [T]; 3]| {
            let Some((found, exponent)) = decomposed(xs, [m, n]) else {
                for out in [u, s, vt] {
                    out.fill(T::NAN);
                }
                return;
            };
            let values = found.S().column_vector();
            for (y, x) in s.iter_mut().zip(values.iter()) {
                *y = Scaled { x: *x, exponent }.value();
            }
            let (left, right) = (found.U(), found.V());
            for j in 0..k {
                let is_negative = is_negative((0..n).map(|i| right[(i, j)]));
                let signed = |x: T| if is_negative { -x } else { x };
                for i in 0..m {
                    u[i * k + j] = signed(left[(i, j)]);
                }
                for i in 0..n {
                    vt[j * n + i] = signed(right[(i, j)]);
                }
            }
        };
        let lens = [m * k, k, k * n];
        for_each_matrix(n_matrices, m * n, lens, work(m * n, 20 * k), one)
    }
    on_float!(dtype, typed(n_matrices, m, n))
}

/// Writes the pseudo-inverse of each matrix of `m` rows and `n` columns: the inverse between the singular
/// vectors whose singular value is greater than `rcond` times the largest.
pub fn pseudo_inverse(dtype: DType, n_matrices: usize, [m, n]: [usize; 2], rcond: f64) -> Prepared {
    fn typed<T: Float>(n_matrices: usize, m: usize, n: usize, rcond: f64) -> Prepared {
        let one = move |xs: &[T], [out]: [&mut [T]; 1]| {
            let Some((found, exponent)) = decomposed(xs, [m, n]) else {
                return out.fill(T::NAN);
            };
            let (u, s, v) = (found.U(), found.S().column_vector(), found.V());
            // The singular values are descending.
            let least = if m.min(n) > 0 {
                s[0].product(T::of(rcond))
            } else {
                T::default()
            };
            let rank = (0..m.min(n)).take_while(|k| s[*k] > least).count();
            let v = Mat::from_fn(n, rank, |i, k| v[(i, k)] / s[k]);
            let product = v * u.get(.., ..rank).transpose();
            write(product.as_ref(), out);
            for y in out {
                let (x, exponent) = (*y, -exponent);
                *y = Scaled { x, exponent }.value();
            }
        };
        for_each_matrix(n_matrices, m * n, [n * m], work(m * n, 20 * m.min(n)), one)
    }
    on_float!(dtype, typed(n_matrices, m, n, rcond))
}

fn all_finite<T: Float>(xs: &[T]) -> bool {
    xs.iter().all(|x| Float::is_finite(*x))
}
