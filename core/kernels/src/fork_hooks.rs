//! Registers handlers that run when the process forks: see [`crate::fork`].

use crate::fork;

extern "C" fn before() {
    fork::before();
}

extern "C" fn after() {
    fork::after();
}

extern "C" fn in_child() {
    fork::in_child();
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
