//! Processes that are forked while their threads compute.
//!
//! A child process has one thread, the one that forked. A lock that another thread held at that moment would never be released there.
//! So the thread that forks takes every lock that all threads share first, and releases them afterwards in both processes. On Linux
//! the system calls it for that; elsewhere it is as if the process was never forked.
//!
//! Locks of single values are not taken. [`lock`] notices that nobody is left who would release one.

use crate::dtype::Element;
use crate::evaluate::Engine;
use crate::{DType, kernel};
use gradloom_ir::Op;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// The number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Held by those who set a [`OnceLock`] that several threads share.
static SETTING: Mutex<()> = Mutex::new(());

/// What is said where a value is asked for that a thread of the parent process had locked.
pub(crate) const LOCKED: &str = "the process was forked while another thread read this value";

/// How long a lock of a forked process may be held by nobody who is known.
const PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// The locks that the thread holds while it forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// The number of forks between the first process and this one.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Locks a mutex that [`before`] does not hold. `None` if a thread held it that this process does not have; `is_held` says
/// whether a thread of this process is known to hold it.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>, is_held: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
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

/// [`OnceLock::get_or_init`] for a cell that threads share: no child process finds the cell half set. Several threads may make the value,
/// and the first one stays.
#[inline]
pub(crate) fn get_or_init<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let made = make();
    let setting = hold(&SETTING);
    let second = cell.set(made);
    // Dropping a value may lock much else.
    drop(setting);
    drop(second);
    cell.get().expect("a value was set")
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Takes the locks that all threads share, in the order in which a thread may hold several.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "not called"))]
pub(crate) fn before() {
    // The tables are complete from now on.
    for op in Op::ALL {
        op.elementwise(1, DType::F32);
    }
    let mut held: Vec<Box<dyn Any>> = vec![Box::new(Engine::lock()), Box::new(hold(&SETTING))];
    held.extend(kernel::hold_locks());
    held.push(Box::new(hold(f32::shelf())));
    held.push(Box::new(hold(f64::shelf())));
    held.push(Box::new(hold(i32::shelf())));
    held.push(Box::new(hold(i64::shelf())));
    held.push(Box::new(hold(bool::shelf())));
    held.push(Box::new(kernel::hold_pages()));
    held.push(Box::new(gradloom_ir::hold_interned()));
    // Where a thread ends there is nothing that could hold them.
    let _ = HELD.try_with(|place| place.replace(held));
}

/// Releases the locks that [`before`] has taken.
pub(crate) fn after() {
    let held = HELD.try_with(RefCell::take);
    drop(held);
}

/// The same in the child process, which has no threads but this one.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "not called"))]
pub(crate) fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    after();
    kernel::forget_workers();
}
