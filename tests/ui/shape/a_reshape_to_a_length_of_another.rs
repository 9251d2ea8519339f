use gradloom::prelude::*;

#[traced]
fn pairs(#[shape(2, 3)] x: &Tensor, #[shape(B, 4)] y: &Tensor) -> Tensor {
    let rows = y.dim(-1);
    x.reshape([rows, 2]) * y.sum(..)
}

fn main() {
    let x = Tensor::ones([2, 3], DType::F32);
    pairs(&x, &Tensor::ones([1, 4], DType::F32));
}
