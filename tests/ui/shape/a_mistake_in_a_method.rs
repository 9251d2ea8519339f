use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    fn scaled(&self, #[shape(B, 3)] x: &Tensor, #[shape(2)] scale: &Tensor) -> Tensor {
        x.matmul(&self.w) + x * scale
    }
}

fn main() {}
