//! The threads that kernels share their work with.
//!
//! [`for_each`] runs tasks that a kernel has cut at points that do not depend on how many threads there are. Which
//! thread runs which task is chance; what a task computes is not.
//!
//! There is one pool, and it does one job at a time. Whoever finds it busy, another user thread or a task that calls
//! [`for_each`] itself, does its own tasks alone: so nobody ever waits for a thread that waits.

use crate::fork::get_or_init;
use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The number of threads that kernels use, the caller's included.
///
/// Unless [`set_threads`] was called, it is what the environment variable `GRADLOOM_THREADS` says, or as many as the
/// machine runs at once, and at most 256.
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

/// Lets kernels use `n` threads from now on, the caller's included. No result depends on it, to the last bit.
///
/// ```
/// gradloom::set_threads(1);
/// assert_eq!(gradloom::threads(), 1);
/// ```
///
/// # Panics
///
/// If `n` is 0 or more than 256.
#[track_caller]
pub fn set_threads(n: usize) {
    assert!(
        (1..=MAX_THREADS).contains(&n),
        "`set_threads({n})`: kernels use from 1 to {MAX_THREADS} threads"
    );
    THREADS.store(n, Relaxed);
}

/// How many threads [`for_each`] would share work with that takes one thread `nanos`.
pub(crate) fn worth(nanos: usize) -> usize {
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

/// Calls `task` with each number below `n_tasks`, on several threads where that pays: `nanos` is about how long one
/// thread would take for all of them.
pub(crate) fn for_each(n_tasks: usize, nanos: usize, task: impl Fn(usize) + Sync) {
    let n_threads = worth(nanos).min(n_tasks);
    if n_threads < 2 || n_tasks > MAX_TASKS || !pool().run(n_tasks, n_threads, &task) {
        (0..n_tasks).for_each(task);
    }
}

/// Calls `task` with the number and the elements of each chunk of `len` elements of `out` (fewer in the last), as
/// [`for_each`] does.
pub(crate) fn for_each_chunk<T: Send>(
    out: &mut [T],
    len: usize,
    nanos: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let n_tasks = out.len().div_ceil(len.max(1));
    for_each_chunks(n_tasks, [(out, len)], nanos, |i, [out]| task(i, out));
}

/// The same with chunks of several slices, each of a length of its own: a slice that ends before others has empty ones.
pub(crate) fn for_each_chunks<T: Send, const N: usize>(
    n_tasks: usize,
    outs: [(&mut [T], usize); N],
    nanos: usize,
    task: impl Fn(usize, [&mut [T]; N]) + Sync,
) {
    struct Base<T> {
        start: *mut T,
        n: usize,
        len: usize,
    }
    // SAFETY: the pointer is used for parts that do not overlap, and their elements may go to another thread.
    unsafe impl<T: Send> Sync for Base<T> {}
    let bases = outs.map(|(out, len)| Base {
        start: out.as_mut_ptr(),
        n: out.len(),
        len,
    });
    let bases = &bases;
    for_each(n_tasks, nanos, |i| {
        let chunks = std::array::from_fn(|k| {
            let Base { start, n, len } = bases[k];
            let from = i.saturating_mul(len).min(n);
            // SAFETY: `from..from + len`, cut at `n`, lies in the slice, which is borrowed mutably until all tasks are done; the
            // chunks of two tasks do not overlap, and each number comes up once.
            unsafe { std::slice::from_raw_parts_mut(start.add(from), len.min(n - from)) }
        });
        task(i, chunks);
    });
}

/// Less work than this, in nanoseconds, is not worth waking a thread for.
const WORTH: usize = 50_000;
/// Each thread gets at least so much work, in nanoseconds.
const SHARE: usize = 25_000;
/// The same where the threads need not be woken, because they watch for work.
const WORTH_WATCHED: usize = 10_000;
const SHARE_WATCHED: usize = 5_000;
/// How long a thread without work watches for more before it sleeps. A sleeping thread takes some 10 to 50 us to wake,
/// and the next kernel of a plan comes sooner.
const WATCH: Duration = Duration::from_micros(100);
const MAX_THREADS: usize = 256;
/// The bits of a ticket that count tasks; the others count jobs.
const TASK_BITS: u32 = 24;
const MAX_TASKS: usize = (1 << TASK_BITS) - 1;

/// Whether work that is not worth waking a thread for has come so often of late that threads would find more as soon as they
/// are awake.
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

/// What [`set_threads`] said, or 0.
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

/// The tasks that a caller waits for. It lives in the caller's frame.
struct Job<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    n_tasks: usize,
    /// What the first task that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct Pool {
    /// Whether a caller has the pool.
    busy: AtomicBool,
    /// The number of the job, and how many of its tasks nobody has claimed.
    ticket: AtomicU64,
    job: AtomicPtr<Job<'static>>,
    /// How many workers the job is for.
    n_workers: AtomicUsize,
    /// The tasks of the job that are done.
    n_done: AtomicU32,
    /// How many workers do not sleep.
    n_watching: AtomicUsize,
    /// Which workers sleep.
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

/// Keeps other threads from starting workers as long as what is returned lives.
pub(crate) fn hold_workers() -> impl Sized + 'static {
    pool().all_workers()
}

/// Makes the pool what it was when the process began: a forked process has no workers, and nobody waits for a job.
pub(crate) fn forget_workers() {
    let pool = pool();
    pool.all_workers().clear();
    // The number of the job stays, and none of its tasks is left to claim.
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
    /// Runs the tasks on `n_threads` threads, or does nothing and returns false because the pool is busy.
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
        // With the load in `sleep`: either the worker sees this ticket or it is seen asleep here.
        self.ticket
            .store(number << TASK_BITS | n_tasks as u64, SeqCst);
        for (asleep, worker) in self.asleep.iter().zip(&workers[..n_workers]) {
            if asleep.load(SeqCst) && asleep.swap(false, SeqCst) {
                worker.unpark();
            }
        }
        drop(workers);
        while self.run_one() {}
        // Now every task is claimed; those that others have claimed are about to be done.
        let mut n_spins = 0u32;
        while self.n_done.load(Acquire) as usize != n_tasks {
            n_spins += 1;
            match n_spins < 256 {
                true => spin_loop(),
                // A worker has lost its core, perhaps to this thread.
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

    /// Claims one task and runs it. False if there is none to claim.
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
        // SAFETY: the ticket had a task left and counts jobs, so the job of that number is the one that was stored
        // before it, and its caller waits in `run` until the claimed task is counted in `n_done`, below.
        let job = unsafe { &*self.job.load(Relaxed) };
        let run = || (job.task)(job.n_tasks - left);
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

    /// At least `n` workers, or as many as the system grants.
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

    /// The life of a worker.
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
            // The caller may want this core.
            thread::yield_now();
            if since.get_or_insert_with(Instant::now).elapsed() > WATCH {
                self.sleep(idx);
                (since, n_spins) = (None, 0);
            }
        }
    }

    /// Waits until a job comes.
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
    fn the_panic_of_a_task_is_the_callers_and_the_pool_lives_on() {
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
    fn a_worker_that_sleeps_is_woken() {
        super::set_threads(2);
        for _ in 0..5 {
            std::thread::sleep(super::WATCH * 20);
            let both = AtomicUsize::new(0);
            // Whoever has a task waits until another thread has the other, if the pool is free.
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
