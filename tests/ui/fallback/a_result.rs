use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Result<Tensor> {
    let y = x.tanh();
    Ok(y.)
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    f::vjp(x).unwrap().0.tanh();
}
