use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    if x.rank() == 0 {
        return 1.0;
    }
    x.tanh()
}

fn main() {}
