use gradloom::prelude::*;

#[traced(order = 2)]
fn noise(key: Key) -> Tensor {
    key.normal([2], DType::F32)
}

fn main() {}
