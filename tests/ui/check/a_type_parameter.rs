use gradloom::prelude::*;

#[traced(check)]
fn f<T: Tree>(#[shape(B)] x: &Tensor, _unused: &T) -> Tensor {
    x.tanh()
}

fn main() {}
