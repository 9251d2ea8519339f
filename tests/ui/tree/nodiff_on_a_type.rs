use gradloom::prelude::*;

#[derive(Clone, Tree)]
#[nodiff]
struct Frozen {
    w: Tensor,
}

fn main() {}
