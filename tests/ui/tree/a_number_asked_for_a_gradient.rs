use gradloom::prelude::*;

fn main() {
    grad(|x: &f32| Tensor::scalar(*x))(&1.0);
}

