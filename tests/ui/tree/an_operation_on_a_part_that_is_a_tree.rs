use gradloom::prelude::*;

#[derive(Tree)]
struct Scaled {
    w: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[derive(Tree)]
struct Net {
    first: Scaled,
}

#[traced]
fn f(net: &Net, x: &Tensor) -> Tensor {
    x + &net.first
}

fn main() {}
