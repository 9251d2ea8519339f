use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> String {
    format!("{:?}", x.shape())
}

fn main() {}
