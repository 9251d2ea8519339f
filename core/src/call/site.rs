//! Where a function is called: the plans of the calls before.

use super::callable::{Callable, Leaves, Made, callable};
use super::checks;
use super::function::{Counter, Function, ParamKind, Purity, Record, Timer, Why, count_recorded};
use super::key::{CallKey, Difference, Obstacle, OwnedKey, in_words};
use super::pullback::{Backward, Pullback};
use crate::__private::Pull;
use crate::evaluate;
use crate::events::{self, Event};
use crate::node::Shared;
use crate::testing::is_op_by_op;
use crate::{Tensor, Tree};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

/// How many plans a site knows of an instance of a function. The one that came first goes first.
const MAX_KNOWN: usize = 16;

/// What one thread knows of the calls of a function.
pub struct Site {
    function: Function,
    calls: Counter,
    known: RefCell<Vec<Known>>,
    /// How often each argument alone was the reason for another plan.
    changes: RefCell<Vec<(usize, u32)>>,
    /// Whether the plan that was found last had left the cache.
    evicted: Cell<bool>,
}

#[derive(Clone)]
struct Known {
    key: Rc<OwnedKey>,
    /// The plan, or why such a call has to be recorded.
    call: Result<Callee, Why>,
    /// How many calls have used the plan since one was checked.
    unchecked: Cell<u32>,
}

/// What a site knows of a call.
#[derive(Clone)]
struct Callee {
    call: Arc<Callable>,
    template: Option<Rc<Template>>,
}

/// A result without its tensors.
pub(super) struct Template {
    /// A tree in the structure of the result.
    pub(super) tree: Box<dyn Any>,
    /// Its structure and skipped fields, to compare with.
    pub(super) structure: OwnedKey,
}

/// How a site keeps the structure of a result.
pub(super) enum Shape {
    /// The types say it.
    Typed,
    /// By a template.
    Kept(Rc<Template>),
    /// It cannot.
    Unkept(Why),
}

/// What a site finds for a key.
enum Found {
    Nothing,
    Plan(Callee),
    /// A plan that is to be compared with what the body records.
    Checked(Callee),
    /// Such a call has to be recorded.
    Recorded(Why),
}

/// What a recorded body does that a call which runs a plan would not do.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// It reads elements.
    Reads,
    /// It names a constant or static that a key cannot hold.
    Names,
    /// It calls something that may do more than compute.
    Calls,
    /// The same, by name.
    CallsFunction(&'static str),
}

impl Deed {
    fn why(self) -> Why {
        match self {
            Deed::Reads => "the body reads elements of a tensor".into(),
            Deed::Names => "the body, or that of a function that it calls, names a constant or static that may be written to or hold a tensor".into(),
            Deed::Calls => "the body calls a function that may do more than compute".into(),
            Deed::CallsFunction(name) => format!("the body calls `{name}`, which is recorded").into(),
        }
    }
}

thread_local! {
    /// Whether the body of a function with a site is being recorded. Then all functions that it calls are, too.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    /// The first thing that the recorded body did and a call that runs a plan would not do.
    static DEED: Cell<Option<Deed>> = const { Cell::new(None) };
}

fn did(deed: Deed) {
    if RECORDING.get() {
        DEED.set(DEED.get().or(Some(deed)));
    }
}

/// Says that what is being recorded depends on elements.
pub(crate) fn impure() {
    did(Deed::Reads);
}

/// Says that what is being recorded calls what may do more than compute.
pub fn impure_call() {
    did(Deed::Calls);
}

/// Begins a call of a function of which a site could know nothing. The timer lives as long as the call.
pub fn recorded(name: &'static str, why: &'static str) -> Option<Timer> {
    match RECORDING.get() {
        // An outer call is recorded, which counts.
        true => None,
        false => count_recorded(name, why),
    }
}

/// [`recorded`] for a function that does more than compute.
pub fn recorded_impure(name: &'static str, why: &'static str) -> Option<Timer> {
    did(Deed::CallsFunction(name));
    recorded(name, why)
}

/// Says whether a key can hold the constants and statics that a body names. If not, because a `static` may be written through or
/// have a tensor in it, a call that records the body in its own place has no key either.
pub fn names(fit_in_key: bool) {
    if !fit_in_key {
        did(Deed::Names);
    }
}

/// Whether what happens now is recorded for a call.
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

impl Site {
    /// A site that knows no call.
    pub const fn new(function: Function) -> Site {
        Site {
            function,
            calls: Counter::new(function.name),
            known: RefCell::new(Vec::new()),
            changes: RefCell::new(Vec::new()),
            evicted: Cell::new(false),
        }
    }

