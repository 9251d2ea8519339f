use super::Jacobian;
use super::nd_array;
use super::nd_array::{Application, NdArray, dot};
use super::shape::same;
use super::{Count, Kernel, OpFacts, Ops, axes, broadcast_like, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

/// `normalize_t[axes] v, y, r`: `r (v - mean(v) - y mean(y v))` over `axes`.
///
/// This is the Jacobian of `normalize` at the result `y`, where `r` is `inv_std`. The derivation is
/// in `normalize.rs`.
pub(super) static OP: Jacobian = Jacobian {
    name: "normalize_t",
    n_operands: 3,
    statics: &[StaticKind::Axes.named("axes")],
    shape: |statics, args| {
        let shape = same(&args[0].shape, &args[1].shape)?;
        let kept = shape::reduce(&shape, &statics[0], &true.into())?;
        let r = same(&kept, &args[2].shape)?;
        // Also checks `r` if the axes are unknown.
        broadcast_like::check(&r, &shape)?;
        Ok(shape)
    },
    // dz = -r (dy mean(y v) + y mean(dy v)) + dr (v - mean(v) - y mean(y v))
    tangent: |b, eqn, dx| {
        let [v, y, r] = [eqn.args[0], eqn.args[1], eqn.args[2]];
        let yv = b.mul(y, v);
        let along_y = mean(b, eqn, yv);
        let from_y = dx[1].map(|dy| {
            let own = b.mul(dy, along_y);
            let dyv = b.mul(dy, v);
            let shift = mean(b, eqn, dyv);
            let shift = b.mul(y, shift);
            let sum = b.add(own, shift);
            let factor = b.neg(r);
            b.mul(sum, factor)
        });
        let from_r = dx[2].map(|dr| {
            let shift = mean(b, eqn, v);
            let rest = b.sub(v, shift);
            let along_y = b.mul(y, along_y);
            let rest = b.sub(rest, along_y);
            let dr = b.broadcast(dr, r, y);
            b.mul(rest, dr)
        });
        b.add_tangents(from_y, from_r)
    },
    transpose: Op::NormalizeT,
    kernel: Kernel::NormalizeT,
    count: Count::Rows {
        element: Ops::new(7, 0),
        row: Ops::new(2, 0),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    domain: (-2.0, 2.0),
    samples: &[
        "(v: f64[2, 4], y: f64[2, 4], r: f64[2, 1]) { z = normalize_t[axes=[-1]] v, y, r return z }",
        "(v: f64[2, 3, 2], y: f64[2, 3, 2], r: f64[1, 3, 1]) { z = normalize_t[axes=[0, 2]] v, y, r return z }",
        "(v: f64[2, 3], y: f64[2, 3], r: f64[1, 1]) { z = normalize_t[axes=all] v, y, r return z }",
        "(v: f64[0, 3], y: f64[0, 3], r: f64[0, 1]) { z = normalize_t[axes=[1]] v, y, r return z }",
    ],
};

/// Emits the mean of `x` over the axes of `eqn`, repeated to the shape of `x`.
fn mean(b: &mut Builder, eqn: &Eqn, x: Var) -> Var {
    let (y, axes, keepdims) = (eqn.args[1], eqn.attrs[0], b.attr(true));
    let mean = b.mean(x, y, axes, keepdims);
    b.sum_t(mean, y, axes, keepdims)
}

/// `r (v - mean(v) - y mean(y v))`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let [v, y, r] = [eqn.args[0], eqn.args[1], eqn.args[2]];
    let shift = mean(b, eqn, v);
    let rest = b.sub(v, shift);
    let yv = b.mul(y, v);
    let along_y = mean(b, eqn, yv);
    let along_y = b.mul(y, along_y);
    let rest = b.sub(rest, along_y);
    Some(vec![b.mul(rest, r)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let [v, y] = [of.x(), of.y()].map(|x| x.row(&of.axes(0, of.rank()), &i));
        let along_y = dot(&v, &y) / v.len() as f64;
        (of.x().get(&i) - nd_array::mean(&v) - of.y().get(&i) * along_y) * of.args[2].spread(&i)
    })
}
