//! Mistakes and deliberate misuse: each gives a defined result or a typed error, and earlier values
//! are not lost.

mod ends;
mod failures;
mod graphs;
mod hostile;
mod random_graphs;
mod shapes;
mod values;

use gradloom::{Error, Tensor};

/// Returns the error of an op that is rejected when it is recorded. Passes on any other panic.
#[track_caller]
fn refused(body: impl FnOnce() -> Tensor) -> Error {
    let result = gradloom::__private::catch(|| Ok(body()));
    result.expect_err("this is to be refused")
}

/// Returns the fault of an op that is rejected.
#[track_caller]
fn fault(body: impl FnOnce() -> Tensor) -> gradloom_ir::Fault {
    match refused(body) {
        Error::Op(error) => error.fault,
        other => panic!("{other}"),
    }
}
