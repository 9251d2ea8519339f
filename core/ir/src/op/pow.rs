use super::{Binary, BinaryRule, Count, Equal, Fails, OpFacts, OperandRanges, Range, range};
use crate::{Op, Program, Var};
use gradloom_maths::pow;

binary_fns! { |x, y| pow::<A, _>(x, y),
int |x, y| {
    match x {
        _ if y >= 0 => {
            let (mut power, mut square, mut rest) = (1, x, y);
            while rest > 0 {
                if rest & 1 == 1 {
                    power = square.wrapping_mul(power);
                }
                square = square.wrapping_mul(square);
                rest >>= 1;
            }
            power
        }
        1 => 1,
        -1 => 1 - 2 * (y & 1),
        _ => 0,
    }
} }

/// `x^y`, with `0^0 = 1`. Integers wrap.
///
/// A negative power of an integer is the integer quotient `1 / x^n`, and of 0 an error at run time.
pub(super) static OP: Binary = Binary {
    name: "pow",
    fns: FNS,
    // dz = dx y x^(y - 1) + dy z log(x)
    rule: BinaryRule {
        // x^0 does not depend on x. At x = 0, the exponent is 1 instead of -1, so that 0 * 0^-1 is not
        // NaN.
        left: |b, eqn, dx| {
            let (x, y) = (eqn.args[0], eqn.args[1]);
            let one = b.scalar(1.0, y);
            let exponent = if known_number(b.program(), y).is_some_and(|y| y != 0.0) {
                b.sub(y, one)
            } else {
                let zero = b.scalar(0.0, y);
                let [no_x, no_y] = [x, y].map(|operand| b.binary(Op::Eq, operand, zero));
                let constant = b.binary(Op::BitAnd, no_x, no_y);
                let less = b.sub(y, one);
                b.select(constant, one, less)
            };
            let power = b.binary(Op::Pow, x, exponent);
            let slope = b.mul(y, power);
            b.mul(dx, slope)
        },
        // 0^y does not depend on y > 0. There, log(1) replaces log(0), so that 0 * log(0) is not
        // NaN.
        right: |b, eqn, dy| {
            let x = eqn.args[0];
            let zero = b.scalar(0.0, x);
            let one = b.scalar(1.0, x);
            let is_zero = b.binary(Op::Eq, x, zero);
            let base = b.select(is_zero, one, x);
            let log = b.unary(Op::Log, base);
            let slope = b.mul(eqn.out(), log);
            b.mul(dy, slope)
        },
        transpose: None,
    },
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        // 0 to a negative power divides by 0.
        .fails(Fails::IntegerBy(|exponent| exponent < 0.0))
        .equal(Equal::Neutral([None, Some(1.0)]))
        .range(|of| Range {
            at_least_0: of.x().at_least_0,
            not_0: of.x().is_positive(),
            ..of.x().unknown()
        })
        .steep_unless(has_finite_slope, 1.0),
    domain: (0.5, 2.0),
};

/// Returns whether `x^y` has a finite slope in `x` for all elements.
///
/// At 0, it has one for `y >= 1` and for `y = 0`.
fn has_finite_slope(of: &OperandRanges<'_>, varies: &dyn Fn(Var) -> bool) -> bool {
    let y = of.eqn.args[1];
    let at_0 = match known_number(of.program, y) {
        Some(y) => y >= 1.0 || y == 0.0,
        None => !varies(y) && of.y().bounded,
    };
    at_0 || of.x().is_positive()
}

/// Returns the number that all elements of `y` are equal to, if it is known.
fn known_number(program: &Program, y: Var) -> Option<f64> {
    let made = program.eqns.iter().find(|eqn| eqn.outs.contains(&y))?;
    range::number(program, made)?.float()
}
