use gradloom::prelude::*;

fn scaled<const BY: usize>(x: &Tensor) -> Tensor {
    x * BY as f64
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    scaled::<2>(x).sin()
}

fn main() {}
