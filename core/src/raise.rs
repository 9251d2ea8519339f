//! Errors as panics: an op that cannot be recorded panics at the line of the user's call, or returns
//! its error from the innermost [`catch`].

use crate::graph::recording::is_watched;
use crate::{Error, Result, observe};
use std::cell::Cell;
use std::panic::{self, Location};

thread_local! {
    static SCOPES: Cell<usize> = const { Cell::new(0) };
}

/// Panic payload that carries an error to the enclosing [`catch`].
struct Raised(Error);

/// Runs the body of a function that returns `Result`; errors of ops inside become `Err`.
pub fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    SCOPES.set(SCOPES.get() + 1);
    // Unwind safety: the captures of `body` are not used after a panic.
    let result = panic::catch_unwind(panic::AssertUnwindSafe(body));
    SCOPES.set(SCOPES.get() - 1);
    result.unwrap_or_else(|payload| match payload.downcast::<Raised>() {
        Ok(raised) => Err(raised.0),
        Err(payload) => panic::resume_unwind(payload),
    })
}

/// Raises an error: returns it to the enclosing [`catch`], or panics at the caller's line.
#[track_caller]
pub(crate) fn raise(error: Error) -> ! {
    let error = return_to_catch(error.at(Location::caller()));
    panic!("{error}")
}

/// Raises an error inside of a function that a transform returned, such as `grad(f)`.
///
/// The caller of that function is unknown, so the message names the place where it was made.
#[track_caller]
pub(crate) fn raise_in_made(error: Error, by: &str, at: &Location<'_>) -> ! {
    let error = return_to_catch(error);
    panic!("{error}; in the function that `{by}` made at {at}")
}

/// Unwinds with the error to the enclosing [`catch`], or returns it if there is none.
fn return_to_catch(error: Error) -> Error {
    // With `panic = "abort"`, unwinding is impossible and the panic message is all the user gets.
    if SCOPES.get() > 0 && cfg!(panic = "unwind") {
        // `resume_unwind` skips the panic hook, because the error is returned and not printed.
        panic::resume_unwind(Box::new(Raised(error)));
    }
    error
}

/// Returns the value, or raises the error at the caller.
#[track_caller]
pub(crate) fn expect<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => {
            if is_watched() {
                observe::note_line(Location::caller());
            }
            value
        }
        Err(error) => raise(error),
    }
}
