#![deny(deprecated)]
use gradloom::prelude::*;

#[traced]
fn mean_of_rows(sum: &Tensor, #[nodiff] count: &Tensor) -> Tensor {
    let empty = count.eq(0.0);
    empty.select(sum, &(sum / count))
}

fn main() {}
