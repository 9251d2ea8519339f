use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    #[nodiff]
    #[tree(skip)]
    name: String,
}

fn main() {}
