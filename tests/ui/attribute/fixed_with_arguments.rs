use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, #[fixed(10)] n: usize) -> Tensor {
    x * n as f64
}

fn main() {}
