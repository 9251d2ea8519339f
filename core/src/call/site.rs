//! Where a function is called: the plans of the calls before.

use super::callable::{Callable, Leaves, callable};
use super::key::{CallKey, OwnedKey};
use super::pullback::{Backward, Pullback};
use crate::__private::Pull;
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
        let same = |other: &Known| other.key.is_of_instance_of(&key);
        let full = known.iter().filter(|other| same(other)).count() == MAX_KNOWN;
        let first = known.iter().position(same).filter(|_| full);
        let old = first.map(|i| known.remove(i));
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

/// The results of a call, leaf by leaf.
pub struct Results {
    leaves: Leaves,
    /// A tree in their structure, where the site keeps one.
    pub(super) template: Option<Rc<dyn Any>>,
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
pub struct Recording(pub(super) Option<Begun>);

pub(super) struct Begun {
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

    pub(super) fn end_pull_like<Y: Tree>(
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
