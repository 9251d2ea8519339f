//! Scans: each element of a result depends on the elements before it along an axis.
//!
//! The axis is the middle one of `[a, r, b]`. Elements are combined in sequence, so the result does
//! not depend on the number of threads.

use crate::array;
use crate::memory::element::Element;
use crate::memory::scratch::{Plain, with_scratch};
use crate::movement::blocks::{Columns, RowBlock};
use crate::movement::write_parts;
use crate::simd::leveled::leveled;
use crate::simd::number::{Float, Number};
use crate::simd::vector::Simd;
use crate::task::{Prepared, map};
use crate::threads::{ColumnsMut, for_each_chunk, for_each_columns, worth};
use gradloom_ir::DType;
use std::marker::PhantomData;

/// Approximate number of elements of rows that a thread combines in a microsecond.
const PER_MICRO: usize = 2000;

/// Number of elements of a result that a thread computes, at least.
const TASK: usize = 1 << 14;

/// Number of columns from which a matrix is scanned row by row, as whole vectors.
const WIDE: usize = 64;

/// Number of columns of a narrower matrix that are scanned at a time.
const STRIP: usize = 16;

/// Number of rows that are scanned at a time.
const ROWS: usize = 4;

/// Number of rows that fill the lanes of vectors, of which each scans a row.
pub const TOGETHER: usize = 16;

/// Number of rows up to which each is scanned alone.
const FEW: usize = 3;

/// Number of elements that each element of a row is folded with before results are.
const SPAN: usize = 16;

/// A scan of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Sum of the elements so far.
    Sum,
    /// Product of the elements so far.
    Product,
    /// Product of the elements before.
    ProductBefore,
    /// Greatest element so far, or NaN if there is one.
    Max,
    /// Least element so far, or NaN if there is one.
    Min,
    /// Element before, or 0.
    Shift,
}

/// Rule of a scan of two operands, which may be the same.
///
/// A result is computed from the result before it, the elements at its place, and those before.
trait Rule<T>: Copy + Send + Sync + 'static {
    fn first(self, x: [T; 2]) -> T;
    fn next(self, y: T, x: [T; 2], before: [T; 2]) -> T;
    /// Returns whether a result is computed from the one before and the first operand alone, and the first one is an
    /// element.
    fn is_fold(self) -> bool {
        false
    }
    /// Returns whether elements may also be folded in any order and more than once.
    fn is_extreme(self) -> bool {
        false
    }
}

/// Rule that folds the elements so far.
#[derive(Clone, Copy)]
struct Folded<F>(F);

impl<T: Element, F: Fn(T, T) -> T + Copy + Send + Sync + 'static> Rule<T> for Folded<F> {
    #[inline(always)]
    fn first(self, x: [T; 2]) -> T {
        x[0]
    }
    #[inline(always)]
    fn next(self, y: T, x: [T; 2], _: [T; 2]) -> T {
        (self.0)(y, x[0])
    }
    #[inline(always)]
    fn is_fold(self) -> bool {
        true
    }
}

/// Rule that finds the greatest or the least element so far.
#[derive(Clone, Copy)]
struct Extreme<F>(F);

impl<T: Element, F: Fn(T, T) -> T + Copy + Send + Sync + 'static> Rule<T> for Extreme<F> {
    #[inline(always)]
    fn first(self, x: [T; 2]) -> T {
        x[0]
    }
    #[inline(always)]
    fn next(self, y: T, x: [T; 2], _: [T; 2]) -> T {
        (self.0)(y, x[0])
    }
    #[inline(always)]
    fn is_fold(self) -> bool {
        true
    }
    #[inline(always)]
    fn is_extreme(self) -> bool {
        true
    }
}

/// Rule that multiplies the elements before.
#[derive(Clone, Copy)]
struct ProductBefore;

impl<T: Number> Rule<T> for ProductBefore {
    #[inline(always)]
    fn first(self, _: [T; 2]) -> T {
        T::ONE
    }
    #[inline(always)]
    fn next(self, y: T, _: [T; 2], before: [T; 2]) -> T {
        y.times(before[0])
    }
}

/// Rule `y[i] = x[i] + a[i] y[i - 1]`, or with `a[i - 1]`.
#[derive(Clone, Copy)]
struct Recurrence<const LATE: bool>;

