use gradloom::prelude::*;

#[derive(Tree)]
#[tree(skip)]
struct S {
    w: Tensor,
}

fn main() {}
