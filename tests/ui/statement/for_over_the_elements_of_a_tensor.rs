use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut sum = Tensor::scalar(0.0f32);
    for row in x.iter() {
        sum = sum + row;
    }
    sum
}

fn main() {}
