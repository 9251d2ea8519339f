//! Call sites: per-thread caches of the plans of a function.

use super::cached_call::{CachedCall, RecordedBody, ResultLeaves, cached_call};
use super::checks;
use super::pullback::{CachedPullback, CallPullback};
use crate::call::companion_pullback::CompanionPullback;
use crate::events::{self, Event};
use crate::function::{
    Counter, Function, ParamKind, Purity, Reason, Record, Timer, count_recorded,
};
use crate::graph::recorded_numbers::{self, NumberTrace, RecordedNumbers};
use crate::graph::recording::{
    self, UnrepeatedAction, is_recording, is_watched, note_action, runs_bodies,
};
use crate::graph::run;
use crate::graph::value::Shared;
use crate::points::is_tracing;
use crate::tree::key::{CallKey, Difference, Obstacle, OwnedKey, in_words};
use crate::{Tensor, Tree};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

/// Maximum number of cached calls per instance of a function. The oldest one is dropped first.
///
/// It is large enough for a training set whose batches have many lengths.
const MAX_KNOWN: usize = 128;

/// Number of latest cached calls that a miss is compared with, to explain it.
const MAX_COMPARED: usize = 16;

/// Cached calls of a function on one thread.
pub struct CallSite {
    function: Function,
    calls: Counter,
    known: RefCell<Vec<KnownCall>>,
    /// For each argument, how often it alone caused a miss.
    changes: RefCell<Vec<(usize, u32)>>,
    /// True if the last plan found had been evicted from the cache.
    evicted: Cell<bool>,
}

#[derive(Clone)]
struct KnownCall {
    key: Rc<OwnedKey>,
    /// The cached call, or the reason why calls with this key are recorded.
    call: Result<Callee, Reason>,
    /// The numbers of the recording, to be compared with those of the next one.
    numbers: Option<Rc<NumberTrace>>,
    /// Number of hits since the last check.
    unchecked: Cell<u32>,
}

/// A cached call, with the structure of its result if that is not known from the types.
#[derive(Clone)]
struct Callee {
    call: Arc<CachedCall>,
    template: Option<Rc<Template>>,
    /// Whether another recording of the body has the ops of this one.
    is_comparable: bool,
}

/// A result without its tensors.
pub(super) struct Template {
    /// A tree with the structure of the result.
    pub(super) tree: Box<dyn Any>,
    /// Structure and skipped fields of the result, for comparison.
    pub(super) structure: OwnedKey,
}

/// How a site obtains the structure of a result.
pub(super) enum Shape {
    /// From the types.
    Typed,
    /// From a template.
    Cached(Rc<Template>),
    /// The structure cannot be cached, for this reason.
    Uncached(Reason),
}

/// Outcome of looking up a key.
enum LookUpResult {
    Nothing,
    Plan(Callee),
    /// A plan to compare with a new recording of the body.
    Checked(Callee),
    /// Calls with this key have to be recorded, for this reason.
    Recorded(Reason),
}

