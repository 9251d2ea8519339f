//! What the run time did: which functions it traced, which plans it made, found, ran and dropped.
//!
//! Tests prove with this that something did *not* happen: that a second call plans nothing.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One thing that the run time did. Prints as one line.
///
/// Plans are numbered from 1 in the order in which a recording meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A transform ran a function to record its ops.
    Traced {
        /// How many ops depend on the arguments.
        equations: usize,
    },
    /// A traced function was called and recorded its body, as the next such call will.
    Recorded {
        /// The path of the function or companion.
        function: &'static str,
        /// Why no plan can stand for the call.
        why: Cow<'static, str>,
    },
    /// A traced function was planned again because a number changed, and nothing else, as often before.
    Changing {
        /// The path of the function or companion.
        function: &'static str,
        /// The parameter.
        argument: &'static str,
        /// How often it changed on this thread.
        times: u32,
    },
    /// No plan fitted, so one was made.
    Planned {
        /// The plan.
        plan: u64,
        /// How many equations are left of the graph after simplification.
        equations: usize,
        /// What is different from the most similar plan there was.
        why: Option<String>,
    },
    /// A plan for this computation was there.
    Hit {
        /// The plan.
        plan: u64,
    },
    /// A plan was run.
    Ran {
        /// The plan.
        plan: u64,
    },
    /// A plan was dropped to make room for others.
    Evicted {
        /// The plan.
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
                "`{function}` was planned again: argument `{argument}` changed {times} times: pass a tensor"
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

/// How often each event has happened in this process, on any thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// See [`Event::Traced`].
    pub traced: u64,
    /// See [`Event::Recorded`].
    pub recorded: u64,
    /// See [`Event::Changing`].
    pub changing: u64,
    /// See [`Event::Planned`].
    pub planned: u64,
    /// See [`Event::Hit`].
    pub hit: u64,
    /// See [`Event::Ran`].
    pub ran: u64,
    /// See [`Event::Evicted`].
    pub evicted: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    /// The events since the counts were `before`.
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

/// The counts of some threads, in a cache line of their own.
#[repr(align(128))]
struct Tally([AtomicU64; N_KINDS]);

/// The number of kinds of events.
const N_KINDS: usize = 7;

/// How many tallies there are. Threads that call functions all the time would wait for each other at a single one.
const TALLIES: usize = 16;

static COUNTS: [Tally; TALLIES] =
    [const { Tally([const { AtomicU64::new(0) }; N_KINDS]) }; TALLIES];

static NEXT_TALLY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The tally of this thread.
    static TALLY: usize = NEXT_TALLY.fetch_add(1, Ordering::Relaxed) % TALLIES;
}

/// How often each event has happened in this process.
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

/// The events of one recording.
#[derive(Default)]
struct Recording {
    events: Vec<Event>,
    /// The number in this recording of each plan.
    plans: HashMap<u64, u64>,
}

thread_local! {
    static RECORDINGS: RefCell<Vec<Recording>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body`, and returns with its result what the run time did on this thread meanwhile.
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
    /// Ends the recording when `body` panics, too.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            let _ = RECORDINGS.try_with(|all| all.borrow_mut().pop());
        }
    }
    // Where a thread ends nothing is recorded.
    let _ = RECORDINGS.try_with(|all| all.borrow_mut().push(Recording::default()));
    let end = End;
    let result = body();
    let events = RECORDINGS.try_with(|all| {
        let mut all = all.borrow_mut();
        let recording = all.last_mut().expect("the recording that began above");
        std::mem::take(&mut recording.events)
    });
    drop(end);
    (result, events.unwrap_or_default())
}

/// Whether this thread is recording, so that it is worth the effort to say why.
pub(crate) fn recording() -> bool {
    let some = RECORDINGS.try_with(|all| !all.borrow().is_empty());
    // Where a thread ends it records no more.
    some.unwrap_or(false)
}

thread_local! {
    /// Whether this thread checks a call, which is no event.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Emits no event on this thread from now on, or emits them again.
pub(crate) fn silence(silent: bool) {
    SILENT.set(silent);
}

/// Counts an event, and adds it to the recordings of this thread.
pub(crate) fn emit(event: Event) {
    // Calls are checked in builds with debug assertions alone.
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
