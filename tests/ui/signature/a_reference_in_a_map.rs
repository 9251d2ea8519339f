use gradloom::prelude::*;
use std::collections::BTreeMap;

#[traced]
fn f(map: &BTreeMap<String, &Tensor>) -> Tensor {
    map["w"].tanh()
}

fn main() {}
