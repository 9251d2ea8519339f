use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3, 3)] w: &Tensor, #[shape(4, 5)] v: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    for _ in 0..n {
        h = h.matmul(w).tanh();
    }
    h.matmul(v)
}

fn main() {}
