use gradloom::prelude::*;

fn main() {
    let key = Key::new(42);
    let f = |x: &Tensor| (x * key.normal([2], DType::F32)).sum(..);
    grad(f)(&Tensor::from([1.0f32, 2.0]));
}