impl<T: Number, const LATE: bool> Rule<T> for Recurrence<LATE> {
    #[inline(always)]
    fn first(self, x: [T; 2]) -> T {
        x[0]
    }
    #[inline(always)]
    fn next(self, y: T, x: [T; 2], before: [T; 2]) -> T {
        let factor = if LATE { before[1] } else { x[1] };
        x[0].plus(factor.times(y))
    }
}

/// Scans the middle axis of `[a, r, b]`, from its end if `reverse` is true.
pub fn scan(dtype: DType, arb: [usize; 3], by: Scan, reverse: bool) -> Prepared {
    fn typed<T: Number + Plain>(arb: [usize; 3], by: Scan, reverse: bool) -> Prepared {
        let sizes = Sizes { arb, reverse };
        match by {
            Scan::Sum => sizes.unary::<T>(Folded(T::plus)),
            Scan::Product => sizes.unary::<T>(Folded(T::times)),
            Scan::ProductBefore => sizes.unary::<T>(ProductBefore),
            Scan::Max => sizes.unary::<T>(Extreme(T::greater)),
            Scan::Min => sizes.unary::<T>(Extreme(T::less)),
            Scan::Shift => map(move |xs: &[T], out: &mut [T]| sizes.shift(xs, out)),
        }
    }
    on_number!(dtype, typed(arb, by, reverse))
}

/// Writes `y[i] = x[i] + a[i] y[i - 1]` along the middle axis, or with `a[i - 1]` if `late` is true.
pub fn recurrence(dtype: DType, arb: [usize; 3], reverse: bool, late: bool) -> Prepared {
    fn typed<T: Number + Plain>(arb: [usize; 3], reverse: bool, late: bool) -> Prepared {
        let sizes = Sizes { arb, reverse };
        Box::new(move |args, outs| {
            let (args, out) = (
                [0, 1].map(|i| T::slice(args[i])),
                T::slice_mut(&mut outs[0]),
            );
            match late {
                true => sizes.run(args, out, Recurrence::<true>),
                false => sizes.run(args, out, Recurrence::<false>),
            }
            Ok(())
        })
    }
    on_number!(dtype, typed(arb, reverse, late))
}

/// Writes `log(sum(exp(x)))` of the elements so far of each row of `len` elements.
pub fn log_sum_exp(dtype: DType, len: usize, reverse: bool) -> Prepared {
    fn typed<T: Float>(len: usize, reverse: bool) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            let len = len.max(1);
            let rows = rows_of_a_task(out.len() / len, len) * len;
            for_each_chunk(out, rows, 4 * out.len(), |task, out| {
                log_sum_exp_rows(&xs[task * rows..], len, reverse, out);
            });
        })
    }
    on_float!(dtype, typed(len, reverse))
}

/// Returns the number of rows that a task scans.
///
/// Vectors have lanes for up to 16 rows. Fewer and longer rows are divided among more threads.
fn rows_of_a_task(n_rows: usize, len: usize) -> usize {
    let together = match n_rows {
        ..32 => ROWS,
        32..128 => 8,
        _ => 16,
    };
    TASK.div_ceil(len).next_multiple_of(together)
}

leveled! {
    fn log_sum_exp_rows<S, T: Float>(xs: &[T], len: usize, reverse: bool, out: &mut [T]) {
        let whole = whole_blocks::<T>(out.len() / len) * len;
        let (many, few) = out.split_at_mut(whole);
        match size_of::<T>() {
            4 => by_columns::<S, T, 16, 1>([xs], len, reverse, many, LogSumExp::<S, T, 16>::new()),
            _ => by_columns::<S, T, 8, 1>([xs], len, reverse, many, LogSumExp::<S, T, 8>::new()),
        }
        for (xs, out) in xs[whole..].chunks_exact(len).zip(few.chunks_exact_mut(len)) {
            let place = order(len, reverse);
            // The sum of the elements so far is `sum * exp(most)`.
            let (mut most, mut sum) = (xs[place(0)], T::ONE);
            out[place(0)] = most;
            for i in 1..len {
                let x = xs[place(i)];
                if x > most {
                    sum = sum.times(most.minus(x).exp::<S>()).plus(T::ONE);
                    most = x;
                } else if x == most {
                    // Both may be the same infinity.
                    sum = sum.plus(T::ONE);
                } else {
                    sum = sum.plus(x.minus(most).exp::<S>());
                }
                out[place(i)] = most.plus(sum.log::<S>());
            }
        }
    }
}

