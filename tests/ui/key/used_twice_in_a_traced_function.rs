use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, key: Key) -> Tensor {
    let a = x * key.normal([2], DType::F32);
    a + key.normal([2], DType::F32)
}

fn main() {
    f(&Tensor::from([1.0f32, 2.0]), Key::new(42));
}
