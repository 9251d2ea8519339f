//! Thread pool of the kernels.
//!
//! [`for_each`] runs tasks whose boundaries do not depend on the number of threads. The scheduler
//! decides which thread runs which task, but a task computes the same in any case.
//!
//! There is one pool, which runs one job at a time. A caller that finds it busy, another user
//! thread or a task that calls [`for_each`] itself, runs its tasks alone. So no thread ever waits
//! for a waiting thread.

use crate::lock::get_or_init;
use crate::timeline;
use smallvec::SmallVec;
use std::any::Any;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Returns the number of threads that kernels use, including the calling thread.
///
/// The default is the environment variable `GRADLOOM_THREADS`, or else the parallelism of the
/// machine, up to 256. [`set_threads`] overrides it.
///
/// ```
/// assert!(gradloom::threads() >= 1);
/// ```
pub fn threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => *default_threads(),
        n => n,
    }
}

/// Sets the number of threads that kernels use, including the calling thread. Results do not depend
/// on it.
///
/// ```
/// gradloom::set_threads(1);
/// assert_eq!(gradloom::threads(), 1);
/// ```
///
/// # Panics
///
/// Panics if `n` is 0 or more than 256.
#[track_caller]
pub fn set_threads(n: usize) {
    assert!(
        (1..=MAX_THREADS).contains(&n),
        "`set_threads({n})`: kernels use from 1 to {MAX_THREADS} threads"
    );
    THREADS.store(n, Relaxed);
}

/// Returns how many threads [`for_each`] would use for work that takes one thread `nanos`.
pub fn worth(nanos: usize) -> usize {
    if nanos < WORTH_WATCHED {
        return 1;
    }
    let n_threads = threads();
    if nanos >= WORTH {
        return n_threads.min(nanos / SHARE);
    }
    let watching = match pool().n_watching.load(Relaxed) {
        0 if n_threads > 1 && comes_often() => n_threads,
        n => n + 1,
    };
    n_threads.min(watching).min(nanos / SHARE_WATCHED)
}

/// Calls `task` with each number below `n_tasks`, on several threads if that pays off.
///
/// `nanos` is the estimated time of all tasks on one thread.
pub fn for_each(n_tasks: usize, nanos: usize, task: impl Fn(usize) + Sync) {
    run_all(n_tasks, nanos, &task);
}

/// As [`for_each`], with a task behind a pointer, so that its body is compiled once.
#[inline(never)]
fn run_all(n_tasks: usize, nanos: usize, task: &(dyn Fn(usize) + Sync)) {
    let n_threads = worth(nanos).min(n_tasks);
    if n_threads < 2 || n_tasks > MAX_TASKS || !pool().run(n_tasks, n_threads, task) {
        (0..n_tasks).for_each(task);
    }
}

/// A slice whose parts are written by different tasks.
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    len: usize,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: threads access disjoint parts through the pointer, and their elements may move between threads (`T: Send`).
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(crate) fn new(elements: &'a mut [T]) -> SharedSlice<'a, T> {
        SharedSlice {
            start: elements.as_mut_ptr(),
            len: elements.len(),
            elements: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of an element.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    fn at(&self, i: usize) -> *mut T {
        assert!(i < self.len);
        self.start.wrapping_add(i)
    }

    /// Returns `len` elements from `start` on.
    ///
    /// # Panics
    ///
    /// If they do not lie in the slice.
    ///
    /// # Safety
    ///
    /// Nothing else may use any of these elements while the part is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that the parts are distinct"
    )]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(
            start <= self.len && len <= self.len - start,
            "a part must lie inside the slice"
        );
        // SAFETY: the elements lie inside the slice, as asserted, and it is borrowed mutably for `'a`. The caller guarantees
        // exclusive use.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// Returns chunk `i` of `len` elements. The last chunk may be shorter, and later ones are empty.
    ///
    /// # Safety
    ///
    /// As for [`part`](Self::part).
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that the chunks are distinct"
    )]
    unsafe fn chunk(&self, i: usize, len: usize) -> &mut [T] {
        let from = i.saturating_mul(len).min(self.len);
        // SAFETY: the caller guarantees that parts do not overlap.
        unsafe { self.part(from, len.min(self.len - from)) }
    }
}

/// Calls `task` with the index and the elements of each chunk of `len` elements of `out`, as
/// [`for_each`].
///
/// The last chunk may be shorter.
pub fn for_each_chunk<T: Send>(
    out: &mut [T],
    len: usize,
    nanos: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let n_tasks = out.len().div_ceil(len.max(1));
    let out = SharedSlice::new(out);
    for_each(n_tasks, nanos, |i| {
        // SAFETY: each `i` comes once, and chunks of different numbers do not overlap.
        let chunk = unsafe { out.chunk(i, len) };
        task(i, chunk);
    });
}