/// Scan of many rows of `A` operands at once, column by column.
trait Lanes<T, const N: usize, const A: usize>: Copy {
    /// Returns the results of the next column. `is_first` restarts the scan.
    fn next(&mut self, x: [[T; N]; A], is_first: bool) -> [T; N];
}

/// Results of a rule that [folds](Rule::is_fold).
#[derive(Clone, Copy)]
struct Folds<R, T, const N: usize>(R, [T; N]);

impl<T: Element, R: Rule<T>, const N: usize> Lanes<T, N, 1> for Folds<R, T, N> {
    #[inline(always)]
    fn next(&mut self, [x]: [[T; N]; 1], is_first: bool) -> [T; N] {
        if is_first {
            self.1 = x;
        } else {
            for (y, x) in self.1.iter_mut().zip(x) {
                *y = self.0.next(*y, [x; 2], [x; 2]);
            }
        }
        self.1
    }
}

/// Results of any rule, and the elements before.
#[derive(Clone, Copy)]
struct Steps<R, T, const N: usize> {
    rule: R,
    y: [T; N],
    before: [[T; N]; 2],
}

impl<T: Element, R: Rule<T>, const N: usize> Steps<R, T, N> {
    #[inline(always)]
    fn of(rule: R) -> Self {
        let none = [T::default(); N];
        Steps {
            rule,
            y: none,
            before: [none; 2],
        }
    }
}

impl<T: Element, R: Rule<T>, const N: usize> Lanes<T, N, 2> for Steps<R, T, N> {
    #[inline(always)]
    fn next(&mut self, x: [[T; N]; 2], is_first: bool) -> [T; N] {
        let both = |xs: &[[T; N]; 2], i: usize| [xs[0][i], xs[1][i]];
        if is_first {
            self.y = array::from_fn(|i| self.rule.first(both(&x, i)));
        } else {
            for (i, y) in self.y.iter_mut().enumerate() {
                *y = self.rule.next(*y, both(&x, i), both(&self.before, i));
            }
        }
        self.before = x;
        self.y
    }
}

/// Scan for logarithms of sums. The sum of the elements so far is `sum * exp(most)`.
#[derive(Clone, Copy)]
struct LogSumExp<S, T, const N: usize> {
    most: [T; N],
    sum: [T; N],
    level: PhantomData<S>,
}

impl<S, T: Float, const N: usize> LogSumExp<S, T, N> {
    #[inline(always)]
    fn new() -> Self {
        LogSumExp {
            most: [T::ZERO; N],
            sum: [T::ONE; N],
            level: PhantomData,
        }
    }
}

impl<S: Simd, T: Float, const N: usize> Lanes<T, N, 1> for LogSumExp<S, T, N> {
    #[inline(always)]
    fn next(&mut self, [x]: [[T; N]; 1], is_first: bool) -> [T; N] {
        if is_first {
            (self.most, self.sum) = (x, [T::ONE; N]);
            return x;
        }
        let mut y = x;
        for i in 0..N {
            let (x, most, sum) = (x[i], self.most[i], self.sum[i]);
            let above = x > most;
            let (least, most) = if above { (most, x) } else { (x, most) };
            // Both may be the same infinity.
            let factor = least.minus(most).exp::<S>();
            let factor = if least == most { T::ONE } else { factor };
            let raised = sum.times(factor).plus(T::ONE);
            let sum = if above { raised } else { sum.plus(factor) };
            (self.most[i], self.sum[i]) = (most, sum);
            y[i] = most.plus(sum.log::<S>());
        }
        y
    }
}

/// Returns the number of rows that are scanned column by column. The others are few.
fn whole_blocks<T>(n_rows: usize) -> usize {
    let few = n_rows % (64 / size_of::<T>());
    n_rows - if few <= FEW { few } else { 0 }
}

