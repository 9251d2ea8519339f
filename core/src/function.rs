//! Statistics about traced functions: calls by outcome, reasons, run times.
//!
//! Each thread counts its own calls in memory that no other thread writes, and a
//! [`report`](crate::report) adds them up. The clock is read only after a report has been
//! requested.

use crate::events::{self, Event};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Static description of a traced function or of one of its companions, emitted by the macro.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Path, as in `model::loss::vjp`.
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) purity: Purity,
}

/// Why a call may reuse a plan without running its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purity {
    /// The macro found the body to be pure.
    Judged,
    /// The user promised it with `#[traced(pure)]`.
    Promised,
}

impl Function {
    /// Describes a function whose body the macro found to be pure.
    pub const fn new(name: &'static str, params: &'static [Param]) -> Function {
        Function {
            name,
            params,
            purity: Purity::Judged,
        }
    }

    /// Describes a function that the user declared pure.
    pub const fn promised(name: &'static str, params: &'static [Param]) -> Function {
        Function {
            name,
            params,
            purity: Purity::Promised,
        }
    }
}

/// Static description of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: ParamKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    /// A tensor or a tree of tensors.
    Tensors,
    /// A number. Each value is recorded once.
    Number,
    /// A static value of another type.
    Fixed,
}

impl Param {
    /// Describes a tensor.
    pub const fn leaf(name: &'static str) -> Param {
        let kind = ParamKind::Tensors;
        Param { name, kind }
    }

    /// Describes a tree of tensors.
    pub const fn tree(name: &'static str) -> Param {
        Param::leaf(name)
    }

    /// Describes a value that borrows parts of a tree.
    pub const fn view(name: &'static str) -> Param {
        Param::leaf(name)
    }

    /// Describes a number.
    pub const fn number(name: &'static str) -> Param {
        let kind = ParamKind::Number;
        Param { name, kind }
    }

    /// Describes a number that is only an operand of arithmetic.
    pub const fn operand(name: &'static str) -> Param {
        Param::number(name)
    }

    /// Describes a static value that is not a number.
    pub const fn fixed(name: &'static str) -> Param {
        let kind = ParamKind::Fixed;
        Param { name, kind }
    }
}

/// Reason why a call was recorded.
pub(crate) type Reason = Cow<'static, str>;

/// Calls by outcome, and their total time in nanoseconds while calls were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) found: u64,
    pub(crate) planned: u64,
    pub(crate) recorded: u64,
    pub(crate) nanos: u64,
}

/// Calls of one function on one thread. Only that thread writes them.
#[derive(Debug, Default)]
struct CallCounters {
    found: AtomicU64,
    planned: AtomicU64,
    recorded: AtomicU64,
}

impl CallCounters {
    fn add_to(&self, totals: &mut Totals) {
        totals.found += self.found.load(Relaxed);
        totals.planned += self.planned.load(Relaxed);
        totals.recorded += self.recorded.load(Relaxed);
    }
}

/// Increments a counter that no other thread writes.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// Statistics of one function over all threads.
#[derive(Debug)]
pub(crate) struct Record {
    name: &'static str,
    nanos: AtomicU64,
    /// True once the user has been told about an argument that changes often.
    hinted: AtomicBool,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    threads: Vec<Arc<CallCounters>>,
    /// Sum of the counts of threads that have ended.
    ended: Totals,
    /// Reason for the last call that did not find a plan.
    why: Option<Reason>,
}

static RECORDS: Mutex<BTreeMap<&'static str, Arc<Record>>> = Mutex::new(BTreeMap::new());

/// True if the time of calls is measured.
static MEASURED: AtomicBool = AtomicBool::new(false);

/// Starts measuring the time of calls.
pub(crate) fn measure() {
    MEASURED.store(true, Relaxed);
}

fn records() -> MutexGuard<'static, BTreeMap<&'static str, Arc<Record>>> {
    RECORDS.lock().unwrap_or_else(|e| e.into_inner())
}

/// One function in a report.
pub(crate) struct Summary {
    pub(crate) name: &'static str,
    pub(crate) totals: Totals,
    pub(crate) why: Option<Reason>,
}

