use gradloom::prelude::*;

fn main() {
    let key = Key::new(42);
    key.clone().bits([2]);
}

