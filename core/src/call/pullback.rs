//! Pullbacks of calls.
//!
//! A call returns its residuals after its other results. Its pullback is a second call, from
//! cotangents of the results and residuals to cotangents of the arguments.

use super::cached_call::{CachedCall, ResultLeaves, cached_call};
use crate::call::companion_pullback::{CompanionPullback, LeafCotangents};
use crate::call::leaves::stand_in;
use crate::call::site::CallResults;
use crate::events::{self, Event};
use crate::function::Record;
use crate::graph::call_node::{no_args, recycle_args};
use crate::graph::recording::is_recording;
use crate::graph::recording::is_watched;
use crate::graph::seq_no::seq_no_of_all;
use crate::graph::value::Shared;
use crate::observe::in_backward;
use crate::raise::catch;
use crate::transform::{Bound, TransformSite, cut_behind, replay_bound};
use crate::tree::leaves;
use crate::{Aval, Result, Tensor, Tree, check};
use gradloom_ir::{Program, pass};
use gradloom_kernels::lock::get_or_init;
use std::sync::{Arc, OnceLock};

/// Pullback shared by all calls with equal keys.
pub(super) struct CachedPullback {
    /// `cotangents..., residuals..., likes... -> cotangents...`.
    program: Program,
    /// Avals of the parameters of `program`.
    params: Box<[Aval]>,
    /// Avals of the leaves of the call's result.
    results: Box<[Aval]>,
    /// Planned call, made when the pullback is first called. `None` if it cannot be planned.
    call: OnceLock<Option<Arc<CachedCall>>>,
    /// Function that the run time is charged to.
    function: Option<Arc<Record>>,
}

impl CachedPullback {
    /// Records the pullback on stand-ins for the cotangents of `y`. Returns it with its residuals.
    ///
    /// `wrt` are the parameters that have cotangents.
    pub(super) fn of(
        pull: &CompanionPullback,
        y: &impl Tree,
        wrt: &[usize],
        function: Option<Arc<Record>>,
    ) -> Option<(CachedPullback, Vec<Shared>)> {
        let mut results = Vec::new();
        y.visit(&mut |leaf| results.push(leaf.aval().clone()));
        let cts: Vec<Tensor> = results.iter().map(stand_in).collect();
        let given: Vec<Option<Tensor>> = cts.iter().cloned().map(Some).collect();
        // Everything that the pullback records is younger than its residuals.
        let since = seq_no_of_all();
        let outs = catch(|| Ok(pull.call(&given).into_leaves(wrt))).ok()?;
        let (program, captured) = cut_behind(&cts, since, &outs);
        let captured = captured.iter();
        let (residuals, likes): (Vec<&Bound>, Vec<&Bound>) =
            captured.partition(|bound| matches!(bound, Bound::Tensor(_)));
        let residuals: Vec<Shared> = residuals
            .iter()
            .map(|x| Shared::clone(&x.tensor().0))
            .collect();
        let kept = residuals.iter().map(|x| &x.aval);
        let params = results.iter().chain(kept);
        let params = params.chain(likes.iter().map(|like| like.aval()));
        let backward = CachedPullback {
            params: params.cloned().collect(),
            program: pass::simplify(program),
            results: results.into(),
            call: OnceLock::new(),
            function,
        };
        Some((backward, residuals))
    }

    /// Describes the difference from a later recording, if any.
    pub(super) fn difference(&self, later: &CachedPullback) -> Option<String> {
        let same = self.params == later.params
            && self.results == later.results
            && self.program.to_string() == later.program.to_string();
        (!same).then(|| "the pullback runs different operations".to_owned())
    }

    /// Returns whether its plan is still in the cache. True if there is no plan yet.
    pub(super) fn is_current(&self) -> bool {
        let call = self.call.get().and_then(Option::as_ref);
        call.is_none_or(|call| call.is_current())
    }

    /// Returns the call that computes the cotangents, and plans it if necessary. It has `n_args` arguments:
    /// the other parameters have no values.
    fn cached_call(&self, n_args: usize) -> Option<&Arc<CachedCall>> {
        if let Some(call) = self.call.get() {
            let call = call.as_ref().filter(|call| call.is_current())?;
            if let Some(plan) = call.plan_id() {
                events::emit(Event::Hit { plan });
            }
            return Some(call);
        }
        // The stand-ins are distinct values. A plan for distinct arguments is also right for equal
        // ones.
        let make = || {
            let args: Vec<Tensor> = self.params.iter().map(stand_in).collect();
            let bound: Vec<Bound> = args.iter().cloned().map(Bound::Tensor).collect();
            let outs = in_backward(|| replay_bound(&self.program, &bound)).ok()?;
            let values = |x: &Tensor| Shared::clone(&x.0);
            let args: Vec<Shared> = args[..n_args].iter().map(values).collect();
            let outs: Vec<Shared> = outs.iter().map(|out| values(out.tensor())).collect();
            let call = cached_call(&args, None, &outs, None, self.function.clone());
            Some(Arc::new(call.ok()?))
        };
        get_or_init(&self.call, make).as_ref()
    }