/// Returns a summary of each function that has been called, by name.
pub(crate) fn summaries() -> Vec<Summary> {
    let records: Vec<Arc<Record>> = records().values().cloned().collect();
    let summary = |record: &Arc<Record>| {
        let calls = record.calls();
        let mut totals = calls.ended;
        totals.nanos = record.nanos.load(Relaxed);
        calls.threads.iter().for_each(|t| t.add_to(&mut totals));
        Summary {
            name: record.name,
            totals,
            why: calls.why.clone(),
        }
    };
    records.iter().map(summary).collect()
}

impl Record {
    fn of(name: &'static str) -> Arc<Record> {
        let record = || {
            Arc::new(Record {
                name,
                nanos: AtomicU64::new(0),
                hinted: AtomicBool::new(false),
                calls: Mutex::default(),
            })
        };
        records().entry(name).or_insert_with(record).clone()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns whether this is the first hint for the function.
    pub(crate) fn is_first_hint(&self) -> bool {
        !self.hinted.swap(true, Relaxed)
    }

    /// Returns a timer that charges its lifetime to this function, if calls are measured.
    #[inline]
    pub(crate) fn timer(self: &Arc<Self>) -> Option<Timer> {
        let measured = MEASURED.load(Relaxed);
        measured.then(|| Timer(Instant::now(), self.clone()))
    }
}

/// Charges the time from its creation to its drop to a function.
#[derive(Debug)]
pub struct Timer(Instant, Arc<Record>);

impl Drop for Timer {
    fn drop(&mut self) {
        let nanos = self.0.elapsed().as_nanos() as u64;
        self.1.nanos.fetch_add(nanos, Relaxed);
    }
}

/// Counter of one function on one thread.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) name: &'static str,
    of: OnceCell<(Arc<Record>, Arc<CallCounters>)>,
}

impl Counter {
    pub(crate) const fn new(name: &'static str) -> Counter {
        let of = OnceCell::new();
        Counter { name, of }
    }

    fn of(&self) -> &(Arc<Record>, Arc<CallCounters>) {
        self.of.get_or_init(|| {
            let (record, counts) = (Record::of(self.name), Arc::new(CallCounters::default()));
            record.calls().threads.push(counts.clone());
            (record, counts)
        })
    }

    /// Returns the record of the function.
    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.of().0
    }

    /// Counts a call that found its plan.
    #[inline]
    pub(crate) fn found(&self) {
        count(&self.of().1.found);
    }

    /// Counts a call that was recorded, and whose plan was cached.
    pub(crate) fn planned(&self, why: Reason) {
        let (record, counts) = self.of();
        count(&counts.planned);
        record.calls().why = Some(why);
    }

    /// Counts a call that was recorded, and whose key will be recorded again.
    pub(crate) fn recorded(&self, why: Reason) {
        let (record, counts) = self.of();
        count(&counts.recorded);
        record.calls().why = Some(why.clone());
        let function = self.name;
        events::emit(Event::Recorded { function, why });
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Some((record, counts)) = self.of.take() {
            let mut calls = record.calls();
            calls.threads.retain(|other| !Arc::ptr_eq(other, &counts));
            counts.add_to(&mut calls.ended);
        }
    }
}

thread_local! {
    /// Counters of functions without a site, found by the address of the name.
    static COUNTERS: RefCell<Vec<Counter>> = const { RefCell::new(Vec::new()) };
}

/// Counts a call of a function that is always recorded. The timer must live as long as the call.
pub(crate) fn count_recorded(name: &'static str, why: Reason) -> Option<Timer> {
    // The thread-local counters may be destroyed while the thread ends; such calls are not counted.
    let counted = COUNTERS.try_with(|counters| {
        let mut counters = counters.try_borrow_mut().ok()?;
        let found = counters.iter().position(|c| std::ptr::eq(c.name, name));
        let i = found.unwrap_or_else(|| {
            counters.push(Counter::new(name));
            counters.len() - 1
        });
        let record = counters[i].record().clone();
        counters[i].recorded(why);
        record.timer()
    });
    counted.ok().flatten()
}
