use super::{CollectiveOp, CollectiveRule, OVER, Variance, sum};
use crate::op::{Count, NdArray, OpFacts, Operands, axes, not_linear, shape};
use crate::sharding::Reduction;
use crate::{Builder, Eqn, Op, Static, StaticKind, Var};

/// `all_reduce[reduce, over] x`: the sum, maximum, minimum or product of the values of a group.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "all_reduce",
    statics: &[StaticKind::Reduce.named("reduce"), OVER],
    operands: Operands::Fixed(1, 0),
    shape: |_, args| Ok(args[0].shape.clone()),
    dtype: |statics, args| match statics[0].reduce() {
        Some(Reduction::Sum | Reduction::Prod) => shape::number(args[0].dtype, true),
        _ => Ok(args[0].dtype),
    },
    rule: CollectiveRule::Tangent { tangent, transpose },
    variance: |_| Variance::Drops,
    // A ring adds up the parts, and then passes the sums on.
    sent: |bytes, n| 2 * super::sent_parts(bytes, n),
    combine: |statics, group, _| {
        let kind = statics[0].reduce().expect("the rules check the kind");
        NdArray::build(&group[0].shape, |i| {
            let values = group.iter().map(|x| x.get(&i));
            values
                .reduce(|x, y| join(kind, x, y))
                .expect("a group has a device")
        })
    },
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ELEMENTWISE),
};

fn join(kind: Reduction, x: f64, y: f64) -> f64 {
    match kind {
        Reduction::Sum => x + y,
        Reduction::Prod => x * y,
        _ if x.is_nan() || y.is_nan() => f64::NAN,
        Reduction::Max => x.max(y),
        Reduction::Min => x.min(y),
    }
}

fn kind(b: &Builder, eqn: &Eqn) -> Reduction {
    let kind = b.static_of(eqn.attrs[0]).reduce();
    kind.expect("the rules check the kind")
}

fn tangent(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var {
    match kind(b, eqn) {
        // dy is the sum of the dx of the group.
        Reduction::Sum => b.emit_on(Op::AllReduce, eqn, dx)[0],
        Reduction::Max => of_extremum(b, eqn, dx, Op::Lt),
        Reduction::Min => of_extremum(b, eqn, dx, Op::Gt),
        Reduction::Prod => of_product(b, eqn, dx),
    }
}

/// Emits the mean of `dx` over the devices whose value is the extremum, as the tangent of `max` does.
///
/// `short` is true for other values. If the result is NaN, the tangent is.
fn of_extremum(b: &mut Builder, eqn: &Eqn, dx: Var, short: Op) -> Var {
    let (x, over) = (eqn.args[0], eqn.attrs[1]);
    let y = b.emit(Op::Pvary, &[over], &[eqn.out()]);
    let hit = b.binary(Op::Eq, x, y);
    let short = b.binary(short, x, y);
    let [zero, one] = [0.0, 1.0].map(|n| b.scalar(n, x));
    let hits = b.select(hit, one, y);
    let hits = b.select(short, zero, hits);
    let n_hits = sum(b, hits, over);
    let zeros = b.zeros_like(x);
    let dx = b.select(short, zeros, dx);
    let total = sum(b, dx, over);
    b.div(total, n_hits)
}

/// Emits the sum of `dx` times the product of the values of all other devices. There is no division, so zeros are
/// no exception.
fn of_product(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var {
    let (x, over) = (eqn.args[0], eqn.attrs[1]);
    let n = b.static_of(over).mesh().map_or(1, |mesh| mesh.n_devices());
    let [last, no, yes] = [Static::Int(-1), false.into(), true.into()].map(|value| b.attr(value));
    let column = b.emit(Op::Unsqueeze, &[last], &[x]);
    let all = b.emit(Op::AllGather, &[last, over, yes], &[column]);
    let (len, dtype) = (b.attr(n as i64), b.attr(crate::DType::I64));
    let places = b.emit(Op::Iota, &[len, dtype], &[]);
    let own = b.emit(Op::AxisIndex, &[over], &[]);
    let is_own = b.binary(Op::Eq, places, own);
    let one = b.scalar(1.0, x);
    let others = b.select(is_own, one, all);
    let others = b.emit(Op::Prod, &[last, no], &[others]);
    let change = b.mul(dx, others);
    sum(b, change, over)
}

/// The sum of a group is one value, and each device has its cotangent.
fn transpose(b: &mut Builder, eqn: &Eqn, ct: Var) -> Var {
    match kind(b, eqn) {
        Reduction::Sum => b.emit(Op::Pvary, &[eqn.attrs[1]], &[ct]),
        Reduction::Max | Reduction::Min | Reduction::Prod => not_linear(&OP),
    }
}
