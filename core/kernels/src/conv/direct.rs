//! Products for the weights of groups with few channels, without columns.

use crate::conv::Conv;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;

/// Number of partial sums of a row, which are added up at last.
const LANES: usize = 16;

leveled! {
    /// Adds the products of each element of the windows with `z` to `w`.
    pub(super) fn weights<S, T: Number>(x: &[T], z: &[T], w: &mut [T], of: &Conv) {
        let (windows, stride) = (&of.windows, of.windows.stride());
        let n_taps = windows.n_taps();
        let outs = z.chunks_exact(windows.n_windows());
        for (z, w) in outs.zip(w.chunks_exact_mut(of.depth())) {
            let planes = x.chunks_exact(windows.n_elements());
            for (plane, w) in planes.zip(w.chunks_exact_mut(n_taps)) {
                windows.each_run(0..windows.n_windows(), |run| {
                    let z = &z[run.window..][..run.len];
                    let sum = dot(z, &plane[run.element..], stride);
                    w[run.tap] = w[run.tap].plus(sum);
                });
            }
        }
    }
}

/// Returns the sum of the products of `z` and every `stride`-th element of `x`.
#[inline(always)]
fn dot<T: Number>(z: &[T], x: &[T], stride: usize) -> T {
    let mut sums = [T::ZERO; LANES];
    let x = x.chunks(LANES * stride);
    for (z, x) in z.chunks(LANES).zip(x) {
        match (stride, z.len() == LANES && x.len() == LANES) {
            (1, true) => {
                for lane in 0..LANES {
                    sums[lane] = sums[lane].plus(z[lane].times(x[lane]));
                }
            }
            _ => {
                let x = x.iter().step_by(stride);
                for ((sum, z), x) in sums.iter_mut().zip(z).zip(x) {
                    *sum = sum.plus(z.times(*x));
                }
            }
        }
    }
    sums.iter().fold(T::ZERO, |total, sum| total.plus(*sum))
}
