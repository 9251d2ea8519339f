//! Lowering of scans along axes.

use super::axes::neighbours;
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
fn scan_by(
    b: &mut TaskBuilder,
    of: &Equation<'_>,
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
        let args: Vec<View> = of.args.iter().map(|x| b.contiguous(x)).collect();
        return b.kernel(&args.iter().collect::<Vec<_>>(), of.out(), kernel(arb));
    }
    let order = rows::last(of.x().rank(), &scanned);
    let last = of.args.iter().map(|x| b.contiguous(&x.permute(&order)));
    let args: Vec<View> = last.collect();
    let r: usize = scanned.iter().map(|&a| shape[a]).product();
    let arb = [numel(shape).checked_div(r).unwrap_or(0), r, 1];
    let out = Aval::new(of.out().dtype(), args[0].shape());
    let y = b.kernel(&args.iter().collect::<Vec<_>>(), &out, kernel(arb));
    y.permute(&rows::inverse(&order))
}

/// The axes that a kernel can scan.
#[derive(Clone, Copy)]
enum Axes {
    Any,
    Last,
}

fn unary(b: &mut TaskBuilder, of: &Equation<'_>, by: Scan) -> View {
    let kernel = |arb| scan::scan(of.out().dtype(), arb, by, of.flag());
    scan_by(b, of, Axes::Any, kernel)
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
    scan_by(b, of, Axes::Any, kernel)
}

pub(super) fn cumlogsumexp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let kernel = |[_, r, _]: [usize; 3]| scan::log_sum_exp(of.out().dtype(), r, of.flag());
    scan_by(b, of, Axes::Last, kernel)
}
