use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = g(x)?;
    y.tanh()
}

#[traced]
fn g(x: &Tensor) -> Result<Tensor> {
    Ok(x.sin())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