/// Scans rows of `r` elements, `N` rows at a time.
///
/// Columns of `N` elements are transposed in registers, so that the lanes of vectors are rows.
#[inline(always)]
fn by_columns<S: Simd, T: Element, const N: usize, const A: usize>(
    args: [&[T]; A],
    r: usize,
    reverse: bool,
    out: &mut [T],
    lanes: impl Lanes<T, N, A>,
) {
    let mut x: [Columns<T, N, N>; A] = array::from_fn(|_| Columns([[T::default(); N]; N]));
    for (i, out) in out.chunks_mut(N * r).enumerate() {
        let args = array::map(args, |xs| &xs[i * N * r..]);
        let block = RowBlock::<T, N>::new(out.len() / r, r);
        let mut lanes = lanes;
        let mut done = 0;
        while done < r {
            let n = N.min(r - done);
            let first = if reverse { r - done - n } else { done };
            for (x, xs) in x.iter_mut().zip(args) {
                block.read::<S, 1>(&xs[first..], &mut x.0);
            }
            for k in 0..n {
                let j = if reverse { n - 1 - k } else { k };
                let column = array::from_fn(|i| x[i].0[j]);
                x[0].0[j] = lanes.next(column, done + k == 0);
            }
            block.write::<S>(&x[0], n, &mut out[first..]);
            done += n;
        }
    }
}

/// Sizes and direction of a scan.
#[derive(Clone, Copy)]
struct Sizes {
    arb: [usize; 3],
    reverse: bool,
}

impl Sizes {
    /// Returns whether rows are scanned faster by columns, which takes two transpositions.
    fn by_columns<T>(self, rule: impl Rule<T>) -> bool {
        let bytes = self.arb[1] * size_of::<T>();
        // Lines of rows that are a multiple of a page apart share one set of the cache.
        let is_cheap = size_of::<T>() == 4 && bytes >= 128 && !bytes.is_multiple_of(4096);
        rule.is_extreme() && bytes >= 64 || is_cheap
    }

    fn unary<T: Element + Plain>(self, rule: impl Rule<T>) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| self.run([xs, xs], out, rule))
    }

    /// Moves each element by one along the axis. The first one becomes 0.
    fn shift<T: Number>(self, xs: &[T], out: &mut [T]) {
        let [_, r, b] = self.arb;
        let n = out.len();
        let zeros = if self.reverse {
            r.saturating_sub(1) * b
        } else {
            0
        };
        write_parts(out, 1, |at, out| {
            // Elements also move across the ends of matrices, where zeros replace them.
            let end = at + out.len();
            let (moved, from) = match self.reverse {
                false => (at.max(b).min(end)..end, at.saturating_sub(b)),
                true => (at..end.min(n - b).max(at), at + b),
            };
            let to = &mut out[moved.start - at..moved.end - at];
            to.copy_from_slice(&xs[from.min(n)..][..moved.len()]);
            for matrix in at / (r * b)..end.div_ceil(r * b) {
                let first = matrix * r * b + zeros;
                let (first, last) = (first.max(at), (first + b).min(end));
                if first < last {
                    out[first - at..last - at].fill(T::ZERO);
                }
            }
        });
    }

    fn run<T: Element + Plain>(self, args: [&[T]; 2], out: &mut [T], rule: impl Rule<T>) {
        if out.is_empty() {
            return;
        }
        let [a, r, b] = self.arb;
        let (len, nanos) = match b {
            1 => (rows_of_a_task(a, r) * r, out.len() * 1000 / PER_MICRO),
            _ => (TASK.div_ceil(r * b) * r * b, size_of_val(out) / 8),
        };
        let columns = |args: [&[T]; 2], out: &mut [T], len: usize, nanos: usize| {
            for_each_columns(out, [r, b], len, nanos, |matrix, first, out| {
                let args = array::map(args, |xs| &xs[matrix * r * b..][..r * b][first..]);
                scan_columns(args, b, self.reverse, out, rule);
            });
        };
        let parts = worth(nanos).div_ceil(a).min(b / WIDE);
        if parts > 1 {
            return columns(args, out, b.div_ceil(parts).next_multiple_of(STRIP), nanos);
        }
        for_each_chunk(out, len, nanos, |task, out| {
            let args = array::map(args, |xs| &xs[task * len..][..out.len()]);
            match b {
                1 if self.by_columns::<T>(rule) => {
                    let (many, few) = out.split_at_mut(whole_blocks::<T>(out.len() / r) * r);
                    scan_blocks(args, r, self.reverse, many, rule);
                    let args = array::map(args, |xs| &xs[many.len()..]);
                    if !rule.is_extreme() || r <= 2 * SPAN {
                        return scan_rows(args, r, self.reverse, few, rule);
                    }
                    with_scratch([r], |[scratch]| {
                        for (xs, out) in args[0].chunks_exact(r).zip(few.chunks_exact_mut(r)) {
                            scan_row(xs, [out, scratch], self.reverse, rule);
                        }
                    });
                }
                1 => scan_rows(args, r, self.reverse, out, rule),
                2..WIDE => scan_narrow(args, [r, b], self.reverse, out, rule),
                _ => columns(args, out, b, 0),
            }
        });
    }
}

