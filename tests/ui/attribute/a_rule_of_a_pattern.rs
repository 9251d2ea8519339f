use gradloom::prelude::*;

fn back(x: &(Tensor, Tensor), _: &Tensor, _: &Tensor) -> (Tensor, Tensor) {
    x.clone()
}

#[traced(vjp = back)]
fn f((x, y): &(Tensor, Tensor)) -> Tensor {
    x * y
}

fn main() {}
