use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut sum = x.sum(..);
    for row in x {
        sum = sum + row;
    }
    sum
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
