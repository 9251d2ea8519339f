//! Reductions of columns, which add up whole rows.

use super::forward::Root;
use crate::memory::scratch::{Plain, with_scratch};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
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
