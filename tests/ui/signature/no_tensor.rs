use gradloom::prelude::*;

#[traced]
fn f(n: usize) -> Tensor {
    Tensor::zeros([n], DType::F32)
}

fn main() {
    f(2);
}
