//! Lowering of scans along axes.

use super::axes::neighbours;
use super::rows::Read;
use super::statics::flag;
use super::{Equation, rows};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_kernels::memory::numel;
use gradloom_kernels::scan::{self, Scan};
use gradloom_kernels::task::Prepared;

/// Scans operands of one shape along the axes, with a kernel for the sizes `[a, r, b]`.
///
/// The axes are moved last if they are apart, or if the kernel scans `rows` only.
fn scan_by<const N: usize>(
    b: &mut TaskBuilder,
    of: &Equation<'_>,
    args: [&View; N],
    axes: Axes,
    kernel: impl Fn([usize; 3]) -> Prepared,
) -> View {
    let (shape, scanned) = (of.shape(), of.axes());
    let arb = match (axes, &neighbours(shape, &scanned)[..]) {
        (_, [] | [(_, false)]) => Some([numel(shape), 1, 1]),
        (_, &[(r, true)]) => Some([1, r, 1]),
        (_, &[(a, false), (r, true)]) => Some([a, r, 1]),
        (Axes::Any, &[(r, true), (b, false)]) => Some([1, r, b]),
        (Axes::Any, &[(a, false), (r, true), (b, false)]) => Some([a, r, b]),
        _ => None,
    };
    if let Some(arb) = arb {
        let args = args.map(|x| b.contiguous(x));
        return scan(b, &args, of.out(), arb, kernel(arb));
    }
    let order = rows::last(of.x().rank(), &scanned);
    let args = args.map(|x| b.contiguous(&x.permute(&order)));
    let r: usize = scanned.iter().map(|&a| shape[a]).product();
    let arb = [numel(shape).checked_div(r).unwrap_or(0), r, 1];
    let out = Aval::new(of.out().dtype(), args[0].shape());
    let y = scan(b, &args, &out, arb, kernel(arb));
    y.permute(&rows::inverse(&order))
}

/// Adds the kernel of a scan of the middle axis of `arb`, which runs on blocks of rows if that axis is the last one.
fn scan<const N: usize>(
    b: &mut TaskBuilder,
    args: &[View; N],
    out: &Aval,
    arb: [usize; 3],
    kernel: Prepared,
) -> View {
    let n_rows = if arb[2] == 1 { arb[0] } else { 1 };
    let args = args.each_ref().map(|x| (x, Read::Row));
    rows::each_row(b, out, n_rows, args, kernel, |rows| {
        rows.together(scan::TOGETHER)
    })
}

/// The axes that a kernel can scan.
#[derive(Clone, Copy)]
enum Axes {
    Any,
    Last,
}

fn unary(b: &mut TaskBuilder, of: &Equation<'_>, by: Scan) -> View {
    let kernel = |arb| scan::scan(of.out().dtype(), arb, by, of.flag());
    scan_by(b, of, [of.x()], Axes::Any, kernel)
}

pub(super) fn cumsum(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unary(b, of, Scan::Sum)
}

pub(super) fn cumprod(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    match flag(&of.statics[2]) {
        true => unary(b, of, Scan::ProductBefore),
        false => unary(b, of, Scan::Product),
    }
}

pub(super) fn cummax(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unary(b, of, Scan::Max)
}

pub(super) fn cummin(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unary(b, of, Scan::Min)
}

pub(super) fn shift(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unary(b, of, Scan::Shift)
}

pub(super) fn recurrence(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let late = flag(&of.statics[2]);
    let kernel = |arb| scan::recurrence(of.out().dtype(), arb, of.flag(), late);
    scan_by(b, of, [of.x(), of.y()], Axes::Any, kernel)
}

pub(super) fn cumlogsumexp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let kernel = |[_, r, _]: [usize; 3]| scan::log_sum_exp(of.out().dtype(), r, of.flag());
    scan_by(b, of, [of.x()], Axes::Last, kernel)
}