/// Returns the positions of `r` elements in the order of a scan.
#[inline(always)]
fn order(r: usize, reverse: bool) -> impl Fn(usize) -> usize {
    move |i| if reverse { r - 1 - i } else { i }
}

leveled! {
    /// Scans many rows, column by column.
    fn scan_blocks<S, T: Element>(
        args: [&[T]; 2],
        r: usize,
        reverse: bool,
        out: &mut [T],
        rule: impl Rule<T>,
    ) {
        let none = T::default();
        match (size_of::<T>(), rule.is_fold()) {
            (4, true) => by_columns::<S, T, 16, 1>([args[0]], r, reverse, out, Folds(rule, [none; 16])),
            (_, true) => by_columns::<S, T, 8, 1>([args[0]], r, reverse, out, Folds(rule, [none; 8])),
            (4, false) => by_columns::<S, T, 16, 2>(args, r, reverse, out, Steps::of(rule)),
            (_, false) => by_columns::<S, T, 8, 2>(args, r, reverse, out, Steps::of(rule)),
        }
    }
}

leveled! {
    /// Scans each row of `r` elements, several rows at a time to hide the latency of the rule.
    fn scan_rows<S, T: Element>(
        args: [&[T]; 2],
        r: usize,
        reverse: bool,
        out: &mut [T],
        rule: impl Rule<T>,
    ) {
        let whole = out.len() / r / ROWS * ROWS * r;
        let (many, few) = out.split_at_mut(whole);
        for (i, out) in many.chunks_exact_mut(ROWS * r).enumerate() {
            let args = array::map(args, |xs| &xs[i * ROWS * r..]);
            rows::<T, ROWS>(args, r, reverse, out, rule);
        }
        for (i, out) in few.chunks_exact_mut(r).enumerate() {
            let args = array::map(args, |xs| &xs[whole + i * r..]);
            rows::<T, 1>(args, r, reverse, out, rule);
        }
    }
}

/// Scans `N` rows of `r` elements.
#[inline(always)]
fn rows<T: Element, const N: usize>(
    args: [&[T]; 2],
    r: usize,
    reverse: bool,
    out: &mut [T],
    rule: impl Rule<T>,
) {
    let place = order(r, reverse);
    let args: [[&[T]; N]; 2] = array::map(args, |xs| array::from_fn(|row| &xs[row * r..][..r]));
    let mut rest = out;
    let mut out: [&mut [T]; N] = array::from_fn(|_| {
        let (row, later) = std::mem::take(&mut rest).split_at_mut(r);
        rest = later;
        row
    });
    let read = |row: usize, at: usize| [args[0][row][at], args[1][row][at]];
    let mut before: [[T; 2]; N] = array::from_fn(|row| read(row, place(0)));
    let mut y = array::map(before, |x| rule.first(x));
    (0..N).for_each(|row| out[row][place(0)] = y[row]);
    for i in 1..r {
        for row in 0..N {
            let x = read(row, place(i));
            y[row] = rule.next(y[row], x, before[row]);
            out[row][place(i)] = y[row];
            before[row] = x;
        }
    }
}

