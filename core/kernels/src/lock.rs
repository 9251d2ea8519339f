//! Locks and cells that stay usable after a fork.
//!
//! The forking thread takes every lock that threads share, see `fork`. Locks of single values are
//! not taken: [`lock`] detects that their holder does not exist any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// Number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Lock held while a shared [`OnceLock`] is set.
pub(crate) static SETTING: Mutex<()> = Mutex::new(());

/// Message for reading a value that a thread of the parent process had locked.
pub const LOCKED: &str = "the process was forked while another thread read this value";

/// Time after which [`lock`] gives up on a mutex with no known holder in this process.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the number of forks between the first process and this one.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Locks a mutex that is not held while the process forks.
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

/// Returns the value of the cell, which only one thread computes.
///
/// A child process never finds the cell half set. `make` must not set another shared cell.
pub fn init_once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    let _setting = hold(&SETTING);
    cell.get_or_init(make)
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

pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Notes that this process is the child of a fork.
pub(crate) fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
