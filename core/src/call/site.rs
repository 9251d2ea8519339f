//! Where a function is called: the plans of the calls before.

use super::key::{CallKey, OwnedKey};
use super::pullback::{Backward, Pullback};
use super::{CallNode, CallPlan, let_go_of, spare_results};
use crate::__private::Pull;
use crate::buffer::Buffer;
use crate::events::{self, Event};
use crate::graph::Graph;
use crate::node::{Shared, Source};
use crate::testing::is_op_by_op;
use crate::{Aval, Tensor, Tree};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

/// How many plans a site knows. The one that came first goes first.
const MAX_KNOWN: usize = 16;

/// What one thread knows of the calls of a function.
pub struct Site(RefCell<Vec<Known>>);

#[derive(Clone)]
struct Known {
    key: Rc<OwnedKey>,
    /// Nothing, if such a call has to be recorded.
    call: Option<Callee>,
}

/// What a site knows of a call.
#[derive(Clone)]
struct Callee {
    call: Arc<Callable>,
    /// A tree in the structure of the result.
    template: Option<Rc<dyn Any>>,
}

/// How to make the results of a call out of its arguments.
pub(super) struct Callable {
    /// Nothing, if all results are arguments.
    plan: Option<Arc<CallPlan>>,
    /// The results of the plan.
    avals: Box<[Aval]>,
    leaves: Box<[Leaf]>,
    /// What the body has made of host values: the last arguments of the plan.
    constants: Box<[Shared]>,
    /// Whether a result of the plan is several leaves.
    repeats: bool,
    /// The pullback, of a call whose last results are what that reads.
    backward: Option<Arc<Backward>>,
}

/// A leaf of the result.
#[derive(Clone, Copy)]
enum Leaf {
    Argument(u32),
    Result(u32),
}

thread_local! {
    /// Whether the body of a function with a site is being recorded. Then all functions that it calls are, too.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    /// Whether the recorded body did what a call that runs a plan would not do.
    static IMPURE: Cell<bool> = const { Cell::new(false) };
}

/// Says that what is being recorded depends on more than a key, or does more than compute.
pub fn impure() {
    IMPURE.set(true);
}

/// Says whether a key can hold the constants and statics that a body names. If not, because a `static` may be written through or
/// have a tensor in it, a call that records the body in its own place has no key either.
pub fn names(fit_in_key: bool) {
    if !fit_in_key {
        impure();
    }
}

/// Whether what happens now is recorded for a call.
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

impl Site {
    /// A site that knows no call.
    #[expect(clippy::new_without_default, reason = "only the macro makes sites")]
    pub const fn new() -> Site {
        Site(RefCell::new(Vec::new()))
    }

    fn find(&self, key: &CallKey<'_>) -> Option<Option<Callee>> {
        // The comparison of a static value may itself call the function.
        let known = self.0.try_borrow().ok()?;
        let i = known.iter().rposition(|known| known.key.fits(key))?;
        let call = known[i].call.clone();
        drop(known);
        if call
            .as_ref()
            .is_some_and(|callee| !callee.call.is_current())
        {
            let mut known = self.0.try_borrow_mut().ok()?;
            drop(known.remove(i));
            return None;
        }
        Some(call)
    }

    fn learn(&self, key: OwnedKey, call: Option<Callee>) {
        let Ok(mut known) = self.0.try_borrow_mut() else {
            return;
        };
        let old = (known.len() == MAX_KNOWN).then(|| known.remove(0));
        let key = Rc::new(key);
        known.push(Known { key, call });
        drop(known);
        drop(old);
    }
}

/// Looks a call up.
pub fn begin<'a>(
    site: &'static LocalKey<Site>,
    describe: impl FnOnce(&mut CallKey<'a>),
) -> Result<Results, Recording> {
    if RECORDING.get() || is_op_by_op() {
        return Err(Recording(None));
    }
    let mut key = CallKey::new();
    describe(&mut key);
    if !key.is_known() {
        return Err(Recording(None));
    }
    // Where a thread ends its sites may be gone.
    let Ok(found) = site.try_with(|site| site.find(&key)) else {
        return Err(Recording(None));
    };
    match found {
        Some(Some(Callee { call, template })) => {
            if let Some(plan) = call.plan_id() {
                events::emit(Event::Hit { plan });
            }
            let leaves = call.leaves(&key);
            Ok(Results { leaves, template })
        }
        Some(None) => Err(Recording(None)),
        None => {
            let owned = key.own();
            RECORDING.set(true);
            IMPURE.set(false);
            Err(Recording(Some(Begun {
                key: Some(owned),
                args: key.args(),
                site,
            })))
        }
    }
}

