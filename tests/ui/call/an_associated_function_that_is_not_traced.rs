use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

impl Linear {
    fn scaled(x: &Tensor) -> Tensor {
        x * 2.0
    }
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    Linear::scaled(x).tanh()
}

fn main() {}
