use gradloom::prelude::*;

fn main() {
    let key = Key::new(42);
    key.normal([2], DType::F32);
    key.normal([2], DType::F32);
}

