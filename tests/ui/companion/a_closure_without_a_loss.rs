use gradloom::prelude::*;

fn main() {
    let x = Tensor::from([1.0f32, 2.0]);
    value_and_grad(|x: &Tensor| vec![x.sum(..), x.clone()])(&x);
}
