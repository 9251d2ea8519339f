use gradloom::prelude::*;

#[traced]
fn loss(#[shape(f32; B, 10)] logits: &Tensor, #[nodiff] #[shape(f32; B)] labels: &Tensor) -> Tensor {
    logits.cross_entropy(labels)
}

fn main() {}
