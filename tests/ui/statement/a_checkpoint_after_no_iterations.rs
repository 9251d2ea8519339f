use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    #[checkpoint(every = 0)]
    for _ in 0..steps {
        h = h.tanh();
    }
    h
}

fn main() {}
