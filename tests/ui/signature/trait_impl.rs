use gradloom::prelude::*;

trait Scaled {
    fn scaled(&self, x: &Tensor) -> Tensor;
}

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Scaled for Linear {
    fn scaled(&self, #[shape(B)] x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {
    let w = Tensor::scalar(1.0f32);
    Linear { w: w.clone() }.scaled(&w);
}
