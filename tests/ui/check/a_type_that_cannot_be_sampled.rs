use gradloom::prelude::*;
use gradloom::testing::Sample;

#[derive(Tree)]
struct Mlp {
    layers: Vec<Tensor>,
}

fn check<T: Sample>() {}

fn main() {
    check::<Mlp>();
}
