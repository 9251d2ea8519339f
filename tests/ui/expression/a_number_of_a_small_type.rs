use gradloom::prelude::*;

#[traced]
fn scaled(x: &Tensor, n: u8) -> Tensor {
    let y = x * n;
    y + n
}

fn main() {}
