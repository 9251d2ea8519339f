use super::{Binary, BinaryRule, Count, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::hypot;

binary_fns! { |x, y| hypot::<A, _>(x, y) }

// dz = (x dx + y dy) / z, and 0 at the origin.
pub(super) static OP: Binary = Binary {
    name: "hypot",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| slope(b, eqn, dx, eqn.args[0]),
        right: |b, eqn, dy| slope(b, eqn, dy, eqn.args[1]),
        transpose: None,
    },
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.all().magnitude().unbounded()),
    domain: (0.5, 2.0),
};

/// Emits `d of / z`, where the quotient is 0 at the origin.
fn slope(b: &mut Builder, eqn: &Eqn, d: Var, of: Var) -> Var {
    let z = eqn.out();
    let zero = b.scalar(0.0, z);
    let one = b.scalar(1.0, z);
    let origin = b.binary(Op::Eq, z, zero);
    let divisor = b.select(origin, one, z);
    let part = b.div(of, divisor);
    // The slope is a constant there, so that second derivatives are 0 as those of a norm are.
    let part = b.select(origin, zero, part);
    b.mul(d, part)
}