thread_local! {
    /// Functions that the recorded body called, each with the reason why that call was recorded.
    static INNER: RefCell<Vec<(&'static str, Reason)>> = const { RefCell::new(Vec::new()) };
}

/// Notes a call inside of a recording. It is counted once the outer call is known to have no plan.
fn note_inner(name: &'static str, why: impl Into<Reason>) {
    // The list may be destroyed while the thread ends; such calls are not counted.
    let _ = INNER.try_with(|inner| inner.borrow_mut().push((name, why.into())));
}

/// Returns the calls inside of the recording so far, and forgets them.
fn take_inner() -> Vec<(&'static str, Reason)> {
    INNER.try_with(RefCell::take).unwrap_or_default()
}

/// Begins a call of a function that has no site. The timer must live as long as the call.
pub fn recorded(name: &'static str, why: &'static str) -> Option<Timer> {
    match is_recording() {
        true => {
            note_inner(name, why);
            None
        }
        false => count_recorded(name, why.into()),
    }
}

/// [`recorded`] for a function that is not known to be pure.
pub fn recorded_impure(name: &'static str, why: &'static str) -> Option<Timer> {
    note_action(UnrepeatedAction::CallsFunction(name));
    recorded(name, why)
}

impl CallSite {
    /// Creates an empty site.
    pub const fn new(function: Function) -> CallSite {
        CallSite {
            function,
            calls: Counter::new(function.name),
            known: RefCell::new(Vec::new()),
            changes: RefCell::new(Vec::new()),
            evicted: Cell::new(false),
        }
    }

    fn find(&self, key: &CallKey<'_>) -> LookUpResult {
        // Comparing a static value may call the function recursively.
        let Ok(known) = self.known.try_borrow() else {
            return LookUpResult::Nothing;
        };
        let accepts = |call: &Result<Callee, Reason>| match call {
            Ok(callee) => callee.call.accepts(&key.values),
            Err(_) => true,
        };
        let fits = |known: &KnownCall| known.key.fits(key) && accepts(&known.call);
        let Some(i) = known.iter().rposition(fits) else {
            return LookUpResult::Nothing;
        };
        let callee = match &known[i].call {
            Ok(callee) => callee,
            Err(why) => return LookUpResult::Recorded(why.clone()),
        };
        if !callee.call.is_current() {
            drop(known);
            if let Ok(mut known) = self.known.try_borrow_mut() {
                let old = known.remove(i);
                drop(known);
                drop(old);
                self.evicted.set(true);
            }
            return LookUpResult::Nothing;
        }
        let callee = callee.clone();
        // A plan for distinct arguments also runs calls with equal ones, whose body may record
        // other ops. Such calls are not checked.
        if callee.is_comparable
            && checks::is_due(&known[i].unchecked)
            && key.has_aliases_of(&known[i].key)
        {
            return LookUpResult::Checked(callee);
        }
        self.calls.found();
        LookUpResult::Plan(callee)
    }

    /// Returns the recording of a call that differs in most numbers and in nothing else, with the set of these.
    fn other_numbers(&self, key: &CallKey<'_>) -> Option<(Rc<NumberTrace>, u64)> {
        let known = self.known.try_borrow().ok()?;
        let known = known.iter().filter(|known| known.call.is_ok());
        let numbers = known.filter_map(|known| {
            let changed = known.key.changed_numbers(key)?;
            Some((known.numbers.clone()?, changed))
        });
        numbers.max_by_key(|(_, changed)| changed.count_ones())
    }

    /// Caches a call, unless its plan has been evicted, and counts the miss with its reason.
    fn learn(
        &self,
        mut key: OwnedKey,
        call: Result<Callee, Reason>,
        numbers: Option<Rc<NumberTrace>>,
    ) {
        let leaves = call.as_ref().ok();
        let leaves = leaves.and_then(|callee| callee.call.number_leaves());
        let why = self.compare(&key, leaves.is_some());
        if let Some(leaves) = leaves {
            key.allow_any(leaves.params);
        }
        match &call {
            Ok(_) => self.calls.planned(why),
            Err(why) => self.calls.recorded(why.clone()),
        }
        if call.as_ref().is_ok_and(|callee| !callee.call.is_current()) {
            self.evicted.set(true);
            return;
        }
        let Ok(mut known) = self.known.try_borrow_mut() else {
            return;
        };
        let same = |other: &KnownCall| other.key.is_of_instance_of(&key);
        let full = known.iter().filter(|other| same(other)).count() == MAX_KNOWN;
        let covered = match key.allows_any() {
            true => known.iter().position(|other| key.covers(&other.key)),
            false => None,
        };
        let first = || known.iter().position(same).filter(|_| full);
        let old = covered.or_else(first).map(|i| known.remove(i));
        let key = Rc::new(key);
        known.push(KnownCall {
            key,
            call,
            numbers,
            unchecked: Cell::new(0),
        });
        drop(known);
        drop(old);
    }

    /// Explains a miss by the difference from the most similar key. A number that changes is not data of the
    /// user's if it has become an argument of the plan.
    fn compare(&self, key: &OwnedKey, has_number_leaves: bool) -> Reason {
        if self.evicted.take() {
            return "its plan was evicted from the cache".into();
        }
        let Ok(known) = self.known.try_borrow() else {
            return "it was called recursively while its arguments were compared".into();
        };
        let similar = known.iter().rev().filter(|k| k.key.is_of_instance_of(key));
        let similar = similar.filter_map(|known| known.key.differences(key));
        // Among equally similar keys, users expect a comparison with the latest one.
        let Some(differences) = similar.take(MAX_COMPARED).min_by_key(Vec::len) else {
            return match known.iter().any(|k| k.key.is_of_instance_of(key)) {
                false => "the first call".into(),
                true => "a different number of tensors".into(),
            };
        };
        drop(known);
        if let [Difference::Static(param)] = differences[..]
            && !has_number_leaves
            && let Some(why) = self.changed(param)
        {
            return why;
        }
        in_words(&differences, &self.function).into()
    }

    /// Counts a miss that one parameter alone caused. Returns a reason if it is a number that
    /// changes often.
    fn changed(&self, param: usize) -> Option<Reason> {
        let facts = self.function.params.get(param)?;
        if facts.kind != ParamKind::Number {
            return None;
        }
        let mut changes = self.changes.try_borrow_mut().ok()?;
        let at = changes.iter().position(|(other, _)| *other == param);
        let at = at.unwrap_or_else(|| {
            changes.push((param, 0));
            changes.len() - 1
        });
        changes[at].1 += 1;
        let times = changes[at].1;
        drop(changes);
        if times < MANY_CHANGES {
            return None;
        }
        let (function, argument) = (self.function.name, facts.name);
        let event = Event::Changing {
            function,
            argument,
            times,
        };
        if self.calls.record().is_first_hint() {
            hint(&event);
        }
        events::emit(event);
        Some(format!("argument `{argument}` changed {times} times: pass a tensor").into())
    }
}

/// Number of changes after which a number is probably data.
const MANY_CHANGES: u32 = 3;

/// Prints a hint in builds with debug assertions, unless `GRADLOOM_HINTS` is `off`.
fn hint(event: &Event) {
    if cfg!(debug_assertions) && std::env::var_os("GRADLOOM_HINTS").is_none_or(|v| v != "off") {
        eprintln!(
            "gradloom: {event}; each value of a number is recorded once (set `GRADLOOM_HINTS=off` to hide this hint)"
        );
    }
}

/// Looks up a call. On a miss, calls `describe` again to find where each parameter begins.
pub fn begin<'a>(
    site: &'static LocalKey<CallSite>,
    describe: impl Fn(&mut CallKey<'a>),
) -> Result<CallResults, CallRecording> {
    if runs_body(site) {
        return Err(CallRecording::of_outer());
    }
    let mut key = CallKey::new();
    describe(&mut key);
    look_up(site, &key).map_err(|recording| {
        recording.unwrap_or_else(|| {
            let mut marked = CallKey::with_marks();
            describe(&mut marked);
            CallRecording::begun(site, &marked, None)
        })
    })
}

/// Returns whether the body of a call runs without a look-up.
fn runs_body(site: &'static LocalKey<CallSite>) -> bool {
    if is_recording() {
        if let Ok(name) = site.try_with(|site| site.function.name) {
            note_inner(name, "it was recorded with its caller");
        }
        return true;
    }
    is_watched() || runs_bodies() || is_tracing()
}

/// Looks up a key. `Err(None)` means that the call is not cached, and should be recorded for the cache.
fn look_up(
    site: &'static LocalKey<CallSite>,
    key: &CallKey<'_>,
) -> Result<CallResults, Option<CallRecording>> {
    if let Some(obstacle) = key.obstacle() {
        return Err(Some(CallRecording::unknown(site, key, obstacle)));
    }
    // The site may be destroyed while its thread ends.
    let Ok(found) = site.try_with(|site| site.find(key)) else {
        return Err(Some(CallRecording::of_outer()));
    };
    match found {
        LookUpResult::Plan(Callee { call, template, .. }) => {
            if let Some(plan) = call.plan_id() {
                events::emit(Event::Hit { plan });
            }
            let leaves = call.leaves(key);
            Ok(CallResults { leaves, template })
        }
        LookUpResult::Recorded(why) => Err(Some(CallRecording::again(site, why))),
        // Arguments are computed first, so that the recording holds only the ops of the body.
        LookUpResult::Checked(_) | LookUpResult::Nothing if run::realise(&key.args()).is_err() => {
            Err(Some(CallRecording::unknown(site, key, Obstacle::Fails)))
        }
        LookUpResult::Checked(callee) => Err(Some(CallRecording::begun(site, key, Some(callee)))),
        LookUpResult::Nothing => Err(None),
    }
}

/// Leaves of the results of a call.
pub struct CallResults {
    leaves: ResultLeaves,
    /// A tree with the structure of the result, if the site caches one.
    pub(super) template: Option<Rc<Template>>,
}

impl From<ResultLeaves> for CallResults {
    fn from(leaves: ResultLeaves) -> CallResults {
        let template = None;
        CallResults { leaves, template }
    }
}

impl CallResults {
    /// Returns the next leaf.
    pub fn tensor(&mut self) -> Tensor {
        let next = self.leaves.next();
        next.expect("a call has as many results as its body returned")
    }

    /// Returns the next leaves, in the structure of `tree`.
    pub fn like<T: Tree>(&mut self, tree: &T) -> T {
        tree.map(&mut |_| self.tensor())
    }

    /// Returns the pullback, which owns the remaining results.
    pub fn pullback(self) -> CallPullback {
        let backward = self.leaves.backward();
        let backward = backward.expect("the call was recorded with a pullback");
        CallPullback::planned(backward, self.leaves)
    }
}

/// A call whose body is being recorded. `begun` is `None` if the recording cannot be cached.
#[must_use = "a recording has to be ended"]
pub struct CallRecording {
    pub(super) begun: Option<Box<OpenRecording>>,
    _timer: Option<Timer>,
}

pub(super) struct OpenRecording {
    /// `None` once the site has cached the key.
    key: Option<OwnedKey>,
    args: Vec<Shared>,
    site: &'static LocalKey<CallSite>,
    /// The cached call, if this recording is a check of it.
    check: Option<Callee>,
}

/// Ends the recording even if the body panics.
impl Drop for OpenRecording {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CallRecording {
    /// Creates a recording that is part of an outer one, or that cannot be cached.
    fn of_outer() -> CallRecording {
        CallRecording {
            begun: None,
            _timer: None,
        }
    }

    /// Creates a recording of a call with an incomplete key.
    #[cold]
    fn unknown(
        site: &'static LocalKey<CallSite>,
        key: &CallKey<'_>,
        obstacle: Obstacle,
    ) -> CallRecording {
        let why = site.try_with(|site| key.why(obstacle, &site.function));
        match why {
            Ok(why) => CallRecording::again(site, why),
            Err(_) => CallRecording::of_outer(),
        }
    }

    /// Creates a recording of a call that is recorded each time.
    #[cold]
    fn again(site: &'static LocalKey<CallSite>, why: Reason) -> CallRecording {
        let timer = site.try_with(|site| {
            site.calls.recorded(why);
            site.calls.record().timer()
        });
        CallRecording {
            begun: None,
            _timer: timer.ok().flatten(),
        }
    }

    /// Begins a recording to cache, or to check against the cached call.
    #[cold]
    fn begun(
        site: &'static LocalKey<CallSite>,
        key: &CallKey<'_>,
        check: Option<Callee>,
    ) -> CallRecording {
        let timer = site.try_with(|site| {
            if check.is_some() {
                site.calls.found();
            }
            site.calls.record().timer()
        });
        // The recording of a check emits no events.
        events::silence(check.is_some());
        recording::begin();
        let mut args = key.args();
        match &check {
            _ if key.values.is_empty() => {}
            None => {
                let other = site.try_with(|site| site.other_numbers(key));
                recorded_numbers::begin(&key.values, other.ok().flatten());
            }
            Some(callee) => {
                if let Some(leaves) = callee.call.number_leaves() {
                    args.extend(recorded_numbers::begin_check(&key.values, leaves));
                }
            }
        }
        CallRecording {
            begun: Some(Box::new(OpenRecording {
                key: Some(key.own()),
                args,
                site,
                check,
            })),
            _timer: timer.ok().flatten(),
        }
    }

    /// Ends a body with result `y`. If the call can be cached, the result is computed by its plan.
    pub fn end<Y: Tree>(self, mut y: Y) -> Y {
        self.end_with(|f| y.visit_mut(f));
        y
    }

    /// [`CallRecording::end`] for several results, whose leaves `visit` visits.
    pub fn end_with(self, mut visit: impl FnMut(&mut dyn FnMut(&mut Tensor))) {
        if let Some(begun) = self.begun {
            begun.end(&mut visit, Shape::Typed, RecordedPullback::default());
        }
    }

    /// Ends a body that also returns a pullback. `wrt` are the parameters that have cotangents.
    pub fn end_pull<Y: Tree>(
        self,
        y: Y,
        pull: CompanionPullback,
        wrt: &[usize],
    ) -> (Y, CallPullback) {
        self.end_pull_like(y, pull, wrt, Shape::Typed)
    }

    pub(super) fn end_pull_like<Y: Tree>(
        self,
        mut y: Y,
        pull: CompanionPullback,
        wrt: &[usize],
        shape: Shape,
    ) -> (Y, CallPullback) {
        let mut planned = None;
        if let Some(begun) = self.begun {
            let kept = match recording::unrepeated_action() {
                Some(_) => None,
                None => CachedPullback::of(&pull, &y, wrt, begun.record()),
            };
            match kept {
                Some((backward, residuals)) => {
                    let kept = RecordedPullback {
                        residuals,
                        backward: Some(Arc::new(backward)),
                    };
                    let rest = begun.end(&mut |f| y.visit_mut(f), shape, kept);
                    planned = rest.map(|rest| {
                        let backward = rest
                            .backward()
                            .expect("the call was recorded with a pullback");
                        CallPullback::planned(backward, rest)
                    });
                }
                None => begun.give_up(),
            }
        }
        let pullback = planned.unwrap_or_else(|| CallPullback::recorded(pull, &y));
        (y, pullback)
    }
}

/// Residuals of a call, and its pullback.
#[derive(Default)]
pub(super) struct RecordedPullback {
    residuals: Vec<Shared>,
    backward: Option<Arc<CachedPullback>>,
}

/// Calls a function with each leaf of several trees.
pub(super) type VisitAll<'a> = dyn FnMut(&mut dyn FnMut(&mut Tensor)) + 'a;

impl OpenRecording {
    /// Ends the recording. If the call can be cached, returns the leaves after those of the
    /// results.
    pub(super) fn end(
        mut self,
        visit: &mut VisitAll<'_>,
        shape: Shape,
        kept: RecordedPullback,
    ) -> Option<ResultLeaves> {
        let mut results = Vec::new();
        visit(&mut |leaf| results.push(leaf.0.clone()));
        results.extend(kept.residuals);
        let numbers = recorded_numbers::end();
        if let Some(callee) = self.check.take() {
            let has_other_numbers =
                callee.call.number_leaves().is_some() && numbers.is_none_or(|n| n.found.is_none());
            let found = match has_other_numbers {
                true => Some("a number is not the same operand of the arguments".to_owned()),
                false => self.difference(&callee, &shape, &results, kept.backward.as_deref()),
            };
            drop(results);
            return Some(self.end_check(callee, found, visit));
        }
        let call = match (recording::unrepeated_action(), shape) {
            (Some(action), _) => Err(action.why()),
            (None, Shape::Uncached(why)) => Err(why),
            (None, Shape::Typed) => Ok(None),
            (None, Shape::Cached(template)) => Ok(Some(template)),
        };
        let RecordedNumbers {
            trace,
            found,
            is_mixed,
        } = numbers.unwrap_or_default();
        let (number_leaves, tensors) = found.unzip();
        self.args.extend(tensors.into_iter().flatten());
        let call = call.and_then(|template| {
            let (backward, record) = (kept.backward, self.record());
            let call = cached_call(&self.args, number_leaves, &results, backward, record)?;
            let call = Arc::new(call);
            let is_comparable = !is_mixed;
            Ok(Callee {
                call,
                template,
                is_comparable,
            })
        });
        drop(results);
        let rest = call.as_ref().ok().map(|Callee { call, .. }| {
            let mut leaves = call.promise(std::mem::take(&mut self.args));
            visit(&mut |leaf| {
                *leaf = leaves
                    .next()
                    .expect("the call has as many leaves as its recording")
            });
            leaves
        });
        self.learn(call, trace.map(Rc::new));
        rest
    }

    /// Returns the statistics of the function, to which the run time of the plan is charged.
    fn record(&self) -> Option<Arc<Record>> {
        let record = self.site.try_with(|site| site.calls.record().clone());
        record.ok()
    }

    /// Ends the recording of a call whose pullback cannot be cached.
    fn give_up(mut self) {
        let why = recording::unrepeated_action().map(UnrepeatedAction::why);
        match (self.check.take(), why) {
            (Some(callee), why) => {
                let what = why.unwrap_or_else(|| "its pullback cannot be recorded".into());
                self.end_check(callee, Some(what.into()), &mut |_| {});
            }
            (None, Some(why)) => self.learn(Err(why), None),
            (None, None) => self.learn(Err("its pullback cannot be recorded".into()), None),
        }
    }

    fn learn(&mut self, call: Result<Callee, Reason>, numbers: Option<Rc<NumberTrace>>) {
        let has_plan = call.is_ok();
        if let Some(key) = self.key.take() {
            // If the site is gone, the next call records again.
            let _ = self.site.try_with(|site| site.learn(key, call, numbers));
        }
        // A plan includes the callees. Without one they have been recorded, as in the next call.
        for (name, why) in take_inner() {
            if !has_plan {
                count_recorded(name, why);
            }
        }
    }

    /// Marks the recording as ended.
    fn stop(&self) {
        recording::end();
        recorded_numbers::end();
        take_inner();
        events::silence(false);
    }

    /// Describes the difference between this recording and the cached call, if any.
    fn difference(
        &self,
        callee: &Callee,
        shape: &Shape,
        results: &[Shared],
        backward: Option<&CachedPullback>,
    ) -> Option<String> {
        if let Some(action) = recording::unrepeated_action() {
            return Some(action.why().into());
        }
        match (shape, &callee.template) {
            (Shape::Uncached(why), _) => return Some(why.to_string()),
            (Shape::Cached(new), Some(old)) if !old.structure.equals(&new.structure) => {
                return Some("the structure or a skipped field of the result differs".to_owned());
            }
            _ => {}
        }
        match RecordedBody::of(&self.args, results, |targets| callee.call.unseen(targets)) {
            Ok(made) => callee.call.difference(&made, backward),
            Err(why) => Some(why.to_owned()),
        }
    }

    /// Ends a check: reports a difference, and replaces the results by those of the cached plan.
    fn end_check(
        mut self,
        callee: Callee,
        difference: Option<String>,
        visit: &mut VisitAll<'_>,
    ) -> ResultLeaves {
        let (args, site) = (std::mem::take(&mut self.args), self.site);
        drop(self);
        if let Some(difference) = difference {
            let function = site.try_with(|site| site.function);
            broken(function.ok().as_ref(), &difference);
        }
        if let Some(plan) = callee.call.plan_id() {
            events::emit(Event::Hit { plan });
        }
        let mut leaves = callee.call.call(args);
        visit(&mut |leaf| {
            *leaf = leaves
                .next()
                .expect("the call has as many leaves as its recording")
        });
        leaves
    }
}

/// Reports a call whose cached plan differs from its body.
fn broken(function: Option<&Function>, difference: &str) {
    let name = function.map_or("a traced function", |function| function.name);
    let text = match function.map(|function| function.purity) {
        Some(Purity::Promised) => format!(
            "`{name}` is `#[traced(pure)]`, which promises that calls with equal static arguments and shapes run the same ops, but a call recorded other ops than its cached plan has: {difference}; remove `pure`, or pass the value that changes as an argument"
        ),
        _ => format!(
            "a call of `{name}` recorded other ops than its cached plan has: {difference}; gradloom wrongly judged its body to depend only on its arguments: please report this bug"
        ),
    };
    match std::thread::panicking() {
        // A second panic would abort the process without a message.
        true => eprintln!("gradloom: {text}"),
        false => panic!("{text}"),
    }
}
