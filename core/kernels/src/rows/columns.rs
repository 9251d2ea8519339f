//! Reductions of columns, which add up whole rows.

use super::forward::Root;
use crate::memory::scratch::{Plain, with_scratch};
use crate::simd::lanes::{Map, add, exp};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::Floats;
use crate::task::{Prepared, map};
use crate::threads::{for_each_chunk, threads};
use gradloom_ir::DType;

/// Variance over the middle axis of `[a, r, b]`, with the divisor of the squares, or its root.
pub fn variance_columns(dtype: DType, arb: [usize; 3], divisor: usize, root: Root) -> Prepared {
    fn typed<T: Float + Plain>([_, r, b]: [usize; 3], divisor: usize, root: Root) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            let nanos = xs.len() / 4;
            for_each_chunk(out, b.max(1), nanos, |i, out| {
                with_scratch([b, b], |scratch| {
                    variance_of(&xs[i * r * b..][..r * b], out, r, divisor, root, scratch);
                });
            });
        })
    }
    on_float!(dtype, typed(arb, divisor, root))
}

/// Logarithm of the sum of the exponentials over the middle axis of `[a, r, b]`, none of which is 0.
pub fn logsumexp_columns(dtype: DType, arb: [usize; 3]) -> Prepared {
    fn typed<T: Float + Plain>([_, r, b]: [usize; 3]) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            // Threads share the columns. Long parts of rows are read faster.
            let parts = b.div_ceil(STRIP).max(threads());
            let n = b
                / (1..=parts)
                    .rev()
                    .find(|n| b.is_multiple_of(*n))
                    .unwrap_or(1);
            for_each_chunk(out, n, xs.len() / 2, |i, out| {
                let first = i * n / b * r * b + i * n % b;
                with_scratch([n, n], |scratch| {
                    logsumexp_of(&xs[first..], [r, b], out, scratch);
                });
            });
        })
    }
    on_float!(dtype, typed(arb))
}

/// Maximum number of columns that a thread computes at a time: three such rows fit in the L1 cache.
const STRIP: usize = 2048;

leveled! {
    fn logsumexp_of<S, T: Float>(
        xs: &[T],
        rb: [usize; 2],
        out: &mut [T],
        scratch: [&mut [T]; 2],
    ) {
        let ([r, b], n) = (rb, out.len());
        let [part, tops] = scratch;
        let row = |i: usize| &xs[i * b..][..n];
        // The maxima are factored out, so that the exponentials neither overflow nor all underflow.
        tops.fill(T::of(f64::NEG_INFINITY));
        for i in 0..r {
            (tops.iter_mut().zip(row(i))).for_each(|(top, x)| *top = if *x > *top { *x } else { *top });
        }
        out.fill(T::ZERO);
        for start in (0..r).step_by(SUMMED_ROWS) {
            part.fill(T::ZERO);
            for i in start..r.min(start + SUMMED_ROWS) {
                add::<T::Floats<S>, 2, 1>([row(i), tops], [&mut *part], ExpFrom);
            }
            (out.iter_mut().zip(&*part)).for_each(|(y, x)| *y = y.plus(*x));
        }
        for (j, (y, top)) in out.iter_mut().zip(&*tops).enumerate() {
            *y = match top.is_finite() {
                true => top.plus(y.log::<S>()),
                // Infinite or NaN, in any order of summation.
                false => (0..r).fold(T::ZERO, |sum, i| sum.plus(row(i)[j].exp::<S>())).log::<S>(),
            };
        }
    }
}

/// `exp(x - top)`
#[derive(Clone, Copy)]
struct ExpFrom;

impl<V: Floats> Map<V, 2, 1> for ExpFrom {
    #[inline(always)]
    fn of(self, [x, top]: [V; 2]) -> [V; 1] {
        [exp(x.minus(top))]
    }
}

/// Number of rows whose sums are added up before they are added to the others.
const SUMMED_ROWS: usize = 64;

leveled! {
    fn variance_of<S, T: Float>(
        xs: &[T],
        out: &mut [T],
        r: usize,
        divisor: usize,
        root: Root,
        scratch: [&mut [T]; 2],
    ) {
        let b = out.len();
        let [part, means] = scratch;
        means.fill(T::ZERO);
        for block in xs.chunks(SUMMED_ROWS * b) {
            part.fill(T::ZERO);
            for row in block.chunks_exact(b) {
                (part.iter_mut().zip(row)).for_each(|(y, x)| *y = y.plus(*x));
            }
            (means.iter_mut().zip(&*part)).for_each(|(y, x)| *y = y.plus(*x));
        }
        means.iter_mut().for_each(|y| *y = y.over(r));
        out.fill(T::ZERO);
        for block in xs.chunks(SUMMED_ROWS * b) {
            part.fill(T::ZERO);
            for row in block.chunks_exact(b) {
                let centred = row.iter().zip(&*means).map(|(x, mean)| x.minus(*mean));
                (part.iter_mut().zip(centred)).for_each(|(y, x)| *y = y.plus(x.times(x)));
            }
            (out.iter_mut().zip(&*part)).for_each(|(y, x)| *y = y.plus(*x));
        }
        for y in out.iter_mut() {
            let var = y.over(divisor);
            *y = match root {
                Root::None => var,
                Root::Square => var.sqrt(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STRIP, logsumexp_columns};
    use crate::memory::{Data, DataMut};
    use gradloom_ir::DType;

    #[test]
    fn columns_have_the_logsumexp_of_their_elements() {
        let inf = f64::INFINITY;
        for [a, r, b] in [[1, 1, 3], [2, 70, 5], [2, 3, 2 * STRIP]] {
            let mut xs: Vec<f64> = (0..a * r * b)
                .map(|i| (i * 7919 % 1000) as f64 - 500.0)
                .collect();
            xs[0] = f64::NAN;
            xs[1] = inf;
            (0..r).for_each(|i| xs[i * b + 2] = -inf);
            let mut found = vec![0.0; a * b];
            let kernel = logsumexp_columns(DType::F64, [a, r, b]);
            kernel(&[Data::F64(&xs)], &mut [DataMut::F64(&mut found)]).unwrap();
            for (i, found) in found.iter().enumerate() {
                let column = || (0..r).map(|row| xs[(i / b * r + row) * b + i % b]);
                let top = column().fold(-inf, f64::max);
                let top = if top.is_finite() { top } else { 0.0 };
                let want = top + column().map(|x| (x - top).exp()).sum::<f64>().ln();
                let near = (found - want).abs() <= 1e-13 * want.abs();
                assert!(
                    near || *found == want || found.is_nan() && want.is_nan(),
                    "{i}: {found} {want}"
                );
            }
        }
    }
}
