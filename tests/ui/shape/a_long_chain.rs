use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3, 5)] w: &Tensor, #[shape(4)] b: &Tensor) -> Tensor {
    (x.square().sum_keepdims(1).sqrt() * x).matmul(w).layer_norm(b, b, 1e-5).gelu()
}

fn main() {}
