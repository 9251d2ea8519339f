//! Jacobian of layer norm and RMS norm, applied to tangents, and its transpose.
//!
//! The formulas are documented at the ops `norm_jvp` and `norm_vjp`. A row of each operand is read
//! from memory once; intermediate values of a row are recomputed, which is faster than storing
//! them.

use crate::reduce::{BLOCK, join_from};
use crate::rows::Rows;
use crate::rows::forward::{Normalization, RowMode, inv_rms, moments, split_rows};
use crate::rows::row_kernel::RowKernel;
use crate::simd::lanes::{Map, add, map, sums};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::non_temporal;
use crate::simd::vector::{Floats, Simd, Vector};
use crate::task::Prepared;
use crate::threads::for_each_chunks;

/// Applies the Jacobian: operands `x`, weight, and the active tangents of `x`, weight and bias.
///
/// `active` says which of the three are active.
pub fn norm_jvp(of: Rows, norm: Norm, active: [bool; 3]) -> RowKernel {
    on_float!(of.dtype, norm_jvp_of(of, norm, active))
}

fn norm_jvp_of<T: Float>(of: Rows, norm: Norm, active: [bool; 3]) -> RowKernel {
    let mut next = 2;
    let at = active.map(|active| {
        active.then(|| {
            next += 1;
            next - 1
        })
    });
    // Only the tangent of `x` is per row; those of weight and bias are whole.
    let mut widths = vec![Some(of.cols), None];
    let tangents_of = [0, 1, 2].into_iter().filter(|i| active[*i]);
    widths.extend(tangents_of.map(|i| (i == 0).then_some(of.cols)));
    RowKernel::new(
        of.n_rows,
        widths,
        [Some(of.cols)],
        move |args, outs, mode| {
            let dx = at.map(|at| Some(T::slice(args[at?])));
            let [x, w] = [0, 1].map(|i| T::slice(args[i]));
            tangents(norm, x, w, dx, T::slice_mut(&mut outs[0]), mode);
        },
    )
}

/// Returns the length of the scratch result that [`norm_vjp`] has after the cotangents, or `None`
/// if it has none: the sums of each block of rows.
pub fn norm_vjp_scratch(of: Rows, active: [bool; 3]) -> Option<usize> {
    let over_rows = active[1] || active[2];
    over_rows.then(|| of.n_rows.div_ceil(BLOCK) * 2 * of.cols)
}

/// Applies the transposed Jacobian: operands `x`, weight and the cotangent of the result. The
/// results are the active cotangents of `x`, weight and bias, and then
/// [scratch](norm_vjp_scratch).
pub fn norm_vjp(of: Rows, norm: Norm, active: [bool; 3]) -> Prepared {
    on_float!(of.dtype, norm_vjp_of(of, norm, active))
}

fn norm_vjp_of<T: Float>(of: Rows, norm: Norm, active: [bool; 3]) -> Prepared {
    let cols = of.cols;
    let over_rows = norm_vjp_scratch(of, active).is_some();
    Box::new(move |args, outs| {
        let [x, w, ct] = [0, 1, 2].map(|i| T::slice(args[i]));
        let mut outs = outs.iter_mut();
        let mut next = |wanted: bool| match wanted {
            true => T::slice_mut(outs.next().expect("one result each")),
            false => &mut [],
        };
        let [ct_x, ct_w, ct_b] = active.map(&mut next);
        let totals = next(over_rows);
        cotangents(norm, [x, w, ct], ct_x, totals);
        match totals.is_empty() {
            // The sum over no rows.
            true => [ct_w, ct_b].into_iter().for_each(|ct| ct.fill(T::ZERO)),
            false => {
                let (of_w, of_b) = totals[..2 * cols].split_at(cols);
                for (ct, total) in [(ct_w, of_w), (ct_b, of_b)] {
                    if !ct.is_empty() {
                        ct.copy_from_slice(total);
                    }
                }
            }
        }
        Ok(())
    })
}

/// Parameters of the normalisation.
#[derive(Clone, Copy)]
pub struct Norm {
    /// True if the mean is subtracted (layer norm).
    pub centred: bool,
    /// Added to the variance or the mean square.
    pub eps: f64,
}

impl Norm {
    /// Returns the mean and scale of a row.
    #[inline(always)]
    fn row<S: Simd, T: Float>(self, row: &[T], mode: RowMode) -> Normalization<T::Floats<S>> {
        let (mean, scale) = match self.centred {
            true => moments::<S, T>(row, self.eps, mode),
            false => (T::ZERO, inv_rms::<S, T>(row, self.eps, mode)),
        };
        Normalization {
            mean: T::Floats::<S>::splat(mean),
            scale: T::Floats::<S>::splat(scale),
        }
    }

