use gradloom::prelude::*;

#[derive(Clone, Copy, Tree)]
union U {
    a: u8,
    b: u8,
}

fn main() {}
