use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{DType, Shape, StaticKind};

/// `random_permutation[len] key`: the numbers 0, 1, ..., `len - 1` in a random order.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_permutation",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Count.named("len")],
    shape: |statics, args| shape::drawn(args[0], Shape::from([shape::dim(&statics[0])])),
    dtype: |_, _| Ok(Some(DType::I64)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomPermutation,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_permutation[len=5] key return y }",
            "(key: i64[3, 2]) { y = random_permutation[len=4] key return y }",
            "(key: i64[2]) { y = random_permutation[len=0] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    threefry::per_key(of, permutation)
}

/// Returns the numbers below `n` in a random order.
fn permutation(mut key: threefry::Words, n: usize) -> Vec<f64> {
    // Each round sorts by fresh random words, stably. There are enough rounds that the probability of
    // any two elements having equal words in every round is below `1 / n`.
    let n_rounds = (3.0 * (n.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
    let mut order: Vec<f64> = (0..n).map(|i| i as f64).collect();
    for _ in 0..n_rounds {
        let round = threefry::hash(key, 1);
        let words = (0..).map(|i| threefry::word(round, i));
        let mut pairs: Vec<(u32, f64)> = words.zip(order).collect();
        pairs.sort_by_key(|&(word, _)| word);
        order = pairs.into_iter().map(|(_, x)| x).collect();
        key = threefry::hash(key, 0);
    }
    order
}
