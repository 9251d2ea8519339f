#![deny(deprecated)]
use gradloom::prelude::*;

#[traced(record)]
fn on_purpose(x: &Tensor) -> Tensor {
    println!("on purpose");
    x * 2.0
}

#[traced(allow(recorded_call))]
fn allowed(x: &Tensor) -> Tensor {
    println!("allowed");
    x * 2.0
}

#[allow(deprecated)]
#[traced]
fn allowed_by_rustc(x: &Tensor) -> Tensor {
    println!("allowed");
    x * 2.0
}

#[traced(pure)]
fn pure(x: &Tensor) -> Tensor {
    println!("once");
    x * 2.0
}

#[test]
fn compiles() {}
