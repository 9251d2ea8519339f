use gradloom::prelude::*;

struct Name(String);

#[derive(Tree)]
struct S {
    w: Tensor,
    name: Name,
}

fn main() {}