/// As [`for_each_chunk`] with several slices, each with its own chunk length. The chunks past the
/// end of a slice are empty.
pub fn for_each_chunks<T: Send, const N: usize>(
    n_tasks: usize,
    outs: [(&mut [T], usize); N],
    nanos: usize,
    task: impl Fn(usize, [&mut [T]; N]) + Sync,
) {
    let outs = outs.map(|(out, len)| (SharedSlice::new(out), len));
    for_each(n_tasks, nanos, |i| {
        // SAFETY: each `i` comes once, and chunks of different numbers do not overlap.
        let chunks = outs
            .each_ref()
            .map(|(out, len)| unsafe { out.chunk(i, *len) });
        task(i, chunks);
    });
}

/// As [`for_each_chunk`] with parts of different lengths: part `i` starts at `start(i)`, and the first one at 0.
///
/// # Panics
///
/// If a part starts before the one before it, or after the end of `out`.
pub(crate) fn for_each_part<T: Send>(
    out: &mut [T],
    n_parts: usize,
    nanos: usize,
    start: impl Fn(usize) -> usize + Sync,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let n = out.len();
    let bounds: SmallVec<[usize; 32]> = (0..n_parts).map(start).chain([n]).collect();
    assert!(bounds[0] == 0 && bounds.is_sorted());
    let out = SharedSlice::new(out);
    for_each(n_parts, nanos, |i| {
        // SAFETY: each `i` comes once, and the bounds ascend, as asserted, so parts do not overlap.
        let part = unsafe { out.part(bounds[i], bounds[i + 1] - bounds[i]) };
        task(i, part);
    });
}

/// Columns of a matrix that one thread writes.
pub(crate) struct ColumnsMut<'a, T> {
    start: *mut T,
    stride: usize,
    n_rows: usize,
    n_cols: usize,
    matrix: PhantomData<&'a mut [T]>,
}

impl<T> ColumnsMut<'_, T> {
    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows
    }

    pub(crate) fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// Returns the columns of a row.
    #[inline(always)]
    pub(crate) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.n_rows);
        // SAFETY: the columns lie in a matrix that is borrowed mutably (`for_each_columns`), and nothing else uses
        // them. The row is borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.n_cols) }
    }

    /// Returns the columns of a row, and of another one to be read.
    #[inline(always)]
    pub(crate) fn row_and(&mut self, i: usize, other: usize) -> (&mut [T], &[T]) {
        assert!(i != other && other < self.n_rows);
        // SAFETY: as in `row`. The rows do not overlap.
        let read =
            unsafe { std::slice::from_raw_parts(self.start.add(other * self.stride), self.n_cols) };
        (self.row(i), read)
    }
}

/// As [`for_each_chunk`], for strips of columns. `out` consists of matrices of `n_rows` rows of `width` elements.
///
/// `task` gets the number of the matrix, that of the first column, and `len` columns, or those that are left.
pub(crate) fn for_each_columns<T: Send>(
    out: &mut [T],
    [n_rows, width]: [usize; 2],
    len: usize,
    nanos: usize,
    task: impl Fn(usize, usize, ColumnsMut<'_, T>) + Sync,
) {
    let n_matrices = out.len() / (n_rows * width).max(1);
    let n_strips = width.div_ceil(len.max(1));
    let out = SharedSlice::new(out);
    for_each(n_matrices * n_strips, nanos, |i| {
        let (matrix, first) = (i / n_strips, i % n_strips * len);
        let columns = ColumnsMut {
            // `matrix < n_matrices` and `first < width`, so the columns lie in `out`, which is borrowed mutably until all
            // tasks are done. Each `i` comes once, and the columns of two tasks do not overlap.
            start: out.at(matrix * n_rows * width + first),
            stride: width,
            n_rows,
            n_cols: len.min(width - first),
            matrix: PhantomData,
        };
        task(matrix, first, columns);
    });
}

/// Work in nanoseconds from which waking threads pays off.
const WORTH: usize = 50_000;
/// Minimum work per thread in nanoseconds.
const SHARE: usize = 25_000;
/// As [`WORTH`] and [`SHARE`], for idle threads that still spin and need not be woken.
const WORTH_WATCHED: usize = 10_000;
const SHARE_WATCHED: usize = 5_000;
/// Time that an idle thread spins for more work before it sleeps.
///
/// Waking a sleeping thread takes longer than the gap between two kernels of a plan.
const WATCH: Duration = Duration::from_micros(100);
const MAX_THREADS: usize = 256;
/// Bits of a ticket that count tasks; the others count jobs.
const TASK_BITS: u32 = 24;
const MAX_TASKS: usize = (1 << TASK_BITS) - 1;

/// Returns whether small work has come so often lately that threads would find more as soon as they
/// wake.
fn comes_often() -> bool {
    static START: OnceLock<Instant> = OnceLock::new();
    static LAST: AtomicU64 = AtomicU64::new(0);
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = get_or_init(&START, Instant::now).elapsed().as_nanos() as u64;
    let since = now.saturating_sub(LAST.swap(now, Relaxed));
    if u128::from(since) > WATCH.as_nanos() {
        COUNT.store(0, Relaxed);
        return false;
    }
    COUNT.fetch_add(1, Relaxed) >= 16
}

/// Argument of the last [`set_threads`], or 0.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn default_threads() -> &'static usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    get_or_init(&DEFAULT, || {
        let asked = std::env::var("GRADLOOM_THREADS").ok();
        let asked = asked.and_then(|n| n.trim().parse::<usize>().ok());
        let machine = || thread::available_parallelism().map_or(1, usize::from);
        asked
            .filter(|n| *n > 0)
            .unwrap_or_else(machine)
            .min(MAX_THREADS)
    })
}

