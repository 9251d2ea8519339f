//! Lowering of ops to tasks that run on the CPU.
//!
//! Each op with a kernel is lowered by the function of its name, in one of the files of this module.
//! [`lower`] calls it; elementwise ops are compiled into groups by the planner. A kernel relies on
//! the checks of the op's shape and dtype rules. Everything that depends on shapes is resolved when
//! a plan is made.

mod attention;
mod axes;
mod constants;
mod equation;
mod indexing;
mod linalg;
mod matmul;
mod movement;
mod order;
mod random;
mod rows;
mod scan;
mod statics;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use axes::fused_sum;
pub(crate) use equation::Equation;
pub(crate) use movement::placed;

use super::{TaskBuilder, View};
use gradloom_ir::Kernel;
use gradloom_ir::op::Eval;
use gradloom_kernels::elementwise::quotient;
use gradloom_kernels::memory::numel;

/// Lowers an equation to tasks and returns its results.
///
/// Elementwise ops belong to groups and are not lowered here, except integer division and powers,
/// which may fail. A result may be a view of an operand.
pub(crate) fn lower(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    match of.op.def().eval() {
        Eval::Kernel(kernel) if order::orders_bools(of) => order::of_bools(b, of, kernel),
        Eval::Kernel(kernel) => lower_kernel(b, of, kernel),
        Eval::Unary(_) if of.op.is_view() => vec![of.x().clone()],
        Eval::Binary(_) => vec![integer_quotient(b, of)],
        Eval::Unary(_) | Eval::Compare(_) | Eval::Test(_) | Eval::Bits(_) | Eval::Many(_) => {
            member_of_group(b, of).into()
        }
        Eval::Control(_) => unreachable!("the planner lowers ops that run programs"),
        Eval::Collective => unreachable!("only the program of a `shard_map` has it"),
        Eval::Call => unreachable!("calls are inlined or recorded, never planned"),
    }
}

macro_rules! lower_kernels {
    ($($name:ident = $kernel:ident,)*) => {
        fn lower_kernel(b: &mut TaskBuilder, of: &Equation<'_>, kernel: Kernel) -> Vec<View> {
            use {attention::*, axes::*, constants::*, indexing::*, linalg::*, matmul::*, movement::*, order::*};
            use {random::*, rows::*, scan::*, windows::*};
            use {member_of_group as cast, member_of_group as cast_t, member_of_group as select};
            use {
                member_of_group as beta_density, member_of_group as betainc,
                member_of_group as betainc_dab, member_of_group as gamma_density,
                member_of_group as gammainc_da, member_of_group as zeta_ds,
            };
            use {sum_divided as mean, sum_divided as mean_t};
            match kernel {
                $(Kernel::$kernel => $name(b, of).into(),)*
            }
        }
    };
}

gradloom_ir::for_each_kernel!(lower_kernels);

/// Stands for the elementwise ops.
fn member_of_group(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unreachable!(
        "`{}` is elementwise, so it is lowered as a member of a group",
        of.op
    )
}

/// Stands for the means.
fn sum_divided(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    unreachable!("a plan writes `{}` as a sum and a division", of.op)
}

/// Lowers `x / y` or `x^y` of integers, which fails if it divides by 0.
///
/// It is a task of its own, because a group cannot fail. With a constant divisor, as in `n / 2`, it
/// cannot fail and is a member of a group.
fn integer_quotient(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [x, y] = [of.x(), of.y()].map(|x| match numel(x.shape()) {
        1 => b.contiguous(x),
        _ => b.contiguous(&x.broadcast_to(of.shape())),
    });
    b.kernel(
        &[&x, &y],
        of.out(),
        quotient::quotient(of.op, of.out().dtype()),
    )
}
