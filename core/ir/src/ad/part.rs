//! Sums of cotangents of which one is a part among zeros.
//!
//! A value of which n parts are read has n such cotangents. Each is added to its part of the sum, which a
//! plan does in place. As sums of whole values, they would take n times the time of the whole.

use crate::{Attr, Builder, Dim, Eqn, Op, Var};

/// Emits the sum of `total` and the result of `eqn`, if that is a part among zeros.
///
/// Elements outside of the part keep their bits: -0.0 stays, where `total + ct` would give 0.0.
pub fn add_part(b: &mut Builder, total: Var, eqn: &Eqn) -> Option<Var> {
    let y = *eqn.args.first()?;
    let x = *eqn.likes().first()?;
    let is_set = |b: &Builder, i: usize| b.static_of(eqn.attrs[i]).bool() != Some(false);
    match eqn.op {
        // Along an axis, `take_t` adds up where its tensor is repeated, which `scatter` does not.
        Op::TakeT if !is_set(b, 2) && (!is_set(b, 1) || !repeats(b, eqn, x)) => {
            let args = [total, eqn.args[1], y, x, y];
            Some(b.emit(Op::Scatter, &eqn.attrs, &args))
        }
        Op::DynamicSliceT => {
            let set = b.attr(false);
            let args = [total, eqn.args[1], y, x, eqn.args[3]];
            Some(b.emit(Op::DynamicUpdateSlice, &[set], &args))
        }
        Op::SliceT => Some(add_slice(b, &eqn.attrs, [total, y, x])),
        Op::SelectIndexT => {
            let rank = b.aval(x).shape.dims()?.len();
            let axis = b.static_of(eqn.attrs[0]).int()?;
            let axis = axis.rem_euclid(rank as i64) as usize;
            let index = b.static_of(eqn.attrs[1]).int()?;
            let next = if index == -1 { i64::MAX } else { index + 1 };
            let range = |all: i64, own: i64| [vec![all; axis], vec![own]].concat();
            let ranges = [range(0, index), range(i64::MAX, next), range(1, 1)];
            let ranges = ranges.map(|ends| b.attr(ends));
            let axes = b.attr(vec![axis as i64]);
            let y = b.emit(Op::Unsqueeze, &[axes], &[y]);
            Some(add_slice(b, &ranges, [total, y, x]))
        }
        _ => None,
    }
}

/// Emits `total`, which has the shape of `x`, with `y` added to a slice of it.
fn add_slice(b: &mut Builder, ranges: &[Attr], [total, y, x]: [Var; 3]) -> Var {
    let statics = [ranges, &[b.attr(false)]].concat();
    b.emit(Op::SetSlice, &statics, &[total, y, x, y])
}

/// Returns whether `take_t` along an axis of `x` may add up cotangents of an element that was repeated along another.
fn repeats(b: &Builder, eqn: &Eqn, x: Var) -> bool {
    let dims = |v: Var| b.aval(v).shape.dims();
    let axis = b.static_of(eqn.attrs[0]).int();
    let (Some(ct), Some(x), Some(axis)) = (dims(eqn.args[0]), dims(x), axis) else {
        return true;
    };
    let axis = axis.rem_euclid(x.len().max(1) as i64) as usize;
    let same = |i: usize| i == axis || ct[i] == x[i] && ct[i] != Dim::Unknown;
    ct.len() != x.len() || !(0..x.len()).all(same)
}
