use gradloom::prelude::*;

struct Layer {
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<Layer>,
}

fn main() {}
