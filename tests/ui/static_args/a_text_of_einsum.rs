use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    Tensor::einsum("ij,jk->il", &[x, y])
}

#[traced]
fn g(x: &Tensor, y: &Tensor) -> Tensor {
    Tensor::einsum("ij->i", &[x, y])
}

fn main() {}
