//! What threads do and when, while someone asks for it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An interval of one thread.
#[derive(Clone, Debug)]
pub struct Slice {
    /// What the thread did.
    pub label: Cow<'static, str>,
    /// The kind of work.
    pub kind: SliceKind,
    /// Number of the thread, in the order in which threads first did something.
    pub thread: usize,
    pub start: Instant,
    pub end: Instant,
}

/// The kind of work of a [`Slice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceKind {
    /// A task of a plan.
    Task {
        /// The id of the plan.
        plan: u64,
        /// Bytes of operands and results.
        bytes: usize,
        /// Arithmetic operations, if they are known.
        flops: Option<u64>,
    },
    /// A part of a task that runs on several threads.
    Part,
    /// A plan was made.
    Planning {
        /// The number of equations.
        equations: usize,
    },
}

/// Number of those who ask.
static USERS: AtomicUsize = AtomicUsize::new(0);

static SLICES: Mutex<Vec<Slice>> = Mutex::new(Vec::new());

/// Returns whether someone asks.
#[inline]
pub fn is_on() -> bool {
    USERS.load(Ordering::Relaxed) > 0
}

/// Asks for slices until it is dropped.
#[derive(Debug)]
pub struct Timeline {
    /// Number of slices that were there before.
    before: usize,
}

impl Timeline {
    #[expect(clippy::new_without_default, reason = "it changes what threads do")]
    pub fn new() -> Timeline {
        let slices = slices();
        USERS.fetch_add(1, Ordering::Relaxed);
        Timeline {
            before: slices.len(),
        }
    }

    /// Returns the slices that ended since it was made, on all threads.
    pub fn slices(&self) -> Vec<Slice> {
        slices()[self.before..].to_vec()
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        let mut slices = slices();
        if USERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            *slices = Vec::new();
        }
    }
}

/// Notes that this thread has done something since `start`.
#[cold]
pub fn note(label: impl Into<Cow<'static, str>>, kind: SliceKind, start: Instant, end: Instant) {
    let thread = THREAD.try_with(|thread| *thread).unwrap_or(usize::MAX);
    slices().push(Slice {
        label: label.into(),
        kind,
        thread,
        start,
        end,
    });
}

/// Runs a part of a task, and notes it if someone asks.
#[inline]
pub(crate) fn part(work: impl FnOnce()) {
    if !is_on() {
        return work();
    }
    let start = Instant::now();
    work();
    note("part", SliceKind::Part, start, Instant::now());
}

thread_local! {
    static THREAD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

fn slices() -> MutexGuard<'static, Vec<Slice>> {
    // A slice is appended by one move, so a panic cannot leave the list half written.
    SLICES.lock().unwrap_or_else(PoisonError::into_inner)
}
