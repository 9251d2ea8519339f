//! Evaluation without laziness: every op runs when it is recorded.

use std::cell::Cell;

thread_local! {
    static OP_BY_OP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with laziness switched off on this thread: each op that it records is evaluated at once, alone.
///
/// An error in the data, such as a label that is no class, is then at the line that calls the op. Nothing is simplified
/// across ops, so a value that is the same as without `op_by_op` has not been changed by planning.
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
    /// Goes back to what was before when `f` panics, too.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OP_BY_OP.set(self.0);
        }
    }
    let _before = Before(OP_BY_OP.replace(true));
    f()
}

/// Whether ops are evaluated when they are recorded.
pub(crate) fn is_op_by_op() -> bool {
    OP_BY_OP.get()
}
