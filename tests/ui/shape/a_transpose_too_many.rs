use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3, 4)] w: &Tensor) -> Tensor {
    x.matmul(w.t())
}

fn main() {}