leveled! {
    /// Scans a row by an [extreme](Rule::is_extreme) rule: each element is folded with spans of 1, 2, 4
    /// and 8 elements before, and then with the result a span before it.
    fn scan_row<S, T: Element>(
        xs: &[T],
        to: [&mut [T]; 2],
        reverse: bool,
        rule: impl Rule<T>,
    ) {
        let [out, scratch] = to;
        let fold = |y: T, x: T| rule.next(y, [x; 2], [x; 2]);
        fold_shifted(xs, scratch, 1, reverse, fold);
        fold_shifted(scratch, out, 2, reverse, fold);
        fold_shifted(out, scratch, 4, reverse, fold);
        fold_shifted(scratch, out, 8, reverse, fold);
        let n = out.len();
        for start in (SPAN..n).step_by(SPAN) {
            let len = SPAN.min(n - start);
            let (now, before) = match reverse {
                false => {
                    let (before, now) = out.split_at_mut(start);
                    (&mut now[..len], &before[start - SPAN..])
                }
                true => {
                    let (now, before) = out.split_at_mut(n - start);
                    (&mut now[n - start - len..], &before[SPAN - len..])
                }
            };
            (now.iter_mut().zip(before)).for_each(|(y, x)| *y = fold(*y, *x));
        }
    }
}

/// Folds each element with the one that is `by` elements before it.
#[inline(always)]
fn fold_shifted<T: Element>(
    xs: &[T],
    out: &mut [T],
    by: usize,
    reverse: bool,
    f: impl Fn(T, T) -> T,
) {
    let (n, first) = (xs.len(), if reverse { 0 } else { by });
    let (alone, before) = if reverse { (n - by, by) } else { (0, 0) };
    out[alone..][..by].copy_from_slice(&xs[alone..][..by]);
    let pairs = xs[first..][..n - by].iter().zip(&xs[before..][..n - by]);
    (out[first..][..n - by].iter_mut().zip(pairs)).for_each(|(y, (x, before))| *y = f(*x, *before));
}

leveled! {
    /// Scans columns of matrices with rows of `b` elements. The operands start with the first column.
    fn scan_columns<S, T: Element>(
        args: [&[T]; 2],
        b: usize,
        reverse: bool,
        out: ColumnsMut<'_, T>,
        rule: impl Rule<T>,
    ) {
        let mut out = out;
        let (r, n) = (out.n_rows(), out.n_cols());
        let place = order(r, reverse);
        let row = |i: usize| array::map(args, |xs| &xs[place(i) * b..][..n]);
        let [x, a] = row(0);
        for (j, y) in out.row(place(0))[..n].iter_mut().enumerate() {
            *y = rule.first([x[j], a[j]]);
        }
        let mut before = [x, a];
        for i in 1..r {
            let x = row(i);
            let (ys, y_before) = out.row_and(place(i), place(i - 1));
            scan_row_of_columns(ys, y_before, x, before, rule);
            before = x;
        }
    }
}

/// Writes a row of results from that before it, some columns at a time.
#[inline(always)]
fn scan_row_of_columns<T: Element>(
    ys: &mut [T],
    y_before: &[T],
    x: [&[T]; 2],
    before: [&[T]; 2],
    rule: impl Rule<T>,
) {
    let n = ys.len();
    let [wide, narrow, few] = [WIDE, STRIP, 4].map(|some| n / some * some);
    for at in (0..wide).step_by(WIDE) {
        scan_some::<T, WIDE>(ys, y_before, x, before, at, rule);
    }
    for at in (wide..narrow).step_by(STRIP) {
        scan_some::<T, STRIP>(ys, y_before, x, before, at, rule);
    }
    for at in (narrow..few).step_by(4) {
        scan_some::<T, 4>(ys, y_before, x, before, at, rule);
    }
    for at in few..n {
        scan_some::<T, 1>(ys, y_before, x, before, at, rule);
    }
}

/// Writes `N` results of a row. All numbers are read before one is written, so the compiler need not check whether
/// the rows overlap.
#[inline(always)]
fn scan_some<T: Element, const N: usize>(
    ys: &mut [T],
    y_before: &[T],
    x: [&[T]; 2],
    before: [&[T]; 2],
    at: usize,
    rule: impl Rule<T>,
) {
    let read = |xs: &[T]| -> [T; N] { *xs[at..].first_chunk().expect("`N` elements are left") };
    let (y, x, before) = (
        read(y_before),
        array::map(x, read),
        array::map(before, read),
    );
    let next = |j: usize| rule.next(y[j], [x[0][j], x[1][j]], [before[0][j], before[1][j]]);
    ys[at..][..N].copy_from_slice(&array::from_fn::<T, N>(next));
}

