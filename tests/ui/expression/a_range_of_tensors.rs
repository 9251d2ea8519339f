use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for _ in 0..x {
        h = h.sin();
    }
    h
}

fn main() {}
