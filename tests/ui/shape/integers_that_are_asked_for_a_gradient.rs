use gradloom::prelude::*;

#[traced]
fn loss(#[shape(f32; B, 10)] logits: &Tensor, #[shape(i64; B)] labels: &Tensor) -> Tensor {
    logits.cross_entropy(labels)
}

fn main() {}
