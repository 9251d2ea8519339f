//! What users do by mistake or on purpose: each gets a result that is defined or an error that is typed, and
//! nothing that was there before is lost.

mod ends;
mod failures;
mod graphs;
mod hostile;
mod shapes;
mod values;

use gradloom::{Error, Tensor};

/// The error of an op that is refused when it is recorded. Any other panic is passed on.
#[track_caller]
fn refused(body: impl FnOnce() -> Tensor) -> Error {
    let result = gradloom::__private::catch(|| Ok(body()));
    result.expect_err("this is to be refused")
}

/// The fault of an op that is refused.
#[track_caller]
fn fault(body: impl FnOnce() -> Tensor) -> gradloom_ir::Fault {
    match refused(body) {
        Error::Op(error) => error.fault,
        other => panic!("{other}"),
    }
}
