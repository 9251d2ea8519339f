use gradloom::prelude::*;

#[traced]
fn dense(x: &Tensor) -> Result<Tensor> {
    Ok(x.tanh())
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let (y, _) = dense::vjp(x);
    y.tanh();
}
