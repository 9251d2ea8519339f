use gradloom::prelude::*;

#[derive(Tree)]
struct S {
    w: Tensor,
    scale: f32,
}

fn main() {}
