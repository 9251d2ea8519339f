use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = x.sum(..).item::<f32>();
    y.tanh()
}

fn main() {}
