//! Log of the run time: functions traced, and plans made, found, run and evicted.
//!
//! Tests use it to prove that something did *not* happen, such as a second call planning again.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One action of the run time. Prints as one line.
///
/// Plans are numbered from 1, in the order in which the recording meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A transform ran a function and recorded its ops.
    Traced {
        /// Number of ops that depend on the arguments.
        equations: usize,
    },
    /// A call of a traced function recorded the body, and the next such call will record it again.
    Recorded {
        /// Path of the function or companion.
        function: &'static str,
        /// Reason why the call cannot use a plan.
        why: Cow<'static, str>,
    },
    /// A traced function was recorded again, as often before, because only a number changed.
    Changing {
        /// Path of the function or companion.
        function: &'static str,
        /// Name of the parameter.
        argument: &'static str,
        /// Number of changes on this thread.
        times: u32,
    },
    /// No cached plan matched, so a plan was made.
    Planned {
        /// Number of the plan.
        plan: u64,
        /// Number of equations after simplification.
        equations: usize,
        /// Difference from the most similar cached plan, if there was one.
        why: Option<String>,
    },
    /// A cached plan matched.
    Hit {
        /// Number of the plan.
        plan: u64,
    },
    /// A plan was run.
    Ran {
        /// Number of the plan.
        plan: u64,
    },
    /// A plan was evicted from the cache.
    Evicted {
        /// Number of the plan.
        plan: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: &usize| if *n == 1 { "" } else { "s" };
        match self {
            Event::Traced { equations } => {
                write!(f, "traced: {equations} equation{}", plural(equations))
            }
            Event::Recorded { function, why } => write!(f, "recorded `{function}`: {why}"),
            Event::Changing {
                function,
                argument,
                times,
            } => write!(
                f,
                "`{function}` was recorded again: argument `{argument}` changed {times} times: pass a tensor"
            ),
            Event::Planned {
                plan,
                equations,
                why,
            } => {
                write!(
                    f,
                    "planned p{plan}: {equations} equation{}",
                    plural(equations)
                )?;
                why.iter().try_for_each(|why| write!(f, " ({why})"))
            }
            Event::Hit { plan } => write!(f, "hit p{plan}"),
            Event::Ran { plan } => write!(f, "ran p{plan}"),
            Event::Evicted { plan } => write!(f, "evicted p{plan}"),
        }
    }
}

/// Number of events of each kind, in this process or in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of [`Event::Traced`] events.
    pub traced: u64,
    /// Number of [`Event::Recorded`] events.
    pub recorded: u64,
    /// Number of [`Event::Changing`] events.
    pub changing: u64,
    /// Number of [`Event::Planned`] events.
    pub planned: u64,
    /// Number of [`Event::Hit`] events.
    pub hit: u64,
    /// Number of [`Event::Ran`] events.
    pub ran: u64,
    /// Number of [`Event::Evicted`] events.
    pub evicted: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    /// Returns the number of events since `before` was taken.
    fn sub(self, before: Counts) -> Counts {
        Counts {
            traced: self.traced - before.traced,
            recorded: self.recorded - before.recorded,
            changing: self.changing - before.changing,
            planned: self.planned - before.planned,
            hit: self.hit - before.hit,
            ran: self.ran - before.ran,
            evicted: self.evicted - before.evicted,
        }
    }
}

/// Event counts of some threads, in a cache line of their own.
#[repr(align(128))]
struct Tally([AtomicU64; N_KINDS]);

/// Number of kinds of events.
const N_KINDS: usize = 7;

/// Number of tallies. A single one would be contended by threads that call functions all the time.
const TALLIES: usize = 16;

static COUNTS: [Tally; TALLIES] =
    [const { Tally([const { AtomicU64::new(0) }; N_KINDS]) }; TALLIES];

static NEXT_TALLY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Index of the tally of this thread.
    static TALLY: usize = NEXT_TALLY.fetch_add(1, Ordering::Relaxed) % TALLIES;
}

