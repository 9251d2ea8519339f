use gradloom::prelude::*;

#[derive(Tree)]
struct S {
    w: Tensor,
    #[tree(skp)]
    n: usize,
}

fn main() {}
