use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced(returns(B, 3))]
impl Layer {
    fn forward(&self, #[shape(B, I)] x: &Tensor) -> Tensor {
        x.matmul(&self.w)
    }
}

fn main() {}
