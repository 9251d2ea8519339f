use gradloom::prelude::*;

#[traced]
enum E {
    _A(Tensor),
}

fn main() {}
