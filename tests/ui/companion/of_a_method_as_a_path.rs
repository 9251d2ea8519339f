use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let linear = Linear { w: x.clone() };
    Linear::forward::vjp(&linear, x);
}