/// A call that is being recorded, for its site or for nobody.
#[must_use = "what is recorded has an end"]
pub struct Recording(Option<Begun>);

struct Begun {
    /// It is there until the end.
    key: Option<OwnedKey>,
    args: Vec<Shared>,
    site: &'static LocalKey<Site>,
}

/// Ends where the body panics, too.
impl Drop for Begun {
    fn drop(&mut self) {
        RECORDING.set(false);
    }
}

impl Recording {
    /// The end of a body: its result, computed by one plan if the site can know it.
    pub fn end<Y: Tree>(self, mut y: Y) -> Y {
        self.end_with(|f| y.visit_mut(f));
        y
    }

    /// The same for several results: `visit` visits the leaves of all.
    pub fn end_with(self, mut visit: impl FnMut(&mut dyn FnMut(&mut Tensor))) {
        if let Some(begun) = self.0 {
            begun.end(&mut visit, None, Kept::default());
        }
    }

    /// The end of a body that returns a pullback, too, which gives cotangents of the parameters `wrt`.
    pub fn end_pull<Y: Tree>(self, y: Y, pull: Pull, wrt: &[usize]) -> (Y, Pullback) {
        self.end_pull_like(y, pull, wrt, None)
    }

    fn end_pull_like<Y: Tree>(
        self,
        mut y: Y,
        pull: Pull,
        wrt: &[usize],
        template: Option<Rc<dyn Any>>,
    ) -> (Y, Pullback) {
        let mut planned = None;
        if let Some(begun) = self.0 {
            let kept = match IMPURE.get() {
                true => None,
                false => Backward::of(&pull, &y, wrt),
            };
            if let Some((backward, residuals)) = kept {
                let backward = Arc::new(backward);
                let kept = Kept {
                    residuals,
                    backward: Some(backward.clone()),
                };
                let rest = begun.end(&mut |f| y.visit_mut(f), template, kept);
                planned = rest.map(|rest| Pullback::planned(backward, rest));
            } else {
                begun.give_up();
            }
        }
        let pullback = planned.unwrap_or_else(|| Pullback::recorded(pull, &y));
        (y, pullback)
    }
}

/// What the pullback of a call reads, and what it computes.
#[derive(Default)]
struct Kept {
    residuals: Vec<Shared>,
    backward: Option<Arc<Backward>>,
}

/// Calls a function with each leaf of several trees.
type VisitAll<'a> = dyn FnMut(&mut dyn FnMut(&mut Tensor)) + 'a;

impl Begun {
    /// Returns the leaves that are no leaves of the results, if the site can know the call.
    fn end(
        mut self,
        visit: &mut VisitAll<'_>,
        template: Option<Rc<dyn Any>>,
        kept: Kept,
    ) -> Option<Leaves> {
        let mut results = Vec::new();
        visit(&mut |leaf| results.push(leaf.0.clone()));
        results.extend(kept.residuals);
        let call = match IMPURE.get() {
            true => None,
            false => callable(&self.args, &results, kept.backward).map(Arc::new),
        };
        drop(results);
        let rest = call.as_ref().map(|call| {
            let mut leaves = call.promise(std::mem::take(&mut self.args));
            visit(&mut |leaf| *leaf = leaves.next().expect("as many leaves as there were"));
            leaves
        });
        if call.as_ref().is_none_or(|call| call.is_current()) {
            self.learn(call.map(|call| Callee { call, template }));
        }
        rest
    }

    /// The end of a body that has to run each time.
    fn give_up(mut self) {
        self.learn(None);
    }

    fn learn(&mut self, call: Option<Callee>) {
        if let Some(key) = self.key.take() {
            // What is not learnt is recorded again.
            let _ = self.site.try_with(|site| site.learn(key, call));
        }
    }
}

/// The most elements of all constants that a body makes of host values. With more the call is recorded each time, because a
/// site would keep them for each key.
const MOST_CONSTANTS: usize = 8 << 10;

