use gradloom::prelude::*;

#[traced]
trait Layer {
    fn forward(&self, x: &Tensor) -> Tensor;
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + &self.w
    }
}

#[traced]
impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {
    let w = Tensor::scalar(1.0f32);
    Linear { w: w.clone() }.forward(&w);
}
