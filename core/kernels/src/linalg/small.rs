//! Factorisations of small matrices, for which the calls and the memory of a general one take longer than
//! its arithmetic.

use super::{Float, Form, SMALL, Systems};
use std::cmp::Ordering;

/// Order of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Rows,
    Columns,
}

/// Writes the lower triangular factor of `(x + x^T) / 2`, and returns whether there is one.
pub(super) fn cholesky<T: Float>(xs: &[T], n: usize, out: &mut [T]) -> bool {
    out.fill(T::default());
    for i in 0..n {
        let (above, row) = out.split_at_mut(i * n);
        for j in 0..i {
            let mut sum = xs[i * n + j].plus(xs[j * n + i]).half();
            let other = &above[j * n..][..j + 1];
            for (x, y) in row[..j].iter().zip(other) {
                sum -= x.product(*y);
            }
            row[j] = sum / other[j];
        }
        let square = |x: &T| x.product(*x);
        let diagonal = row[..i].iter().map(square).fold(xs[i * n + i], T::sub);
        if diagonal.partial_cmp(&T::default()) != Some(Ordering::Greater) {
            return false;
        }
        row[i] = diagonal.root();
    }
    true
}

/// Eliminates the elements below the diagonal by exchanges of rows, here and in the `k` columns of `x`.
///
/// Returns whether the number of exchanges is odd.
pub(super) fn eliminate<T: Float>(a: &mut [T], n: usize, x: &mut [T], k: usize) -> bool {
    let mut is_odd = false;
    for i in 0..n {
        let mut pivot = i;
        for row in i + 1..n {
            if a[row * n + i].abs() > a[pivot * n + i].abs() {
                pivot = row;
            }
        }
        if pivot != i {
            is_odd = !is_odd;
            exchange(a, n, i, pivot);
            exchange(x, k, i, pivot);
        }
        let (a, below) = a.split_at_mut((i + 1) * n);
        let (x, x_below) = x.split_at_mut((i + 1) * k);
        let (a, x) = (&a[i * n + i..], &x[i * k..]);
        for (row, below) in below.chunks_exact_mut(n).enumerate() {
            // With a pivot of 0, all are 0 or NaN.
            if below[i] == T::default() {
                continue;
            }
            let factor = below[i] / a[0];
            subtract(&mut below[i..], factor, a);
            subtract(&mut x_below[row * k..][..k], factor, x);
        }
    }
    is_odd
}

/// Exchanges two rows of `n` elements, the second of which is later.
fn exchange<T: Float>(xs: &mut [T], n: usize, i: usize, j: usize) {
    let (first, second) = xs.split_at_mut(j * n);
    first[i * n..][..n].swap_with_slice(&mut second[..n]);
}

/// Subtracts a multiple of a row.
fn subtract<T: Float>(to: &mut [T], factor: T, row: &[T]) {
    for (y, x) in to.iter_mut().zip(row) {
        *y -= factor.product(*x);
    }
}

/// Solves `a x = y` in place, for a triangular matrix with the elements `a(i, j)`.
fn substitute<T: Float>(
    rows: impl Iterator<Item = usize> + Clone,
    k: usize,
    a: impl Fn(usize, usize) -> T,
    is_unit: bool,
    x: &mut [T],
) {
    let solved = rows.clone();
    for (n_solved, i) in rows.enumerate() {
        for j in solved.clone().take(n_solved) {
            let (first, second) = x.split_at_mut(i.max(j) * k);
            let (to, from) = match i > j {
                true => (&mut second[..k], &first[j * k..][..k]),
                false => (&mut first[i * k..][..k], &second[..k]),
            };
            subtract(to, a(i, j), from);
        }
        if !is_unit {
            let pivot = a(i, i);
            (x[i * k..][..k].iter_mut()).for_each(|x| *x /= pivot);
        }
    }
}

/// Solves `a x = y` in place, for `y` with `k` columns.
pub(super) fn solve<T: Float>(xs: &[T], n: usize, order: Order, out: &mut [T], k: usize) {
    let mut a = [T::default(); SMALL * SMALL];
    let a = &mut a[..n * n];
    match order {
        Order::Rows => a.copy_from_slice(xs),
        Order::Columns => {
            for (i, row) in a.chunks_exact_mut(n).enumerate() {
                (row.iter_mut().zip(xs[i..].iter().step_by(n))).for_each(|(y, x)| *y = *x);
            }
        }
    }
    eliminate(a, n, out, k);
    substitute((0..n).rev(), k, |i, j| a[i * n + j], false, out);
}

/// Solves a system of the given form in place.
pub(super) fn solve_by<T: Float>(a: &[T], of: Systems, out: &mut [T]) {
    let Systems { n, k, .. } = of;
    let order = match of.transposed {
        true => Order::Columns,
        false => Order::Rows,
    };
    let at = |i: usize, j: usize| match order {
        Order::Rows => a[i * n + j],
        Order::Columns => a[j * n + i],
    };
    let is_unit = matches!(of.form, Form::UnitLower | Form::UnitUpper);
    match of.form {
        Form::General => solve(a, n, order, out, k),
        form if matches!(form, Form::Lower | Form::UnitLower) != of.transposed => {
            substitute(0..n, k, at, is_unit, out);
        }
        _ => substitute((0..n).rev(), k, at, is_unit, out),
    }
}

#[cfg(test)]
mod tests {
    use super::eliminate;

    #[test]
    fn a_singular_matrix_has_a_pivot_of_zero() {
        for mut a in [[0.0f64; 4], [1.0, 2.0, 2.0, 4.0], [0.0, 1.0, 0.0, 3.0]] {
            eliminate(&mut a, 2, &mut [], 0);
            assert_eq!(a[0] * a[3], 0.0);
        }
        let mut a = [0.0, 1.0, f64::NAN, 3.0];
        eliminate(&mut a, 2, &mut [], 0);
        assert!((a[0] * a[3]).is_nan());
    }
}
