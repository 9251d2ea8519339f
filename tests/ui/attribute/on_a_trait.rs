use gradloom::prelude::*;

#[traced]
trait T {
    fn f(&self) -> Tensor;
}

fn main() {}
