//! Lowering of the random ops, which read the words of a key.

use super::Equation;
use super::statics::float;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::StaticKind;
use gradloom_kernels::random::{self, Distribution};
use gradloom_kernels::task::Prepared;

/// Adds a kernel on the words of a key.
fn of_key(b: &mut TaskBuilder, of: &Equation<'_>, kernel: Prepared) -> View {
    let key = b.contiguous(of.x());
    b.kernel(&[&key], of.out(), kernel)
}

pub(super) fn fold_in(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (keys, data) = (b.contiguous(of.x()), b.contiguous(&of.args[1]));
    b.kernel(&[&keys, &data], of.out(), random::fold_in())
}

pub(super) fn random_bits(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of_key(b, of, Distribution::Bits.kernel())
}

pub(super) fn random_uniform(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of_key(b, of, Distribution::Uniform(of.out().dtype()).kernel())
}

pub(super) fn random_normal(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of_key(b, of, Distribution::Normal(of.out().dtype()).kernel())
}

pub(super) fn random_bernoulli(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let p = float(of.value(StaticKind::Probability));
    of_key(b, of, Distribution::Bernoulli(p).kernel())
}

pub(super) fn random_permutation(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of_key(b, of, random::permutation())
}