leveled! {
    /// Scans the columns of each matrix of `r` rows of `b` elements, with the results of the last row in
    /// registers.
    fn scan_narrow<S, T: Element>(
        args: [&[T]; 2],
        rb: [usize; 2],
        reverse: bool,
        out: &mut [T],
        rule: impl Rule<T>,
    ) {
        let [r, b] = rb;
        for (matrix, out) in out.chunks_exact_mut(r * b).enumerate() {
            let args = array::map(args, |xs| &xs[matrix * r * b..][..r * b]);
            let mut first = 0;
            while first < b {
                first += match b - first {
                    STRIP.. => strip::<T, STRIP>(args, rb, first, reverse, out, rule),
                    8.. => strip::<T, 8>(args, rb, first, reverse, out, rule),
                    4.. => strip::<T, 4>(args, rb, first, reverse, out, rule),
                    2.. => strip::<T, 2>(args, rb, first, reverse, out, rule),
                    _ => strip::<T, 1>(args, rb, first, reverse, out, rule),
                };
            }
        }
    }
}

/// Scans `N` columns of a matrix from column `first` on, and returns `N`.
#[inline(always)]
fn strip<T: Element, const N: usize>(
    args: [&[T]; 2],
    [r, b]: [usize; 2],
    first: usize,
    reverse: bool,
    out: &mut [T],
    rule: impl Rule<T>,
) -> usize {
    let place = order(r, reverse);
    let read = |row: usize| -> [[T; N]; 2] {
        array::map(args, |xs| array::from_fn(|j| xs[row * b + first..][..N][j]))
    };
    let mut before = read(place(0));
    let mut y: [T; N] = array::from_fn(|j| rule.first([before[0][j], before[1][j]]));
    out[place(0) * b + first..][..N].copy_from_slice(&y);
    for i in 1..r {
        let x = read(place(i));
        for j in 0..N {
            y[j] = rule.next(y[j], [x[0][j], x[1][j]], [before[0][j], before[1][j]]);
        }
        out[place(i) * b + first..][..N].copy_from_slice(&y);
        before = x;
    }
    N
}

#[cfg(test)]
mod tests {
    use super::{Scan, log_sum_exp, recurrence, scan};
    use crate::memory::{Data, DataMut};
    use crate::threads::set_threads;
    use gradloom_ir::DType;

    #[test]
    fn rows_of_any_number_and_length_are_scanned_in_sequence() {
        let numbers = [
            0.5f32,
            -2.0,
            -0.0,
            1.5,
            0.0,
            -1.25,
            3.0,
            f32::NAN,
            0.75,
            -3.0,
            7.0,
        ];
        let sizes = [
            (1, 1),
            (3, 31),
            (4, 33),
            (5, 40),
            (9, 100),
            (4, 257),
            (5, 8),
            (16, 32),
            (19, 47),
            (20, 16),
            (35, 1024),
            (140, 130),
        ];
        for (a, r) in sizes {
            let finite = |x: f32| if x.is_nan() && a != 5 { 2.0 } else { x };
            let xs: Vec<f32> = (0..a * r)
                .map(|i| finite(numbers[i * 7919 % 1009 % 11]))
                .collect();
            for reverse in [false, true] {
                let check = |what: &str, kernel: crate::Prepared, f: &dyn Fn(f32, f32) -> f32| {
                    let mut found = vec![9.0; a * r];
                    let args = [Data::F32(&xs), Data::F32(&xs)];
                    kernel(&args, &mut [DataMut::F32(&mut found)]).unwrap();
                    for (xs, found) in xs.chunks(r).zip(found.chunks(r)) {
                        let place = |i: usize| if reverse { r - 1 - i } else { i };
                        let mut y = xs[place(0)];
                        for i in 0..r {
                            y = if i == 0 { y } else { f(y, xs[place(i)]) };
                            let same = found[place(i)].to_bits() == y.to_bits();
                            let nan = found[place(i)].is_nan() && y.is_nan();
                            assert!(same || nan, "{what} {a} {r} {reverse} {i}");
                        }
                    }
                };
                let of = |by| scan(DType::F32, [a, r, 1], by, reverse);
                let most = |x: f32, y: f32| match x.total_cmp(&y) {
                    _ if x.is_nan() || y.is_nan() => f32::NAN,
                    std::cmp::Ordering::Less => y,
                    _ => x,
                };
                check("sum", of(Scan::Sum), &|y, x| y + x);
                check("product", of(Scan::Product), &|y, x| y * x);
                check("max", of(Scan::Max), &most);
                check("min", of(Scan::Min), &|x, y| -most(-x, -y));
                let kernel = recurrence(DType::F32, [a, r, 1], reverse, false);
                check("recurrence", kernel, &|y, x| x + x * y);
            }
        }
    }

