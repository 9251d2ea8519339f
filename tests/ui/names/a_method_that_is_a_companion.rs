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

impl Linear {
    fn forward_vjp(&self) {}
}

fn main() {}
