use gradloom::prelude::*;

#[traced]
fn f<T: Tree>(x: &Tensor, model: &T) -> Tensor {
    model.apply(x)
}

fn main() {}
