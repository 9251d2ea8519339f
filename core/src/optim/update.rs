//! Steps that treat each parameter by itself: what all of these optimisers share.

use crate::call::{CallRecording, CallSite, begin};
use crate::raise::expect;
use crate::tree::{frozen, leaves, map2, widened, with_leaves};
use crate::{Aval, Tensor, Tree, check, evaluate};
use std::array;
use std::thread::LocalKey;

/// Arguments of a step.
pub(super) struct StepArgs<'a, P, S> {
    pub(super) lr: &'a Tensor,
    pub(super) params: &'a P,
    pub(super) grads: &'a P,
    pub(super) state: &'a S,
}

impl<P: Tree, S: Tree> StepArgs<'_, P, S> {
    /// Returns promises of the results by the plan of a call before, or a recording of this call.
    ///
    /// The plan depends on `numbers`. The next state has the structure of the state.
    pub(super) fn begin(
        &self,
        site: &'static LocalKey<CallSite>,
        numbers: &[f64],
    ) -> Result<(P, S), CallRecording> {
        let found = begin(site, |key| {
            key.param(0);
            numbers.iter().for_each(|number| key.word(number.to_bits()));
            key.param(1);
            key.leaf(self.lr);
            key.param(2);
            key.tree(self.params);
            key.param(3);
            key.tree(self.grads);
            key.param(4);
            key.tree(self.state);
        });
        found.map(|mut results| (results.like(self.params), results.like(self.state)))
    }

    /// Applies `rule` to each parameter that is not frozen.
    ///
    /// It takes the parameter, its gradient and its leaves of `slots`, which are trees of the state
    /// with their names, and returns the next parameter and the next leaves. All have the dtype of [`in_state`].
    #[track_caller]
    pub(super) fn update<const N: usize>(
        &self,
        slots: [(&'static str, &P); N],
        rule: impl FnMut(&Tensor, &Tensor, [&Tensor; N]) -> (Tensor, [Tensor; N]),
    ) -> (P, [P; N]) {
        let slots = slots.map(|(name, tree)| Slot {
            name,
            tree,
            aval: in_state,
        });
        self.update_slots(slots, rule)
    }

    /// [`StepArgs::update`] for slots whose leaves have avals of their own.
    #[track_caller]
    pub(super) fn update_slots<const N: usize>(
        &self,
        slots: [Slot<'_, P>; N],
        mut rule: impl FnMut(&Tensor, &Tensor, [&Tensor; N]) -> (Tensor, [Tensor; N]),
    ) -> (P, [P; N]) {
        let params = self.params;
        let xs = leaves(params);
        expect(check::floats(params, "parameters"));
        let gs = leaves_beside(params, &xs, self.grads, "gradient", Aval::clone);
        let mut before = Vec::with_capacity(N);
        for slot in &slots {
            before.push(leaves_beside(params, &xs, slot.tree, slot.name, slot.aval));
        }
        let mut after = [(); N].map(|()| Vec::with_capacity(xs.len()));
        let mut new_xs = Vec::with_capacity(xs.len());
        for (i, frozen) in frozen(params).into_iter().enumerate() {
            let now = array::from_fn(|slot| &before[slot][i]);
            let (x, next) = match frozen {
                true => (xs[i].clone(), now.map(Tensor::clone)),
                false => {
                    let (next, leaves) = rule(&widened(&xs[i]), &widened(&gs[i]), now);
                    (next.cast(xs[i].dtype()), leaves)
                }
            };
            new_xs.push(x);
            for (leaves, leaf) in after.iter_mut().zip(next) {
                leaves.push(leaf);
            }
        }
        (
            with_leaves(params, &new_xs),
            after.map(|leaves| with_leaves(params, &leaves)),
        )
    }
}

/// A tree of a state with a leaf beside each parameter.
pub(super) struct Slot<'a, P> {
    /// Name in messages.
    pub(super) name: &'static str,
    pub(super) tree: &'a P,
    /// Aval of the leaf beside a parameter with the given aval.
    pub(super) aval: fn(&Aval) -> Aval,
}

/// Returns the leaves of a tree that has the structure of the parameters.
///
/// # Panics
///
/// If the tree has another number of leaves than `params`, or a leaf has not the expected aval.
#[track_caller]
pub(super) fn leaves_beside<P: Tree>(
    params: &P,
    xs: &[Tensor],
    other: &P,
    what: &'static str,
    aval: fn(&Aval) -> Aval,
) -> Vec<Tensor> {
    let leaves = leaves(other);
    let expected: Vec<Aval> = xs.iter().map(|x| aval(x.aval())).collect();
    let expected = expected.iter().map(Some);
    expect(check::beside(what, params, "parameters", &leaves, expected));
    leaves
}

/// Returns the aval of a leaf of a state beside a parameter.
///
/// It is of 32 bits for a float of 16: squares of small gradients would be 0, and small changes of a mean would be lost.
pub(super) fn in_state(param: &Aval) -> Aval {
    match param.dtype().is_float() {
        true => Aval::batched(
            param.dtype().computed(),
            param.physical_shape(),
            param.batch_dims(),
        ),
        false => param.clone(),
    }
}

/// Returns the zeros of a state.
#[track_caller]
pub(super) fn zeros_in_state<P: Tree>(tree: &P) -> P {
    zeros_with(tree, in_state)
}

/// Returns realised zeros whose avals are a function of those of the leaves. Promised zeros would be part of the first
/// step's graph, which would then need its own plan.
#[track_caller]
pub(super) fn zeros_with<P: Tree>(tree: &P, aval: fn(&Aval) -> Aval) -> P {
    let zeros = tree.map(&mut |t| crate::call::leaves::zeros(&aval(t.aval())));
    expect(evaluate(&zeros));
    zeros
}

/// Returns the leaves of `x` if the condition, a truth value, holds, and those of `y` if not.
///
/// Frozen leaves are those of `x`.
#[track_caller]
pub(super) fn choose<T: Tree>(condition: &Tensor, x: &T, y: &T) -> T {
    let mut frozen = frozen(x).into_iter();
    map2(x, y, |x, y| match frozen.next() {
        Some(true) => x.clone(),
        _ => condition.select(x, y),
    })
}

/// Begins a call of a step, and returns from the function if a plan is known.
///
/// A closure that records the step would hide the line of the caller from messages.
macro_rules! begin_step {
    ($args:ident, $name:literal, $names:literal, $numbers:expr) => {{
        thread_local! {
            static SITE: $crate::call::CallSite = const {
                $crate::call::CallSite::new($crate::function::Function::new(
                    concat!("gradloom::optim::", $name, "::step"),
                    &[
                        $crate::function::Param::fixed($names),
                        $crate::function::Param::leaf("lr"),
                        $crate::function::Param::tree("params"),
                        $crate::function::Param::tree("gradients"),
                        $crate::function::Param::tree("state"),
                    ],
                ))
            };
        }
        match $args.begin(&SITE, &$numbers) {
            Ok(next) => return next,
            Err(recording) => recording,
        }
    }};
}
pub(super) use begin_step;
