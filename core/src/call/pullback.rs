//! Pullbacks of calls: what a call keeps for its derivative is among its results, and the cotangents of its arguments are those
//! of another call, whose arguments are what was kept and the cotangents of the results.

use super::callable::{Callable, Leaves, callable};
use super::function::Record;
use super::site::{Results, is_recording};
use super::{let_go_of, no_args};
use crate::__private::{Pull, Pulled};
use crate::age::age_of_all;
use crate::events::{self, Event};
use crate::fork::get_or_init;
use crate::node::{Shared, Source};
use crate::record::{catch, expect};
use crate::testing::is_op_by_op;
use crate::transform::{Bound, cut_behind, replay_bound};
use crate::tree::leaves;
use crate::{Aval, Result, Tensor, Tree, check};
use gradloom_ir::{Program, pass};
use std::sync::{Arc, OnceLock};

/// The pullback of a call, for all calls that are alike.
pub(super) struct Backward {
    /// `cotangents..., residuals..., likes... -> cotangents...`.
    program: Program,
    /// The avals of its parameters.
    params: Box<[Aval]>,
    /// The leaves of the result of the call.
    results: Box<[Aval]>,
    /// Nothing, if it has to be recorded. It is found out when it is called.
    call: OnceLock<Option<Arc<Callable>>>,
    /// The function whose time it takes.
    function: Option<Arc<Record>>,
}

impl Backward {
    /// What the pullback computes of cotangents of `y` for the parameters `wrt`, and what it reads of what was recorded before.
    pub(super) fn of(
        pull: &Pull,
        y: &impl Tree,
        wrt: &[usize],
        function: Option<Arc<Record>>,
    ) -> Option<(Backward, Vec<Shared>)> {
        let mut results = Vec::new();
        y.visit(&mut |leaf| results.push(leaf.aval().clone()));
        let cts: Vec<Tensor> = results.iter().map(stand_in).collect();
        let given: Vec<Option<Tensor>> = cts.iter().cloned().map(Some).collect();
        // What the pullback records is younger than what it reads.
        let since = age_of_all();
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
        let backward = Backward {
            params: params.cloned().collect(),
            program: pass::simplify(program),
            results: results.into(),
            call: OnceLock::new(),
            function,
        };
        Some((backward, residuals))
    }

    /// A difference of a later recording.
    pub(super) fn difference(&self, later: &Backward) -> Option<String> {
        let same = self.params == later.params
            && self.results == later.results
            && self.program.to_string() == later.program.to_string();
        (!same).then(|| "the pullback computes something else".to_owned())
    }

    /// Whether its plan may be used, if it has been made.
    pub(super) fn is_current(&self) -> bool {
        let call = self.call.get().and_then(Option::as_ref);
        call.is_none_or(|call| call.is_current())
    }

    /// How to make cotangents of residuals and cotangents.
    fn callable(&self) -> Option<&Arc<Callable>> {
        if let Some(call) = self.call.get() {
            let call = call.as_ref().filter(|call| call.is_current())?;
            if let Some(plan) = call.plan_id() {
                events::emit(Event::Hit { plan });
            }
            return Some(call);
        }
        // Planned for arguments that are all different, the plan does for those that are not.
        let make = || {
            let args: Vec<Tensor> = self.params.iter().map(stand_in).collect();
            let bound: Vec<Bound> = args.iter().cloned().map(Bound::Tensor).collect();
            let outs = replay_bound(&self.program, &bound).ok()?;
            let values = |x: &Tensor| Shared::clone(&x.0);
            let args: Vec<Shared> = args.iter().map(values).collect();
            let outs: Vec<Shared> = outs.iter().map(|out| values(out.tensor())).collect();
            let call = callable(&args, &outs, None, self.function.clone());
            Some(Arc::new(call.ok()?))
        };
        get_or_init(&self.call, make).as_ref()
    }

    /// The cotangents of the arguments.
    fn call<Y: Tree>(&self, residuals: &[Shared], ct: &Y) -> Result<Found> {
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
            let_go_of(args);
            let expected = check::cotangents(&self.results);
            check::beside("cotangent", ct, "result", &leaves(ct), expected)?;
            unreachable!("what does not fit is an error");
        }
        args.extend_from_slice(residuals);
        if free
            && !is_recording()
            && !is_op_by_op()
            && let Some(call) = self.callable()
        {
            return Ok(Found::Planned(call.call(args).into()));
        }
        let likes = self.params[args.len()..].iter().cloned().map(Bound::Aval);
        let bound = args.iter().map(|x| Bound::Tensor(Tensor::of(x)));
        let bound: Vec<Bound> = bound.chain(likes).collect();
        let_go_of(args);
        let outs = replay_bound(&self.program, &bound)?;
        let outs: Vec<Tensor> = outs.iter().map(|out| out.tensor().clone()).collect();
        Ok(Found::Replayed(outs.into_iter()))
    }
}

/// A tensor that stands for an argument: it has no elements, and nobody asks for them.
pub(crate) fn stand_in(aval: &Aval) -> Tensor {
    Tensor::new(aval, Source::StandIn)
}

/// The pullback of a function, from the cotangent of its result to those of its arguments.
#[derive(Clone)]
pub struct Pullback(Kind);

#[derive(Clone)]
enum Kind {
    /// It is recorded when it is called. The avals are those of the leaves of the result.
    Recorded(Pull, Vec<Aval>),
    Planned(Arc<Backward>, Residuals),
}

/// What the pullback of a call reads.
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
        let_go_of(std::mem::take(&mut self.0));
    }
}

impl Pullback {
    /// One that is recorded when it is called.
    pub fn recorded<Y: Tree>(pull: Pull, y: &Y) -> Pullback {
        Pullback(Kind::Recorded(pull, crate::__private::avals(y)))
    }

    /// One whose residuals are results of a call.
    pub(super) fn planned(backward: Arc<Backward>, leaves: Leaves) -> Pullback {
        let mut residuals = no_args();
        residuals.extend(leaves.map(|x| Shared::clone(&x.0)));
        Pullback(Kind::Planned(backward, Residuals(residuals)))
    }

    /// The cotangents of the arguments.
    #[track_caller]
    pub fn call<Y: Tree>(&self, ct: &Y) -> Cotangents {
        Cotangents(match &self.0 {
            Kind::Recorded(pull, results) => Found::Recorded(pull.call_tree(ct, results)),
            Kind::Planned(backward, residuals) => expect(backward.call(&residuals.0, ct)),
        })
    }
}

/// The cotangents of the parameters, which are asked for in their order.
pub struct Cotangents(Found);

#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call"
)]
enum Found {
    Recorded(Pulled),
    Planned(Results),
    Replayed(std::vec::IntoIter<Tensor>),
}

impl Cotangents {
    /// The cotangent of a parameter, in the structure of `like`.
    pub fn of<T: Tree>(&mut self, like: &T, param: usize) -> T {
        match &mut self.0 {
            Found::Recorded(pulled) => crate::__private::rebuild(like, pulled, param),
            Found::Planned(results) => results.like(like),
            Found::Replayed(outs) => {
                let mut next = || outs.next().expect("a cotangent for each leaf");
                like.map(&mut |_| next())
            }
        }
    }
}
