use gradloom::prelude::*;

use std::cell::RefCell;

#[derive(Tree)]
struct Net {
    w: RefCell<Tensor>,
}

fn main() {}
