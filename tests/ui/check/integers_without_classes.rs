use gradloom::prelude::*;

#[traced(check)]
fn f(#[shape(B, 10)] x: &Tensor, #[nodiff] #[shape(i64; B)] labels: &Tensor) -> Tensor {
    x.cross_entropy(labels)
}

fn main() {}
