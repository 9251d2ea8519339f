//! Forward mode with tangents that are attached to tensors.

use super::jvp::joint_program;
use super::trace::{self, GraphPart, ScopeGuard, cut, known};
use crate::graph::seq_no::seq_no_of_all;
use crate::raise::expect;
use crate::tensor::record::traced_input;
use crate::tensor::replay::{Bound, replay_known};
use crate::{Result, Tensor, check};
use std::cell::RefCell;

/// A level of forward mode: tensors get tangents, and every op on them carries the tangents on.
///
/// [`jvp`](super::jvp()) is the same for a closure. A level is for code that is not one, such as a loop that
/// decides as it goes which tangents to read. Levels nest: a tangent of the inner level is an ordinary tensor
/// of the outer one. The tangent of the inner level is read first: a tangent of the outer level does not depend on
/// the inner one. What depends on a level keeps its ops until the level is dropped.
///
/// ```
/// # use gradloom::{ForwardLevel, Tensor};
/// let level = ForwardLevel::new();
/// let x = level.dual(&Tensor::from([2.0f32, 3.0]), &Tensor::from([1.0f32, 0.0]));
/// let y = &x * &x;
/// assert_eq!(y.to_vec::<f32>(), [4.0, 9.0]);
/// assert_eq!(level.tangent(&y).unwrap().to_vec::<f32>(), [4.0, 0.0]);
/// assert!(level.tangent(&Tensor::from(1.0f32)).is_none());
/// ```
#[derive(Debug)]
pub struct ForwardLevel {
    scope: ScopeGuard,
    /// Sequence number of the level: what is older does not depend on it.
    since: u64,
    duals: RefCell<Vec<Dual>>,
}

/// A tensor with an attached tangent.
#[derive(Clone, Debug)]
struct Dual {
    /// The value from which ops carry the tangent on.
    input: Tensor,
    primal: Tensor,
    tangent: Tensor,
}

impl ForwardLevel {
    /// Opens a level, which lasts until it is dropped.
    #[expect(
        clippy::new_without_default,
        reason = "a level is opened, not a default value"
    )]
    pub fn new() -> ForwardLevel {
        ForwardLevel {
            scope: ScopeGuard::open(),
            since: seq_no_of_all(),
            duals: RefCell::default(),
        }
    }

    /// Returns a tensor with the value of `x` and an attached tangent.
    ///
    /// # Panics
    ///
    /// If `x` is not a float, or `dx` differs in shape or dtype.
    #[track_caller]
    pub fn dual(&self, x: &Tensor, dx: &Tensor) -> Tensor {
        expect(self.try_dual(x, dx))
    }

    fn try_dual(&self, x: &Tensor, dx: &Tensor) -> Result<Tensor> {
        check::floats(x, "x")?;
        let (one, tangent) = (std::slice::from_ref(x), std::slice::from_ref(dx));
        check::beside("tangent", x, "x", tangent, check::avals(one))?;
        let input = traced_input(x, &self.scope.0);
        self.duals.borrow_mut().push(Dual {
            input: input.clone(),
            primal: x.clone(),
            tangent: dx.clone(),
        });
        Ok(input)
    }

    /// Returns the tangent of a tensor, or `None` if it does not depend on a tensor of this level.
    ///
    /// # Panics
    ///
    /// If the tensor depends on an op that has a rule for reverse mode only.
    #[track_caller]
    pub fn tangent(&self, y: &Tensor) -> Option<Tensor> {
        expect(self.try_tangent(y))
    }

    /// Returns the tangent of a tensor, or an error.
    ///
    /// # Errors
    ///
    /// If the tensor depends on an op that has a rule for reverse mode only.
    pub fn try_tangent(&self, y: &Tensor) -> Result<Option<Tensor>> {
        let duals = self.duals.borrow().clone();
        let inputs: Vec<Tensor> = duals.iter().map(|dual| dual.input.clone()).collect();
        let part = cut(&inputs, self.since, std::slice::from_ref(y), true);
        let GraphPart {
            program,
            captured,
            nodes,
            ..
        } = part;
        let known = known(&program, nodes);
        let joint = joint_program(&program)?;
        if joint.active != [true] {
            return Ok(None);
        }
        let primals: Vec<Tensor> = duals.iter().map(|dual| dual.primal.clone()).collect();
        let mut args = trace::args(&primals, &captured);
        args.extend(duals.into_iter().map(|dual| Bound::Tensor(dual.tangent)));
        let outs = replay_known(&joint.program, args, &known)?;
        let tangent = outs.last().expect("the result has a tangent").tensor();
        Ok(Some(tangent.with_batch_dims(y.batch_dims())))
    }
}
