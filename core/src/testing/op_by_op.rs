//! Evaluation without laziness: every op runs as soon as it is recorded.

use crate::engine::{self, Mode};

/// Runs `f` without laziness on this thread: each op is evaluated alone, as soon as it is recorded.
///
/// An error in the data, such as a label that is out of range, then panics at the line that calls
/// the op. Nothing is simplified across ops. A value that is the same with and without `op_by_op`
/// is therefore not affected by planning.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::op_by_op;
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let y = op_by_op(|| x.tanh() * 2.0);
/// assert!(y.is_realised());
/// ```
pub fn op_by_op<T>(f: impl FnOnce() -> T) -> T {
    let _mode = engine::enter(Mode::OpByOp);
    f()
}
