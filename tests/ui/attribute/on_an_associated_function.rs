use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

impl Linear {
    #[traced]
    fn scaled(x: &Tensor) -> Tensor {
        x * 2.0
    }
}

fn main() {}
