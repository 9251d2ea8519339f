//! Keys are compared by an impl that the macro does not know.
#![deny(warnings)]

use gradloom::prelude::*;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    axis: usize,
}

#[traced]
fn first(x: &Tensor) -> Tensor {
    let axis = [0usize, 1].into_iter().min_by_key(|axis| Rank { axis: *axis }).unwrap();
    x.sum(axis)
}

fn main() {
    first(&Tensor::from([[1.0f32]]));
}
