use gradloom::prelude::*;

use std::rc::Rc;

#[derive(Tree)]
struct Net {
    w: Rc<Tensor>,
}

fn main() {}
