use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    #[traced]
    fn scaled(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {
    let w = Tensor::scalar(1.0f32);
    Linear { w: w.clone() }.scaled(&w);
}