/// Tasks that a caller waits for. A job lives in the caller's frame.
struct Job<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    n_tasks: usize,
    /// Payload of the first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct Pool {
    /// True while a caller owns the pool.
    busy: AtomicBool,
    /// The job number in the upper bits, and the number of its unclaimed tasks.
    ticket: AtomicU64,
    job: AtomicPtr<Job<'static>>,
    /// Number of workers that the job is for.
    n_workers: AtomicUsize,
    /// Number of tasks of the job that are done.
    n_done: AtomicU32,
    /// Number of workers that are not asleep.
    n_watching: AtomicUsize,
    /// True for each worker that is asleep.
    asleep: [AtomicBool; MAX_THREADS],
    workers: Mutex<Vec<Thread>>,
}

fn pool() -> &'static Pool {
    static POOL: Pool = Pool {
        busy: AtomicBool::new(false),
        ticket: AtomicU64::new(0),
        job: AtomicPtr::new(null_mut()),
        n_workers: AtomicUsize::new(0),
        n_done: AtomicU32::new(0),
        n_watching: AtomicUsize::new(0),
        asleep: [const { AtomicBool::new(false) }; MAX_THREADS],
        workers: Mutex::new(Vec::new()),
    };
    &POOL
}

/// Locks the worker list, so that no worker is started until the returned guard is dropped.
pub fn hold_workers() -> impl Sized + 'static {
    pool().all_workers()
}

/// Resets the pool in a forked child, which has no workers and no running job.
pub fn forget_workers() {
    let pool = pool();
    pool.all_workers().clear();
    // The job number stays, with no tasks left to claim.
    let number = pool.ticket.load(Relaxed) >> TASK_BITS;
    pool.ticket.store(number << TASK_BITS, Relaxed);
    pool.job.store(null_mut(), Relaxed);
    pool.n_workers.store(0, Relaxed);
    pool.n_watching.store(0, Relaxed);
    for asleep in &pool.asleep {
        asleep.store(false, Relaxed);
    }
    pool.busy.store(false, Release);
}

impl Pool {
    /// Runs the tasks on up to `n_threads` threads. Returns false if the pool is busy; no task ran
    /// then.
    fn run(&'static self, n_tasks: usize, n_threads: usize, task: &(dyn Fn(usize) + Sync)) -> bool {
        if self
            .busy
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_err()
        {
            return false;
        }
        let job = Job {
            task,
            n_tasks,
            panic: Mutex::new(None),
        };
        let workers = self.workers(n_threads - 1);
        let n_workers = workers.len().min(n_threads - 1);
        self.n_done.store(0, Relaxed);
        self.n_workers.store(n_workers, Relaxed);
        self.job
            .store((&raw const job).cast::<Job<'static>>().cast_mut(), Relaxed);
        let number = (self.ticket.load(Relaxed) >> TASK_BITS) + 1;
        // Pairs with the load in `sleep`: either the worker sees this ticket or this thread sees it
        // asleep.
        self.ticket
            .store(number << TASK_BITS | n_tasks as u64, SeqCst);
        for (asleep, worker) in self.asleep.iter().zip(&workers[..n_workers]) {
            if asleep.load(SeqCst) && asleep.swap(false, SeqCst) {
                worker.unpark();
            }
        }
        drop(workers);
        while self.run_one() {}
        // All tasks are claimed; the ones claimed by workers are about to finish.
        let mut n_spins = 0u32;
        while self.n_done.load(Acquire) as usize != n_tasks {
            n_spins += 1;
            match n_spins < 256 {
                true => spin_loop(),
                // A worker may have lost its core, perhaps to this thread.
                false => thread::yield_now(),
            }
        }
        self.busy.store(false, Release);
        let panic = job
            .panic
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        true
    }

    /// Claims a task and runs it. Returns false if there is none to claim.
    fn run_one(&self) -> bool {
        let mut ticket = self.ticket.load(Acquire);
        let left = loop {
            let left = ticket as usize & MAX_TASKS;
            if left == 0 {
                return false;
            }
            match self
                .ticket
                .compare_exchange_weak(ticket, ticket - 1, AcqRel, Acquire)
            {
                Ok(_) => break left,
                Err(now) => ticket = now,
            }
        };
        // SAFETY: the ticket had a task left and counts jobs, so `job` is the one that was stored
        // before this ticket. Its caller waits in `run` until the claimed task is counted in
        // `n_done` below, so the job is alive.
        let job = unsafe { &*self.job.load(Relaxed) };
        let run = || timeline::part(|| (job.task)(job.n_tasks - left));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            let mut first = job.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
        }
        self.n_done.fetch_add(1, Release);
        true
    }

