use gradloom::prelude::*;

#[traced]
fn scores(#[shape(T, 64)] queries: &Tensor, #[shape(32, 64)] keys: &Tensor) -> Tensor {
    queries.matmul(keys).softmax(-1)
}

fn main() {}
