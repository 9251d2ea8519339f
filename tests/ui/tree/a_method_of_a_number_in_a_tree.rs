use gradloom::prelude::*;

#[derive(Tree)]
struct Scaled {
    w: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[traced]
fn f(scaled: &Scaled, x: &Tensor) -> Tensor {
    x * scaled.scale.sqrt()
}

fn main() {}
