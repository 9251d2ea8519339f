use gradloom::prelude::*;

#[derive(Tree)]
struct Scaled {
    w: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[traced]
fn f(scaled: &Scaled, x: &Tensor) -> Tensor {
    (x * &scaled.w * scaled.scale).sum(..)
}

fn step(scaled: &Scaled, x: &Tensor) -> Tensor {
    f::grad(scaled, x).scale
}

fn main() {}
