use gradloom::prelude::*;

#[traced]
struct S {
    _w: Tensor,
}

fn main() {}