/// Returns the number of events of each kind in this process, on all threads.
///
/// ```
/// use gradloom::{Tensor, events};
///
/// let before = events::counts().ran;
/// (Tensor::from([1.0f32, 2.0]) * 3.0).to_vec::<f32>();
/// assert!(events::counts().ran > before);
/// ```
pub fn counts() -> Counts {
    let [traced, recorded, changing, planned, hit, ran, evicted] =
        std::array::from_fn(|i| COUNTS.iter().map(|t| t.0[i].load(Ordering::Relaxed)).sum());
    Counts {
        traced,
        recorded,
        changing,
        planned,
        hit,
        ran,
        evicted,
    }
}

/// Events of one call of [`record`].
#[derive(Default)]
struct EventLog {
    events: Vec<Event>,
    /// Number of each plan in this recording, by its id.
    plans: HashMap<u64, u64>,
}

thread_local! {
    static RECORDINGS: RefCell<Vec<EventLog>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` and returns its result and the events of this thread during the run.
///
/// ```
/// use gradloom::{Tensor, evaluate, events};
///
/// let step = |x: &Tensor| evaluate(&(x + 1.0).tanh());
/// step(&Tensor::from([1.0f32, 2.0])).unwrap();
/// let (_, events) = events::record(|| step(&Tensor::from([3.0f32, 4.0])).unwrap());
/// let lines: Vec<String> = events.iter().map(|e| e.to_string()).collect();
/// assert_eq!(lines, ["hit p1", "ran p1"]);
/// ```
pub fn record<R>(body: impl FnOnce() -> R) -> (R, Vec<Event>) {
    /// Ends the recording even if `body` panics.
    struct LogGuard;
    impl Drop for LogGuard {
        fn drop(&mut self) {
            let _ = RECORDINGS.try_with(|all| all.borrow_mut().pop());
        }
    }
    // Thread-locals are gone while a thread exits; then nothing is recorded.
    let _ = RECORDINGS.try_with(|all| all.borrow_mut().push(EventLog::default()));
    let end = LogGuard;
    let result = body();
    let events = RECORDINGS.try_with(|all| {
        let mut all = all.borrow_mut();
        let recording = all.last_mut().expect("a recording was pushed above");
        std::mem::take(&mut recording.events)
    });
    drop(end);
    (result, events.unwrap_or_default())
}

/// Returns whether this thread is recording events, so that an explanation is worth computing.
pub(crate) fn recording() -> bool {
    let some = RECORDINGS.try_with(|all| !all.borrow().is_empty());
    // Thread-locals are gone while a thread exits; then nothing is recorded.
    some.unwrap_or(false)
}

thread_local! {
    /// True while this thread checks a call: checks emit no events.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the events of this thread, or stops to suppress them.
pub(crate) fn silence(silent: bool) {
    SILENT.set(silent);
}

/// Counts an event, and adds it to all recordings of this thread.
pub(crate) fn emit(event: Event) {
    // Checks of calls exist only with debug assertions.
    if cfg!(debug_assertions) && SILENT.get() {
        return;
    }
    let index = match &event {
        Event::Traced { .. } => 0,
        Event::Recorded { .. } => 1,
        Event::Changing { .. } => 2,
        Event::Planned { .. } => 3,
        Event::Hit { .. } => 4,
        Event::Ran { .. } => 5,
        Event::Evicted { .. } => 6,
    };
    let tally = TALLY.try_with(|tally| *tally).unwrap_or_default();
    COUNTS[tally].0[index].fetch_add(1, Ordering::Relaxed);
    let _ = RECORDINGS.try_with(|all| {
        for recording in all.borrow_mut().iter_mut() {
            let mut event = event.clone();
            if let Event::Planned { plan, .. }
            | Event::Hit { plan }
            | Event::Ran { plan }
            | Event::Evicted { plan } = &mut event
            {
                let next = recording.plans.len() as u64 + 1;
                *plan = *recording.plans.entry(*plan).or_insert(next);
            }
            recording.events.push(event);
        }
    });
}
