//! Settings of the process and of the thread, and the path of calls.

use gradloom_trace::{Config, Writer};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// State of the process in one word: the lowest two bits are [`UNREAD`], [`OFF`] or [`ON`], the
/// others count the threads and closures with settings of their own.
static STATE: AtomicU32 = AtomicU32::new(UNREAD);

/// The environment has not been read.
const UNREAD: u32 = 0;
/// The environment asks for nothing.
const OFF: u32 = 1;
/// The environment asks for a trace.
const ON: u32 = 2;
/// A closure with settings of its own.
const OVERRIDE: u32 = 4;

/// Settings and writer of one trace.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) writer: Writer,
    /// True after a point could not be written, which is reported once.
    pub(super) failed: AtomicBool,
    /// Names of points without elements, each of which is reported once.
    pub(super) skipped: Mutex<HashSet<String>>,
}

impl Session {
    fn new(config: Config) -> Session {
        Session {
            writer: Writer::new(config),
            failed: AtomicBool::new(false),
            skipped: Mutex::default(),
        }
    }
}

/// Function, or scope of the user, on the path of calls.
#[derive(Debug)]
struct Segment {
    name: String,
    /// Iterations of the loops of the function that are running, the outermost first.
    loops: Vec<usize>,
    /// Layer and step of the values in it.
    layer: Option<usize>,
    seq: Option<usize>,
}

#[derive(Debug, Default)]
struct Thread {
    /// Settings of the innermost [`with_config`].
    own: Option<Arc<Session>>,
    /// Number of open [`suspend`]s.
    suspended: usize,
    path: Vec<Segment>,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::default();
}

/// Applies `f` to the state of the thread. Returns `None` while the thread ends.
fn with_thread<T>(f: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD.try_with(|thread| f(&mut thread.borrow_mut())).ok()
}

/// Returns false if no thread traces anything. This is one load.
#[inline]
pub(super) fn may_be_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Returns the trace of the thread, if there is one.
#[cold]
pub(super) fn session() -> Option<Arc<Session>> {
    match with_thread(|thread| thread.own.clone()) {
        Some(Some(own)) => Some(own),
        _ => of_process(),
    }
}

/// Returns the trace that the environment asks for. Reads the environment once.
fn of_process() -> Option<Arc<Session>> {
    static SESSION: OnceLock<Option<Arc<Session>>> = OnceLock::new();
    let session = SESSION.get_or_init(|| {
        let config = Config::from_vars(|name| std::env::var(name).ok());
        let state = if config.is_some() { ON } else { OFF };
        STATE.fetch_or(state, Ordering::Relaxed);
        config.map(|config| Arc::new(Session::new(config)))
    });
    session.clone()
}

/// Returns whether [`dump_trace`](super::dump_trace) writes records on this thread.
///
/// ```
/// use gradloom::dump::{Config, is_enabled, with_config};
/// assert!(!is_enabled());
/// assert!(with_config(Config::new("/tmp/run"), is_enabled));
/// ```
#[inline]
pub fn is_enabled() -> bool {
    may_be_on() && session().is_some()
}

/// Returns whether the trace points of traced functions are written on this thread.
#[doc(hidden)]
#[inline]
pub fn is_tracing() -> bool {
    may_be_on() && session_of_points().is_some()
}

/// Returns the trace of the thread, if points are traced and not suspended.
#[cold]
pub(super) fn session_of_points() -> Option<Arc<Session>> {
    let suspended = with_thread(|thread| thread.suspended > 0).unwrap_or(true);
    let session = session().filter(|session| session.writer.config().filter.is_some());
    session.filter(|_| !suspended)
}

/// Suspends the trace points of the thread until it is dropped.
#[doc(hidden)]
#[must_use = "points are traced again when this is dropped"]
#[derive(Debug)]
pub struct Suspended(());

/// Suspends the trace points of the thread.
#[doc(hidden)]
pub fn suspend() -> Suspended {
    with_thread(|thread| thread.suspended += 1);
    Suspended(())
}

impl Drop for Suspended {
    fn drop(&mut self) {
        with_thread(|thread| thread.suspended -= 1);
    }
}

/// Runs a closure with these settings instead of those of the environment, on this thread.
///
/// Numbers of repeated names and paths start anew. The settings of the environment, or of an outer
/// closure, apply again afterwards, also after a panic.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::dump::{Config, dump_trace, with_config};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// with_config(Config::new(folder), || dump_trace("a/b", &Tensor::from(1.0f32))).unwrap();
/// assert!(folder.join("a_b.trace").exists());
/// ```
pub fn with_config<T>(config: Config, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<Session>>, Vec<Segment>, usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            with_thread(|thread| {
                thread.own = self.0.take();
                thread.path = std::mem::take(&mut self.1);
                thread.suspended = self.2;
            });
            STATE.fetch_sub(OVERRIDE, Ordering::Relaxed);
        }
    }
    STATE.fetch_add(OVERRIDE, Ordering::Relaxed);
    let session = Arc::new(Session::new(config));
    let outer = with_thread(|thread| {
        let own = thread.own.replace(session);
        let path = std::mem::take(&mut thread.path);
        Restore(own, path, std::mem::take(&mut thread.suspended))
    });
    let _restore = outer.unwrap_or_else(|| Restore(None, Vec::new(), 0));
    f()
}

