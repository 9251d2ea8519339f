use gradloom::prelude::*;

#[traced(check(classes(lables = 10)))]
fn f(#[shape(B, 10)] x: &Tensor, #[nodiff] #[shape(B)] labels: &Tensor) -> Tensor {
    x.cross_entropy(labels)
}

fn main() {}
