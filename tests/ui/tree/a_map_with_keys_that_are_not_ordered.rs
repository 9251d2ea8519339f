use gradloom::prelude::*;

use std::collections::HashMap;

#[derive(Tree)]
struct Net {
    w: HashMap<String, Tensor>,
}

fn main() {}
