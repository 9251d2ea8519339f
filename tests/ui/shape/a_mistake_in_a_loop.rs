use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(4, 3)] w: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    for _ in 0..steps {
        let y = x.matmul(w);
        h = h + y;
    }
    h
}

fn main() {}
