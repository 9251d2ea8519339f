//! Forward mode.

use super::{Outcome, check_forward};
use crate::check;
use crate::graph::cut_program::{CutProgram, Derivation};
use crate::tensor::replay::{Bound, replay_known};
use crate::transform::trace;
use crate::transform::trace::Trace;
use crate::tree::{free_leaves, frozen, leaves, share, with_physical};
use crate::{Result, Tensor, Tree};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, Var, pass};
use std::sync::Arc;

/// Returns the value of `f` at `x`, and its tangent along `dx`.
///
/// ```
/// # use gradloom::{Tensor, jvp};
/// let (x, dx) = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, 0.5]));
/// let (y, dy) = jvp(|x: &Tensor| x * x, &x, &dx);
/// assert_eq!(dy.to_vec::<f32>(), [2.0, 2.0]);
/// ```
///
/// # Panics
///
/// If a leaf of `x` is not a float, or a leaf of `dx` has a different shape or dtype. If `f`
/// returns `Result`, these are errors instead.
#[track_caller]
pub fn jvp<X, R, F>(f: F, x: &X, dx: &X) -> R::Wrap<(R::Tree, R::Tree)>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    R::wrap(joint(f, x).and_then(|tangent_map| tangent_map.call(dx)))
}

/// The program of a function on values and tangents, with its captured values.
pub(crate) struct JointProgram<X, Y> {
    jvp: Arc<ad::Jvp>,
    /// Values that the function used besides its argument.
    captured: Vec<Bound>,
    /// Variables that were computed during tracing, because the function read values.
    known: Vec<(Var, Tensor)>,
    x: X,
    /// Result on fresh values, for its structure.
    y: Y,
}

pub(crate) fn joint<X, R, F>(f: F, x: &X) -> Result<JointProgram<X, R::Tree>>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    joint_of(trace::trace(f, x)?, share(x))
}

/// Returns the program on values and tangents of a traced function.
pub(crate) fn joint_of<X, Y>(trace: Trace<Y>, x: X) -> Result<JointProgram<X, Y>> {
    Ok(JointProgram {
        jvp: joint_program(&trace.program)?,
        captured: trace.captured,
        known: trace.known,
        x,
        y: trace.y,
    })
}

/// Returns the program on values and tangents. The tangents are the last parameters, after the captured
/// values.
pub(super) fn joint_program(program: &CutProgram) -> Result<Arc<ad::Jvp>> {
    check_forward(program)?;
    program.derived(Derivation::Joint, || {
        let simple = pass::simplify(Program::clone(program));
        let ad::Jvp { program, active } = ad::jvp(&simple, program.wrt(), Calls::Joint);
        let program = pass::simplify(program);
        Ok(ad::Jvp { program, active })
    })
}

impl<X: Tree, Y: Tree> JointProgram<X, Y> {
    pub(crate) fn call(&self, dx: &X) -> Result<(Y, Y)> {
        let (x, dx) = (leaves(&self.x), leaves(dx));
        check::beside("tangent", &self.x, "argument", &dx, check::avals(&x))?;
        let mut args = trace::args(&free_leaves(&self.x), &self.captured);
        let dx = dx.into_iter().zip(frozen(&self.x));
        let dx = dx.filter(|(_, frozen)| !frozen).map(|(dx, _)| dx);
        args.extend(dx.map(Bound::Tensor));
        let outs = replay_known(&self.jvp.program, args, &self.known)?;
        let (y, dy) = outs.split_at(self.jvp.active.len());
        let y: Vec<Tensor> = y.iter().map(|y| y.tensor().clone()).collect();
        let mut dy = dy.iter();
        let tangents = y
            .iter()
            .zip(&self.jvp.active)
            .map(|(y, active)| match active {
                true => dy
                    .next()
                    .expect("the program returns a tangent for each active result")
                    .tensor()
                    .clone(),
                false => y.zeros_like(),
            });
        let tangents: Vec<Tensor> = tangents.collect();
        Ok((
            with_physical(&self.y, &y),
            with_physical(&self.y, &tangents),
        ))
    }
}
