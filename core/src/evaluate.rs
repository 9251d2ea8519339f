//! Evaluation: computes the elements of promises.

use crate::graph::run::{self, Pending, Recorded};
use crate::{Result, Tensor, Tree};

/// Argument of [`evaluate`] and [`explain`]: a tree of tensors, or several.
///
/// It is a reference to a tree, or a tuple of such references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reference to a tree of tensors, nor a tuple of such references",
    note = "write `evaluate(&model)` or `evaluate((&model, &loss))`"
)]
pub trait Targets {
    /// Calls `f` with each tensor.
    #[doc(hidden)]
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
}

impl<T: Tree> Targets for &T {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        T::visit(self, f);
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Targets),*> Targets for ($($name,)*) {
            #[allow(non_snake_case)]
            fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
                let ($($name,)*) = self;
                $($name.visit(f);)*
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// Computes tensors together, in one plan. Realised tensors are not computed again.
///
/// Reading a tensor ([`Tensor::item`](crate::Tensor::item),
/// [`Tensor::to_vec`](crate::Tensor::to_vec), printing) also computes it, along with every value it
/// depends on that the program still holds. A loop that reads its loss at each step therefore does
/// not need `evaluate`. Use it where several independent results share work, or to control when
/// work is done, for example before reading a clock.
///
/// ```
/// use gradloom::{Tensor, evaluate};
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let (y, z) = (x.tanh(), x.tanh() * 2.0);
/// evaluate((&y, &z))?;
/// assert!(y.is_realised() && z.is_realised());
/// # Ok::<(), gradloom::Error>(())
/// ```
///
/// # Errors
///
/// If the data is not valid for an op, such as a label that is not a class, or if memory is short.
/// Values that could not be computed stay promises, and the evaluation can be retried.
pub fn evaluate(targets: impl Targets) -> Result<()> {
    let mut pending = Pending::new();
    let mut called = Ok(());
    targets.visit(&mut |leaf| {
        if called.is_ok() {
            called = pending.add(leaf.physical_value());
        }
    });
    called?;
    pending.compute()
}

/// Describes how [`evaluate`] would compute all tensors of a tree together, without computing them.
///
/// The text lists the tasks of the plan in order: the ops that run in one loop, the operands and
/// results of each task, its arithmetic, and the memory that intermediate values share. Pending
/// calls of traced functions that these tensors depend on come first, each with its own plan.
///
/// The text is for people; its format may change between versions.
///
/// ```
/// use gradloom::{Tensor, explain};
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let y = (x.tanh() * 2.0).sum(..);
/// assert!(explain(&y).contains("loop of 3 (tanh, mul, sum)"), "{}", explain(&y));
/// ```
pub fn explain(targets: impl Targets) -> String {
    let mut values = Recorded::new();
    targets.visit(&mut |leaf| values.push(leaf.physical_value().clone()));
    run::explain(&values)
}
