//! Means as quotients of sums.

use super::replace_some;
use crate::{Builder, Eqn, Op, Program, Var};

/// Writes means as sums that are divided, and their transposes as quotients that are spread.
///
/// A sum is computed by the group of its operand, and a division joins other groups. All shapes must be known.
pub fn without_means(program: Program) -> Program {
    let emit = |_, b: &mut Builder, eqn: &Eqn| -> Option<Vec<Var>> {
        let [axes, keepdims] = eqn.attrs[..] else {
            return None;
        };
        let [x, like] = eqn.args[..] else { return None };
        let over = |b: &mut Builder, x: Var, [large, small]: [Var; 2]| {
            let n = numel(&program, large) / numel(&program, small).max(1);
            let n = b.scalar(n as f64, x);
            b.div(x, n)
        };
        let y = match eqn.op {
            Op::Mean => {
                let total = b.sum(x, like, axes, keepdims);
                over(b, total, [like, eqn.out()])
            }
            Op::MeanT => {
                let part = over(b, x, [like, x]);
                b.sum_t(part, like, axes, keepdims)
            }
            _ => return None,
        };
        Some(vec![y])
    };
    replace_some(&program, emit).unwrap_or(program)
}

fn numel(program: &Program, var: Var) -> usize {
    let dims = program.aval(var).shape.known();
    dims.expect("a plan knows its shapes").iter().product()
}