    fn find(&self, key: &CallKey<'_>) -> Found {
        // The comparison of a static value may itself call the function.
        let Ok(known) = self.known.try_borrow() else {
            return Found::Nothing;
        };
        let Some(i) = known.iter().rposition(|known| known.key.fits(key)) else {
            return Found::Nothing;
        };
        let callee = match &known[i].call {
            Ok(callee) => callee,
            Err(why) => return Found::Recorded(why.clone()),
        };
        if !callee.call.is_current() {
            drop(known);
            if let Ok(mut known) = self.known.try_borrow_mut() {
                let old = known.remove(i);
                drop(known);
                drop(old);
                self.evicted.set(true);
            }
            return Found::Nothing;
        }
        let callee = callee.clone();
        self.calls.found();
        // A plan for different arguments does for equal ones, for which the body may record something else.
        match checks::is_due(&known[i].unchecked) && key.has_aliases_of(&known[i].key) {
            true => Found::Checked(callee),
            false => Found::Plan(callee),
        }
    }

    /// Learns how a call is made, and why that was not known.
    fn learn(&self, key: OwnedKey, call: Result<Callee, Why>) {
        let why = self.compare(&key);
        match &call {
            Ok(_) => self.calls.planned(why),
            Err(why) => self.calls.recorded(why.clone()),
        }
        let Ok(mut known) = self.known.try_borrow_mut() else {
            return;
        };
        let same = |other: &Known| other.key.is_of_instance_of(&key);
        let full = known.iter().filter(|other| same(other)).count() == MAX_KNOWN;
        let first = known.iter().position(same).filter(|_| full);
        let old = first.map(|i| known.remove(i));
        let key = Rc::new(key);
        known.push(Known {
            key,
            call,
            unchecked: Cell::new(0),
        });
        drop(known);
        drop(old);
    }

    /// Why no plan was known for a key: the difference from the most similar key there is.
    fn compare(&self, key: &OwnedKey) -> Why {
        if self.evicted.take() {
            return "its plan had left the cache".into();
        }
        let Ok(known) = self.known.try_borrow() else {
            return "it was called while its arguments were compared".into();
        };
        let similar = known.iter().rev().filter(|k| k.key.is_of_instance_of(key));
        let similar = similar.filter_map(|known| known.key.differences(key));
        // Of equally similar ones the last one is what the user compares with.
        let Some(differences) = similar.min_by_key(Vec::len) else {
            return match known.iter().any(|k| k.key.is_of_instance_of(key)) {
                false => "the first call".into(),
                true => "another number of tensors".into(),
            };
        };
        drop(known);
        if let [Difference::Static(param)] = differences[..]
            && let Some(why) = self.changed(param)
        {
            return why;
        }
        in_words(&differences, &self.function).into()
    }