    /// Returns the projection for a row, from the sums of `v` and `n v`.
    #[inline(always)]
    fn projection<S: Simd, T: Float>(
        self,
        normal: Normalization<T::Floats<S>>,
        [total, along]: [T; 2],
        cols: usize,
    ) -> Projection<T::Floats<S>> {
        let mean = if self.centred {
            total.over(cols)
        } else {
            T::ZERO
        };
        Projection {
            normal,
            mean: T::Floats::<S>::splat(mean),
            along: T::Floats::<S>::splat(along.over(cols)),
        }
    }
}

/// Returns the normalised element `n`.
#[inline(always)]
fn normal<V: Floats>(of: Normalization<V>, x: V) -> V {
    x.minus(of.mean).times(of.scale)
}

/// `r (v - mean(v) - n mean(n v))`
#[derive(Clone, Copy)]
struct Projection<V> {
    normal: Normalization<V>,
    mean: V,
    along: V,
}

impl<V: Floats> Projection<V> {
    #[inline(always)]
    fn of_element(self, v: V, n: V) -> V {
        let rest = v.minus(self.mean).minus(n.times(self.along));
        rest.times(self.normal.scale)
    }
}

/// `v` and `n v`, from `v` and `x`
#[derive(Clone, Copy)]
struct NormalAndProduct<V>(Normalization<V>);

impl<V: Floats> Map<V, 2, 2> for NormalAndProduct<V> {
    #[inline(always)]
    fn of(self, [v, x]: [V; 2]) -> [V; 2] {
        [v, normal(self.0, x).times(v)]
    }
}

/// As above with `v = ct w`, from `ct`, `w` and `x`
impl<V: Floats> Map<V, 3, 2> for NormalAndProduct<V> {
    #[inline(always)]
    fn of(self, [ct, w, x]: [V; 3]) -> [V; 2] {
        self.of([ct.times(w), x])
    }
}

/// Cotangent of an element of a row, from `ct`, `w` and `x`
impl<V: Floats> Map<V, 3, 1> for Projection<V> {
    #[inline(always)]
    fn of(self, [ct, w, x]: [V; 3]) -> [V; 1] {
        [self.of_element(ct.times(w), normal(self.normal, x))]
    }
}

/// Contribution of a row to the cotangents of weight and bias: `ct n` and `ct`
#[derive(Clone, Copy)]
struct Products<V>(Normalization<V>);

impl<V: Floats> Map<V, 2, 2> for Products<V> {
    #[inline(always)]
    fn of(self, [ct, x]: [V; 2]) -> [V; 2] {
        [ct.times(normal(self.0, x)), ct]
    }
}

/// Tangent of the result, from the active tangents of `x`, `w` and `b`
#[derive(Clone, Copy)]
struct Tangent<V, const X: bool, const W: bool, const B: bool>(Projection<V>);

impl<V: Floats, const X: bool, const W: bool, const B: bool> Map<V, 5, 1> for Tangent<V, X, W, B> {
    #[inline(always)]
    fn of(self, [x, w, dx, dw, db]: [V; 5]) -> [V; 1] {
        let n = normal(self.0.normal, x);
        let dn_w = self.0.of_element(dx, n).times(w);
        let n_dw = n.times(dw);
        [match (X, W, B) {
            (true, true, true) => dn_w.plus(n_dw).plus(db),
            (true, true, false) => dn_w.plus(n_dw),
            (true, false, true) => dn_w.plus(db),
            (true, false, false) => dn_w,
            (false, true, true) => n_dw.plus(db),
            (false, true, false) => n_dw,
            (false, false, _) => db,
        }]
    }
}

/// Writes the tangent of the result. `dx` are the tangents of rows, weight and bias.
fn tangents<T: Float>(
    norm: Norm,
    xs: &[T],
    w: &[T],
    dx: [Option<&[T]>; 3],
    out: &mut [T],
    mode: RowMode,
) {
    let cols = w.len();
    split_rows(out, cols, cols, 0.25, |row, out| {
        let part = row * cols..row * cols + out.len();
        let [dx, dw, db] = dx;
        let dx = [dx.map(|dx| &dx[part.clone()]), dw, db];
        tangents_of_rows(norm, &xs[part], w, dx, out, mode);
    });
}

