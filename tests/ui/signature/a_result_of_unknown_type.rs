use gradloom::{Tensor, traced};

type Result = gradloom::Result<Tensor>;

#[traced]
fn f(x: &Tensor) -> Result {
    Ok(x.tanh())
}

fn main() {
    let _ = f(&Tensor::scalar(1.0f32));
}