    /// Counts that a parameter alone was the reason for another plan, and says so if it is a number that changes again and again.
    fn changed(&self, param: usize) -> Option<Why> {
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

/// A number that has changed so often is probably data.
const MANY_CHANGES: u32 = 3;

/// Tells a user who asks for nothing.
fn hint(event: &Event) {
    if cfg!(debug_assertions) && std::env::var_os("GRADLOOM_HINTS").is_none_or(|v| v != "off") {
        eprintln!("gradloom: {event}; each value is planned (`GRADLOOM_HINTS=off` says nothing)");
    }
}

/// Looks a call up. Where it is not known `describe` is called again.
pub fn begin<'a>(
    site: &'static LocalKey<Site>,
    describe: impl Fn(&mut CallKey<'a>),
) -> Result<Results, Recording> {
    if RECORDING.get() || is_op_by_op() {
        return Err(Recording::of_outer());
    }
    let mut key = CallKey::new();
    describe(&mut key);
    if let Some(obstacle) = key.obstacle() {
        return Err(Recording::unknown(site, &key, obstacle));
    }
    // Where a thread ends its sites may be gone.
    let Ok(found) = site.try_with(|site| site.find(&key)) else {
        return Err(Recording::of_outer());
    };
    match found {
        Found::Plan(Callee { call, template }) => {
            if let Some(plan) = call.plan_id() {
                events::emit(Event::Hit { plan });
            }
            let leaves = call.leaves(&key);
            Ok(Results { leaves, template })
        }
        Found::Recorded(why) => Err(Recording::again(site, why)),
        // What a body records is told from what its arguments are computed by if these have been computed.
        Found::Checked(_) | Found::Nothing if evaluate::realise(&key.args()).is_err() => {
            Err(Recording::unknown(site, &key, Obstacle::Fails))
        }
        Found::Checked(callee) => Err(Recording::begun(site, &key, Some(callee))),
        Found::Nothing => {
            let mut marked = CallKey::with_marks();
            describe(&mut marked);
            Err(Recording::begun(site, &marked, None))
        }
    }
}

/// The results of a call, leaf by leaf.
pub struct Results {
    leaves: Leaves,
    /// A tree in their structure, where the site keeps one.
    pub(super) template: Option<Rc<Template>>,
}

impl From<Leaves> for Results {
    fn from(leaves: Leaves) -> Results {
        let template = None;
        Results { leaves, template }
    }
}

impl Results {
    /// The next result, a tensor.
    pub fn tensor(&mut self) -> Tensor {
        let next = self.leaves.next();
        next.expect("as many results as the body gave")
    }

    /// The next results, in the structure of a tree.
    pub fn like<T: Tree>(&mut self, tree: &T) -> T {
        tree.map(&mut |_| self.tensor())
    }

    /// The pullback, which keeps what is left.
    pub fn pullback(self) -> Pullback {
        let backward = self.leaves.backward();
        let backward = backward.expect("a body that ends with a pullback has one");
        Pullback::planned(backward, self.leaves)
    }
}

/// A call that is being recorded, for its site or for nobody.
#[must_use = "what is recorded has an end"]
pub struct Recording {
    pub(super) begun: Option<Box<Begun>>,
    _timer: Option<Timer>,
}

pub(super) struct Begun {
    /// It is there until the end.
    key: Option<OwnedKey>,
    args: Vec<Shared>,
    site: &'static LocalKey<Site>,
    /// The plan that the site knows, if the call is a check of it.
    check: Option<Callee>,
}

/// Ends where the body panics, too.
impl Drop for Begun {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Recording {
    /// A part of an outer recording, or of none.
    fn of_outer() -> Recording {
        Recording {
            begun: None,
            _timer: None,
        }
    }

    /// A call whose key says too little.
    #[cold]
    fn unknown(site: &'static LocalKey<Site>, key: &CallKey<'_>, obstacle: Obstacle) -> Recording {
        let why = site.try_with(|site| key.why(obstacle, &site.function));
        match why {
            Ok(why) => Recording::again(site, why),
            Err(_) => Recording::of_outer(),
        }
    }

    /// A call that is recorded each time.
    #[cold]
    fn again(site: &'static LocalKey<Site>, why: Why) -> Recording {
        let timer = site.try_with(|site| {
            site.calls.recorded(why);
            site.calls.record().timer()
        });
        Recording {
            begun: None,
            _timer: timer.ok().flatten(),
        }
    }

    /// A call that the site learns, or whose plan it checks.
    #[cold]
    fn begun(site: &'static LocalKey<Site>, key: &CallKey<'_>, check: Option<Callee>) -> Recording {
        let timer = site.try_with(|site| site.calls.record().timer());
        // A check is no event.
        events::silence(check.is_some());
        RECORDING.set(true);
        DEED.set(None);
        Recording {
            begun: Some(Box::new(Begun {
                key: Some(key.own()),
                args: key.args(),
                site,
                check,
            })),
            _timer: timer.ok().flatten(),
        }
    }

    /// The end of a body: its result, computed by one plan if the site can know it.
    pub fn end<Y: Tree>(self, mut y: Y) -> Y {
        self.end_with(|f| y.visit_mut(f));
        y
    }

    /// The same for several results: `visit` visits the leaves of all.
    pub fn end_with(self, mut visit: impl FnMut(&mut dyn FnMut(&mut Tensor))) {
        if let Some(begun) = self.begun {
            begun.end(&mut visit, Shape::Typed, Kept::default());
        }
    }

    /// The end of a body that returns a pullback, too, which gives cotangents of the parameters `wrt`.
    pub fn end_pull<Y: Tree>(self, y: Y, pull: Pull, wrt: &[usize]) -> (Y, Pullback) {
        self.end_pull_like(y, pull, wrt, Shape::Typed)
    }

    pub(super) fn end_pull_like<Y: Tree>(
        self,
        mut y: Y,
        pull: Pull,
        wrt: &[usize],
        shape: Shape,
    ) -> (Y, Pullback) {
        let mut planned = None;
        if let Some(begun) = self.begun {
            let kept = match DEED.get() {
                Some(_) => None,
                None => Backward::of(&pull, &y, wrt, begun.record()),
            };
            match kept {
                Some((backward, residuals)) => {
                    let kept = Kept {
                        residuals,
                        backward: Some(Arc::new(backward)),
                    };
                    let rest = begun.end(&mut |f| y.visit_mut(f), shape, kept);
                    planned = rest.map(|rest| {
                        let backward = rest.backward().expect("the call has a pullback");
                        Pullback::planned(backward, rest)
                    });
                }
                None => begun.give_up(),
            }
        }
        let pullback = planned.unwrap_or_else(|| Pullback::recorded(pull, &y));
        (y, pullback)
    }
}

/// What the pullback of a call reads, and what it computes.
#[derive(Default)]
pub(super) struct Kept {
    residuals: Vec<Shared>,
    backward: Option<Arc<Backward>>,
}

/// Calls a function with each leaf of several trees.
pub(super) type VisitAll<'a> = dyn FnMut(&mut dyn FnMut(&mut Tensor)) + 'a;

impl Begun {
    /// Returns the leaves that are no leaves of the results, if the site can know the call.
    pub(super) fn end(
        mut self,
        visit: &mut VisitAll<'_>,
        shape: Shape,
        kept: Kept,
    ) -> Option<Leaves> {
        let mut results = Vec::new();
        visit(&mut |leaf| results.push(leaf.0.clone()));
        results.extend(kept.residuals);
        if let Some(callee) = self.check.take() {
            let found = self.difference(&callee, &shape, &results, kept.backward.as_deref());
            drop(results);
            return Some(self.end_check(callee, found, visit));
        }
        let call = match (DEED.get(), shape) {
            (Some(deed), _) => Err(deed.why()),
            (None, Shape::Unkept(why)) => Err(why),
            (None, Shape::Typed) => Ok(None),
            (None, Shape::Kept(template)) => Ok(Some(template)),
        };
        let call = call.and_then(|template| {
            let call = callable(&self.args, &results, kept.backward, self.record())?;
            let call = Arc::new(call);
            Ok(Callee { call, template })
        });
        drop(results);
        let rest = call.as_ref().ok().map(|Callee { call, .. }| {
            let mut leaves = call.promise(std::mem::take(&mut self.args));
            visit(&mut |leaf| *leaf = leaves.next().expect("as many leaves as there were"));
            leaves
        });
        if call
            .as_ref()
            .map_or(true, |callee| callee.call.is_current())
        {
            self.learn(call);
        }
        rest
    }

    /// The function, whose time the plan will take.
    fn record(&self) -> Option<Arc<Record>> {
        let record = self.site.try_with(|site| site.calls.record().clone());
        record.ok()
    }

    /// The end of a body that has to run each time.
    fn give_up(mut self) {
        let deed = DEED.get().map(Deed::why);
        match (self.check.take(), deed) {
            (Some(callee), deed) => {
                let what = deed.unwrap_or_else(|| "its pullback cannot be recorded".into());
                self.end_check(callee, Some(what.into()), &mut |_| {});
            }
            (None, Some(why)) => self.learn(Err(why)),
            (None, None) => self.learn(Err("its pullback cannot be recorded".into())),
        }
    }

    fn learn(&mut self, call: Result<Callee, Why>) {
        if let Some(key) = self.key.take() {
            // What is not learnt is recorded again.
            let _ = self.site.try_with(|site| site.learn(key, call));
        }
    }

    /// The recording is over.
    fn stop(&self) {
        RECORDING.set(false);
        events::silence(false);
    }

    /// A difference of what has been recorded from the plan that the site knows.
    fn difference(
        &self,
        callee: &Callee,
        shape: &Shape,
        results: &[Shared],
        backward: Option<&Backward>,
    ) -> Option<String> {
        if let Some(deed) = DEED.get() {
            return Some(deed.why().into());
        }
        match (shape, &callee.template) {
            (Shape::Unkept(why), _) => return Some(why.to_string()),
            (Shape::Kept(new), Some(old)) if !old.structure.equals(&new.structure) => {
                return Some("another structure or skipped field of the result".to_owned());
            }
            _ => {}
        }
        match Made::of(&self.args, results, Made::unseen) {
            Ok(made) => callee.call.difference(&made, backward),
            Err(why) => Some(why.to_owned()),
        }
    }

    /// The end of a check: the results are those of the plan, if there is no difference from it.
    fn end_check(
        mut self,
        callee: Callee,
        difference: Option<String>,
        visit: &mut VisitAll<'_>,
    ) -> Leaves {
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
        visit(&mut |leaf| *leaf = leaves.next().expect("as many leaves as there were"));
        leaves
    }
}

/// Says that a call would have run a plan that is not what its body computes.
fn broken(function: Option<&Function>, difference: &str) {
    let name = function.map_or("a traced function", |function| function.name);
    let text = match function.map(|function| function.purity) {
        Some(Purity::Promised) => format!(
            "`{name}` is `#[traced(pure)]`, which promises that calls with equal static arguments and shapes compute the same, but a call recorded something else than the plan of a call before: {difference}; remove `pure`, or pass what changes as an argument"
        ),
        _ => format!(
            "a call of `{name}` recorded something else than the plan of a call before: {difference}; its body was judged to depend on its arguments alone, which is a mistake of gradloom: please report it"
        ),
    };
    match std::thread::panicking() {
        // A second panic would end the process without a word.
        true => eprintln!("gradloom: {text}"),
        false => panic!("{text}"),
    }
}
