//! Means as quotients of sums.

use super::replace_some;
use crate::{Aval, Builder, Eqn, Op, Program, Var};

/// Writes means as sums that are divided, and their transposes as quotients that are spread.
///
/// A sum is computed by the group of its operand, and a division joins other groups. All shapes must be known.
pub fn without_means(program: Program) -> Program {
    let emit = |_, b: &mut Builder, eqn: &Eqn| -> Option<Vec<Var>> {
        let [axes, keepdims] = eqn.attrs[..] else {
            return None;
        };
        let [x, like] = eqn.args[..] else { return None };
        let over = |b: &mut Builder, x: Var, [large, small]: [usize; 2]| {
            let n = b.scalar((large / small.max(1)) as f64, x);
            b.div(x, n)
        };
        let y = match eqn.op {
            Op::Mean => {
                let total = b.sum(x, like, axes, keepdims);
                let sizes = [like, total].map(|var| numel(b.aval(var)));
                over(b, total, sizes)
            }
            Op::MeanT => {
                let sizes = [like, x].map(|var| numel(b.aval(var)));
                let part = over(b, x, sizes);
                b.sum_t(part, like, axes, keepdims)
            }
            _ => return None,
        };
        Some(vec![y])
    };
    replace_some(&program, emit).unwrap_or(program)
}

/// Returns whether [`without_means`] changes a program.
pub(super) fn changes(program: &Program) -> bool {
    let is_mean = |eqn: &Eqn| matches!(eqn.op, Op::Mean | Op::MeanT);
    program.eqns.iter().any(is_mean)
}

fn numel(aval: &Aval) -> usize {
    let numel = aval.shape.numel();
    numel.expect("a plan knows its shapes")
}
