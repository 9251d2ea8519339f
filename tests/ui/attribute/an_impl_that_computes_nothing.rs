use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn width(&self) -> usize {
        self.w.dim(0)
    }
}

fn main() {
    let linear = Linear { w: Tensor::scalar(1.0f32) };
    linear.width();
}
