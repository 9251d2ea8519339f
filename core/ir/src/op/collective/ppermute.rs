use super::{CollectiveOp, CollectiveRule, OVER, Variance, size};
use crate::op::{Count, NdArray, OpFacts, Operands, axes, shape};
use crate::{Fault, Op, Static, StaticKind};

/// `ppermute[pairs, over] x`: the value of the device that sends to this one, and zeros if none does.
///
/// A device sends to one device at most, and gets from one at most.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "ppermute",
    statics: &[StaticKind::Pairs.named("pairs"), OVER],
    operands: Operands::Fixed(1, 0),
    shape: |statics, args| {
        let n = size(statics, 1) as i64;
        let ends = statics[0].ints().unwrap_or_default();
        match ends.iter().find(|end| **end >= n) {
            Some(end) => Err(Fault::Sharding {
                reason: format!("a group of {n} devices has no device {end}"),
            }),
            None => Ok(args[0].shape.clone()),
        }
    },
    dtype: shape::of_operand,
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| {
            let pairs = b.static_of(eqn.attrs[0]).ints().unwrap_or_default();
            let back = pairs.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]);
            let back = b.attr(back.collect::<Vec<i64>>());
            b.emit(Op::Ppermute, &[back, eqn.attrs[1]], &[ct])
        },
    },
    variance: |_| Variance::Keeps,
    sent: |bytes, _| bytes,
    combine: |statics, group, i| match sender(&statics[0], i) {
        Some(from) => group[from].clone(),
        None => NdArray::zeros(&group[i].shape),
    },
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ELEMENTWISE),
};

/// Returns the device of a group that sends to device `to`.
pub fn sender(pairs: &Static, to: usize) -> Option<usize> {
    let pairs = pairs.ints()?.chunks_exact(2);
    let mut from = pairs.filter(|pair| pair[1] == to as i64);
    from.next().map(|pair| pair[0] as usize)
}
