use gradloom::prelude::*;

fn main() {
    let key = Key::new(42);
    let (a, b) = key.split();
    a.bits([2]);
    b.bits([2]);
    key.bits([2]);
}