    fn all_workers(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the workers, after starting threads until there are `n` or the system refuses.
    fn workers(&'static self, n: usize) -> MutexGuard<'static, Vec<Thread>> {
        let mut workers = self.all_workers();
        while workers.len() < n {
            let idx = workers.len();
            let spawned = thread::Builder::new()
                .name(format!("gradloom-{idx}"))
                .spawn(move || self.work(idx));
            match spawned {
                Ok(handle) => workers.push(handle.thread().clone()),
                Err(_) => break,
            }
        }
        workers
    }

    /// Main loop of a worker.
    fn work(&self, idx: usize) {
        self.n_watching.fetch_add(1, Relaxed);
        let mut since = None;
        let mut n_spins = 0u32;
        loop {
            if idx < self.n_workers.load(Relaxed) && self.run_one() {
                (since, n_spins) = (None, 0);
                continue;
            }
            n_spins += 1;
            if !n_spins.is_multiple_of(64) {
                spin_loop();
                continue;
            }
            // The caller may need this core.
            thread::yield_now();
            if since.get_or_insert_with(Instant::now).elapsed() > WATCH {
                self.sleep(idx);
                (since, n_spins) = (None, 0);
            }
        }
    }

    /// Sleeps until a job wakes this worker.
    fn sleep(&self, idx: usize) {
        self.asleep[idx].store(true, SeqCst);
        let work = |ticket: u64| ticket as usize & MAX_TASKS != 0;
        if work(self.ticket.load(SeqCst)) && idx < self.n_workers.load(Relaxed) {
            self.asleep[idx].store(false, SeqCst);
            return;
        }
        self.n_watching.fetch_sub(1, Relaxed);
        while self.asleep[idx].load(SeqCst) {
            thread::park();
        }
        self.n_watching.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{for_each, for_each_chunk, pool};
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    const LONG: usize = 1_000_000_000;

    #[test]
    fn every_task_runs_once_from_several_threads_and_inside_tasks() {
        super::set_threads(3);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 0..200 {
                        let counts: Vec<_> = (0..round % 40).map(|_| AtomicUsize::new(0)).collect();
                        for_each(counts.len(), LONG, |i| {
                            for_each(2, LONG, |_| {
                                counts[i].fetch_add(1, Relaxed);
                            });
                        });
                        assert!(counts.iter().all(|n| n.load(Relaxed) == 2));
                    }
                });
            }
        });
    }

    #[test]
    fn chunks_are_the_whole_and_do_not_overlap() {
        super::set_threads(3);
        for (n, len) in [(0, 3), (1, 3), (7, 3), (9, 3), (1000, 1), (5, 100)] {
            let mut out = vec![0; n];
            for_each_chunk(&mut out, len, LONG, |i, chunk| {
                assert!(chunk.len() <= len);
                chunk.iter_mut().for_each(|x| *x += 1 + i);
            });
            let want: Vec<_> = (0..n).map(|i| 1 + i / len).collect();
            assert_eq!(out, want);
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_stays_usable() {
        super::set_threads(3);
        for _ in 0..20 {
            let run = || for_each(8, LONG, |i| assert!(i != 5, "task five"));
            let panic = std::panic::catch_unwind(run).unwrap_err();
            assert!(panic.downcast_ref::<&str>().unwrap().contains("task five"));
        }
        let total = AtomicUsize::new(0);
        for_each(8, LONG, |i| {
            total.fetch_add(i, Relaxed);
        });
        assert_eq!(total.load(Relaxed), 28);
    }

    #[test]
    fn a_sleeping_worker_is_woken() {
        super::set_threads(2);
        for _ in 0..5 {
            std::thread::sleep(super::WATCH * 20);
            let both = AtomicUsize::new(0);
            // If the pool is free, each task waits until another thread runs the other one.
            let shared = pool().run(2, 2, &|_| {
                both.fetch_add(1, Relaxed);
                while both.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
            });
            assert!(!shared || both.load(Relaxed) == 2);
        }
    }
}
