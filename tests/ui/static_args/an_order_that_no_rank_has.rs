use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = x.permute([0, 0]);
    let z = x.sum([1, 1]);
    y.matmul(z)
}

fn main() {
    f(&Tensor::ones([2, 2], DType::F32));
}
