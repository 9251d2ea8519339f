//! Handlers that run when the process forks.
//!
//! A child process has only the thread that forked. A lock that another thread held at that moment
//! would never be released in the child. So the forking thread first takes every lock that threads
//! share, and afterwards releases them in both processes. On Linux the system calls these functions
//! through `pthread_atfork`; elsewhere forks are not detected.

use crate::lock::{SETTING, get_or_init, hold, next_generation};
use crate::memory::element::Element;
use crate::{elementwise, memory, threads};
use gradloom_ir::{DType, Op};
use std::any::Any;
use std::cell::RefCell;
use std::sync::OnceLock;

thread_local! {
    /// Locks that this thread holds while it forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Function that takes the lock above this crate.
static OUTER: OnceLock<fn() -> Box<dyn Any>> = OnceLock::new();

/// Sets the function that takes the lock of the caller of this crate, before any other lock.
///
/// The caller sets it before it takes the lock for the first time.
pub fn set_outer_lock(lock: fn() -> Box<dyn Any>) {
    get_or_init(&OUTER, || lock);
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
    held.push(Box::new(hold(f32::pool())));
    held.push(Box::new(hold(f64::pool())));
    held.push(Box::new(hold(i32::pool())));
    held.push(Box::new(hold(i64::pool())));
    held.push(Box::new(hold(bool::pool())));
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
    next_generation();
    after();
    threads::forget_workers();
}

/// Registration with the system.
#[cfg(target_os = "linux")]
mod handlers {
    extern "C" fn before() {
        super::before();
    }

    extern "C" fn after() {
        super::after();
    }

    extern "C" fn in_child() {
        super::in_child();
    }

    extern "C" fn register() {
        // SAFETY: the functions live as long as the process and do not unwind: a panic in them aborts.
        // The locks that they take are held briefly by each thread, and the forking thread holds none,
        // because it is not inside the library.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    }

    /// The loader calls it before `main`, when no thread can hold a lock.
    // SAFETY: `.init_array` is a list of functions of this type.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static REGISTER: extern "C" fn() = register;
}