/// How to compute results from arguments, if they depend on nothing but constants besides.
pub(super) fn callable(
    args: &[Shared],
    results: &[Shared],
    backward: Option<Arc<Backward>>,
) -> Option<Callable> {
    // What is there and is no argument has been made of host values, and those that a pure body has are in the key.
    let mut known = args.to_vec();
    let mut argument = |value: &Shared| {
        let i = known.iter().position(|arg| Shared::ptr_eq(arg, value));
        if i.is_none() && value.has_elements() && value.is_free() {
            known.push(value.clone());
            return Some(known.len() - 1);
        }
        i
    };
    let mut targets: Vec<Shared> = Vec::new();
    let leaf = |result: &Shared| {
        if let Some(i) = argument(result) {
            return Leaf::Argument(i as u32);
        }
        let there = targets.iter().position(|x| Shared::ptr_eq(x, result));
        Leaf::Result(there.unwrap_or_else(|| {
            targets.push(result.clone());
            targets.len() - 1
        }) as u32)
    };
    let leaves: Box<[Leaf]> = results.iter().map(leaf).collect();
    let n_results = leaves.iter().filter(|leaf| matches!(leaf, Leaf::Result(_)));
    let repeats = n_results.count() > targets.len();
    let mut plan = None;
    if !targets.is_empty() {
        let graph = Graph::of(&targets);
        let leaves = graph.leaves.iter();
        let leaves = leaves.map(|leaf| Some(argument(leaf)? as u32));
        let leaves = leaves.collect::<Option<_>>()?;
        plan = Some((graph, leaves));
    }
    let constants: Box<[Shared]> = known.drain(args.len()..).collect();
    let n_elements = constants.iter().map(|x| x.aval.numel());
    if n_elements.sum::<usize>() > MOST_CONSTANTS {
        return None;
    }
    Some(Callable {
        plan: plan.map(|(graph, leaves)| Arc::new(CallPlan::new(graph.plan(), leaves))),
        avals: targets.iter().map(|x| x.aval.clone()).collect(),
        leaves,
        constants,
        repeats,
        backward,
    })
}

impl Callable {
    /// Whether its plans may be used.
    pub(super) fn is_current(&self) -> bool {
        let plan = self.plan.as_ref();
        let backward = self.backward.as_ref();
        plan.is_none_or(|plan| plan.entry.is_current())
            && backward.is_none_or(|backward| backward.is_current())
    }

    /// What events call its plan.
    pub(super) fn plan_id(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.entry.id)
    }

    /// The leaves of the result for the arguments of a key.
    fn leaves(self: &Arc<Self>, key: &CallKey<'_>) -> Leaves {
        let n = key.leaves.len();
        let arg = |i: usize| match i.checked_sub(n) {
            None => &*key.leaves[i],
            Some(i) => &self.constants[i],
        };
        self.at_once(arg)
            .unwrap_or_else(|| self.promise(key.args()))
    }

    /// The results for the given arguments.
    pub(super) fn call(self: &Arc<Self>, args: Vec<Shared>) -> Results {
        let n = args.len();
        let arg = |i: usize| match i.checked_sub(n) {
            None => &args[i],
            Some(i) => &self.constants[i],
        };
        let leaves = match self.at_once(arg) {
            Some(leaves) => {
                let_go_of(args);
                leaves
            }
            None => self.promise(args),
        };
        let template = None;
        Results { leaves, template }
    }

    /// The leaves of the result, if to compute them is no more work than to promise them.
    fn at_once<'a>(self: &Arc<Self>, arg: impl Fn(usize) -> &'a Shared + Copy) -> Option<Leaves> {
        let plan = self.plan.as_ref().filter(|plan| plan.is_small)?;
        let computed = plan.run_on(arg)?;
        Some(self.results(arg, computed))
    }

    /// The leaves of the result, as promises.
    fn promise(self: &Arc<Self>, mut args: Vec<Shared>) -> Leaves {
        args.extend_from_slice(&self.constants);
        let mut leaves = self.results(|i| &args[i], Vec::new());
        match &self.plan {
            Some(plan) => leaves.node = Some(CallNode::new(plan.clone(), args)),
            None => let_go_of(args),
        }
        leaves
    }

    fn results<'a>(
        self: &Arc<Self>,
        arg: impl Fn(usize) -> &'a Shared,
        computed: Vec<Option<Arc<Buffer>>>,
    ) -> Leaves {
        let kept = self.leaves.iter().filter_map(|leaf| match leaf {
            Leaf::Argument(i) => Some(Tensor::of(arg(*i as usize))),
            Leaf::Result(_) => None,
        });
        let kept = kept.collect::<SmallVec<_>>().into_iter();
        let n_repeated = if self.repeats { self.avals.len() } else { 0 };
        Leaves {
            call: self.clone(),
            next: 0,
            kept,
            computed,
            node: None,
            repeated: (0..n_repeated).map(|_| None).collect(),
        }
    }
}

