use gradloom::prelude::*;

struct Name(String);

#[derive(Tree)]
struct S {
    w: Tensor,
    #[tree(skip)]
    name: Name,
}

fn main() {}