leveled! {
    fn tangents_of_rows<S, T: Float>(
        norm: Norm,
        xs: &[T],
        w: &[T],
        dx: [Option<&[T]>; 3],
        out: &mut [T],
        mode: RowMode,
    ) {
        let cols = w.len();
        let [dxs, dw, db] = dx;
        let rows = xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols));
        for (i, (x, out)) in rows.enumerate() {
            let normal = norm.row::<S, T>(x, mode);
            let dx = dxs.map(|dxs| &dxs[i * cols..][..cols]);
            let sums = match dx {
                Some(dx) => {
                    sums::<T::Floats<S>, 2, 2>([dx, x], mode.prefetch(dx), NormalAndProduct(normal))
                }
                None => [T::ZERO; 2],
            };
            let p = norm.projection::<S, T>(normal, sums, cols);
            // A slot without a tangent is not used, so any row of the same length serves.
            let given = [x, w, dx.unwrap_or(x), dw.unwrap_or(w), db.unwrap_or(w)];
            match (dx.is_some(), dw.is_some(), db.is_some()) {
                (true, true, true) => map(given, out, mode.non_temporal, Tangent::<_, true, true, true>(p)),
                (true, true, false) => map(given, out, mode.non_temporal, Tangent::<_, true, true, false>(p)),
                (true, false, true) => map(given, out, mode.non_temporal, Tangent::<_, true, false, true>(p)),
                (true, false, false) => map(given, out, mode.non_temporal, Tangent::<_, true, false, false>(p)),
                (false, true, true) => map(given, out, mode.non_temporal, Tangent::<_, false, true, true>(p)),
                (false, true, false) => map(given, out, mode.non_temporal, Tangent::<_, false, true, false>(p)),
                (false, false, _) => map(given, out, mode.non_temporal, Tangent::<_, false, false, true>(p)),
            }
        }
        mode.end();
    }
}

/// Approximate number of bytes of rows per task.
const TASK_BYTES: usize = 1 << 17;

/// Writes the cotangents of rows and the sums for weight and bias; an empty slice is skipped.
///
/// `totals` has two rows for each block of [`BLOCK`] rows, and its first two rows hold the sums at
/// the end. The sums have the bits of those of `reduce`: rows of a block in sequence, and blocks in
/// pairs of equal weight.
fn cotangents<T: Float>(norm: Norm, [xs, w, cts]: [&[T]; 3], ct_xs: &mut [T], totals: &mut [T]) {
    let (cols, n) = (w.len(), xs.len());
    let block = BLOCK * cols;
    if n == 0 {
        return;
    }
    // A power of 2 of blocks, so that the sums of a task are a whole subtree.
    let blocks = (TASK_BYTES / size_of::<T>() / block).max(1);
    let blocks = blocks.next_power_of_two();
    let mode = RowMode::alone(non_temporal(size_of_val(ct_xs)));
    let nanos = (n as f64 * 0.3 * size_of::<T>() as f64 / 4.0) as usize;
    let outs = [
        (&mut *ct_xs, blocks * block),
        (&mut *totals, blocks * 2 * cols),
    ];
    for_each_chunks(
        n.div_ceil(blocks * block),
        outs,
        nanos,
        |i, [ct_xs, totals]| {
            let start = i * blocks * block;
            let part = start..n.min(start + blocks * block);
            let rows = [&xs[part.clone()], w, &cts[part]];
            cotangents_of_rows(norm, rows, ct_xs, totals, mode);
            join_from(totals, 2 * cols, 1);
        },
    );
    join_from(totals, 2 * cols, blocks);
}

leveled! {
    fn cotangents_of_rows<S, T: Float>(
        norm: Norm,
        rows: [&[T]; 3],
        ct_xs: &mut [T],
        totals: &mut [T],
        mode: RowMode,
    ) {
        let [xs, w, cts] = rows;
        let cols = w.len();
        totals.fill(T::NOTHING);
        for (i, (x, ct)) in xs.chunks_exact(cols).zip(cts.chunks_exact(cols)).enumerate() {
            let normal = norm.row::<S, T>(x, mode);
            if let Some(ct_x) = ct_xs.get_mut(i * cols..(i + 1) * cols) {
                let along = NormalAndProduct(normal);
                let sums = sums::<T::Floats<S>, 3, 2>([ct, w, x], mode.prefetch(ct), along);
                let projection = norm.projection::<S, T>(normal, sums, cols);
                map::<T::Floats<S>, 3>([ct, w, x], ct_x, mode.non_temporal, projection);
            }
            let block = i / BLOCK * 2 * cols;
            if let Some(total) = totals.get_mut(block..block + 2 * cols) {
                let (of_w, of_b) = total.split_at_mut(cols);
                add::<T::Floats<S>, 2, 2>([ct, x], [of_w, of_b], Products(normal));
            }
        }
        mode.end();
    }
}