    /// Computes the cotangents of the arguments.
    fn call<Y: Tree>(&self, residuals: &[Shared], ct: &Y) -> Result<CotangentSource> {
        let mut args = no_args();
        let (mut fits, mut free) = (true, true);
        let mut expected = check::cotangents(&self.results);
        ct.visit(&mut |leaf| {
            let expected = expected.next();
            fits = fits && expected.is_some_and(|e| e.is_none_or(|aval| aval == leaf.aval()));
            free = free && leaf.0.is_argument();
            args.push(Shared::clone(&leaf.0));
        });
        if !fits || expected.next().is_some() {
            recycle_args(args);
            let expected = check::cotangents(&self.results);
            check::beside("cotangent", ct, "result", &leaves(ct), expected)?;
            unreachable!("`check::beside` refuses a cotangent that does not fit");
        }
        args.extend_from_slice(residuals);
        if free
            && !is_recording()
            && !is_watched()
            && let Some(call) = self.cached_call(args.len())
        {
            return Ok(CotangentSource::Planned(call.call(args).into()));
        }
        let likes = self.params[args.len()..].iter().cloned().map(Bound::Aval);
        let bound = args.iter().map(|x| Bound::Tensor(Tensor::of(x)));
        let bound: Vec<Bound> = bound.chain(likes).collect();
        recycle_args(args);
        let outs = in_backward(|| replay_bound(&self.program, &bound))?;
        let outs: Vec<Tensor> = outs.iter().map(|out| out.tensor().clone()).collect();
        Ok(CotangentSource::Replayed(outs.into_iter()))
    }
}

/// Pullback of a function, from cotangents of its result to cotangents of its arguments.
#[derive(Clone)]
pub struct CallPullback(PullbackKind);

#[derive(Clone)]
enum PullbackKind {
    /// Recorded when it is called. The avals are those of the leaves of the result.
    Recorded(CompanionPullback, Vec<Aval>),
    Planned(Arc<CachedPullback>, Residuals),
}

/// Residuals of a call.
struct Residuals(Vec<Shared>);

impl Clone for Residuals {
    fn clone(&self) -> Residuals {
        let mut residuals = no_args();
        residuals.extend_from_slice(&self.0);
        Residuals(residuals)
    }
}

impl Drop for Residuals {
    fn drop(&mut self) {
        recycle_args(std::mem::take(&mut self.0));
    }
}

impl CallPullback {
    /// Creates a pullback that is recorded when it is called.
    pub fn recorded<Y: Tree>(pull: CompanionPullback, y: &Y) -> CallPullback {
        CallPullback(PullbackKind::Recorded(pull, crate::call::leaves::avals(y)))
    }

    /// Creates a pullback whose residuals are the remaining results of a call.
    pub(super) fn planned(backward: Arc<CachedPullback>, leaves: ResultLeaves) -> CallPullback {
        let mut residuals = no_args();
        residuals.extend(leaves.map(|x| Shared::clone(&x.0)));
        CallPullback(PullbackKind::Planned(backward, Residuals(residuals)))
    }

    /// Computes the cotangents of the arguments. An error names the place where the companion
    /// `made` this pullback.
    #[track_caller]
    pub fn call<Y: Tree>(&self, ct: &Y, made: TransformSite) -> Cotangents {
        Cotangents(made.expect(match &self.0 {
            PullbackKind::Recorded(pull, results) => {
                pull.call_tree(ct, results).map(CotangentSource::Recorded)
            }
            PullbackKind::Planned(backward, residuals) => backward.call(&residuals.0, ct),
        }))
    }
}

/// Cotangents of the parameters. [`Cotangents::of`] must be called for them in order.
pub struct Cotangents(CotangentSource);

#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call"
)]
enum CotangentSource {
    Recorded(LeafCotangents),
    Planned(CallResults),
    Replayed(std::vec::IntoIter<Tensor>),
}

impl Cotangents {
    /// Returns the cotangent of a parameter, in the structure of `like`.
    pub fn of<T: Tree>(&mut self, like: &T, param: usize) -> T {
        match &mut self.0 {
            CotangentSource::Recorded(pulled) => {
                crate::call::companion_pullback::rebuild(like, pulled, param)
            }
            CotangentSource::Planned(results) => results.like(like),
            CotangentSource::Replayed(outs) => {
                let mut next = || {
                    outs.next()
                        .expect("the program returns a cotangent for each leaf")
                };
                like.map(&mut |_| next())
            }
        }
    }
}