/// The leaves of the result of a call, one after another.
pub(super) struct Leaves {
    call: Arc<Callable>,
    next: usize,
    /// Those that are arguments.
    kept: smallvec::IntoIter<[Tensor; 4]>,
    /// The results of the plan that nobody has taken, if it has run.
    computed: Vec<Option<Arc<Buffer>>>,
    /// The call, if it has not.
    node: Option<Arc<CallNode>>,
    /// The results so far, where one may be several leaves.
    repeated: SmallVec<[Option<Tensor>; 8]>,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        spare_results(std::mem::take(&mut self.computed));
    }
}

impl Leaves {
    fn result(&mut self, i: u32) -> Tensor {
        let i = i as usize;
        let mut value = || {
            let source = match (self.computed.get_mut(i), &self.node) {
                (Some(buffer), _) => {
                    let buffer = buffer.take();
                    Source::Elements(buffer.expect("a result is asked for once"))
                }
                (None, Some(node)) => Source::Call(node.clone(), i),
                (None, None) => unreachable!("a plan computes what is no argument"),
            };
            Tensor::new(&self.call.avals[i], source)
        };
        match self.repeated.get_mut(i) {
            Some(made) => made.get_or_insert_with(value).clone(),
            None => value(),
        }
    }
}

impl Iterator for Leaves {
    type Item = Tensor;
    fn next(&mut self) -> Option<Tensor> {
        let leaf = *self.call.leaves.get(self.next)?;
        self.next += 1;
        match leaf {
            Leaf::Argument(_) => self.kept.next(),
            Leaf::Result(i) => Some(self.result(i)),
        }
    }
}

/// The results of a call, leaf by leaf.
pub struct Results {
    leaves: Leaves,
    template: Option<Rc<dyn Any>>,
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
        let backward = self.leaves.call.backward.clone();
        let backward = backward.expect("a body that ends with a pullback has one");
        Pullback::planned(backward, self.leaves)
    }
}

/// The results of a call as a whole, where only a value of their type tells their structure.
pub struct Whole<T>(pub PhantomData<T>);

/// Results that are a tree.
pub trait OfWhole<T> {
    /// The results, in the structure that the body gave them.
    fn results(self, results: &mut Results) -> T;
    /// The end of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// The end of a body that returns a pullback, too.
    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback);
}

impl<T: Tree + 'static> OfWhole<T> for &&Whole<T> {
    fn results(self, results: &mut Results) -> T {
        let template = results.template.clone();
        let template = template.as_ref().and_then(|t| t.downcast_ref::<T>());
        results.like(template.expect("the structure of the result is kept beside the plan"))
    }

    fn end(self, recording: Recording, mut y: T) -> T {
        let Some(begun) = recording.0 else {
            return y;
        };
        let template = template(&y);
        begun.end(&mut |f| y.visit_mut(f), Some(template), Kept::default());
        y
    }

    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback) {
        let template = template(&y);
        recording.end_pull_like(y, pull, wrt, Some(template))
    }
}

/// The structure of a tree, which keeps nothing else of it alive.
fn template<T: Tree + 'static>(y: &T) -> Rc<dyn Any> {
    Rc::new(crate::__private::structure(y))
}

/// Results that are no tree, which is an error elsewhere.
pub trait NoWhole<T> {
    /// There are none.
    fn results(self, results: &mut Results) -> T;
    /// The end of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// The end of a body that returns a pullback, too.
    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback);
}

impl<T> NoWhole<T> for &Whole<T> {
    fn results(self, _: &mut Results) -> T {
        unreachable!("a site learns no call whose result is no tree")
    }

    fn end(self, recording: Recording, y: T) -> T {
        drop(recording);
        y
    }

    fn end_pull(self, recording: Recording, y: T, pull: Pull, _: &[usize]) -> (T, Pullback) {
        drop(recording);
        (y, Pullback::recorded(pull, &()))
    }
}