/// Part of the path of calls, which ends when this is dropped.
#[must_use = "the scope ends when this is dropped"]
#[derive(Debug)]
pub struct Scope {
    /// Length of the path outside of the scope, or `None` if nothing is traced.
    outside: Option<usize>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(outside) = self.outside {
            with_thread(|thread| thread.path.truncate(outside));
        }
    }
}

/// Begins a part of the path of calls, in front of the names of all trace points that follow.
///
/// `t3` also sets the step (`seq_index`) of the records, and `blk5` the layer (`layer_idx`).
///
/// ```
/// use gradloom::dump::{Config, read, scope, with_config};
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn embed(x: &Tensor) -> Tensor {
///     let embeddings = x * 2.0;
///     embeddings.tanh()
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// with_config(Config::new(folder).points("*"), || {
///     let _token = scope("t3");
///     embed(&Tensor::from([1.0f32]));
/// });
/// let record = &read(folder)?.entries[0].record;
/// assert_eq!((&*record.name, record.seq_index), ("t3/embed/embeddings", Some(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn scope(name: &str) -> Scope {
    let segment = || Segment {
        name: name.to_owned(),
        loops: Vec::new(),
        layer: numbered(name, "blk"),
        seq: numbered(name, "t"),
    };
    let outside = (may_be_on() && session().is_some())
        .then(|| push(segment))
        .flatten();
    Scope { outside }
}

/// Begins the body of a traced function.
#[doc(hidden)]
#[inline]
pub fn enter_function(name: &str) -> Scope {
    let outside = match is_tracing() {
        true => push(|| Segment {
            name: name.to_owned(),
            loops: Vec::new(),
            layer: None,
            seq: None,
        }),
        false => None,
    };
    Scope { outside }
}

/// Appends to the path. Returns the length of the path before.
fn push(segment: impl FnOnce() -> Segment) -> Option<usize> {
    with_thread(|thread| {
        let (outside, mut segment) = (thread.path.len(), segment());
        if let Some(caller) = thread.path.last() {
            if let Some((last, outer)) = caller.loops.split_last() {
                let outer: String = outer.iter().map(|i| format!("{i}/")).collect();
                segment.name = format!("{outer}{}{last}", segment.name);
            }
            let innermost = caller.loops.last().copied();
            segment.layer = caller.layer.or(segment.layer).or(innermost);
            segment.seq = segment.seq.or(caller.seq);
        }
        thread.path.push(segment);
        outside
    })
}

/// Begins a loop in the function on top of the path. Returns the number of its outer loops.
pub(super) fn begin_loop() -> Option<usize> {
    with_thread(|thread| {
        let loops = &mut thread.path.last_mut()?.loops;
        Some(loops.len())
    })
    .flatten()
}

/// Sets the iteration of the loop with this number of outer loops.
pub(super) fn set_iteration(depth: usize, iteration: usize) {
    with_thread(|thread| {
        if let Some(top) = thread.path.last_mut() {
            top.loops.truncate(depth);
            top.loops.push(iteration);
        }
    });
}

/// Ends the loop with this number of outer loops.
pub(super) fn end_loop(depth: usize) {
    with_thread(|thread| {
        if let Some(top) = thread.path.last_mut() {
            top.loops.truncate(depth);
        }
    });
}

/// Place of a value on the path of calls.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Path up to the name of the value, with a `/` at its end.
    pub(super) path: String,
    pub(super) layer: Option<usize>,
    pub(super) seq: Option<usize>,
}

/// Returns the place of the code that runs.
pub(super) fn place() -> Place {
    let place = with_thread(|thread| {
        let mut path: String = thread
            .path
            .iter()
            .map(|part| format!("{}/", part.name))
            .collect();
        let top = thread.path.last();
        let loops = top.map_or(&[][..], |top| &top.loops);
        path.extend(loops.iter().map(|i| format!("{i}/")));
        Place {
            path,
            layer: top.and_then(|top| top.layer).or(loops.last().copied()),
            seq: top.and_then(|top| top.seq),
        }
    });
    place.unwrap_or_else(|| Place {
        path: String::new(),
        layer: None,
        seq: None,
    })
}

/// Notes that a point is skipped. Returns true the first time.
pub(super) fn is_first_skip(session: &Session, name: &str) -> bool {
    let mut skipped = session
        .skipped
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    skipped.insert(name.to_owned())
}

/// Returns the number after a prefix, if nothing follows it.
fn numbered(name: &str, prefix: &str) -> Option<usize> {
    let digits = name.strip_prefix(prefix)?;
    let all = digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}
