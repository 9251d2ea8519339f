use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced(check)]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w)
    }
}

fn main() {}
