//! Ops that read or write elements at indices of an axis.

use super::axes::{fold, repeated};
use super::{Equation, statics};
use crate::backend::{TaskBuilder, View};
use crate::{Aval, DType};
use gradloom_kernels::indexing::{self, Places};
use gradloom_kernels::memory::numel;
use gradloom_kernels::movement::Write;
use gradloom_kernels::reduce::Fold;

/// An axis with indices, and the shapes of the values of an op on it.
struct Indexed {
    axis: usize,
    at: Places,
    /// The indices, contiguous.
    indices: View,
    /// The shape of the tensor, repeated to that of the indices.
    wide: Vec<usize>,
}

/// Prepares indices along the axis of an equation. `x` is the shape of the tensor, and `part` that of
/// the elements at the indices.
fn indexed(b: &mut TaskBuilder, of: &Equation<'_>, x: &[usize], part: &[usize]) -> Indexed {
    let axis = statics::axis(&of.statics[0], x.len());
    let i = of.y();
    if !statics::flag(&of.statics[1]) {
        return Indexed {
            axis,
            at: first_axis(x, axis, numel(i.shape())),
            indices: b.contiguous(i),
            wide: x.to_vec(),
        };
    }
    // Indices that do not vary along the axes before or after are not repeated along them.
    let (before, after) = (&part[..axis], &part[axis + 1..]);
    let varies = |own: &[usize], all: &[usize]| numel(own) != 1 && numel(all) != 1;
    let by_outer = varies(&i.shape()[..axis], before);
    let by_inner = varies(&i.shape()[axis + 1..], after);
    let side = |all: &[usize], varies: bool| match varies {
        true => all.to_vec(),
        false => vec![1; all.len()],
    };
    let m = part[axis];
    let own = [&side(before, by_outer), &[m][..], &side(after, by_inner)].concat();
    let i = i.with(i.layout.broadcast_to(&own));
    Indexed {
        axis,
        at: Places {
            by_outer,
            by_inner,
            ..first_axis(&[before, &[x[axis]], after].concat(), axis, m)
        },
        indices: b.contiguous(&i),
        wide: [before, &[x[axis]], after].concat(),
    }
}

/// Returns the sizes for `m` indices of an axis that all rows share.
fn first_axis(x: &[usize], axis: usize, m: usize) -> Places {
    Places {
        outer: numel(&x[..axis]),
        n: x[axis],
        m,
        inner: numel(&x[axis + 1..]),
        by_outer: false,
        by_inner: false,
        shared: false,
    }
}

pub(super) fn take(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let x = of.x();
    let Indexed {
        axis,
        mut at,
        indices,
        mut wide,
    } = indexed(b, of, x.shape(), of.shape());
    at.shared = numel(&x.shape()[..axis]) == 1;
    if at.shared {
        wide[..axis].fill(1);
    }
    let x = b.contiguous(&x.broadcast_to(&wide));
    let out = of.out();
    if !statics::flag(&of.statics[2]) {
        return b.kernel(&[&x, &indices], out, indexing::take(out.dtype(), at));
    }
    let scratch = Aval::new(DType::I64, [indexing::take_last_scratch(at)]);
    let outs = [out.clone(), scratch];
    let kernel = indexing::take_last(out.dtype(), at);
    b.kernels(&[&x, &indices], &outs, kernel).remove(0)
}

pub(super) fn take_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let to = indexed(b, of, of.shape(), of.x().shape());
    let y = b.contiguous(of.x());
    let by = match statics::flag(&of.statics[2]) {
        true => Write::Set,
        false => Write::Add,
    };
    let whole = Aval::new(y.dtype(), &to.wide[..]);
    let kernel = indexing::write(y.dtype(), to.at, false, by);
    let whole = b.kernel(&[&to.indices, &y], &whole, kernel);
    let axes = repeated(whole.shape(), of.shape());
    fold(b, &whole, &axes, of.out(), Fold::Sum)
}

pub(super) fn scatter(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    update(b, of, statics::write(&of.statics[2]))
}

pub(super) fn scatter_extreme(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let by = match statics::flag(&of.statics[2]) {
        true => Write::Max,
        false => Write::Min,
    };
    update(b, of, by)
}

/// Combines updates with elements of the first operand.
fn update(b: &mut TaskBuilder, of: &Equation<'_>, by: Write) -> View {
    let to = indexed(b, of, of.shape(), of.args[2].shape());
    let [x, updates] = [&of.args[0], &of.args[2]].map(|x| b.contiguous(x));
    let kernel = indexing::write(x.dtype(), to.at, true, by);
    b.update(&[&x, &to.indices, &updates], of.out(), kernel)
}

pub(super) fn segment_sum(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [x, ids] = [b.contiguous(of.x()), b.contiguous(of.y())];
    let at = first_axis(of.shape(), 0, numel(ids.shape()));
    let kernel = indexing::write(x.dtype(), at, false, Write::Add);
    b.kernel(&[&ids, &x], of.out(), kernel)
}

pub(super) fn segment_sum_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [y, ids] = [b.contiguous(of.x()), b.contiguous(of.y())];
    let at = first_axis(y.shape(), 0, numel(ids.shape()));
    b.kernel(&[&y, &ids], of.out(), indexing::take(y.dtype(), at))
}