    /// Several threads share the columns of few matrices.
    #[test]
    fn columns_are_scanned_in_sequence_by_any_number_of_threads() {
        for [a, r, b] in [
            [1, 700, 131],
            [2, 300, 500],
            [300, 20, 64],
            [90_000, 3, 1],
            [1, 2, 90_000],
        ] {
            let xs: Vec<f32> = (0..a * r * b)
                .map(|i| (i * 7919 % 1009) as f32 - 400.0)
                .collect();
            for reverse in [false, true] {
                let place = |i: usize| if reverse { r - 1 - i } else { i };
                let at = |m: usize, i: usize, j: usize| (m * r + place(i)) * b + j;
                let mut want = xs.clone();
                let mut shifted = vec![0.0; xs.len()];
                for (m, i, j) in
                    (0..a * (r - 1) * b).map(|i| (i / b / (r - 1), 1 + i / b % (r - 1), i % b))
                {
                    want[at(m, i, j)] += want[at(m, i - 1, j)];
                    shifted[at(m, i, j)] = xs[at(m, i - 1, j)];
                }
                for threads in [3, 2, 1] {
                    set_threads(threads);
                    for (by, want) in [(Scan::Sum, &want), (Scan::Shift, &shifted)] {
                        let mut found = vec![9.0; xs.len()];
                        let kernel = scan(DType::F32, [a, r, b], by, reverse);
                        kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
                        assert!(found == *want, "{by:?} {a} {r} {b} {reverse} {threads}");
                    }
                }
            }
        }
        set_threads(2);
    }

    #[test]
    fn logarithms_of_sums_are_those_of_the_definition() {
        let numbers = [0.5f64, -2.0, 300.0, f64::NEG_INFINITY, -0.0, 3.0, -700.0];
        for (a, r) in [
            (1, 1),
            (2, 5),
            (4, 3),
            (5, 40),
            (16, 16),
            (21, 70),
            (130, 9),
        ] {
            let mut xs: Vec<f64> = (0..a * r).map(|i| numbers[i * 7919 % 1009 % 7]).collect();
            // Infinities and NaN in rows of their own, at the start and later.
            for (row, x) in [(1, f64::INFINITY), (2, f64::NAN), (3, f64::NEG_INFINITY)] {
                if row < a {
                    xs[row * r..][..r.div_ceil(2)].fill(x);
                    xs[row * r + r / 2] = x;
                }
            }
            for reverse in [false, true] {
                let mut found = vec![9.0; a * r];
                let kernel = log_sum_exp(DType::F64, r, reverse);
                kernel(&[Data::F64(&xs)], &mut [DataMut::F64(&mut found)]).unwrap();
                for (xs, found) in xs.chunks(r).zip(found.chunks(r)) {
                    for i in 0..r {
                        let so_far = if reverse { &xs[i..] } else { &xs[..=i] };
                        let most = so_far.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        let sum: f64 = so_far.iter().map(|x| (x - most).exp()).sum();
                        let want = match so_far.iter().any(|x| x.is_nan()) {
                            true => f64::NAN,
                            false if most.is_infinite() => most,
                            false => most + sum.ln(),
                        };
                        let same = found[i] == want || found[i].is_nan() && want.is_nan();
                        let close = (found[i] - want).abs() <= 1e-13 * want.abs().max(1.0);
                        assert!(same || close, "{a} {r} {reverse} {i}: {} {want}", found[i]);
                    }
                }
            }
        }
    }
}
