use gradloom::prelude::*;

#[traced]
fn padded(
    #[shape(B, T, 16)] x: &Tensor,
    #[shape(B, 80, 16)] memory: &Tensor,
    #[nodiff]
    #[shape(bool; B, 1, 8)]
    padding: &Tensor,
) -> Tensor {
    x.masked_attention(memory, memory, padding)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    padded(&x, &x, &x);
}
