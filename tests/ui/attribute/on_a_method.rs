use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

impl Linear {
    #[traced]
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {}
