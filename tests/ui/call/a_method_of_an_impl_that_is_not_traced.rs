use gradloom::prelude::*;

#[traced]
trait Layer {
    fn forward(&self, x: &Tensor) -> Tensor;
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

#[traced]
fn call(linear: &Linear, x: &Tensor) -> Tensor {
    linear.forward(x)
}

fn main() {}
