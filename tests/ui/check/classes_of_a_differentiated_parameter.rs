use gradloom::prelude::*;

#[traced(check(classes(labels = 10)))]
fn f(#[shape(B, 10)] x: &Tensor, #[shape(B)] labels: &Tensor) -> Tensor {
    x.cross_entropy(labels)
}

fn main() {}
