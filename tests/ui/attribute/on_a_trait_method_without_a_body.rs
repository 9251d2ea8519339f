use gradloom::prelude::*;

trait T {
    #[traced]
    fn f(x: &Tensor) -> Tensor;
}

fn main() {}
