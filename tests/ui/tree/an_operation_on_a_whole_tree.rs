use gradloom::prelude::*;

#[derive(Tree)]
struct Scaled {
    w: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[traced]
impl Scaled {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * self
    }
}

fn main() {}
