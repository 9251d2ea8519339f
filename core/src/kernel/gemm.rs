//! The product of two strided matrices, and the only unsafe code of the crate.

use super::number::Number;
use crate::dtype::Element;

/// A matrix in a slice: element `(i, j)` is `data[offset + i * rows + j * cols]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub(super) offset: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl Matrix {
    /// The index of the last element of `m` by `n`.
    fn last(self, m: usize, n: usize) -> usize {
        self.offset + (m - 1) * self.rows + (n - 1) * self.cols
    }
}

/// A type of elements that matrices have.
pub(super) trait Gemm: Number {
    /// `out = a b`, or `out += a b` if `accumulate`: `[m, k]` times `[k, n]`, none of which is 0.
    ///
    /// Each element of the result is a sum in an order that depends on `k` alone.
    fn gemm(
        mkn: [usize; 3],
        a: (&[Self], Matrix),
        b: (&[Self], Matrix),
        out: (&mut [Self], Matrix),
        accumulate: bool,
    );
}

/// The definition, as plain loops.
pub(super) fn naive<T: Number>(
    [m, k, n]: [usize; 3],
    (a, la): (&[T], Matrix),
    (b, lb): (&[T], Matrix),
    (out, lo): (&mut [T], Matrix),
    accumulate: bool,
) {
    for i in 0..m {
        for j in 0..n {
            let z = &mut out[lo.offset + i * lo.rows + j * lo.cols];
            let mut total = if accumulate { *z } else { T::ZERO };
            for p in 0..k {
                let x = a[la.offset + i * la.rows + p * la.cols];
                total = total.plus(x.times(b[lb.offset + p * lb.rows + j * lb.cols]));
            }
            *z = total;
        }
    }
}

/// Checks what the vectorised product relies on.
fn check<T: Element>(
    [m, k, n]: [usize; 3],
    a: (&[T], Matrix),
    b: (&[T], Matrix),
    out: (&[T], Matrix),
) {
    assert!(m > 0 && k > 0 && n > 0, "a product that has elements");
    assert!(
        a.1.last(m, k) < a.0.len(),
        "the left operand lies in its buffer"
    );
    assert!(
        b.1.last(k, n) < b.0.len(),
        "the right operand lies in its buffer"
    );
    assert!(
        out.1.last(m, n) < out.0.len(),
        "the result lies in its buffer"
    );
    let distinct = out.1.cols >= 1 && (m == 1 || out.1.rows > (n - 1) * out.1.cols);
    assert!(distinct, "no two elements of the result share a place");
}

macro_rules! floats {
    ($($t:ident: $gemm:ident;)*) => {$(
        impl Gemm for $t {
            fn gemm(
                [m, k, n]: [usize; 3],
                (a, la): (&[Self], Matrix),
                (b, lb): (&[Self], Matrix),
                (out, lo): (&mut [Self], Matrix),
                accumulate: bool,
            ) {
                check([m, k, n], (a, la), (b, lb), (out, lo));
                let beta = if accumulate { 1.0 } else { 0.0 };
                let [ar, ac, br, bc, or, oc] =
                    [la.rows, la.cols, lb.rows, lb.cols, lo.rows, lo.cols].map(|s| s as isize);
                // SAFETY: `check` has made sure that every element that the strides reach lies in its slice (they
                // are not negative, so the last is the farthest) and that the elements of `out` are distinct.
                // `out` is borrowed mutably, so it overlaps neither operand.
                unsafe {
                    matrixmultiply::$gemm(
                        m, k, n,
                        1.0,
                        a.as_ptr().add(la.offset), ar, ac,
                        b.as_ptr().add(lb.offset), br, bc,
                        beta,
                        out.as_mut_ptr().add(lo.offset), or, oc,
                    );
                }
            }
        }
    )*};
}

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Gemm for $t {
            fn gemm(
                mkn: [usize; 3],
                a: (&[Self], Matrix),
                b: (&[Self], Matrix),
                out: (&mut [Self], Matrix),
                accumulate: bool,
            ) {
                naive(mkn, a, b, out, accumulate);
            }
        }
    )*};
}

floats! { f32: sgemm; f64: dgemm; }
ints! { i32 i64 }

#[cfg(test)]
mod tests {
    use super::{Gemm, Matrix, naive};

    const SIZES: [usize; 7] = [1, 2, 3, 5, 8, 17, 33];

    /// Row-major, column-major, every row the same, every column the same, and with gaps.
    fn layouts(m: usize, n: usize) -> [Matrix; 5] {
        let of = |offset, rows, cols| Matrix { offset, rows, cols };
        [
            of(0, n, 1),
            of(3, 1, m),
            of(1, 0, 1),
            of(2, 1, 0),
            of(5, 3 * n + 1, 2),
        ]
    }

    #[test]
    fn the_vectorised_product_is_the_definition() {
        let data: Vec<f64> = (0..5000).map(|i| f64::from(i * 7919 % 23) - 11.0).collect();
        let mut n_cases = 0;
        for m in SIZES {
            for k in SIZES {
                for n in SIZES {
                    for la in layouts(m, k) {
                        for lb in layouts(k, n) {
                            for (lo, accumulate) in
                                [(0, false), (4, true)].map(|(c, acc)| (layouts(m, n)[c], acc))
                            {
                                let mut got = data.clone();
                                let mut want = data.clone();
                                f64::gemm(
                                    [m, k, n],
                                    (&data, la),
                                    (&data, lb),
                                    (&mut got, lo),
                                    accumulate,
                                );
                                naive(
                                    [m, k, n],
                                    (&data, la),
                                    (&data, lb),
                                    (&mut want, lo),
                                    accumulate,
                                );
                                // Small integers, so that every order of summation is exact.
                                assert_eq!(got, want, "{m} {k} {n} {la:?} {lb:?} {lo:?}");
                                n_cases += 1;
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(n_cases, 343 * 50);
    }

    #[test]
    #[should_panic(expected = "the right operand lies in its buffer")]
    fn strides_that_leave_the_buffer_are_refused() {
        let (a, b, mut out) = ([1.0f32; 4], [1.0f32; 3], [0.0f32; 4]);
        let l = Matrix {
            offset: 0,
            rows: 2,
            cols: 1,
        };
        f32::gemm([2, 2, 2], (&a, l), (&b, l), (&mut out, l), false);
    }
}
