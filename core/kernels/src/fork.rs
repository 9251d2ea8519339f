//! Support for processes that fork while their threads compute.
//!
//! A child process has only the thread that forked. A lock that another thread held at that moment
//! would never be released in the child. So the forking thread first takes every lock that threads
//! share, and afterwards releases them in both processes. On Linux the system calls these functions
//! through `pthread_atfork`; elsewhere forks are not detected.
//!
//! Locks of single values are not taken. [`lock`] detects that their holder does not exist any
//! more.

use crate::memory::element::Element;
use crate::{elementwise, memory, threads};
use gradloom_ir::DType;
use gradloom_ir::Op;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// Number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Function that takes the lock above this crate.
static OUTER: OnceLock<fn() -> Box<dyn Any>> = OnceLock::new();

/// Lock held while a shared [`OnceLock`] is set.
static SETTING: Mutex<()> = Mutex::new(());

/// Message for reading a value that a thread of the parent process had locked.
pub const LOCKED: &str = "the process was forked while another thread read this value";

/// Time after which [`lock`] gives up on a mutex with no known holder in this process.
const PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// Locks that this thread holds while it forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Sets the function that takes the lock of the caller of this crate, before any other lock.
///
/// The caller sets it before it takes the lock for the first time.
pub fn set_outer_lock(lock: fn() -> Box<dyn Any>) {
    get_or_init(&OUTER, || lock);
}

/// Returns the number of forks between the first process and this one.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Locks a mutex that [`before`] does not hold.
///
/// Returns `None` if the holder was a thread of the parent process. `is_held` returns whether a
/// thread of this process is known to hold the mutex.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>, is_held: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
    if generation() == 0 {
        return Some(hold(mutex));
    }
    wait(mutex, is_held)
}

#[cold]
fn wait<T>(mutex: &Mutex<T>, is_held: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
    let mut since = None;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(e)) => return Some(e.into_inner()),
            Err(TryLockError::WouldBlock) if is_held() => since = None,
            Err(TryLockError::WouldBlock) => {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return None;
                }
            }
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Calls [`OnceLock::get_or_init`] so that no child process finds the cell half set.
///
/// Several threads may compute the value; the first one to set it wins.
#[inline]
pub fn get_or_init<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let made = make();
    let setting = hold(&SETTING);
    let second = cell.set(made);
    // Dropping the losing value may take other locks, so `SETTING` is released first.
    drop(setting);
    drop(second);
    cell.get().expect("`set` was called above")
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Takes the locks that all threads share, in the order in which one thread may nest them.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "not called"))]
pub(crate) fn before() {
    // Fills the lazily computed tables, so that a child never finds one half filled.
    for op in Op::ALL {
        op.elementwise(1, DType::F32);
    }
    let outer = OUTER.get().map(|lock| lock());
    let mut held: Vec<Box<dyn Any>> = outer.into_iter().collect();
    held.push(Box::new(hold(&SETTING)));
    held.push(Box::new(elementwise::compiled_loops::hold_loops()));
    held.push(Box::new(threads::hold_workers()));
    held.push(Box::new(hold(f32::shelf())));
    held.push(Box::new(hold(f64::shelf())));
    held.push(Box::new(hold(i32::shelf())));
    held.push(Box::new(hold(i64::shelf())));
    held.push(Box::new(hold(bool::shelf())));
    held.push(Box::new(memory::huge_pages::hold_pages()));
    held.push(Box::new(gradloom_ir::hold_interned()));
    // While a thread exits, `HELD` is gone; the locks are then released at once.
    let _ = HELD.try_with(|place| place.replace(held));
}

/// Releases the locks that [`before`] took.
pub(crate) fn after() {
    let held = HELD.try_with(RefCell::take);
    drop(held);
}

/// Releases the locks in the child process, and forgets the worker threads it does not have.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "not called"))]
pub(crate) fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    after();
    threads::forget_workers();
}
