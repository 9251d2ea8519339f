use gradloom::prelude::*;

fn main() {
    let key = Key::new(42);
    for _ in 0..2 {
        key.bits([2]);
    }
}

